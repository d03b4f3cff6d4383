"""The skeleton of a fabric: what is left to compute when everything alike is taken together.

Hosts of one role that hang on the same switches by the same rates are one *group*; parallel links
are one edge. Beyond that, `quotient` merges nodes by colour refinement: two nodes of one class have
the same total capacity to and from every other class, so that any flow can be spread evenly within
the classes. Maximum flow and maximum concurrent flow, which are linear programmes, keep their
values (Grohe, Kersting, Mladenov and Selman, "Dimension reduction via colour refinement", ESA
2014). All spines of a leaf-spine, and all cores of a fat tree, become one node each.
"""

import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from topo.error import FabricError
from topo.fabric import Fabric, Kind, Role

Index = NDArray[np.int64]
_INT32_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Skeleton:
    """A directed graph with capacities; its first nodes are the senders, then the receivers.

    senders, receivers: how many of each. supply: what the NICs of each sender and receiver move
    together. tail, head, capacity: one entry an edge, at most one edge a direction and pair.
    unit_bps: what a capacity of 1 stands for; it divides the rate of every link. node: the skeleton
    nodes of a fabric's node (two for a host that both sends and receives, none for a host without
    such a role). members: hosts of each sender and receiver, by index in the fabric.
    """

    senders: int
    receivers: int
    supply: Index
    nodes: int
    tail: Index
    head: Index
    capacity: Index
    unit_bps: int
    node: dict[int, tuple[int, ...]]
    members: list[list[int]]


def skeleton(fabric: Fabric) -> Skeleton:
    """Take the hosts of a fabric with roles together. Errors: no prefill or no decode host."""
    groups = _groups(fabric)
    sending = [m for role, m in groups if role in (Role.PREFILL, Role.BOTH)]
    receiving = [m for role, m in groups if role in (Role.DECODE, Role.BOTH)]
    for name, found in (("prefill", sending), ("decode", receiving)):
        if not found:
            raise FabricError(
                f"fabric {fabric.name!r}: no {name} host with a link; place the roles first"
            )
    number = 0
    sends: dict[int, int] = {}
    takes: dict[int, int] = {}
    for side, table in ((sending, sends), (receiving, takes)):
        for members in side:
            table.update(dict.fromkeys(members, number))
            number += 1
    for switch in fabric.switches:
        sends[switch.index] = takes[switch.index] = number
        number += 1
    rates: dict[tuple[int, int], int] = defaultdict(int)
    supply = [0] * (len(sending) + len(receiving))
    for link in fabric.links:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            if near in sends and far in takes:
                rates[sends[near], takes[far]] += link.rate_bps
            if fabric.nodes[near].kind is Kind.HOST:
                for node in {table[near] for table in (sends, takes) if near in table}:
                    supply[node] += link.rate_bps
    unit = math.gcd(*{link.rate_bps for link in fabric.links})
    pairs = np.array(sorted(rates), np.int64).reshape(-1, 2)
    return Skeleton(
        senders=len(sending),
        receivers=len(receiving),
        supply=np.array(supply, np.int64) // unit,
        nodes=number,
        tail=pairs[:, 0],
        head=pairs[:, 1],
        capacity=np.array([rates[pair] for pair in sorted(rates)], np.int64) // unit,
        unit_bps=unit,
        node={
            n.index: tuple(sorted({t[n.index] for t in (sends, takes) if n.index in t}))
            for n in fabric.nodes
        },
        members=[*sending, *receiving],
    )


def _groups(fabric: Fabric) -> list[tuple[Role, list[int]]]:
    """Hosts that serve the hand-off, by role and by what they hang on; one with a cable to another
    host is alone."""
    near: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for link in fabric.links:
        for host, far in ((link.a, link.b), (link.b, link.a)):
            if fabric.nodes[host].kind is Kind.HOST:
                direct = fabric.nodes[far].kind is Kind.HOST
                near[host].append((-1 - host if direct else far, link.rate_bps))
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for host in sorted(near):
        role = fabric.nodes[host].role
        if role in (Role.PREFILL, Role.DECODE, Role.BOTH):
            groups[role, *sorted(near[host])].append(host)
    return [(fabric.nodes[members[0]].role, members) for members in groups.values()]


def quotient(
    graph: Skeleton, colour: Index, capacity: Index, alive: NDArray[np.bool_] | None = None
) -> Index:
    """The class of each node, 0 and up: the coarsest refinement of ``colour`` that keeps flows.

    ``capacity`` replaces that of the edges, and nodes that are not ``alive`` are in a class of
    their own that reaches nothing. Classes are told by 64-bit hashes of the capacities to and from
    every class.
    """
    shape = (graph.nodes, graph.nodes)
    weight = capacity.astype(np.uint64)
    if alive is not None:
        weight = np.where(alive[graph.tail] & alive[graph.head], weight, np.uint64(0))
        colour = np.where(alive, colour, colour.max() + 1)
    ahead = csr_array((weight, (graph.tail, graph.head)), shape=shape)
    behind = csr_array((weight, (graph.head, graph.tail)), shape=shape)
    mark = _mixed(colour.astype(np.uint64) + np.uint64(1))
    count = len(np.unique(mark))
    while True:
        wider = _mixed(mark + np.uint64(3) * (ahead @ mark) + np.uint64(5) * _mixed(behind @ mark))
        values, classes = np.unique(wider, return_inverse=True)
        if len(values) == count:
            return np.asarray(classes, np.int64)
        mark, count = wider, len(values)


def _mixed(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The splitmix64 finaliser (Steele, Lea and Flood, OOPSLA 2014), element by element."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = value ^ (value >> np.uint64(31))
    return mixed


def merged(graph: Skeleton, classes: Index, capacity: Index) -> tuple[Index, Index, Index]:
    """Tail class, head class and capacity of the edges between classes, those of 0 left out."""
    width = int(classes.max()) + 1
    key = classes[graph.tail] * width + classes[graph.head]
    pairs, place = np.unique(key, return_inverse=True)
    total = np.zeros(len(pairs), np.int64)
    np.add.at(total, place, capacity)
    kept = (total > 0) & (pairs // width != pairs % width)
    return pairs[kept] // width, pairs[kept] % width, total[kept]


def flow(
    graph: Skeleton,
    capacity: Index | None = None,
    alive: NDArray[np.bool_] | None = None,
) -> int:
    """Maximum flow from all senders to all receivers in bit/s, as `topo.capacity.mu` has it.

    ``capacity`` and ``alive`` say what is left of the edges and nodes after a loss.
    """
    room = graph.capacity if capacity is None else capacity
    ends = graph.senders + graph.receivers
    colour = np.full(graph.nodes, 2, np.int64)
    colour[: graph.senders] = 0
    colour[graph.senders : ends] = 1
    classes = quotient(graph, colour, room, alive)
    if alive is not None:
        room = np.where(alive[graph.tail] & alive[graph.head], room, 0)
    tail, head, total = merged(graph, classes, room)
    width = int(classes.max()) + 1
    sending = np.unique(classes[: graph.senders])
    taking = np.unique(classes[graph.senders : ends])
    out = np.array([total[tail == c].sum() for c in sending], np.int64)
    into = np.array([total[head == c].sum() for c in taking], np.int64)
    rows = np.concatenate([tail, np.full(len(sending), width), taking])
    columns = np.concatenate([head, sending, np.full(len(taking), width + 1)])
    rates = np.concatenate([total, out, into])
    # Whatever one edge holds beyond all that is sent is never used: this keeps to 32 bits.
    rates = np.minimum(rates, out.sum())
    if out.sum() > _INT32_MOST:
        return _wide(rows, columns, rates, width) * graph.unit_bps
    network = csr_array((rates.astype(np.int32), (rows, columns)), shape=(width + 2, width + 2))
    return int(maximum_flow(network, width, width + 1).flow_value) * graph.unit_bps


def _wide(rows: Index, columns: Index, rates: Index, width: int) -> int:
    """The same flow where rates overflow 32 bits: slower, as exact."""
    import networkx as nx

    network: nx.DiGraph[int] = nx.DiGraph()
    for a, b, rate in zip(rows.tolist(), columns.tolist(), rates.tolist(), strict=True):
        network.add_edge(a, b, capacity=rate)
    return int(nx.maximum_flow_value(network, width, width + 1))
