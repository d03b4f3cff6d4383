"""Up-down routing: paths that climb the tiers of a Clos, turn once, and descend.

From a node that has a way straight down to the destination only such ways are used; any other node
climbs, to the neighbours of a higher tier from which the path is shortest. A path that descends
therefore never climbs again (valley-free), and with one direction of turns there is no cycle of
waiting buffers: lossless Clos fabrics cannot deadlock, whatever fails (Schroeder et al., "Autonet",
IEEE JSAC 1991, for up*/down*; Hu et al., HotNets 2016, for bounced paths under PFC). Pairs that a
failure leaves with down-up paths only have none here. On a whole fat tree or leaf-spine these are
the equal-cost routes of `topo.route`.

A fabric without tiers gets an order of its own: `spanning_order` ranks switches by their distance
from a root, and up is towards the root. Up-down paths by that order join whatever is joined, on one
virtual channel, at the price of longer paths and a busy root. They are also the escape of adaptive
routing: shortest paths on one channel and these on a second never deadlock (Duato, IEEE TPDS 1993).
"""

from collections.abc import Iterator

import numpy as np

from topo.error import FabricError
from topo.fabric import Fabric
from topo.route import Routes, destination_groups, ends, switch_neighbours
from topo.table import Chosen, Hops, Index, SharedTable

_FAR = np.iinfo(np.int16).max


def up_down(fabric: Fabric, order: Index | None = None) -> Routes:
    """Route a fabric of tiers up and down, or any by an ``order`` of its switches, low to high.

    ``hops`` counts the links of the path that is taken, which may be longer than the shortest of
    all. Errors: a link between two switches of one tier, on which up and down mean nothing.
    """
    if order is None:
        _refuse_level_links(fabric)
        order = np.array([node.tier for node in fabric.switches], np.int32)
    owner, peer, is_host = ends(fabric)
    group, seats = destination_groups(owner, peer, is_host)
    number = (np.cumsum(~is_host) - 1).astype(np.int32)
    tier = order
    near = switch_neighbours(owner, peer, is_host)
    down = np.full((len(tier), len(seats)), _FAR, np.int16)
    for column, switches in enumerate(seats):
        down[number[switches], column] = 0
    rising = np.argsort(tier, kind="stable").tolist()
    for row in rising:
        lower = near[row][tier[near[row]] < tier[row]]
        down[row] = np.minimum(down[row], _onward(down, lower))
    hops = down.copy()
    for row in reversed(rising):
        higher = near[row][tier[near[row]] > tier[row]]
        hops[row] = np.where(down[row] < _FAR, down[row], _onward(hops, higher))

    def chosen() -> Iterator[Chosen]:
        for row, neighbours in enumerate(near):
            straight = down[row] < _FAR
            below = (tier[neighbours] < tier[row])[:, None]
            falls = straight & below & (down[neighbours] == down[row] - 1) & (down[row] > 0)
            climbs = ~straight & ~below & (hops[row] < _FAR) & (hops[neighbours] == hops[row] - 1)
            yield falls | climbs

    told: Hops = np.where(hops == _FAR, -1, hops).astype(np.int16)
    table = SharedTable(owner, peer, is_host, told, chosen())
    return Routes.over(fabric, table, group, len(seats))


def spanning_order(fabric: Fabric) -> Index:
    """A rank for each switch, all different: the nearer to the root the higher.

    The root of each piece is the switch with the most links to others, the first of equals; equal
    distances rank by number.
    """
    owner, peer, is_host = ends(fabric)
    near = switch_neighbours(owner, peer, is_host)
    level = np.full(len(near), -1, np.int64)
    for root in sorted(range(len(near)), key=lambda row: (-len(near[row]), row)):
        if level[root] >= 0:
            continue
        edge, depth = [root], 0
        while edge:
            level[edge] = depth
            depth += 1
            fresh = dict.fromkeys(far for row in edge for far in near[row].tolist())
            edge = [far for far in fresh if level[far] < 0]
    rank = np.empty(len(near), np.int32)
    rank[np.lexsort((-np.arange(len(near)), -level))] = np.arange(len(near), dtype=np.int32)
    return rank


def _onward(links: Hops, neighbours: Index) -> Hops:
    """One link more than the nearest of the neighbours has."""
    if not len(neighbours):
        return np.full(links.shape[1], _FAR, np.int16)
    least = links[neighbours].min(axis=0)
    return np.where(least < _FAR, least + 1, _FAR).astype(np.int16)


def _refuse_level_links(fabric: Fabric) -> None:
    for link in fabric.links:
        a, b = fabric.nodes[link.a], fabric.nodes[link.b]
        if a.switch is not None and b.switch is not None and a.tier == b.tier:
            raise FabricError(
                f"fabric {fabric.name!r}: {a.name!r} and {b.name!r} are linked and both of tier "
                f"{a.tier}: up-down needs tiers; write equal-cost routing"
            )
