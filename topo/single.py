"""One loss of each kind that a fabric has: a cable between switches, a switch.

Cables are of one kind when they join switches of the same tiers at the same rate, switches when
they have the same tier, model and number of cables. The first of each, in the fabric's order,
stands for its kind; under even traffic on a symmetric fabric any other does the same.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from topo.check import check
from topo.error import FabricError
from topo.fabric import Fabric


@dataclass(frozen=True, slots=True)
class Single:
    """A loss: the names of a cable's two ends or of one switch, how many there are of its kind, and
    whether hosts that it cuts off go with it."""

    names: tuple[str, ...]
    count: int
    cuts: bool


def singles(fabric: Fabric) -> list[Single]:
    """One loss of each kind, cables first; cables of one pair of switches are lost together.

    Hosts' own cables are left out, since their loss is that of the host.

    >>> from topo.family.registry import build
    >>> [one.names for one in singles(build("leaf_spine", {"hosts": 8, "leaves": 2, "spines": 2}))]
    [('leaf0', 'spine0'), ('leaf0',), ('spine0',)]
    """
    nodes, outer = fabric.nodes, {node.index for node in fabric.switches if node.tier > 0}
    trunks: dict[tuple[int, int], list[int]] = {}
    degree: dict[int, int] = dict.fromkeys(outer, 0)
    for link in fabric.links:
        for end in {link.a, link.b} & outer:
            degree[end] += 1
        if {link.a, link.b} <= outer:
            first, second = sorted((link.a, link.b), key=lambda end: (nodes[end].tier, end))
            trunks.setdefault((first, second), []).append(link.index)
    kinds: dict[Hashable, list[tuple[tuple[int, ...], list[int]]]] = {}
    for pair, links in trunks.items():
        rates = tuple(sorted(fabric.links[link].rate_bps for link in links))
        kinds.setdefault((*(nodes[end].tier for end in pair), rates), []).append((pair, links))
    for node in sorted(outer, key=lambda end: (nodes[end].tier, end)):
        mine = [link.index for link in fabric.links if node in (link.a, link.b)]
        key = ("switch", nodes[node].tier, nodes[node].switch, degree[node])
        kinds.setdefault(key, []).append(((node,), mine))
    found = []
    for alike in kinds.values():
        ends, links = alike[0]
        names = tuple(nodes[end].name for end in ends)
        found.append(Single(names, len(alike), _cuts(fabric, links)))
    return found


def _cuts(fabric: Fabric, links: list[int]) -> bool:
    try:
        check(fabric.without(set(links)))
    except FabricError:
        return True
    return False
