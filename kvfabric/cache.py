"""The ``cache`` of a scenario: where prefill instances keep prefix blocks, and what came of it.

docs/caches.md tells the model and every key.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from kvfabric.part import Part
from kvfabric.quantity import Duration, Rate, Size
from topo.fabric import Fabric, Role
from topo.route import Routes
from topo.unit import show_duration, show_rate, show_size
from traffic.cache.tier import REMOTE, CacheError, Caching, Tier
from traffic.emulator import Table
from traffic.instance import Pool
from traffic.serving.run import Outcome


class TierPart(Part, frozen=True):
    """One tier: its size on each instance, or of the whole remote pool, and the rate at which an
    instance reads dram and ssd."""

    kind: Literal["hbm", "dram", "ssd", "remote"]
    size: Size
    rate: Rate | None = None


class CachePart(Part, frozen=True):
    """Prefix caches on the prefill side, fastest tier first. ``label`` names them in a
    comparison."""

    tiers: tuple[TierPart, ...]
    eviction: Literal["lru", "cost"] = "lru"
    lifetime: Duration | None = None
    load: Literal["before", "overlapped", "prefetched"] = "before"
    write: Literal["through", "back"] = "through"
    priority: Annotated[int, Meta(ge=0, le=7)] = 3
    label: Annotated[str, Meta(min_length=1, max_length=80)] | None = None


def pooled(part: CachePart | None) -> bool:
    """Whether blocks lie in a remote pool, and so cross the fabric."""
    return part is not None and part.tiers[-1].kind == REMOTE


def cache_of(
    part: CachePart | None,
    ttft_ps: int,
    fabric: Fabric,
    routes: Routes,
    pools: Sequence[Pool],
) -> Caching | None:
    """The tiers for the instances of ``pools``; a `CacheError` says what cannot be. ``ttft_ps`` is
    the objective of cost-aware moves, 0 without one."""
    if part is None:
        return None
    groups = [hosts for pool in pools for hosts in pool.instances]
    storage = tuple(fabric.hosts_with(Role.STORAGE))
    tiers: list[Tier] = []
    for one in part.tiers:
        rate = 0 if one.rate is None else int(one.rate)
        if one.kind == REMOTE:
            if rate:
                raise CacheError(
                    "cache tier remote: is as fast as the fabric and the NICs of the storage hosts "
                    "make it; remove its rate"
                )
            if storage:
                _check_paths(fabric, routes, storage, groups)
                rate = _idle_bps(fabric, storage, groups)
        if one.kind == "hbm":
            _check_room(int(one.size), pools)
        tiers.append(Tier(one.kind, int(one.size), rate))
    return Caching(
        tuple(tiers),
        eviction=part.eviction,
        lifetime_ps=0 if part.lifetime is None else int(part.lifetime),
        load=part.load,
        write=part.write,
        storage=storage,
        ttft_ps=ttft_ps,
        priority=part.priority,
    )


def _check_room(size: int, pools: Sequence[Pool]) -> None:
    """Refuse an HBM tier that is larger than what the weights leave."""
    for pool in pools:
        if size > pool.kv_capacity_bytes:
            raise CacheError(
                f"cache tier hbm: {show_size(size)}, but the weights of {pool.model.name} leave "
                f"{show_size(pool.kv_capacity_bytes)} on {pool.tp} x {pool.gpu.name}, running "
                "prompts included; write less, or add dram"
            )


def _check_paths(
    fabric: Fabric, routes: Routes, storage: Sequence[int], groups: Sequence[Sequence[int]]
) -> None:
    """Refuse storage hosts that cannot reach, or be reached from, a prefill host."""
    hosts = sorted({host for group in groups for host in group})
    there = routes.distances(list(storage), hosts)
    back = routes.distances(hosts, list(storage)).T
    lost = np.argwhere((there < 0) | (back < 0))
    if len(lost):
        store, host = fabric.nodes[storage[lost[0, 0]]], fabric.nodes[hosts[lost[0, 1]]]
        raise CacheError(
            f"cache tier remote: no path between storage {store.name!r} and prefill {host.name!r} "
            "in this fabric; connect them, or leave the tier out"
        )


def _idle_bps(fabric: Fabric, storage: Sequence[int], groups: Sequence[Sequence[int]]) -> int:
    """What one instance could read from the pool at most: its NICs, or those of all storage."""
    ports = fabric.ports

    def nic(host: int) -> int:
        return int(ports.rate_bps[ports.node == host].sum())

    instance = min(sum(nic(host) for host in group) for group in groups)
    return min(instance, sum(nic(host) for host in storage))


_LOADED = {
    "before": "loaded before the prefill",
    "overlapped": "loaded beside the prefill",
    "prefetched": "loaded while a prompt waits",
}


def cache_told(part: CachePart) -> str:
    """Every setting of the caches in one line."""
    told = [
        f"{one.kind} {show_size(one.size)}" + (f" at {show_rate(one.rate)}" if one.rate else "")
        for one in part.tiers
    ]
    told.append("least recently used leave" if part.eviction == "lru" else "cost-aware eviction")
    told.append(_LOADED[part.load])
    if part.lifetime is not None:
        told.append(f"lifetime {show_duration(part.lifetime)}")
    if part.tiers[-1].kind == REMOTE:
        told.append(f"written {part.write}, class {part.priority}")
    return ", ".join(told)


def cache_tables(outcome: Outcome) -> dict[str, Table]:
    """The table of a cell beside its others; none without caches."""
    return {"cache": outcome.cache} if outcome.cache else {}


def cache_totals(outcome: Outcome) -> dict[str, int]:
    """What the caches did in all, by the names of a manifest's totals."""
    return {f"cache.{name}": value for name, value in outcome.cached.items()}


def cache_left_out(part: CachePart | None) -> list[str]:
    """What the caches leave out, in sentences."""
    if part is None:
        return ["No prefix cache on the prefill side (`cache`)."]
    told = [
        "Prefix blocks lie beside the memory of running prompts; moves between the tiers of an "
        "instance cost it no time, and a prefill instance that loads computes no other prompt."
    ]
    if part.tiers[-1].kind == REMOTE:
        told.append("The pool's directory answers at once, and its media are as fast as its NICs.")
    return told
