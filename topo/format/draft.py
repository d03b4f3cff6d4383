"""A fabric as a file tells it, piece by piece, until everything is known that a `Fabric` needs.

Readers declare nodes and cables in the order of the file; that order becomes the order of nodes,
links and ports. What a file leaves out is settled at the end, in one way for all formats:

- a node of no kind is a host when it has one cable, else a switch;
- a switch of no tier is one tier above the nearest host (tier 1 holds hosts);
- without any rack in the file, each tier-1 switch and the hosts cabled to it first make a rack;
- a cable of no length is as long as `Assumed` says, 0 m without; one of no delay has that of its
  length; one of no rate needs an `Assumed`, and is refused without;
- a switch of no model is the one of `Assumed`, and without one has at least 64 ports, the rate of
  its fastest cable, and the buffer and latency of `Switch`.
"""

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from topo.error import FabricError
from topo.fabric import Fabric, Kind, Role, Switch
from topo.format.text import MOST_LINKS, MOST_NODES, FormatError, located, shown, unusable

Where = int | str
"""A place in a file: a line, or the path of a value where lines mean nothing."""


@dataclass(frozen=True, slots=True)
class Assumed:
    """What to take where a file is silent: NIC rate in bit/s, the switch model, cable metres.

    Cables between switches have the switch model's rate.
    """

    nic_bps: int = 400_000_000_000
    switch: Switch = field(default_factory=Switch)
    cable_m: float = 0.0


@dataclass(slots=True)
class _Node:
    name: str
    where: Where
    kind: Kind | None
    tier: int | None
    rack: int | None
    server: int
    role: Role
    switch: Switch | None


@dataclass(slots=True)
class _Cable:
    a: int
    b: int
    where: Where
    rate_bps: int | None
    delay_ps: int | None
    length_m: float | None


class Draft:
    """Nodes and cables as they are read. ``place`` in any error is the file and the line."""

    def __init__(
        self, path: Path, *, family: str = "file", name: str = "", assume: Assumed | None = None
    ) -> None:
        self.path = path
        self.family = family
        self.name = name
        self._assume = assume
        self._nodes: list[_Node] = []
        self._cables: list[_Cable] = []
        self._by_name: dict[str, int] = {}
        self._declared: set[int] = set()
        self._ports: dict[tuple[int, str], Where] = {}

    def error(self, where: Where | None, message: str) -> FormatError:
        """A refusal with its place."""
        return located(self.path, where, message)

    def expect(self, where: Where | None, *, nodes: int = 0, links: int = 0) -> None:
        """Refuse a file that declares more than is ever read, before anything is built of it."""
        for what, count, most in (("nodes", nodes, MOST_NODES), ("links", links, MOST_LINKS)):
            if count > most:
                raise self.error(where, f"{count} {what}: more than the {most} that are read")

    def title(self, where: Where | None, *, family: str, name: str) -> None:
        """Name the fabric and its family."""
        for what, text in (("family", family), ("fabric name", name)):
            if (why := unusable(text)) is not None:
                raise self.error(where, f"{what} {shown(text)} {why}; write a printable name")
        self.family, self.name = family, name

    def node(
        self,
        name: str,
        where: Where,
        *,
        kind: Kind | None = None,
        tier: int | None = None,
        rack: int | None = None,
        server: int = -1,
        role: Role = Role.NONE,
        switch: Switch | None = None,
    ) -> None:
        """Declare a node; a name may be declared once."""
        index = self._named(name, where)
        if index in self._declared:
            first = self._nodes[index].where
            raise self.error(
                where,
                f"node {shown(name)} is declared twice, first {_at(first)}; names must differ",
            )
        self._declared.add(index)
        self._nodes[index] = _Node(name, where, kind, tier, rack, server, role, switch)

    def knows(self, name: str) -> bool:
        """Whether a node of that name was declared or cabled before."""
        return name in self._by_name

    def cable(
        self,
        a: tuple[str, str],
        b: tuple[str, str],
        where: Where,
        *,
        rate_bps: int | None = None,
        delay_ps: int | None = None,
        length_m: float | None = None,
    ) -> None:
        """Add a cable between two (node, port); nodes need not be declared, ports are used once."""
        ends: list[int] = []
        if a[0] == b[0]:
            raise self.error(
                where, f"a cable from {shown(a[0])} to itself: write two different nodes"
            )
        for name, port in (a, b):
            index = self._named(name, where)
            if (why := unusable(port)) is not None:
                raise self.error(where, f"port {shown(port)} of {shown(name)} {why}; name the port")
            if (index, port) in self._ports:
                raise self.error(
                    where,
                    f"port {shown(port)} of {shown(name)} already has a cable, "
                    f"{_at(self._ports[index, port])}; a port takes one",
                )
            self._ports[index, port] = where
            ends.append(index)
        self._cables.append(_Cable(ends[0], ends[1], where, rate_bps, delay_ps, length_m))
        self.expect(where, links=len(self._cables))

    def fabric(self) -> Fabric:
        """The fabric, with what the file left out settled. It need not be in one piece."""
        if not self._nodes:
            raise self.error(None, "holds no nodes; a fabric needs hosts, switches and cables")
        self._settle_kinds()
        self._settle_tiers()
        self._settle_racks()
        self._settle_rates()
        made = Fabric(self.family, name=self.name or self.path.name)
        for node, model in zip(self._nodes, self._models(), strict=True):
            rack = -1 if node.rack is None else node.rack
            if model is None:
                made.add_host(node.name, rack=rack, server=node.server, role=node.role)
            else:
                made.add_switch(
                    node.name, tier=1 if node.tier is None else node.tier, switch=model, rack=rack
                )
        spare = self._assume.cable_m if self._assume else 0.0
        for cable in self._cables:
            try:
                made.connect(
                    cable.a,
                    cable.b,
                    rate_bps=cable.rate_bps or 0,
                    length_m=spare if cable.length_m is None else cable.length_m,
                    delay_ps=cable.delay_ps,
                )
            except FabricError as error:
                raise self.error(cable.where, str(error)) from None
        return made

    def _named(self, name: str, where: Where) -> int:
        index = self._by_name.get(name)
        if index is None:
            if (why := unusable(name)) is not None:
                raise self.error(where, f"node name {shown(name)} {why}; rename the node")
            index = self._by_name[name] = len(self._nodes)
            self._nodes.append(_Node(name, where, None, None, None, -1, Role.NONE, None))
            self.expect(where, nodes=len(self._nodes))
        return index

    def _settle_kinds(self) -> None:
        cables = [0] * len(self._nodes)
        for cable in self._cables:
            cables[cable.a] += 1
            cables[cable.b] += 1
        for node, count in zip(self._nodes, cables, strict=True):
            if node.kind is None:
                node.kind = Kind.HOST if count < 2 else Kind.SWITCH
            is_host = node.kind is Kind.HOST
            if is_host and (node.switch is not None or node.tier):
                raise self.error(
                    node.where, f"host {shown(node.name)} with a switch's tier or model: drop them"
                )
            if not is_host and (node.role is not Role.NONE or node.server != -1):
                raise self.error(
                    node.where, f"switch {shown(node.name)} with a host's role or server: drop them"
                )

    def _settle_tiers(self) -> None:
        if all(n.tier is not None for n in self._nodes if n.kind is Kind.SWITCH):
            return
        peers: list[list[int]] = [[] for _ in self._nodes]
        for cable in self._cables:
            peers[cable.a].append(cable.b)
            peers[cable.b].append(cable.a)
        height = {i: 0 for i, n in enumerate(self._nodes) if n.kind is Kind.HOST}
        todo = deque(height)
        while todo:
            here = todo.popleft()
            for peer in peers[here]:
                if peer not in height:
                    height[peer] = height[here] + 1
                    todo.append(peer)
        for i, node in enumerate(self._nodes):
            if node.kind is Kind.SWITCH and node.tier is None:
                node.tier = height.get(i, 1)

    def _settle_racks(self) -> None:
        if any(node.rack is not None for node in self._nodes):
            return
        leaves = [i for i, n in enumerate(self._nodes) if n.kind is Kind.SWITCH and n.tier == 1]
        for rack, leaf in enumerate(leaves):
            self._nodes[leaf].rack = rack
        for cable in self._cables:
            for near, far in ((cable.a, cable.b), (cable.b, cable.a)):
                host = self._nodes[near]
                if host.kind is Kind.HOST and host.rack is None:
                    host.rack = self._nodes[far].rack

    def _settle_rates(self) -> None:
        for cable in self._cables:
            if cable.rate_bps is not None:
                continue
            if self._assume is None:
                a, b = self._nodes[cable.a].name, self._nodes[cable.b].name
                raise self.error(
                    cable.where,
                    f"the cable from {shown(a)} to {shown(b)} has no rate; write one there, or "
                    "give the rates to assume (--nic, --switch-rate)",
                )
            ends = {self._nodes[cable.a].kind, self._nodes[cable.b].kind}
            assumed = self._assume
            cable.rate_bps = assumed.nic_bps if Kind.HOST in ends else assumed.switch.rate_bps

    def _models(self) -> list[Switch | None]:
        fastest = [0] * len(self._nodes)
        degree = [0] * len(self._nodes)
        for cable in self._cables:
            for end in (cable.a, cable.b):
                fastest[end] = max(fastest[end], cable.rate_bps or 0)
                degree[end] += 1
        models: list[Switch | None] = []
        for i, node in enumerate(self._nodes):
            if node.kind is Kind.HOST:
                models.append(None)
            elif node.switch is not None or self._assume is not None:
                models.append(node.switch or (self._assume.switch if self._assume else None))
            else:
                plain = Switch()
                models.append(
                    Switch(
                        max(plain.ports, degree[i]),
                        fastest[i] or plain.rate_bps,
                        plain.buffer_bytes,
                        plain.latency_ps,
                    )
                )
        return models


def _at(where: Where) -> str:
    return f"in line {where}" if isinstance(where, int) else f"at {where}"
