"""Can a lossless fabric stop for ever? A cycle in its buffer-dependency graph says it can.

Under PFC a frame in the ingress buffer that port p fills waits for room in the buffer that port q
fills, when some flow crosses p and then q. Each directed link between switches stands for the
buffer at its far end; a cycle of such waits can deadlock, and no cycle means that it never does
(Dally and Seitz, IEEE Transactions on Computers 1987; for PFC, Hu et al., HotNets 2016). Up-down
paths on any Clos have none. All flows are taken to share one lossless class.

Routes are checked whole, not path by path: one bit says whether a port carries flows to a
destination group, and a port waits for another when both do for some group.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from topo.fabric import Fabric, Kind, Role
from topo.route import Routes
from topo.table import Chosen, Index

Wait = NDArray[np.int64]
"""Buffers that wait, or those waited for; two of equal length make a graph."""

Bits = NDArray[np.uint64]
"""One bit a destination group."""

_AT_ONCE = 2**18
"""Words of bits that are compared together, for the cache's sake."""


def handoff_pairs(fabric: Fabric) -> list[tuple[int, int]]:
    """A prefill and a decode host for every pair of places where hand-offs begin and end.

    Hosts that hang on the same switches take the same paths between switches, so one of each role
    stands for all of them. A host with role ``both`` is in either pool.
    """
    neighbours: dict[int, set[int]] = {n.index: set() for n in fabric.hosts}
    for link in fabric.links:
        for host, far in ((link.a, link.b), (link.b, link.a)):
            if host in neighbours:
                neighbours[host].add(far)

    def first(*roles: Role) -> list[int]:
        found: dict[frozenset[int], int] = {}
        for host in fabric.hosts_with(*roles):
            found.setdefault(frozenset(neighbours[host]), host)
        return list(found.values())

    senders, receivers = first(Role.PREFILL, Role.BOTH), first(Role.DECODE, Role.BOTH)
    return [(a, b) for a in senders for b in receivers if a != b]


def dependency_cycle(
    fabric: Fabric,
    routes: Routes,
    pairs: Iterable[tuple[int, int]] | None = None,
    *,
    acks: bool = True,
) -> list[str] | None:
    """Names of the ports of a dependency cycle among flows between these host pairs, or None.

    Without pairs: from every prefill to every decode host, or between all hosts where one of the
    pools is empty. Any equal-cost path may be taken. With ``acks`` the way back counts too, since
    RoCEv2 ACK and NAK packets travel in the class of the data.
    """
    asked = _pools(fabric, routes) if pairs is None else _asked(routes, pairs)
    tail, head = _waits(fabric, routes, asked | asked.T if acks else asked)
    cycle = _cycle(tail, head)
    return None if cycle is None else [fabric.port_name(port) for port in cycle]


def path_cycle(fabric: Fabric, paths: Iterable[Sequence[int]]) -> list[str] | None:
    """The same for explicit paths, each a sequence of ports from host to host."""
    cycle = _channel_cycle(fabric, ([(port, 0) for port in path] for path in paths))
    return None if cycle is None else [fabric.port_name(port) for port, _ in cycle]


def channel_cycle(fabric: Fabric, paths: Iterable[Sequence[tuple[int, int]]]) -> list[str] | None:
    """The same for paths of (port, virtual channel): each channel has a buffer of its own.

    See `topo.channel` for rules that number the channels of a path.
    """
    cycle = _channel_cycle(fabric, paths)
    return None if cycle is None else [f"{fabric.port_name(port)} vc{vc}" for port, vc in cycle]


def _channel_cycle(
    fabric: Fabric, paths: Iterable[Sequence[tuple[int, int]]]
) -> list[tuple[int, int]] | None:
    inner = _between_switches(fabric).tolist()
    waits: set[tuple[tuple[int, int], tuple[int, int]]] = set()
    for path in paths:
        waits.update(pairwise([step for step in path if inner[step[0]]]))
    steps = sorted({step for wait in waits for step in wait})
    number = {step: i for i, step in enumerate(steps)}
    tail = np.array([number[held] for held, _ in waits], np.int64)
    head = np.array([number[wanted] for _, wanted in waits], np.int64)
    cycle = _cycle(tail, head)
    return None if cycle is None else [steps[i] for i in cycle]


def _between_switches(fabric: Fabric) -> Chosen:
    is_switch = np.array([n.kind is Kind.SWITCH for n in fabric.nodes], np.bool_)
    inner: Chosen = is_switch[fabric.ports.node] & is_switch[fabric.ports.peer]
    return inner


def _asked(routes: Routes, pairs: Iterable[tuple[int, int]]) -> Chosen:
    """Which groups send to which: switches route on the group, not on the host."""
    asked = np.zeros((routes.groups, routes.groups), np.bool_)
    for a, b in pairs:
        asked[routes.group[a], routes.group[b]] = True
    return asked


def _pools(fabric: Fabric, routes: Routes) -> Chosen:
    senders = fabric.hosts_with(Role.PREFILL, Role.BOTH)
    receivers = fabric.hosts_with(Role.DECODE, Role.BOTH)
    sends, takes = (np.zeros(routes.groups, np.bool_) for _ in range(2))
    sends[routes.group[senders]] = True
    takes[routes.group[receivers]] = True
    if not (senders and receivers):
        sends[:] = takes[:] = True
    asked: Chosen = np.outer(sends, takes)
    return asked


def _waits(fabric: Fabric, routes: Routes, asked: Chosen) -> tuple[Wait, Wait]:
    """Ports between switches that wait, and for which, among flows from group to group."""
    table = fabric.ports
    inner = np.flatnonzero(_between_switches(fabric))
    row = np.full(len(table.node), -1, np.int64)
    row[inner] = np.arange(len(inner))
    owner, peer = table.node[inner], table.peer[inner]
    chosen = np.zeros((len(inner), _words(routes.groups)), np.uint64)
    for node in np.unique(owner).tolist():
        ports, used = routes.table.chosen(node)
        mine = row[ports] >= 0
        chosen[row[ports[mine]]] = _packed(used[mine])
    carried = chosen & _reached(_starts(fabric, routes, asked), owner, peer, chosen)[owner]
    arriving = np.argsort(peer, kind="stable")
    into = np.searchsorted(peer[arriving], np.arange(len(fabric.nodes) + 1))
    out = np.searchsorted(owner, np.arange(len(fabric.nodes) + 1))
    tails, heads = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for node in np.unique(owner).tolist():
        held = arriving[into[node] : into[node + 1]]
        wanted = np.arange(int(out[node]), int(out[node + 1]))
        step = max(1, _AT_ONCE // max(1, chosen[wanted].size))
        for at in range(0, len(held), step):
            both = carried[held[at : at + step], None] & chosen[None, wanted]
            waiting, found = np.nonzero(both.any(axis=2))
            tails.append(inner[held[at + waiting]])
            heads.append(inner[wanted[found]])
    return np.concatenate(tails), np.concatenate(heads)


def _packed(used: Chosen) -> Bits:
    """The columns of each row, 64 to a word."""
    packed = np.zeros((len(used), 8 * _words(used.shape[1])), np.uint8)
    packed[:, : -(-used.shape[1] // 8)] = np.packbits(used, axis=1)
    return packed.view(np.uint64)


def _words(groups: int) -> int:
    return max(1, -(-groups // 64))


def _starts(fabric: Fabric, routes: Routes, asked: Chosen) -> Bits:
    """Nodes x groups: the switches at which flows to each group enter."""
    starts = np.zeros((len(fabric.nodes), _words(routes.groups)), np.uint64)
    hosts = np.flatnonzero(routes.group >= 0)
    groups, seats = np.unique(routes.group[hosts], return_index=True)
    for group, host in zip(groups.tolist(), hosts[seats].tolist(), strict=True):
        ports, used = routes.table.chosen(host)
        entered = _packed(used & asked[group])
        np.bitwise_or.at(starts, routes.peer[ports], entered)
    return starts


def _reached(starts: Bits, owner: Index, peer: Index, chosen: Bits) -> Bits:
    """Nodes x groups: the switches that flows to each group may come by."""
    if not len(owner):
        return starts
    order = np.argsort(peer, kind="stable")
    nodes, first = np.unique(peer[order], return_index=True)
    reached = starts
    while True:
        wider = reached.copy()
        wider[nodes] |= np.bitwise_or.reduceat((chosen & reached[owner])[order], first, axis=0)
        if np.array_equal(wider, reached):
            return reached
        reached = wider


def _cycle(tail: Wait, head: Wait) -> list[int] | None:
    """A shortest cycle through the first buffer that is on any, or None."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, connected_components

    if not len(tail):
        return None
    size = int(max(tail.max(), head.max())) + 1
    graph = csr_array((np.ones(len(tail), np.int8), (tail, head)), shape=(size, size))
    _, part = connected_components(graph, connection="strong")
    stuck = np.flatnonzero((np.bincount(part) > 1)[part])
    if not len(stuck):
        return None
    start = int(stuck[0])
    order, before = breadth_first_order(graph, start)
    ending = set(tail[head == start].tolist())
    node = next(node for node in order.tolist() if node in ending)
    cycle = [node]
    while node != start:
        node = int(before[node])
        cycle.append(node)
    return cycle[::-1]
