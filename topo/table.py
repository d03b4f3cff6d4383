"""Next-hop tables: what `topo.route.Routes` keeps, one row a switch and equal rows kept once.

A switch has few different sets of next hops, whatever the number of destinations (an edge switch of
a fat tree two), so that the table holds a set number for each switch and destination group, and
each set once: memory grows with switches x groups. A host's row follows from its own ports. The
engines read the table as one flat array with a row for every node; that form is made when first
asked for, and grows with nodes x groups.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from topo.error import FabricError

Index = NDArray[np.int32]
Hops = NDArray[np.int16]
Chosen = NDArray[np.bool_]


class Table(Protocol):
    """Rows of next hops; `topo.route.Routes` says what the arrays hold."""

    @property
    def first(self) -> Index:
        """Where each row of ``ports`` begins."""
        ...

    @property
    def ports(self) -> Index:
        """The next hops of all rows, one after the other."""
        ...

    @property
    def hops(self) -> Hops:
        """Links from each node to each group."""
        ...

    def row(self, node: int, group: int) -> Index:
        """Next hops of one node towards one group, ascending."""
        ...

    def reach(self, nodes: Index) -> Hops:
        """The rows of ``hops`` of some nodes."""
        ...

    def chosen(self, node: int) -> tuple[Index, Chosen]:
        """Ports of a node, ascending, and which are next hops to which group: ports x groups."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class FlatTable:
    """A table in the form that the engines read."""

    groups: int
    first: Index
    ports: Index
    hops: Hops

    def row(self, node: int, group: int) -> Index:
        """See `Table`."""
        at = node * self.groups + group
        return self.ports[self.first[at] : self.first[at + 1]]

    def reach(self, nodes: Index) -> Hops:
        """See `Table`."""
        rows: Hops = self.hops[nodes]
        return rows

    def chosen(self, node: int) -> tuple[Index, Chosen]:
        """See `Table`."""
        at = self.first[node * self.groups : (node + 1) * self.groups + 1]
        all_ports = self.ports[at[0] : at[-1]]
        ports, place = np.unique(all_ports, return_inverse=True)
        used = np.zeros((len(ports), self.groups), np.bool_)
        used[place, np.repeat(np.arange(self.groups), np.diff(at))] = True
        return ports, used


class SharedTable:
    """A table with a row a switch, in which equal sets of next hops are kept once."""

    def __init__(
        self, owner: Index, peer: Index, is_host: Chosen, hops: Hops, chosen: Iterable[Chosen]
    ) -> None:
        """Take the next hops, switch by switch, each as ports x groups.

        ``hops`` has a row a switch, in index order; ``chosen`` as many arrays, with one row for
        every port of the switch that leads to another switch, in port order.
        """
        nodes, self._groups = len(is_host), hops.shape[1]
        self._is_host = is_host
        self._hops = hops
        self._row = np.where(is_host, -1, np.cumsum(~is_host) - 1).astype(np.int32)
        inner = np.flatnonzero(~is_host[peer]).astype(np.int32)
        self._inner = inner
        self._inner_first = np.zeros(nodes + 1, np.int64)
        np.cumsum(np.bincount(owner[inner], minlength=nodes), out=self._inner_first[1:])
        self._peer_row = self._row[peer[inner]]
        self._choice = np.zeros(hops.shape, np.int32)
        sets: list[Index] = [np.empty(0, np.int32)]
        for number, (node, closer) in enumerate(zip(np.flatnonzero(~is_host), chosen, strict=True)):
            ports = self._ports_of(int(node))
            if len(ports):
                self._choice[number] = _distinct(ports, closer, sets)
        self._set_first = np.zeros(len(sets) + 1, np.int64)
        np.cumsum([len(found) for found in sets], out=self._set_first[1:])
        self._sets = np.concatenate(sets)

    def row(self, node: int, group: int) -> Index:
        """See `Table`."""
        if self._is_host[node]:
            near = self._near(node)[:, group]
            ports: Index = self._ports_of(node)[(near >= 0) & (near == _least(near[:, None])[0])]
            return ports
        number = self._choice[self._row[node], group]
        return self._sets[self._set_first[number] : self._set_first[number + 1]]

    def reach(self, nodes: Index) -> Hops:
        """See `Table`."""
        found = np.empty((len(nodes), self._groups), np.int16)
        host = self._is_host[nodes]
        found[~host] = self._hops[self._row[nodes[~host]]]
        for place in np.flatnonzero(host).tolist():
            least = _least(self._near(int(nodes[place])))
            found[place] = np.where(least < 0, -1, least + 1)
        return found

    def chosen(self, node: int) -> tuple[Index, Chosen]:
        """See `Table`."""
        ports = self._ports_of(node)
        if self._is_host[node]:
            return ports, self._closer(node)
        numbers, place = np.unique(self._choice[self._row[node]], return_inverse=True)
        used = np.zeros((len(ports), len(numbers)), np.bool_)
        for column, number in enumerate(numbers.tolist()):
            members = self._sets[self._set_first[number] : self._set_first[number + 1]]
            used[np.searchsorted(ports, members), column] = True
        wide: Chosen = used[:, place.ravel()]
        return ports, wide

    @property
    def hops(self) -> Hops:
        """See `Table`."""
        return self._all_hops

    @property
    def first(self) -> Index:
        """See `Table`."""
        return self._flat[0]

    @property
    def ports(self) -> Index:
        """See `Table`."""
        return self._flat[1]

    @property
    def bytes(self) -> int:
        """Bytes of the table as it is kept, without the flat form."""
        shared = (self._hops, self._choice, self._sets, self._set_first)
        a_node = (self._is_host, self._row, self._inner, self._inner_first, self._peer_row)
        return sum(int(array.nbytes) for array in (*shared, *a_node))

    @cached_property
    def _all_hops(self) -> Hops:
        return self.reach(np.arange(len(self._is_host), dtype=np.int32))

    @cached_property
    def _flat(self) -> tuple[Index, Index]:
        nodes = len(self._is_host)
        counts = np.zeros((nodes, self._groups), np.int64)
        length = np.diff(self._set_first)
        for node in range(nodes):
            if self._is_host[node]:
                counts[node] = self._closer(node).sum(axis=0)
            else:
                counts[node] = length[self._choice[self._row[node]]]
        if max(counts.sum(), counts.size) > np.iinfo(np.int32).max:
            raise FabricError(
                f"routes of {nodes} nodes: {counts.sum()} next hops are more than the routing "
                "table of an emulator can number; write fewer hosts"
            )
        first = np.zeros(counts.size + 1, np.int32)
        np.cumsum(counts.ravel(), out=first[1:])
        ports = np.empty(int(first[-1]), np.int32)
        for node in range(nodes):
            begin = int(first[node * self._groups])
            end = int(first[(node + 1) * self._groups])
            if self._is_host[node]:
                own = self._ports_of(node)
                ports[begin:end] = own[np.nonzero(self._closer(node).T)[1]]
            else:
                chosen = self._choice[self._row[node]]
                start = np.repeat(self._set_first[chosen], counts[node])
                step = np.arange(begin, end) - np.repeat(
                    first[node * self._groups : (node + 1) * self._groups], counts[node]
                )
                ports[begin:end] = self._sets[start + step]
        return first, ports

    def _ports_of(self, node: int) -> Index:
        """Ports of a node that lead to switches."""
        return self._inner[self._inner_first[node] : self._inner_first[node + 1]]

    def _near(self, host: int) -> Hops:
        """Links from the switch behind each port of a host: ports x groups."""
        begin, end = self._inner_first[host], self._inner_first[host + 1]
        rows: Hops = self._hops[self._peer_row[begin:end]]
        return rows

    def _closer(self, host: int) -> Chosen:
        near = self._near(host)
        closer: Chosen = (near >= 0) & (near == _least(near))
        return closer


def _least(near: Hops) -> Hops:
    """The fewest links in each column, -1 where there is no path."""
    most = np.iinfo(np.int16).max
    if not len(near):
        return np.full(near.shape[1], -1, np.int16)
    least: Hops = np.where(near < 0, most, near).min(axis=0)
    return np.where(least == most, -1, least).astype(np.int16)


def _distinct(ports: Index, closer: Chosen, sets: list[Index]) -> Index:
    """The set number of each group; sets not met before are added. Set 0 is the empty one."""
    bits = np.packbits(closer, axis=0).T
    wide = np.zeros((len(bits), max(8, bits.shape[1])), np.uint8)
    wide[:, : bits.shape[1]] = bits
    # Up to 64 ports make one integer, which sorts faster than bytes.
    key = np.dtype(np.uint64) if wide.shape[1] == 8 else np.dtype((np.void, wide.shape[1]))
    keys = wide.view(key).ravel()
    _, where, inverse = np.unique(keys, return_index=True, return_inverse=True)
    numbers = np.zeros(len(where), np.int32)
    for place, column in enumerate(where.tolist()):
        found = ports[closer[:, column]]
        if len(found):
            numbers[place] = len(sets)
            sets.append(found)
    of_group: Index = numbers[inverse.ravel()]
    return of_group
