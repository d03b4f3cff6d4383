"""The models that a scenario serves, each in its own pools on the fabric's hosts.

``model`` gets the GPUs that the further ``models`` leave, in the order of the hosts. Compute times
are rooflines, or measured where an instance names a file of times.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kvfabric.cache import cache_of
from kvfabric.catalogue import gpu_of, model_of, told
from kvfabric.collective import awaited, collectives_of
from kvfabric.handoff import handoff_of
from kvfabric.scenario import InstancePart, InstancesPart, Pair, Scenario
from kvfabric.serving import rules_of
from kvfabric.source import Source, file_path, located
from topo.fabric import Fabric, Role
from topo.mistake import Place
from topo.route import Routes
from traffic.compute.measured import measurements
from traffic.instance import Deployment, Pool, instances, latencies, links

_SIDES = (("prefill", Role.PREFILL), ("decode", Role.DECODE))


@dataclass(frozen=True)
class Placed:
    """A model with its pools, and how far apart their instances are.

    ``hops`` is prefill x decode instances, links crossed, -1 without a path; ``latency_ps`` the
    same for the time of a read request, None where the prefill side pushes. Colocated instances
    are one list, and no links lie between what they do.
    """

    deployment: Deployment
    hops: NDArray[np.int32]
    latency_ps: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class _Wanted:
    """One model as the scenario writes it, and where."""

    name: str
    gpus: tuple[str, str]
    parts: tuple[InstancePart, InstancePart]
    hosts: tuple[list[int], list[int]]
    place: Place


def placed_of(
    scenario: Scenario, source: Source, fabric: Fabric, routes: Routes
) -> tuple[Placed, ...]:
    """Every served model, `model` first; refusals carry their place in the file."""
    with located(source, "serving"):
        rules = rules_of(scenario.serving)
    found: list[Placed] = []
    for wanted in _wanted(scenario, fabric):
        deployment = _deployment(scenario, source, fabric, routes, wanted)
        pools = deployment.prefill, deployment.decode
        if rules.mode == "colocated" or rules.grows:
            with located(source, "serving", "chunk"):
                for pool in pools:
                    rules.check_batch(pool.max_batch)
        if rules.mode == "colocated":
            count = sum(len(pool.instances) for pool in pools)
            found.append(Placed(deployment, np.zeros((count, count), np.int32)))
            continue
        groups = pools[0].instances, pools[1].instances
        dp = pools[0].dp, pools[1].dp
        pulled = latencies(fabric, routes, *groups, dp) if deployment.handoff.pull else None
        found.append(Placed(deployment, links(routes, *groups, dp), pulled))
    return tuple(found)


def _wanted(scenario: Scenario, fabric: Fabric) -> list[_Wanted]:
    """The models with their hosts: the further ones take theirs from the end."""
    hosts = [fabric.hosts_with(role) for _, role in _SIDES]
    found: list[_Wanted] = []
    for number, part in enumerate(scenario.models):
        mine: list[list[int]] = []
        for side, (name, _) in enumerate(_SIDES):
            wants = getattr(part, name)
            mine.append(hosts[side][-wants:])
            hosts[side] = hosts[side][:-wants]
        card = part.gpu or scenario.gpu
        gpus = (card.prefill, card.decode) if isinstance(card, Pair) else (card, card)
        own = part.instance or scenario.instance
        place = ("models", number)
        found.append(_Wanted(part.model, gpus, _parts(scenario, own), (mine[0], mine[1]), place))
    first = _parts(scenario, scenario.instance)
    main = _Wanted(scenario.model, scenario.gpus, first, (hosts[0], hosts[1]), ())
    return [main, *found]


def _parts(scenario: Scenario, own: InstancesPart) -> tuple[InstancePart, InstancePart]:
    """The instances of both sides, of ``serving.span`` GPUs where they span servers."""
    span = scenario.serving.span
    if span is None:
        return own.prefill, own.decode
    return (
        InstancePart(tp=span, max_batch=own.prefill.max_batch, times=own.prefill.times),
        InstancePart(tp=span, max_batch=own.decode.max_batch, times=own.decode.times),
    )


def _deployment(
    scenario: Scenario, source: Source, fabric: Fabric, routes: Routes, wanted: _Wanted
) -> Deployment:
    kind = model_of(scenario, source, wanted.name, *wanted.place, "model")
    pools: list[Pool] = []
    for side, (name, role) in enumerate(_SIDES):
        part = wanted.parts[side]
        card = gpu_of(scenario, source, wanted.gpus[side], *wanted.place, "gpu")
        with located(source, *wanted.place, "instance", name, "tp"):
            groups = instances(fabric, role, part.tp, wanted.hosts[side])
            pool = Pool(groups, kind, card, part.tp, part.max_batch, dp=part.dp)
            _ = pool.kv_capacity_bytes
        if part.times is not None:
            with located(source, *wanted.place, "instance", name, "times"):
                found = measurements(file_path(part.times, source))
                pool = replace(pool, measured=found)
        with located(source, "collective"):
            between = collectives_of(awaited(scenario), kind, fabric, routes, groups)
            pools.append(replace(pool, collectives=between))
    with located(source, "handoff"):
        cut = handoff_of(scenario.handoff)
    with located(source, "cache"):
        ttft = int(scenario.slo.ttft or 0)
        apart = scenario.serving.mode == "disaggregated"
        kept = cache_of(scenario.cache, ttft, fabric, routes, pools[:1] if apart else pools)
    with located(source, *wanted.place, "instance"):
        servers = {host.index: host.server for host in fabric.hosts}
        return Deployment(pools[0], pools[1], cut, servers, kept)


def times_of(scenario: Scenario, source: Source) -> list[tuple[Place, Path]]:
    """The files of measured times, with the places that name them."""
    named: list[tuple[Place, str]] = []
    everyone: list[tuple[Place, InstancesPart | None]] = [((), scenario.instance)]
    everyone += [(("models", i), part.instance) for i, part in enumerate(scenario.models)]
    for place, own in everyone:
        if own is None:
            continue
        for side, part in (("prefill", own.prefill), ("decode", own.decode)):
            if part.times is not None:
                named.append(((*place, "instance", side, "times"), part.times))
    return [(place, file_path(file, source)) for place, file in named]


def pools_told(placed: Sequence[Placed], scenario: Scenario) -> dict[str, str]:
    """The models and their pools, for the report."""

    def pool(one: Pool) -> str:
        told = f"{len(one.instances)} x {one.gpu.name}, tp {one.tp}"
        if one.dp > 1:
            told += f", attention dp {one.dp}"
        return told + (", times as measured" if one.measured is not None else "")

    pairs = [(one.deployment.prefill, one.deployment.decode) for one in placed]
    shares = shares_of(scenario)
    names = [prefill.model.name for prefill, _ in pairs]
    if len(names) > 1:
        names = [f"{name} ({100 * share:g}%)" for name, share in zip(names, shares, strict=True)]
    return {
        "model": "; ".join(names) + told(scenario),
        "prefill": "; ".join(pool(one) for one, _ in pairs),
        "decode": "; ".join(f"{pool(one)}, batch at most {one.max_batch}" for _, one in pairs),
    }


def shares_of(scenario: Scenario) -> list[float]:
    """The share of the requests that each model gets, `model` what the others leave."""
    others = [float(part.share) for part in scenario.models]
    return [1 - sum(others), *others]
