"""The ``collective`` of a scenario: what instances that span servers wait for, and its sums."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kvfabric.scenario import CollectivePart, Scenario
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


def awaited(scenario: Scenario) -> CollectivePart | None:
    """The collectives that steps wait for: as asked, and always in multi-node serving."""
    if scenario.collective is None and scenario.serving.mode == "multi_node":
        return CollectivePart()
    return scenario.collective


def collectives_told(part: CollectivePart | None, deployments: Sequence[Deployment]) -> str:
    """What the report says of them: the instances of each pool that wait, and for how much."""
    if part is None:
        return "none on the critical path"
    told: list[str] = []
    for side in ("prefill", "decode"):
        every = [one for d in deployments for one in _waits(getattr(d, side))]
        waits = [one for one in every if one is not None]
        if not waits:
            told.append(f"{side}: none spans servers")
            continue
        slowest = max(waits, key=lambda one: one.waiting_ps)
        told.append(
            f"{side}: {len(waits)} of {len(every)} instances span servers, "
            f"{slowest.messages} messages a step of {show_duration(slowest.latency_ps)} and more"
        )
    return f"{part.per_layer} all-reduces a layer; " + "; ".join(told)


def waiting(
    deployments: Sequence[Deployment], requests: Table, steps: Sequence[int], *, colocated: bool
) -> dict[str, int]:
    """Totals over the finished requests: how many, the messages on their paths, count x latency.

    ``gpu_ps`` is the time that all ranks idle for these messages at least: count x latency of every
    step that ended (``steps`` by decode or colocated instance), and of every prompt, times ranks.

    A request waits for the messages of one prefill and of a decode step for each output token, or
    for one less where the prefill makes the first token. In colocated instances a prompt may take
    more steps than one; these are not counted, nor are prompts that a decode instance computes
    itself. Instances are numbered over all ``deployments``.
    """
    prefill = [one for d in deployments for one in _waits(d.prefill)]
    decode = [one for d in deployments for one in _waits(d.decode)]
    if colocated:
        prefill = decode = [
            one for d in deployments for pool in (d.prefill, d.decode) for one in _waits(pool)
        ]
    if not any(one is not None for one in (*prefill, *decode)):
        return {}
    column = {name: values.astype(np.int64) for name, values in requests.items()}
    done = (column["finish_ps"] >= 0) & (column["prefill"] >= 0)
    output = column["output_tokens"][done]
    steps_of = np.maximum(output - 1, 0) if colocated else output
    messages = latency = 0
    for waits, instance, made in (
        (prefill, column["prefill"][done], np.ones(int(done.sum()), np.int64)),
        (decode, column["decode"][done], steps_of),
    ):
        count = np.array([0 if one is None else one.messages for one in waits], np.int64)
        time = np.array([0 if one is None else one.latency_ps for one in waits], np.int64)
        placed = instance >= 0
        at = instance[placed]
        messages += int((count[at] * made[placed]).sum())
        latency += int((count[at] * time[at] * made[placed]).sum())
    return {
        "collective.requests": int(done.sum()),
        "collective.messages": messages,
        "collective.latency_ps": latency,
        "collective.gpu_ps": _idle_ps(deployments, column, steps, colocated=colocated),
    }


def _idle_ps(
    deployments: Sequence[Deployment],
    column: dict[str, NDArray[np.int64]],
    steps: Sequence[int],
    *,
    colocated: bool,
) -> int:
    """Rank time in which every step waits for its messages, whatever their bytes."""
    stepping = [
        pool for d in deployments for pool in ((d.prefill, d.decode) if colocated else (d.decode,))
    ]
    each = [_of_ranks(pool, one) for pool in stepping for one in _waits(pool)]
    total = sum(made * idle for made, idle in zip(steps, each, strict=True))
    if colocated:
        return total
    each = [_of_ranks(d.prefill, one) for d in deployments for one in _waits(d.prefill)]
    ended = column["prefill"][(column["prefill_end_ps"] >= 0) & (column["prefill"] >= 0)]
    prompts: list[int] = np.bincount(ended, minlength=len(each)).tolist()
    return total + sum(made * idle for made, idle in zip(prompts, each, strict=True))


def _of_ranks(pool: Pool, one: Collective | None) -> int:
    return 0 if one is None else one.waiting_ps * pool.tp


def _waits(pool: Pool) -> Sequence[Collective | None]:
    """What each instance of a pool waits for."""
    return pool.collectives or (None,) * len(pool.instances)
