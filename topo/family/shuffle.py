"""Random graphs with given degrees: a seeded walk of edge switches from a regular start.

Two edges a-b and c-d become a-d and c-b where that makes no loop and no second edge; every node
keeps its degree, and a long walk reaches all such graphs about alike (Maslov, Sneppen, Science
2002). Random regular graphs are near-optimal expanders (Friedman, Memoirs of the AMS 2008).
Numbers come from `topo.splitmix`: same seed, same graph.
"""

from collections.abc import Iterator
from typing import Final

from topo.error import FabricError
from topo.splitmix import splitmix

Pair = tuple[int, int]

SWITCHES_AN_EDGE: Final = 10
"""Attempts for every edge of the graph."""

_TRIES: Final = 50


def ring(nodes: int, degree: int) -> list[Pair]:
    """The circulant graph of that degree: each node with its nearest on a ring.

    ``nodes * degree`` must be even and the degree below the number of nodes.
    """
    near = [(i, (i + step) % nodes) for i in range(nodes) for step in range(1, degree // 2 + 1)]
    if degree % 2:
        near += [(i, i + nodes // 2) for i in range(nodes // 2)]
    return sorted({(min(pair), max(pair)) for pair in near})


def shuffled(edges: list[Pair], nodes: int, seed: int, *, two_sided: bool = False) -> list[Pair]:
    """A random connected graph on the same degrees, its edges sorted, each lower node first.

    With ``two_sided`` lower ends stay lower ends, so that a bipartite graph stays one. Errors: no
    connected graph found, as with degree 1.
    """
    random = splitmix(seed)
    found = list(edges)
    for _ in range(_TRIES):
        found = _walk(found, random, two_sided)
        if connected(found, nodes):
            return sorted(found)
    raise FabricError(
        f"random graph of {nodes} switches and {len(edges)} links: none found in one piece; "
        "write a higher degree"
    )


def connected(edges: list[Pair], nodes: int) -> bool:
    """Whether the graph is in one piece."""
    parent = list(range(nodes))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for a, b in edges:
        parent[root(a)] = root(b)
    return len({root(node) for node in range(nodes)}) == 1


def _walk(edges: list[Pair], random: Iterator[int], two_sided: bool) -> list[Pair]:
    found, present = list(edges), set(edges)
    if len(found) < 2:
        return found
    for _ in range(SWITCHES_AN_EDGE * len(found)):
        i, j = next(random) % len(found), next(random) % len(found)
        (a, b), (c, d) = found[i], found[j]
        if not two_sided and next(random) & 1:
            c, d = d, c
        if a == d or c == b:
            continue
        one, two = (min(a, d), max(a, d)), (min(c, b), max(c, b))
        if one in present or two in present or one == two:
            continue
        present -= {found[i], found[j]}
        present |= {one, two}
        found[i], found[j] = one, two
    return found
