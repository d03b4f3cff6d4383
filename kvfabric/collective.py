"""The ``collective`` of a scenario: what the steps of instances that span servers wait for."""

from collections.abc import Sequence
from dataclasses import replace

from kvfabric.scenario import CollectivePart, Scenario
from topo.fabric import Fabric
from topo.route import Routes
from topo.unit import show_duration
from traffic.compute.collective import Collective, collective
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
        every = [one for d in deployments for one in waits_of(getattr(d, side))]
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


def without_latency(deployment: Deployment) -> Deployment:
    """The same instances, whose messages take their bytes and no latency."""

    def bare(pool: Pool) -> Pool:
        return replace(
            pool,
            collectives=tuple(
                None if one is None else replace(one, latency_ps=0) for one in pool.collectives
            ),
        )

    return replace(deployment, prefill=bare(deployment.prefill), decode=bare(deployment.decode))


def waits_of(pool: Pool) -> Sequence[Collective | None]:
    """What each instance of a pool waits for."""
    return pool.collectives or (None,) * len(pool.instances)
