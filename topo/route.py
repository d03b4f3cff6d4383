"""Equal-cost routing: from every node towards every host, the ports on a shortest path.

Paths are counted in links (hop-count metric, as BGP or OSPF with equal link costs would in a data
centre: RFC 7938, section 6.1) and never pass through a host. Hosts that hang on the same set of
switches share one *destination group*, so that the table grows with switches x leaves and not with
hosts x hosts (see `topo.table`). Links out of service are simply not in the fabric that is routed.
"""

from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from topo.error import FabricError
from topo.fabric import Fabric, Kind
from topo.table import Chosen, FlatTable, Hops, Index, SharedTable, Table


class Routes:
    """Next-hop ports, as arrays; a port is an index into `Fabric.ports`.

    group: one entry a node, the destination group of a host, -1 for a switch.
    groups: how many groups there are.
    first, ports: row ``n * groups + g`` holds the equal-cost ports of node n towards group g,
        ``ports[first[row]:first[row + 1]]``, ascending. The row is empty where n is a switch
        of the group itself (it is adjacent to all its hosts) and where there is no path.
    host_first, host_ports: row h holds every port of any node whose peer is host h, ascending;
        a node adjacent to the host uses those of them that are its own.
    hops: row n, column g: links from node n to the nearest switch of group g, -1 when none.
    owner, peer: one entry a port, the node that sends on it and the node that it leads to.
    table: where all of this is kept.

    ``first``, ``ports`` and ``hops`` grow with nodes x groups and are made when first asked for;
    what `row`, `reach` and the other methods use grows with switches x groups.
    """

    def __init__(
        self,
        group: Index,
        groups: int,
        first: Index,
        ports: Index,
        host_first: Index,
        host_ports: Index,
        hops: Hops,
        owner: Index,
        peer: Index,
    ) -> None:
        self.table: Table = FlatTable(groups, first, ports, hops)
        self.group, self.groups = group, groups
        self.host_first, self.host_ports = host_first, host_ports
        self.owner, self.peer = owner, peer

    @classmethod
    def over(cls, fabric: Fabric, table: Table, group: Index, groups: int) -> "Routes":
        """The routes of a fabric with a next-hop table made for its groups."""
        routes = cls.__new__(cls)
        routes.table = table
        routes.group, routes.groups = group, groups
        routes.owner, routes.peer = fabric.ports.node, fabric.ports.peer
        arriving = np.flatnonzero(group[routes.peer] >= 0).astype(np.int32)
        by_host = np.argsort(routes.peer[arriving], kind="stable")
        routes.host_ports = arriving[by_host]
        routes.host_first = np.zeros(len(group) + 1, np.int32)
        counts = np.bincount(routes.peer[arriving], minlength=len(group))
        np.cumsum(counts, out=routes.host_first[1:])
        return routes

    @property
    def first(self) -> Index:
        """Where each row of ``ports`` begins."""
        return self.table.first

    @property
    def ports(self) -> Index:
        """The next hops of all rows."""
        return self.table.ports

    @property
    def hops(self) -> Hops:
        """Links from every node to every group."""
        return self.table.hops

    def row(self, node: int, group: int) -> Index:
        """Equal-cost ports of a node towards a group, ascending."""
        return self.table.row(node, group)

    def reach(self, nodes: list[int] | Index) -> Hops:
        """Links from some nodes to every group: their rows of ``hops``."""
        return self.table.reach(np.asarray(nodes, np.int32))

    def next_hops(self, node: int, host: int) -> Index:
        """Equal-cost ports from a node towards a host: none when there, or when no path exists."""
        if node == host:
            return np.empty(0, np.int32)
        direct = self._arriving(host)
        own: Index = direct[self.owner[direct] == node]
        if len(own):
            return own
        return self.row(node, int(self.group[host]))

    def distance(self, source: int, destination: int) -> int:
        """Links crossed from host to host: 0 to itself, -1 when there is no path."""
        return int(self.distances([source], [destination])[0, 0])

    def distances(
        self, sources: list[int] | Index, destinations: list[int] | Index
    ) -> NDArray[np.int32]:
        """Links crossed, one row a source host and one column a destination host.

        0 from a host to itself, -1 when there is no path.
        """
        a, b = np.asarray(sources, np.int32), np.asarray(destinations, np.int32)
        for host in np.concatenate([a, b]).tolist():
            self._group(host)
        inner = self.reach(a)[:, self.group[b]].astype(np.int32)
        links: NDArray[np.int32] = np.where(inner < 0, -1, inner + 1).astype(np.int32)
        for column, host in enumerate(b.tolist()):
            links[np.isin(a, self.owner[self._arriving(host)]), column] = 1
            links[a == host, column] = 0
        return links

    def paths(self, source: int, destination: int, limit: int = 64) -> list[list[int]]:
        """At most ``limit`` shortest paths between two hosts, each a list of ports, in port order.

        Empty when there is no path; one empty path from a host to itself.
        """
        if limit < 1:
            raise FabricError(f"path limit {limit}: must be at least 1")
        found: list[list[int]] = []
        open_paths: list[tuple[int, list[int]]] = [(source, [])]
        while open_paths and len(found) < limit:
            node, path = open_paths.pop()
            if node == destination:
                found.append(path)
                continue
            onward = self.next_hops(node, destination)[::-1].tolist()
            open_paths.extend((int(self.peer[port]), [*path, port]) for port in onward)
        return found

    def count_paths(self, source: int, destination: int) -> int:
        """The number of shortest paths between two hosts, parallel links counted apart."""

        @cache
        def onward(node: int) -> int:
            if node == destination:
                return 1
            ports = self.next_hops(node, destination)
            return sum(onward(int(far)) for far in self.peer[ports].tolist())

        return onward(source)

    def _group(self, host: int) -> int:
        if not 0 <= host < len(self.group) or self.group[host] < 0:
            raise FabricError(f"node {host}: not a host; routes lead to hosts only")
        return int(self.group[host])

    def _arriving(self, host: int) -> Index:
        self._group(host)
        return self.host_ports[self.host_first[host] : self.host_first[host + 1]]


def equal_cost(fabric: Fabric) -> Routes:
    """Route a fabric on hop count with all equal-cost next hops.

    A fabric in pieces is routed too: pairs without a path have distance -1 and no next hop.
    """
    owner, peer, is_host = ends(fabric)
    group, seats = destination_groups(owner, peer, is_host)
    hops = _hops(owner, peer, is_host, seats)

    def chosen() -> Iterator[Chosen]:
        for row, neighbours in enumerate(switch_neighbours(owner, peer, is_host)):
            here = hops[row]
            yield (hops[neighbours] == here - 1) & (here > 0)

    table = SharedTable(owner, peer, is_host, hops, chosen())
    return Routes.over(fabric, table, group, len(seats))


def ends(fabric: Fabric) -> tuple[Index, Index, Chosen]:
    """The sender and the receiver of each port, and which nodes are hosts."""
    is_host = np.array([n.kind is Kind.HOST for n in fabric.nodes], np.bool_)
    return fabric.ports.node, fabric.ports.peer, is_host


def switch_neighbours(owner: Index, peer: Index, is_host: Chosen) -> list[Index]:
    """For each switch, counted without the hosts, those behind its ports, in port order."""
    number = (np.cumsum(~is_host) - 1).astype(np.int32)
    inner = np.flatnonzero(~is_host[owner] & ~is_host[peer])
    counts = np.bincount(number[owner[inner]], minlength=int((~is_host).sum()))
    return np.split(number[peer[inner]], np.cumsum(counts)[:-1]) if len(counts) else []


def destination_groups(owner: Index, peer: Index, is_host: Chosen) -> tuple[Index, list[list[int]]]:
    """The group of each node, and the switches of each group."""
    adjacent: dict[int, set[int]] = {int(h): set() for h in np.flatnonzero(is_host)}
    uplinks = np.flatnonzero(is_host[owner] & ~is_host[peer])
    for host, switch in zip(owner[uplinks].tolist(), peer[uplinks].tolist(), strict=True):
        adjacent[host].add(switch)
    group = np.full(len(is_host), -1, np.int32)
    number: dict[frozenset[int], int] = {}
    for host, switches in adjacent.items():
        group[host] = number.setdefault(frozenset(switches), len(number))
    return group, [sorted(switches) for switches in number]


def _hops(owner: Index, peer: Index, is_host: Chosen, seats: list[list[int]]) -> Hops:
    """Links from each switch to each group: breadth first from all at once, one bit a group."""
    number = (np.cumsum(~is_host) - 1).astype(np.int32)
    hops = np.full((int((~is_host).sum()), len(seats)), -1, np.int16)
    for group, switches in enumerate(seats):
        hops[number[switches], group] = 0
    inner = np.flatnonzero(~is_host[owner] & ~is_host[peer])
    # Parallel links are asked once.
    pairs = np.unique(number[owner[inner]].astype(np.int64) * len(hops) + number[peer[inner]])
    asking, starts = np.unique(pairs // max(1, len(hops)), return_index=True)
    if not len(asking):
        return hops
    asked = pairs % len(hops)
    reached = np.zeros((len(hops), 8 * -(-len(seats) // 64)), np.uint8)
    reached[:, : -(-len(seats) // 8)] = np.packbits(hops == 0, axis=1)
    words = reached.view(np.uint64)
    level = 0
    while True:
        level += 1
        wider = words.copy()
        wider[asking] |= np.bitwise_or.reduceat(words[asked], starts, axis=0)
        found = (wider & ~words).view(np.uint8)
        fresh = np.unpackbits(found, axis=1, count=len(seats)).astype(np.bool_)
        if not fresh.any():
            return hops
        hops[fresh] = level
        words = wider
