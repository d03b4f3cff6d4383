"""Equal-cost routing: from every node towards every host, the ports on a shortest path.

Paths are counted in links (hop-count metric, as BGP or OSPF with equal link costs would in a data
centre: RFC 7938, section 6.1) and never pass through a host. Hosts that hang on the same set of
switches share one *destination group*, so that the table grows with switches x leaves and not with
hosts x hosts. Links out of service are simply not in the fabric that is routed.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from topo.error import FabricError
from topo.fabric import Fabric, Kind

Index = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
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
    """

    group: Index
    groups: int
    first: Index
    ports: Index
    host_first: Index
    host_ports: Index
    hops: NDArray[np.int16]
    owner: Index
    peer: Index

    def next_hops(self, node: int, host: int) -> Index:
        """Equal-cost ports from a node towards a host: none when there, or when no path exists."""
        if node == host:
            return np.empty(0, np.int32)
        direct = self._arriving(host)
        own: Index = direct[self.owner[direct] == node]
        if len(own):
            return own
        row = node * self.groups + int(self.group[host])
        return self.ports[self.first[row] : self.first[row + 1]]

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
        inner = self.hops[a][:, self.group[b]].astype(np.int32)
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
    table = fabric.ports
    owner, peer = table.node, table.peer
    nodes = len(fabric.nodes)
    is_host = np.array([n.kind is Kind.HOST for n in fabric.nodes], np.bool_)
    group, seats = _destination_groups(owner, peer, is_host)
    groups = len(seats)
    hops = _hops(owner, peer, is_host, seats)

    counts = np.zeros((nodes, groups), np.int64)
    chosen: list[Index] = []
    for node in range(nodes):
        begin, end = int(table.first[node]), int(table.first[node + 1])
        ports = np.arange(begin, end, dtype=np.int32)
        ports = ports[~is_host[peer[ports]]]
        here = hops[node]
        closer = (hops[peer[ports]] == here - 1) & (here > 0)
        counts[node] = closer.sum(axis=0)
        chosen.append(ports[np.nonzero(closer.T)[1]])
    if max(counts.sum(), counts.size) > np.iinfo(np.int32).max:
        raise FabricError(
            f"fabric {fabric.name!r}: {counts.sum()} next hops for {nodes} nodes are more than "
            "the routing table can number; write fewer hosts"
        )
    first = np.zeros(nodes * groups + 1, np.int32)
    np.cumsum(counts.ravel(), out=first[1:])

    arriving = np.flatnonzero(is_host[peer]).astype(np.int32)
    arriving = arriving[np.argsort(peer[arriving], kind="stable")]
    host_first = np.zeros(nodes + 1, np.int32)
    np.cumsum(np.bincount(peer[arriving], minlength=nodes), out=host_first[1:])
    return Routes(
        group=group,
        groups=groups,
        first=first,
        ports=np.concatenate(chosen) if chosen else np.empty(0, np.int32),
        host_first=host_first,
        host_ports=arriving,
        hops=hops,
        owner=owner,
        peer=peer,
    )


def _destination_groups(
    owner: Index, peer: Index, is_host: NDArray[np.bool_]
) -> tuple[Index, list[list[int]]]:
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


def _hops(
    owner: Index, peer: Index, is_host: NDArray[np.bool_], seats: list[list[int]]
) -> NDArray[np.int16]:
    """Breadth-first search from all groups at once, one bit a group, one pass a level."""
    nodes, groups = len(is_host), len(seats)
    hops = np.full((nodes, groups), -1, np.int16)
    for number, switches in enumerate(seats):
        hops[switches, number] = 0
    # Hosts take a distance but never pass it on: only switches are asked for their reach.
    usable = np.flatnonzero(~is_host[peer])
    asking, starts = np.unique(owner[usable], return_index=True)
    if not len(asking):
        return hops
    asked = peer[usable]
    reached = np.packbits(hops == 0, axis=1)
    level = 0
    while True:
        level += 1
        wider = reached.copy()
        wider[asking] |= np.bitwise_or.reduceat(reached[asked], starts, axis=0)
        fresh = np.unpackbits(wider & ~reached, axis=1, count=groups).astype(np.bool_)
        if not fresh.any():
            return hops
        hops[fresh] = level
        reached = wider
