"""The ``collective`` of a scenario: what instances that span servers wait for, and its sums."""

from collections.abc import Sequence

import numpy as np

from kvfabric.scenario import CollectivePart
from topo.fabric import Fabric
from topo.route import Routes
from topo.unit import show_duration
from traffic.collective import Collective, collective
from traffic.emulator import Table
from traffic.instance import Deployment, Pool
from traffic.model import Model


def collectives_of(
    part: CollectivePart | None,
    model: Model,
    fabric: Fabric,
    routes: Routes,
    groups: Sequence[Sequence[int]],
) -> tuple[Collective | None, ...]:
    """One entry an instance; nothing where the scenario does not ask for them."""
    if part is None:
        return ()
    return tuple(
        collective(model, fabric, routes, ranks, per_layer=part.per_layer, extra_ps=int(part.extra))
        for ranks in groups
    )


def collectives_told(part: CollectivePart | None, deployment: Deployment) -> str:
    """What the report says of them: the instances of each pool that wait, and for how much."""
    if part is None:
        return "none on the critical path"
    told: list[str] = []
    for side, pool in (("prefill", deployment.prefill), ("decode", deployment.decode)):
        waits = [one for one in pool.collectives if one is not None]
        if not waits:
            told.append(f"{side}: none spans servers")
            continue
        slowest = max(waits, key=lambda one: one.waiting_ps)
        told.append(
            f"{side}: {len(waits)} of {len(pool.instances)} instances span servers, "
            f"{slowest.messages} messages a step of {show_duration(slowest.latency_ps)} and more"
        )
    return f"{part.per_layer} all-reduces a layer; " + "; ".join(told)


def waiting(deployment: Deployment, requests: Table) -> dict[str, int]:
    """Totals over the finished requests: how many, the messages on their paths, count x latency.

    A request waits for the messages of one prefill and of a decode step for each output token. In
    colocated instances a prompt may take more steps than one; these are not counted.
    """
    prefill, decode = deployment.prefill, deployment.decode
    if not any(one is not None for one in (*prefill.collectives, *decode.collectives)):
        return {}
    column = {name: values.astype(np.int64) for name, values in requests.items()}
    done = (column["finish_ps"] >= 0) & (column["prefill"] >= 0)
    messages = latency = 0
    for pool, instance, steps in (
        (prefill, column["prefill"][done], np.ones(int(done.sum()), np.int64)),
        (decode, column["decode"][done], column["output_tokens"][done]),
    ):
        count, time = _by_instance(pool)
        placed = instance >= 0
        at = instance[placed]
        messages += int((count[at] * steps[placed]).sum())
        latency += int((count[at] * time[at] * steps[placed]).sum())
    return {
        "collective.requests": int(done.sum()),
        "collective.messages": messages,
        "collective.latency_ps": latency,
    }


def _by_instance(pool: Pool) -> tuple[np.ndarray, np.ndarray]:
    waits = pool.collectives or (None,) * len(pool.instances)
    return (
        np.array([0 if one is None else one.messages for one in waits], np.int64),
        np.array([0 if one is None else one.latency_ps for one in waits], np.int64),
    )
