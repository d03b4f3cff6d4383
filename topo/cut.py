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
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from topo.error import FabricError
from topo.fabric import Fabric, Kind
from topo.loss import leaves_of
from topo.skeleton import Index


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
    """Least cut in bit/s between two halves of a fabric, over ``tries`` of them: a bound.

    Halves of the leaves, and the cables between switches, where every host hangs on one leaf; else
    (several ports a NIC, planes, rails joined in servers, a single leaf or none) halves of the
    servers or, without servers, of the hosts, and their own cables too, as two leaves of different
    planes have no cable between them and their hosts have. Hosts forward nothing. The first try
    halves in index order, as racks stand; the others are drawn.

    >>> from topo.family.registry import build
    >>> bisection(build("dual_tor", {"hosts": 32})) // 10**9  # 16 hosts of 2 x 200 Gbit/s
    6400
    """
    halved = _halved(fabric)
    rates = _rates(fabric, outer=all(fabric.nodes[n].kind is Kind.SWITCH for n in halved[0]))
    chance = random.Random(seed)  # noqa: S311
    cuts: list[int] = []
    for number in range(max(1, tries)):
        order = halved if number == 0 else chance.sample(halved, len(halved))
        half = len(order) // 2
        one, other = ([n for part in side for n in part] for side in (order[:half], order[half:]))
        cuts.append(_between(fabric, rates, one, other))
    return min(cuts)


def _halved(fabric: Fabric) -> list[list[int]]:
    """What falls to one half or the other: leaves, else servers, else hosts."""
    leaves = leaves_of(fabric)
    inside = any(node.tier == 0 for node in fabric.switches)
    ports = Counter(end for link in fabric.links for end in (link.a, link.b))
    if len(leaves) > 1 and not inside and all(ports[host.index] <= 1 for host in fabric.hosts):
        return [[leaf] for leaf in leaves]
    servers: dict[int, list[int]] = defaultdict(list)
    for host in fabric.hosts:
        servers[host.server if host.server >= 0 else -1 - host.index].append(host.index)
    return list(servers.values()) if len(servers) > 1 else [[h.index] for h in fabric.hosts]


def _cables(fabric: Fabric) -> csr_array:
    """Cables between switches outside servers, counted."""
    tail, head, _ = _rates(fabric, outer=True)
    ones = np.ones(len(tail), np.int32)
    size = len(fabric.nodes)
    return csr_array((ones, (tail, head)), shape=(size, size))


def _rates(fabric: Fabric, *, outer: bool) -> tuple[Index, Index, Index]:
    """Tail, head and rate of every link, both ways; ``outer``: between switches outside servers."""
    rows: list[tuple[int, int, int]] = []
    for link in fabric.links:
        ends = (fabric.nodes[link.a], fabric.nodes[link.b])
        if not outer or all(n.kind is Kind.SWITCH and n.tier > 0 for n in ends):
            rows += [(link.a, link.b, link.rate_bps), (link.b, link.a, link.rate_bps)]
    table = np.array(rows, np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def _between(
    fabric: Fabric, rates: tuple[Index, Index, Index], one: list[int], other: list[int]
) -> int:
    """The maximum flow from one set to the other, each taken together as one node.

    Rates without a divisor that keeps counts within 32 bits are rounded up: the bound stays one.
    """
    tail, head, rate = rates
    size = len(fabric.nodes)
    merged = np.arange(size)
    merged[one], merged[other] = size, size + 1
    tail, head = merged[tail], merged[head]
    leaving, arriving = tail == size, head == size + 1
    most = int(min(rate[leaving & (head != size)].sum(), rate[arriving & (tail != size + 1)].sum()))
    if not most:
        return 0
    unit = max(int(np.gcd.reduce(rate)), -(-most // 2**30))
    useful = (tail != head) & (tail != size + 1) & (head != size)
    graph = csr_array(
        (-(-rate[useful] // unit), (tail[useful], head[useful])), shape=(size + 2, size + 2)
    )
    graph.data = np.minimum(graph.data, 2**31 - 1).astype(np.int32)
    return min(most, int(maximum_flow(graph, size, size + 1).flow_value) * unit)
