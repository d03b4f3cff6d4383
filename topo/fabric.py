"""The fabric: hosts, switches and links with rates, delays and port numbers.

A networkx multigraph behind a typed face. A *host* is one GPU with its NIC: the place where flows
begin and end; hosts of one server share its ``server`` number, hosts behind one leaf its ``rack``.
A *port* is one direction of a link and is named by its index in `Ports`: the engines, the routes
and the telemetry all speak of ports by that number. A node's ports are contiguous, in the order
in which its links were connected.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from topo.error import FabricError
from topo.unit import duration_text, propagation_ps, rate_text

if TYPE_CHECKING:
    import networkx as nx


_NEAR: Final = 4
"""Neighbours that are named in a refusal, at most; of the highest tier first."""


class Kind(StrEnum):
    """What a node is."""

    HOST = "host"
    SWITCH = "switch"


class Role(StrEnum):
    """What a host serves."""

    NONE = "none"
    PREFILL = "prefill"
    DECODE = "decode"
    BOTH = "both"
    STORAGE = "storage"


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch model: port count, line rate in bit/s, shared buffer in bytes, pipeline delay."""

    ports: int = 64
    rate_bps: int = 400_000_000_000
    buffer_bytes: int = 64 * 2**20
    latency_ps: int = 600_000

    def __post_init__(self) -> None:
        if self.latency_ps < 0:
            raise FabricError(
                f"switch latency {duration_text(self.latency_ps)}: must not be negative; write 0ns "
                "or more"
            )


@dataclass(frozen=True, slots=True)
class Node:
    """A host (tier 0) or a switch (tier 1 leaf, 2 spine, 3 core); ``rack`` is -1 when none.

    A switch of tier 0 lies inside a server: a NIC that forwards, or a scale-up switch.
    """

    index: int
    name: str
    kind: Kind
    tier: int
    rack: int = -1
    server: int = -1
    role: Role = Role.NONE
    switch: Switch | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """One full-duplex cable. ``a_port`` and ``b_port`` count from 0 at each node."""

    index: int
    a: int
    b: int
    a_port: int
    b_port: int
    rate_bps: int
    delay_ps: int
    length_m: float


@dataclass(frozen=True)
class Ports:
    """Directed links as arrays of equal length, one row a port.

    ``first`` has one entry a node and one more: node n owns ports first[n] .. first[n + 1] - 1.
    ``reverse[p]`` is the port at the other end, so that node[reverse[p]] is p's peer.
    """

    first: NDArray[np.int32]
    node: NDArray[np.int32]
    reverse: NDArray[np.int32]
    link: NDArray[np.int32]
    rate_bps: NDArray[np.int64]
    delay_ps: NDArray[np.int64]

    @cached_property
    def peer(self) -> NDArray[np.int32]:
        """The node at the far end of each port."""
        return self.node[self.reverse]


class Fabric:
    """A fabric under construction and in use: add hosts and switches, connect them, then read it.

    Invariants, each refused with a `FabricError`: node names are unique; a link joins two different
    existing nodes; rates are positive and delays are not negative; a switch never has more ports
    than its model; `check` adds that every host has a link and that the fabric is in one piece
    (or, where a family allows islands, that every host reaches another).
    """

    def __init__(self, family: str, *, name: str = "") -> None:
        self.family = family
        self.name = name or family
        self.nodes: list[Node] = []
        self.links: list[Link] = []
        self._by_name: dict[str, int] = {}
        self._degree: list[int] = []
        self._ports: Ports | None = None

    # -- construction -------------------------------------------------------------------------

    def add_host(
        self, name: str, *, rack: int = -1, server: int = -1, role: Role = Role.NONE
    ) -> int:
        """Add a host and return its node index."""
        node = Node(len(self.nodes), name, Kind.HOST, 0, rack=rack, server=server, role=role)
        return self._add(node)

    def add_switch(self, name: str, *, tier: int, switch: Switch, rack: int = -1) -> int:
        """Add a switch of the given model and tier (1 = leaf) and return its node index."""
        return self._add(Node(len(self.nodes), name, Kind.SWITCH, tier, rack=rack, switch=switch))

    def _add(self, node: Node) -> int:
        if node.name in self._by_name:
            raise FabricError(f"node {node.name!r}: the name is taken; names must differ")
        self.nodes.append(node)
        self._by_name[node.name] = node.index
        self._degree.append(0)
        self._ports = None
        return node.index

    def connect(
        self, a: int, b: int, *, rate_bps: int, length_m: float = 0.0, delay_ps: int | None = None
    ) -> int:
        """Join two nodes with one cable and return the link's index.

        The delay is that of ``length_m`` unless ``delay_ps`` is given.
        """
        if a == b:
            raise FabricError(f"node {self.nodes[a].name!r}: a link needs two different nodes")
        if rate_bps <= 0:
            raise FabricError(f"link rate {rate_text(rate_bps)}: must be above 0; write 400Gbps")
        delay = propagation_ps(length_m) if delay_ps is None else delay_ps
        if delay < 0 or length_m < 0:
            raise FabricError(
                f"link delay {duration_text(delay)}, length {length_m:g}m: must not be negative; "
                "write 0 or more"
            )
        for end in (a, b):
            model = self.nodes[end].switch
            if model is not None and self._degree[end] >= model.ports:
                raise FabricError(
                    f"switch {self.nodes[end].name!r}: all {model.ports} ports are in use; "
                    "give the switch more ports or the fabric fewer hosts"
                )
        link = Link(
            len(self.links), a, b, self._degree[a], self._degree[b], rate_bps, delay, length_m
        )
        self._degree[a] += 1
        self._degree[b] += 1
        self.links.append(link)
        self._ports = None
        return link.index

    def with_roles(self, roles: dict[int, Role]) -> "Fabric":
        """The same fabric with the given host roles (node index -> role); others keep theirs."""
        other = Fabric(self.family, name=self.name)
        other.nodes = [replace(n, role=roles.get(n.index, n.role)) for n in self.nodes]
        other.links = list(self.links)
        other._by_name = dict(self._by_name)
        other._degree = list(self._degree)
        return other

    def without(self, links: Collection[int]) -> "Fabric":
        """The fabric with these links (by index) taken out: all nodes stay, and the links and ports
        that are left are numbered anew, in the same order.

        >>> from topo.family.registry import build
        >>> whole = build("leaf_spine", {"hosts": 4, "leaves": 2, "spines": 2})
        >>> cut = whole.without({link.index for link in whole.links if link.b == link.a + 2})
        >>> len(cut.nodes) == len(whole.nodes), len(whole.links) - len(cut.links) > 0
        (True, True)
        """
        other = Fabric(self.family, name=self.name)
        for node in self.nodes:
            other._add(node)
        for link in self.links:
            if link.index not in links:
                other.connect(
                    link.a,
                    link.b,
                    rate_bps=link.rate_bps,
                    length_m=link.length_m,
                    delay_ps=link.delay_ps,
                )
        return other

    # -- reading --------------------------------------------------------------------------------

    @property
    def hosts(self) -> list[Node]:
        """All hosts in index order."""
        return [n for n in self.nodes if n.kind is Kind.HOST]

    @property
    def switches(self) -> list[Node]:
        """All switches in index order."""
        return [n for n in self.nodes if n.kind is Kind.SWITCH]

    def hosts_with(self, *roles: Role) -> list[int]:
        """Node indices of the hosts that have one of the roles, in index order."""
        return [n.index for n in self.nodes if n.kind is Kind.HOST and n.role in roles]

    def node(self, name: str) -> Node:
        """The node of that name; refused where there is none, with names of what there is."""
        if name not in self._by_name:
            near = {(node.kind, node.tier): node.name for node in reversed(self.nodes)}
            told = ", ".join(reversed(near.values()))
            raise FabricError(f"node {name!r}: not in fabric {self.name!r}; it has {told}, ...")
        return self.nodes[self._by_name[name]]

    def cables(self, one: str, other: str) -> list[Link]:
        """The links between two nodes; refused where there are none, with what the first has."""
        a, b = self.node(one).index, self.node(other).index
        mine = [link for link in self.links if a in (link.a, link.b)]
        found = [link for link in mine if b in (link.a, link.b)]
        if not found or a == b:
            far = [self.nodes[link.b if link.a == a else link.a] for link in mine]
            far.sort(key=lambda node: (-node.tier, node.index))
            names = list(dict.fromkeys(node.name for node in far))
            told = ", ".join(names[:_NEAR]) + (", ..." if len(names) > _NEAR else "")
            raise FabricError(
                f"link {one!r} to {other!r}: no cable of fabric {self.name!r}; those of {one!r} "
                f"lead to {told or 'nothing'}"
            )
        return found

    @property
    def ports(self) -> Ports:
        """The directed view of all links (built once, after construction)."""
        if self._ports is None:
            self._ports = _ports(len(self.nodes), self._degree, self.links)
        return self._ports

    def port_name(self, port: int) -> str:
        """``leaf0:3>spine1:0``: the port's node and number, and where it leads.

        The direction of travel is left to right.
        """
        table = self.ports
        far = int(table.reverse[port])
        near_node, far_node = int(table.node[port]), int(table.node[far])
        near_no, far_no = port - int(table.first[near_node]), far - int(table.first[far_node])
        near, there = self.nodes[near_node].name, self.nodes[far_node].name
        return f"{near}:{near_no}>{there}:{far_no}"

    @property
    def graph(self) -> "nx.MultiGraph[int]":
        """A networkx multigraph: nodes by index, edges keyed by link index, fields as data."""
        import networkx as nx

        graph: nx.MultiGraph[int] = nx.MultiGraph(name=self.name, family=self.family)
        for n in self.nodes:
            graph.add_node(
                n.index, name=n.name, kind=n.kind.value, tier=n.tier, rack=n.rack, role=n.role.value
            )
        for link in self.links:
            graph.add_edge(
                link.a, link.b, key=link.index, rate_bps=link.rate_bps, delay_ps=link.delay_ps
            )
        return graph


def _ports(nodes: int, degree: list[int], links: list[Link]) -> Ports:
    first = np.zeros(nodes + 1, np.int32)
    np.cumsum(np.asarray(degree, np.int32), out=first[1:])
    count = int(first[-1])
    node = np.repeat(np.arange(nodes, dtype=np.int32), np.asarray(degree, np.int32))
    reverse = np.empty(count, np.int32)
    of_link = np.empty(count, np.int32)
    rate = np.empty(count, np.int64)
    delay = np.empty(count, np.int64)
    for link in links:
        p, q = int(first[link.a]) + link.a_port, int(first[link.b]) + link.b_port
        reverse[p], reverse[q] = q, p
        of_link[p] = of_link[q] = link.index
        rate[p] = rate[q] = link.rate_bps
        delay[p] = delay[q] = link.delay_ps
    return Ports(first, node, reverse, of_link, rate, delay)
