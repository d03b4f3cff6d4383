"""Which routings of a fabric are free of deadlock, and with how many virtual channels.

Every routing that the fabric admits is told apart, hand-offs and their ACKs together. Routes by
tables (`shortest`, `up-down`, `spanning`) are checked whole by `topo.deadlock`. Rules whose
channels rise along every path (`hop`, `valiant`) are free by construction, whatever the paths:
their channels are counted from distances. Rules for one family (`dimension`, `dateline`, `group`)
are checked path by path, over all pairs of places or, where these are many, over some drawn
evenly; the counts say so.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from topo.channel import (
    Channels,
    by_dateline,
    by_group,
    channels_used,
    dimension_order,
    dragonfly_groups,
)
from topo.deadlock import channel_cycle, dependency_cycle, handoff_pairs
from topo.error import FabricError
from topo.fabric import Fabric
from topo.family.lattice import shape_of
from topo.route import Routes, equal_cost
from topo.updown import spanning_order, up_down

MOST_PAIRS: Final = 4_096
MOST_PATHS: Final = 16
"""Shortest paths taken of a pair."""

ROUTINGS: Final = {
    "shortest": "all shortest paths in one lossless class, as scenarios run them",
    "up-down": "up the tiers and down again",
    "dimension": "one coordinate after the other",
    "dateline": "one coordinate after the other; channel 1 from the link that closes a ring",
    "group": "shortest paths; channels rise with every group visited",
    "hop": "shortest paths; channel n on the link after n others",
    "valiant": "over any other leaf; channel n on the link after n others",
    "spanning": "up towards one root and down again; an escape for adaptive routing",
}


@dataclass(frozen=True, slots=True)
class Freedom:
    """What was found of one routing.

    channels: virtual channels that it takes of a link. longest, mean: links of the paths checked.
    tried, total: pairs of places, whose hosts share their switches.
    cycle: buffers that can wait for each other for ever. joined: has every pair a path?
    """

    routing: str
    channels: int
    longest: int
    mean: float
    tried: int
    total: int
    cycle: list[str] | None = None
    joined: bool = True

    @property
    def free(self) -> bool:
        """Is the routing free of deadlock, as far as it was checked?"""
        return self.cycle is None

    @property
    def verdict(self) -> str:
        """Free, free in a sample, or the cycle, in one line."""
        if self.cycle is not None:
            shown = self.cycle[:4]
            more = f" -> ... ({len(self.cycle)} buffers)" if len(self.cycle) > 4 else ""
            return f"can deadlock: {' -> '.join(shown)}{more or f' -> {shown[0]}'}"
        if not self.joined:
            return "free, but some pairs have no path"
        return "free" if self.tried == self.total else "free in the sample"


def freedoms(
    fabric: Fabric, only: str | None = None, *, routes: Routes | None = None, seed: int = 1
) -> list[Freedom]:
    """Every routing that the fabric admits, in the order of `ROUTINGS`, or ``only`` that.

    Without roles all hosts talk to all. Errors: an unknown routing, or one that the fabric does not
    admit, with the reason.
    """
    if only is not None and only not in ROUTINGS:
        raise FabricError(f"routing {only!r}: unknown; write one of {', '.join(ROUTINGS)}")
    routes = equal_cost(fabric) if routes is None else routes
    found: list[Freedom] = []
    every = list(ROUTINGS) if fabric.switches else ["shortest"]
    for name in every if only is None else [only]:
        try:
            found.append(_CHECK[name](fabric, routes, seed))
        except FabricError:
            if only is not None:
                raise
    return found


def _shortest(fabric: Fabric, routes: Routes, seed: int) -> Freedom:  # noqa: ARG001
    return _by_table("shortest", fabric, routes)


def _up_down(fabric: Fabric, routes: Routes, seed: int) -> Freedom:  # noqa: ARG001
    if len({node.tier for node in fabric.switches}) < 2:
        raise FabricError(f"fabric {fabric.name!r}: one tier; up-down needs two, write spanning")
    return _by_table("up-down", fabric, up_down(fabric))


def _spanning(fabric: Fabric, routes: Routes, seed: int) -> Freedom:  # noqa: ARG001
    return _by_table("spanning", fabric, up_down(fabric, spanning_order(fabric)))


def _by_table(name: str, fabric: Fabric, routes: Routes) -> Freedom:
    links = _links(fabric, routes)
    cycle = dependency_cycle(fabric, routes)
    return replace(_told(name, links, len(links)), channels=1, cycle=cycle)


def _hop(fabric: Fabric, routes: Routes, seed: int) -> Freedom:  # noqa: ARG001
    """A path of n links has n - 2 between switches."""
    links = _links(fabric, routes)
    told = _told("hop", links, len(links))
    return replace(told, channels=max(1, told.longest - 2))


def _valiant(fabric: Fabric, routes: Routes, seed: int) -> Freedom:  # noqa: ARG001
    """The longest way over a third leaf that any pair may draw."""
    if len({node.tier for node in fabric.switches}) != 1:
        raise FabricError(f"fabric {fabric.name!r}: Valiant's detour is for fabrics of one tier")
    places = _places(fabric)
    seats = np.array(places, np.int32)
    inner = routes.reach(seats)[:, routes.group[seats]].astype(np.float64) - 1
    if len(places) < 3 or (inner < 0).any():
        raise FabricError(
            f"fabric {fabric.name!r}: Valiant's detour needs three joined leaves; write shortest"
        )
    count = len(places)
    apart = ~np.eye(count, dtype=np.bool_)
    farthest = np.where(apart, inner, 0).max(axis=1)
    mean = 2 * inner[apart].mean() + 2
    longest = int((2 * farthest).max()) + 2
    pairs = count * (count - 1)
    return Freedom("valiant", max(1, longest - 2), longest, float(mean), pairs, pairs)


def _dimension(fabric: Fabric, routes: Routes, seed: int) -> Freedom:  # noqa: ARG001
    shape = shape_of(fabric)

    def paths(a: int, b: int) -> Iterator[Channels]:
        yield [(port, 0) for port in dimension_order(fabric, shape, a, b)]

    return _by_paths("dimension", fabric, paths, seed)


def _dateline(fabric: Fabric, routes: Routes, seed: int) -> Freedom:  # noqa: ARG001
    shape = shape_of(fabric)
    if fabric.family != "torus":
        raise FabricError(f"fabric {fabric.name!r}: datelines are for tori; write dimension")

    def paths(a: int, b: int) -> Iterator[Channels]:
        yield by_dateline(fabric, dimension_order(fabric, shape, a, b), shape)

    return _by_paths("dateline", fabric, paths, seed)


def _group(fabric: Fabric, routes: Routes, seed: int) -> Freedom:
    group = dragonfly_groups(fabric)

    def paths(a: int, b: int) -> Iterator[Channels]:
        for path in routes.paths(a, b, MOST_PATHS):
            yield by_group(fabric, path, group)

    return _by_paths("group", fabric, paths, seed)


_CHECK: Final[dict[str, Callable[[Fabric, Routes, int], Freedom]]] = {
    "shortest": _shortest,
    "up-down": _up_down,
    "dimension": _dimension,
    "dateline": _dateline,
    "group": _group,
    "hop": _hop,
    "valiant": _valiant,
    "spanning": _spanning,
}


def _by_paths(
    name: str, fabric: Fabric, paths: Callable[[int, int], Iterable[Channels]], seed: int
) -> Freedom:
    pairs, total = _pairs(fabric, seed)
    found = [path for a, b in pairs for path in paths(a, b)]
    told = _told(name, np.array([len(path) for path in found]), total)
    cycle = channel_cycle(fabric, found)
    return replace(told, channels=channels_used(found), tried=len(pairs), cycle=cycle)


def _told(name: str, links: NDArray[np.integer], total: int) -> Freedom:
    way = links[links > 0]
    longest, mean = (int(way.max()), float(way.mean())) if len(way) else (0, 0.0)
    return Freedom(name, 1, longest, mean, total, total, joined=len(way) == len(links))


def _places(fabric: Fabric) -> list[int]:
    """One host of every set of switches that hosts hang on."""
    near: dict[int, set[int]] = {host.index: set() for host in fabric.hosts}
    for link in fabric.links:
        for host, far in ((link.a, link.b), (link.b, link.a)):
            if host in near:
                near[host].add(far)
    first: dict[frozenset[int], int] = {}
    for host, switches in near.items():
        first.setdefault(frozenset(switches), host)
    return list(first.values())


def _pairs(fabric: Fabric, seed: int) -> tuple[Sequence[tuple[int, int]], int]:
    """Both ways of the pairs that talk, at most `MOST_PAIRS` of them, and how many there are."""
    one_way = handoff_pairs(fabric)
    if one_way:
        pairs = sorted({*one_way, *((b, a) for a, b in one_way)})
    else:
        places = _places(fabric)
        count = len(places)
        total = count * (count - 1)
        if total > MOST_PAIRS:
            drawn = random.Random(seed).sample(range(total), MOST_PAIRS)  # noqa: S311
        else:
            drawn = list(range(total))
        spots = (divmod(number, count - 1) for number in drawn)
        return [(places[a], places[b + (b >= a)]) for a, b in spots], total
    if len(pairs) > MOST_PAIRS:
        return random.Random(seed).sample(pairs, MOST_PAIRS), len(pairs)  # noqa: S311
    return pairs, len(pairs)


def _links(fabric: Fabric, routes: Routes) -> NDArray[np.int32]:
    """Links of the path between every two places that talk, both ways; -1 without a path."""
    pairs = handoff_pairs(fabric)
    senders = sorted({a for a, _ in pairs}) or _places(fabric)
    receivers = sorted({b for _, b in pairs}) or senders
    ways: list[NDArray[np.int32]] = []
    for near, far in ((senders, receivers), (receivers, senders)):
        links = routes.distances(near, far)
        ways.append(links[np.not_equal.outer(near, far)])
    return np.concatenate(ways)
