"""The kernel dataplane: a network's nodes as Linux routers and hosts, its ports as kernel queues.

Put over a network that is there, node by node: routes, then what arrives is led over a wire of its
own (`emulate.mininet.qdisc`), then the trees of queues; offloads off, one segment a frame, and all
of it read back. Nothing has to be taken away: it goes with the namespaces.

A switch's shared memory has no like in the kernel, whose queues each have a limit of their own:
what one queue alone may take of the pool by the dynamic threshold with alpha a, a / (1 + a) of it
(Choudhury and Hahne, ToN 1998). Several full queues may so hold more than the switch has.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from emulate.discipline import Discipline
from emulate.mininet import qdisc
from emulate.mininet.control import farthest
from emulate.mininet.error import EmulationError
from emulate.mininet.name import interface_name
from emulate.mininet.namespace import inside
from emulate.mininet.network import INTERFACE_MTU, Network
from emulate.mininet.offload import offloads_off
from emulate.mininet.plan import PortPlan
from emulate.mininet.program import call
from emulate.mininet.router import become_host, become_router
from emulate.mininet.setup import Setup
from topo.fabric import Fabric
from topo.unit import PS_PER_S, show_duration


@dataclass(frozen=True)
class Plane:
    """A network whose kernel forwards. ``trees`` are the queues of each port, the root first."""

    network: Network
    setup: Setup
    dilation: int
    trees: dict[int, list[qdisc.Queue]] = field(default_factory=dict)

    @property
    def signal_priority(self) -> int | None:
        """The class of handshakes: the highest strict one, None when there is none."""
        return max(self.setup.discipline.strict, default=None)


def refuse_discipline(discipline: Discipline) -> None:
    """Raise `EmulationError` for what the kernel's queues cannot be."""
    if discipline.pfc:
        raise EmulationError(
            "pfc true: the kernel's queues send no pause frames; write pfc: false, or use "
            "--dataplane softswitch"
        )
    if discipline.marking != "enqueue":
        raise EmulationError(
            f"marking {discipline.marking}: the kernel's RED marks what is put in; write marking: "
            "enqueue, or use --dataplane softswitch"
        )


FIRST_TIMEOUT_PS: Final = PS_PER_S
"""After so much of the real clock a SYN without an answer is sent again (RFC 6298)."""


def longest_path(setup: Setup) -> list[int]:
    """The ports between two hosts that are farthest apart, in order."""
    return setup.routes.paths(*farthest(setup.fabric, setup.routes), limit=1)[0]


def latency_ps(fabric: Fabric, path: list[int]) -> int:
    """Delays of the cables and pipelines on a path."""
    switches = [fabric.nodes[int(fabric.ports.peer[port])].switch for port in path]
    return int(fabric.ports.delay_ps[path].sum()) + sum(s.latency_ps for s in switches if s)


def refuse_dilation(setup: Setup, dilation: int) -> None:
    """Raise `EmulationError` where a handshake would outlast the kernel's first timeout."""
    there_and_back = 2 * latency_ps(setup.fabric, longest_path(setup))
    if there_and_back * dilation > FIRST_TIMEOUT_PS:
        raise EmulationError(
            f"dilation {dilation:,}: a handshake takes {show_duration(there_and_back * dilation)} "
            "of real time, and the kernel sends it again after 1s; write a dilation of at most "
            f"{FIRST_TIMEOUT_PS // there_and_back:,}"
        )


def queue_limit(fabric: Fabric, node: int, discipline: Discipline) -> int:
    """Bytes that one queue of a switch may hold."""
    switch = fabric.nodes[node].switch
    assert switch is not None
    share = discipline.egress_alpha / (1 + discipline.egress_alpha)
    return int(switch.buffer_bytes * share)


def kernel_plane(
    network: Network,
    setup: Setup,
    *,
    dilation: int,
    tell: Callable[[float, str], None] = lambda _share, _note: None,
) -> Plane:
    """Make the kernel of every node forward as the set-up says, at the dilated rates.

    Raises `EmulationError` where a setting does not read back as it was set.
    """
    refuse_discipline(setup.discipline)
    refuse_dilation(setup, dilation)
    if network.memory:
        raise EmulationError(
            "links memory: the kernel forwards over veth pairs; write --links veth"
        )
    plane = Plane(network, setup, dilation)
    for number, node in enumerate(network.nodes):
        tell(number / len(network.nodes), node.name)
        if node.kind == "switch":
            become_router(network, setup.routes, node.index)
        else:
            become_host(network, node.index)
        _queues(plane, node.index)
    return plane


def _queues(plane: Plane, node: int) -> None:
    """Wires and trees of one node."""
    network, setup = plane.network, plane.setup
    own = [port for port in network.ports if port.node == node]
    wires = {port.port: _wire_names(network, port) for port in own}
    lines, filters, queues = [], [], []
    for port in own:
        near, far = wires[port.port]
        lines += [
            f"link add {near} mtu {INTERFACE_MTU} type veth peer name {far} "
            f"mtu {INTERFACE_MTU} address {port.mac}",
            f"link set {near} up",
            f"link set {far} up",
            *(f"link set dev {name} gso_max_segs 1" for name in (port.interface, near, far)),
        ]
        tree = _tree(plane, port)
        plane.trees[port.port] = tree
        queues += [*tree, _wire(plane, port, near)]
        filters += [
            f"qdisc add dev {port.interface} handle ffff: ingress",
            f"filter add dev {port.interface} parent ffff: protocol all matchall "
            f"action mirred egress redirect dev {near}",
        ]
        if network.nodes[node].kind == "switch":
            filters += qdisc.sorted_by_dscp(port.interface, setup.discipline)
    inner = [name for pair in wires.values() for name in pair]
    with inside(network.namespace(node)):
        call("ip", "-batch", "-", text="\n".join(lines) + "\n")
        offloads_off(inner)
        _refuse_segments([*inner, *(port.interface for port in own)])
        qdisc.apply(queues, filters)
        _refuse_filters(
            [(port.interface, "ffff:", 1) for port in own]
            + [
                (port.interface, "10:", len(qdisc.bands(setup.discipline)))
                for port in own
                if network.nodes[node].kind == "switch"
            ]
        )


def _wire_names(network: Network, port: PortPlan) -> tuple[str, str]:
    prefix, name = network.record.prefix, network.fabric.port_name(port.port)
    return interface_name(prefix, f"{name} near"), interface_name(prefix, f"{name} far")


def _tree(plane: Plane, port: PortPlan) -> list[qdisc.Queue]:
    network, setup = plane.network, plane.setup
    rate, mtu = int(network.fabric.ports.rate_bps[port.port]), setup.transport.mtu
    if network.nodes[port.node].kind == "host":
        return qdisc.host_port(port.interface, rate_bps=rate, dilation=plane.dilation, mtu=mtu)
    return qdisc.switch_port(
        port.interface,
        setup.discipline,
        queue_limit(network.fabric, port.node, setup.discipline),
        rate_bps=rate,
        dilation=plane.dilation,
        mtu=mtu,
    )


def _wire(plane: Plane, port: PortPlan, near: str) -> qdisc.Queue:
    """What comes in at a port: the cable's delay, and of a switch its pipeline's."""
    fabric = plane.network.fabric
    switch = fabric.nodes[port.node].switch
    return qdisc.wire(
        near,
        delay_ps=int(fabric.ports.delay_ps[port.port]) + (switch.latency_ps if switch else 0),
        rate_bps=int(fabric.ports.rate_bps[port.port]),
        dilation=plane.dilation,
    )


def _refuse_segments(interfaces: list[str]) -> None:
    """Raise `EmulationError` where frames may still leave in trains of segments."""
    told = json.loads(call("ip", "-json", "-details", "link", "show"))
    found = {str(link["ifname"]): link.get("gso_max_segs") for link in told}
    for name in interfaces:
        if found.get(name) != 1:
            raise EmulationError(
                f"interface {name}: gso_max_segs was set to 1 and reads back as {found.get(name)}; "
                "use another kernel (docs/vm.md), or --dataplane softswitch"
            )


def _refuse_filters(wanted: list[tuple[str, str, int]]) -> None:
    """Raise `EmulationError` where filters are missing: (interface, parent, how many were set)."""
    asked = [f"filter show dev {interface} parent {parent}" for interface, parent, _ in wanted]
    told = call("tc", "-json", "-batch", "-", text="\n".join(asked) + "\n")
    decoder, at = json.JSONDecoder(), 0
    for interface, parent, count in wanted:
        at += len(told[at:]) - len(told[at:].lstrip())
        rules, at = decoder.raw_decode(told, at)
        options = [rule.get("options", {}) for rule in rules]
        found = sum(1 for option in options if "flowid" in option or "actions" in option)
        if found != count:
            raise EmulationError(
                f"interface {interface}: {count} filter(s) were set under {parent} and {found} "
                "are there; use another kernel (docs/vm.md), or --dataplane softswitch"
            )
