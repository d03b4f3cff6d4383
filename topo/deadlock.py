"""Can a lossless fabric stop for ever? A cycle in its buffer-dependency graph says it can.

Under PFC a frame in the ingress buffer that port p fills waits for room in the buffer that port q
fills, when some flow crosses p and then q. Each directed link between switches stands for the
buffer at its far end; a cycle of such waits can deadlock, and no cycle means that it never does
(Dally and Seitz, IEEE Transactions on Computers 1987; for PFC, Hu et al., HotNets 2016). Up-down
paths on any Clos have none. All flows are taken to share one lossless class.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from topo.fabric import Fabric, Kind, Role
from topo.route import Routes

Waits = dict[int, set[int]]
"""Port -> ports that its buffer waits for."""


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
    fabric: Fabric, routes: Routes, pairs: Iterable[tuple[int, int]], *, acks: bool = True
) -> list[str] | None:
    """Names of the ports of a dependency cycle among flows between these host pairs, or None.

    Any equal-cost path may be taken. With ``acks`` the way back counts too, since RoCEv2 ACK
    and NAK packets travel in the class of the data.
    """
    sources: dict[int, set[int]] = {}
    for a, b in pairs:
        sources.setdefault(b, set()).add(a)
        if acks:
            sources.setdefault(a, set()).add(b)
    # Switches route on the destination's group: hosts of one group differ in their last link only.
    merged: dict[int, set[int]] = {}
    for host, senders in sources.items():
        merged.setdefault(int(routes.group[host]), set()).update(senders)
    waits: Waits = {}
    for group, senders in merged.items():
        _add_waits(waits, routes, group, senders)
    return _named(fabric, waits)


def path_cycle(fabric: Fabric, paths: Iterable[Sequence[int]]) -> list[str] | None:
    """The same for explicit paths, each a sequence of ports from host to host."""
    inner = _between_switches(fabric)
    waits: Waits = {}
    for path in paths:
        crossed = [port for port in path if inner[port]]
        for held, wanted in pairwise(crossed):
            waits.setdefault(held, set()).add(wanted)
    return _named(fabric, waits)


def channel_cycle(fabric: Fabric, paths: Iterable[Sequence[tuple[int, int]]]) -> list[str] | None:
    """The same for paths of (port, virtual channel): each channel has a buffer of its own.

    See `topo.channel` for rules that number the channels of a path.
    """
    inner = _between_switches(fabric)
    number: dict[tuple[int, int], int] = {}
    waits: Waits = {}
    for path in paths:
        crossed = [number.setdefault(step, len(number)) for step in path if inner[step[0]]]
        for held, wanted in pairwise(crossed):
            waits.setdefault(held, set()).add(wanted)
    cycle = _cycle(waits)
    if cycle is None:
        return None
    steps = list(number)
    return [f"{fabric.port_name(steps[i][0])} vc{steps[i][1]}" for i in cycle]


def _between_switches(fabric: Fabric) -> list[bool]:
    is_switch = np.array([n.kind is Kind.SWITCH for n in fabric.nodes], np.bool_)
    found: list[bool] = (is_switch[fabric.ports.node] & is_switch[fabric.ports.peer]).tolist()
    return found


def _add_waits(waits: Waits, routes: Routes, group: int, senders: set[int]) -> None:
    """Follow all shortest paths of the senders to one destination group."""

    def onward(node: int) -> list[int]:
        ports: list[int] = routes.row(node, group).tolist()
        return ports

    todo = {int(routes.peer[port]) for host in senders for port in onward(host)}
    seen = set(todo)
    while todo:
        node = todo.pop()
        for held in onward(node):
            far = int(routes.peer[held])
            waits.setdefault(held, set()).update(onward(far))
            if far not in seen:
                seen.add(far)
                todo.add(far)


def _named(fabric: Fabric, waits: Waits) -> list[str] | None:
    cycle = _cycle(waits)
    return None if cycle is None else [fabric.port_name(port) for port in cycle]


def _cycle(waits: Waits) -> list[int] | None:
    """Some cycle of the graph, found depth first in port order, or None."""
    done: set[int] = set()
    for start in sorted(waits):
        if start in done:
            continue
        path: list[int] = [start]
        on_path = {start}
        ahead = [iter(sorted(waits[start]))]
        while path:
            wanted = next(ahead[-1], None)
            if wanted is None:
                ahead.pop()
                done.add(path[-1])
                on_path.discard(path.pop())
            elif wanted in on_path:
                return path[path.index(wanted) :]
            elif wanted not in done:
                path.append(wanted)
                on_path.add(wanted)
                ahead.append(iter(sorted(waits.get(wanted, ()))))
    return None
