"""What a fabric can carry, before any packet: mu, oversubscription, diameter, mean distance.

mu(P, D) is the maximum flow from a super-source over all prefill NICs to a super-sink over all
decode NICs (Ford and Fulkerson 1956): the most that all hand-offs together can move, on any
routing. Hosts do not forward. For a leaf-spine whose prefill and decode leaves are disjoint it is
min(nP c, Lp u c_u, Ld u c_u, nD c).
"""

import math

import numpy as np

from topo.error import FabricError
from topo.fabric import Fabric, Kind, Role
from topo.route import Routes, equal_cost

_INT32_MOST = 2**31 - 1


def mu(fabric: Fabric) -> int:
    """Maximum flow from the prefill hosts to the decode hosts, in bit/s, exact.

    A host with role ``both`` counts on either side. Errors: no prefill or no decode host.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import maximum_flow

    edges = _flow_edges(fabric)
    source, sink = 2 * len(fabric.nodes), 2 * len(fabric.nodes) + 1
    unit = math.gcd(*edges.values())
    out = sum(rate for (a, _), rate in edges.items() if a == source)
    if max(out, *edges.values()) // unit > _INT32_MOST:
        return _wide_flow(edges, source, sink)
    used = sorted({node for pair in edges for node in pair})
    number = {node: i for i, node in enumerate(used)}
    rows = [number[a] for a, _ in edges]
    columns = [number[b] for _, b in edges]
    rates = np.array([rate // unit for rate in edges.values()], np.int32)
    graph = coo_array((rates, (rows, columns)), shape=(len(used), len(used))).tocsr()
    return int(maximum_flow(graph, number[source], number[sink]).flow_value) * unit


def relative_mu(fabric: Fabric, flow_bps: int | None = None) -> float:
    """mu over what the smaller pool's NICs could move: 1 is a fabric that never limits.

    ``flow_bps`` saves computing mu once more.
    """
    offered = min(_nic_rate(fabric, Role.PREFILL), _nic_rate(fabric, Role.DECODE))
    return (mu(fabric) if flow_bps is None else flow_bps) / offered


def oversubscription(fabric: Fabric) -> float:
    """The largest ratio, over the leaves, of NIC rate to the rate towards other switches.

    NICs and scale-up switches inside servers (tier 0) are below a leaf, as hosts are. A leaf
    without links to other switches counts as infinite, unless nothing is meant to be above it (1):
    it is the only switch, or planes of one leaf each are joined by servers or hosts.

    >>> from topo.family.registry import build
    >>> oversubscription(build("rail_only", {"hosts": 1024, "oversubscription": 2}))
    2.0
    """
    down: dict[int, int] = {}
    up: dict[int, int] = {}
    for link in fabric.links:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            if fabric.nodes[near].kind is Kind.SWITCH and fabric.nodes[near].tier > 0:
                side = up if fabric.nodes[far].tier > 0 else down
                side[near] = side.get(near, 0) + link.rate_bps
    outer = sum(node.tier > 0 for node in fabric.switches)
    if not up and outer == len(down) and (outer < 2 or _joined_below(fabric)):
        return 1.0
    return max(rate / up[leaf] if leaf in up else math.inf for leaf, rate in down.items())


def _joined_below(fabric: Fabric) -> bool:
    """Do servers, or hosts of several cables, join leaves?"""
    ends = [end for link in fabric.links for end in (link.a, link.b)]
    cables = np.bincount(ends, minlength=len(fabric.nodes))
    inside = any(node.tier == 0 for node in fabric.switches)
    return inside or any(cables[host.index] > 1 for host in fabric.hosts)


def diameter(fabric: Fabric, routes: Routes | None = None) -> int:
    """Most links on a shortest path between two hosts that have one; 0 for a single host."""
    lengths = distance_counts(fabric, routes)
    return max((length for length in lengths if length > 0), default=0)


def mean_distance(fabric: Fabric, routes: Routes | None = None) -> float:
    """Mean links on a shortest path, over ordered pairs of different hosts that have one."""
    lengths = distance_counts(fabric, routes)
    pairs = sum(count for length, count in lengths.items() if length > 0)
    return sum(n * count for n, count in lengths.items() if n > 0) / pairs if pairs else 0.0


def distance_counts(fabric: Fabric, routes: Routes | None = None) -> dict[int, int]:
    """Ordered pairs of different hosts by the links between them; -1 counts pairs without a path.

    Counted by destination group, so that the work grows with leaves and not with hosts.
    """
    routes = equal_cost(fabric) if routes is None else routes
    hosts = np.flatnonzero(routes.group >= 0)
    size = np.bincount(routes.group[hosts], minlength=routes.groups)
    counts: dict[int, int] = {}

    def count(length: int, pairs: int) -> None:
        if pairs:
            counts[length] = counts.get(length, 0) + pairs

    _, seats = np.unique(routes.group[hosts], return_index=True)
    inner = routes.reach(hosts[seats].astype(np.int32)).astype(np.int64)
    pairs = np.outer(size, size) - np.diag(size)
    for links in np.unique(inner).tolist():
        count(links + 1 if links >= 0 else -1, int(pairs[inner == links].sum()))
    seen: set[tuple[int, int]] = set()
    for port in routes.host_ports.tolist():
        pair = (int(routes.owner[port]), int(routes.peer[port]))
        if routes.group[pair[0]] >= 0 and pair not in seen:
            seen.add(pair)
            links = int(inner[routes.group[pair[0]], routes.group[pair[1]]])
            count(links + 1 if links >= 0 else -1, -1)
            count(1, 1)
    return {length: pairs for length, pairs in sorted(counts.items()) if pairs}


def _nic_rate(fabric: Fabric, role: Role) -> int:
    hosts = set(fabric.hosts_with(role, Role.BOTH))
    total = 0
    for link in fabric.links:
        total += link.rate_bps * ((link.a in hosts) + (link.b in hosts))
    if not total:
        raise FabricError(
            f"fabric {fabric.name!r}: no {role} host with a link; place the roles first"
        )
    return total


def _flow_edges(fabric: Fabric) -> dict[tuple[int, int], int]:
    """Directed capacities: node 2n sends for node n, 2n + 1 receives; a switch uses 2n for both.

    A host's sending half hangs on the super-source, its receiving half on the super-sink.
    """
    for role in (Role.PREFILL, Role.DECODE):
        _nic_rate(fabric, role)
    senders = set(fabric.hosts_with(Role.PREFILL, Role.BOTH))
    receivers = set(fabric.hosts_with(Role.DECODE, Role.BOTH))
    source, sink = 2 * len(fabric.nodes), 2 * len(fabric.nodes) + 1
    edges: dict[tuple[int, int], int] = {}

    def add(a: int, b: int, rate: int) -> None:
        edges[a, b] = edges.get((a, b), 0) + rate

    for link in fabric.links:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            sends = fabric.nodes[near].kind is Kind.SWITCH or near in senders
            takes = fabric.nodes[far].kind is Kind.SWITCH or far in receivers
            if sends and takes:
                add(2 * near, 2 * far + (far in receivers), link.rate_bps)
            if near in senders:
                add(source, 2 * near, link.rate_bps)
            if near in receivers:
                add(2 * near + 1, sink, link.rate_bps)
    return edges


def _wide_flow(edges: dict[tuple[int, int], int], source: int, sink: int) -> int:
    """The same flow where rates share no large divisor and overflow 32 bits: slower, as exact."""
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    for (a, b), rate in edges.items():
        graph.add_edge(a, b, capacity=rate)
    return int(nx.maximum_flow_value(graph, source, sink))
