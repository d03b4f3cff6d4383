"""Cuts: link-disjoint paths between leaves, and the bisection.

Both are minimum cuts (Menger 1927; Ford and Fulkerson 1956). Bisection misleads: it asks for the
worst half against half, whoever talks to whom. A fabric can have full bisection and still carry
a small share of a hand-off, or none of a bisection and carry all of it, as pools that share
leaves do; over real topologies it has ranked designs wrongly against their throughput (Jyothi,
Singla, Godfrey and Kolla, SC 2016). Use theta and mu to choose; the bisection is here since people
ask for it. Finding the worst half is NP-hard: what is computed is the least over the halves tried,
an upper bound.
"""

import random
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from topo.error import FabricError
from topo.fabric import Fabric, Kind
from topo.loss import leaves_of
from topo.skeleton import Index

MISLEADS = "bisection misleads: it says nothing of who talks to whom; choose by theta and mu"


@dataclass(frozen=True, slots=True)
class Disjoint:
    """The fewest link-disjoint paths between two leaves, where, and how many pairs were tried."""

    paths: int
    between: tuple[str, str]
    tried: int
    total: int


def disjoint_paths(fabric: Fabric, a: int, b: int) -> int:
    """Paths between two switches that share no cable; hosts and servers forward nothing here.

    Errors: an end that is no switch, or one switch twice.
    """
    for end in (a, b):
        if fabric.nodes[end].kind is not Kind.SWITCH:
            raise FabricError(f"node {fabric.nodes[end].name!r}: not a switch; name two leaves")
    if a == b:
        raise FabricError(f"switch {fabric.nodes[a].name!r}: paths need two different switches")
    return int(maximum_flow(_cables(fabric), a, b).flow_value)


def fewest_disjoint_paths(fabric: Fabric, *, most: int = 64, seed: int = 1) -> Disjoint | None:
    """The least over all pairs of leaves, or over ``most`` drawn pairs; None for a single leaf."""
    leaves = leaves_of(fabric)
    total = len(leaves) * (len(leaves) - 1) // 2
    if not total:
        return None
    if total <= most:
        pairs = list(combinations(leaves, 2))
    else:
        chance = random.Random(seed)  # noqa: S311
        drawn: set[tuple[int, int]] = set()
        while len(drawn) < most:
            a, b = sorted(chance.sample(leaves, 2))
            drawn.add((a, b))
        pairs = sorted(drawn)
    cables = _cables(fabric)
    count, a, b = min((int(maximum_flow(cables, a, b).flow_value), a, b) for a, b in pairs)
    names = (fabric.nodes[a].name, fabric.nodes[b].name)
    return Disjoint(count, names, len(pairs), total)


def bisection(fabric: Fabric, *, tries: int = 8, seed: int = 1) -> int:
    """Least cut in bit/s between two halves of the leaves, over ``tries`` of them: a bound.

    The first try halves the leaves in index order, as racks stand; the others are drawn. What
    cables cut between leaf sets, hosts not counted. 0 for a single leaf.
    """
    leaves = leaves_of(fabric)
    if len(leaves) < 2:
        return 0
    rates = _outer(fabric)
    chance = random.Random(seed)  # noqa: S311
    least: int | None = None
    for number in range(max(1, tries)):
        order = leaves if number == 0 else chance.sample(leaves, len(leaves))
        half = len(order) // 2
        cut = _between(fabric, rates, order[:half], order[half:])
        least = cut if least is None else min(least, cut)
    return least or 0


def _cables(fabric: Fabric) -> csr_array:
    """Cables between switches outside servers, counted."""
    tail, head, _ = _outer(fabric)
    ones = np.ones(len(tail), np.int32)
    size = len(fabric.nodes)
    return csr_array((ones, (tail, head)), shape=(size, size))


def _outer(fabric: Fabric) -> tuple[Index, Index, Index]:
    rows: list[tuple[int, int, int]] = []
    for link in fabric.links:
        ends = (fabric.nodes[link.a], fabric.nodes[link.b])
        if all(n.kind is Kind.SWITCH and n.tier > 0 for n in ends):
            rows += [(link.a, link.b, link.rate_bps), (link.b, link.a, link.rate_bps)]
    table = np.array(rows, np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def _between(
    fabric: Fabric, rates: tuple[Index, Index, Index], one: list[int], other: list[int]
) -> int:
    tail, head, rate = rates
    if not len(rate):
        return 0
    unit = int(np.gcd.reduce(rate))
    size = len(fabric.nodes)
    everything = min(2**31 - 1, int(rate.sum()) // unit)
    source = np.full(len(one), size, np.int64)
    sink = np.full(len(other), size + 1, np.int64)
    room = np.concatenate([rate // unit, np.full(len(one) + len(other), everything)])
    if room.max() > 2**31 - 1:
        raise FabricError(f"fabric {fabric.name!r}: link rates share no divisor to count cuts by")
    graph = csr_array(
        (
            room.astype(np.int32),
            (
                np.concatenate([tail, source, np.array(other, np.int64)]),
                np.concatenate([head, np.array(one, np.int64), sink]),
            ),
        ),
        shape=(size + 2, size + 2),
    )
    return int(maximum_flow(graph, size, size + 1).flow_value) * unit
