"""A fabric as a Mininet network: namespaces, veth links, addresses, neighbours; offloads off.

Every host and switch is a Mininet node in a namespace of its own, every link a veth pair that is
made inside the two namespaces, so that nothing of the run appears among the machine's own
interfaces. Set-up is batched. Hosts reach each other by static neighbours: the fabric looks like
one Ethernet to their kernels, whichever switches are in between. A host with several NICs has one
address, and its kernel's traffic leaves by the first. IPv6 is off, since its solicitations would be
frames that nobody sent. For every host a socket holds the RoCEv2 port, without reading, so that its
kernel does not answer frames of the NIC with "port unreachable".
"""

import ctypes
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from emulate.mininet.clean import clean, remove
from emulate.mininet.error import EmulationError
from emulate.mininet.name import address, interface_name, mac
from emulate.mininet.namespace import inside, set_kernel
from emulate.mininet.offload import offloads_off
from emulate.mininet.plan import NodePlan, PortPlan
from emulate.mininet.program import batch, widen_path
from emulate.mininet.record import FOLDER, Record, open_record, with_interfaces, with_nodes
from emulate.mininet.support import demand_support
from topo.fabric import Fabric, Kind

if TYPE_CHECKING:
    from emulate.mininet.node import FabricNet

MOST_SWITCHES: Final = 40
MOST_HOSTS: Final = 64

INTERFACE_MTU: Final = 9_600
"""Above the largest frame of the transport: 9,216 bytes of payload, and its headers."""

ROCE_PORT: Final = 4791
"""UDP destination port of RoCEv2 (IANA; InfiniBand specification, annex A17)."""

_ATTACH_FILTER: Final = 26

Progress = Callable[[float, str], None]
"""Called with the share that is done, 0 to 1, and what is at work."""


@dataclass(slots=True)
class Network:
    """A network that is there: Mininet's view of it, its record, and what a plan says of it."""

    fabric: Fabric
    record: Record
    net: "FabricNet"
    nodes: list[NodePlan]
    ports: list[PortPlan]
    memory: bool
    closed: list[socket.socket] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """The run's own folder."""
        return self.record.folder

    def namespace(self, node: int) -> str:
        """The file of a node's namespace."""
        return self.nodes[node].namespace


def refuse_size(fabric: Fabric) -> None:
    """Raise `EmulationError` for more than one machine carries."""
    switches, hosts = len(fabric.switches), len(fabric.hosts)
    if switches > MOST_SWITCHES or hosts > MOST_HOSTS:
        raise EmulationError(
            f"fabric {fabric.name!r}: {switches} switches and {hosts} hosts; real frames are for "
            f"at most {MOST_SWITCHES} and {MOST_HOSTS}; write a smaller fabric, or use "
            "emulator packet"
        )


@contextmanager
def network(
    fabric: Fabric,
    *,
    what: str,
    memory: bool = False,
    progress: Progress | None = None,
    base: Path = FOLDER,
) -> Iterator[Network]:
    """The fabric as a network for as long as the body runs; removed however it ends.

    ``what`` is told to those who find its record. ``memory``: links between switches are wires of
    the switch process, without interfaces. Refuses, before anything is created, what is too large
    and a machine that cannot. What killed runs left is removed first.
    """
    refuse_size(fabric)
    demand_support()
    clean(base)
    record = open_record(what, base)
    made: Network | None = None
    try:
        made = _make(fabric, record, memory, progress or (lambda _share, _note: None))
        yield made
    finally:
        if made is not None:
            for held in made.closed:
                held.close()
            _end_shells(made.net)
        remove(record)


def _end_shells(net: "FabricNet") -> None:
    for node in [*net.hosts, *net.switches]:
        node.terminate()


def _make(fabric: Fabric, record: Record, memory: bool, tell: Progress) -> Network:
    names = {
        port: interface_name(record.prefix, fabric.port_name(port))
        for port in range(len(fabric.ports.node))
    }
    if len(set(names.values())) < len(names):
        raise EmulationError(f"run {record.prefix}: two ports hash to one name; try again")
    record = with_interfaces(record, list(names.values()))
    net = _nodes(fabric, record, tell)
    pids = {node.name: int(net[node.name].pid) for node in fabric.nodes}
    record = with_nodes(record, pids)
    nodes = [
        NodePlan(
            node.index,
            node.name,
            "host" if node.kind is Kind.HOST else "switch",
            pids[node.name],
            address(node.index) if node.kind is Kind.HOST else "",
        )
        for node in fabric.nodes
    ]
    wires = {
        link.index
        for link in fabric.links
        if memory and all(fabric.nodes[end].kind is Kind.SWITCH for end in (link.a, link.b))
    }
    ports = [
        PortPlan(
            port,
            int(fabric.ports.node[port]),
            names[port],
            _mac(fabric, port),
            int(fabric.ports.link[port]) in wires,
        )
        for port in range(len(names))
    ]
    made = Network(fabric, record, net, nodes, ports, memory)
    try:
        tell(0.5, "links")
        _links(made)
        for number, node in enumerate(nodes):
            tell(0.6 + 0.4 * number / len(nodes), node.name)
            _configure(made, node)
    except BaseException:
        for held in made.closed:
            held.close()
        _end_shells(net)
        raise
    tell(1.0, "ready")
    return made


def _mac(fabric: Fabric, port: int) -> str:
    """Of a host, one address for all of its NICs; of a switch, one a port."""
    node = int(fabric.ports.node[port])
    host = fabric.nodes[node].kind is Kind.HOST
    return mac(int(fabric.ports.first[node]) if host else port)


def _nodes(fabric: Fabric, record: Record, tell: Progress) -> "FabricNet":
    widen_path()
    from mininet.log import setLogLevel

    from emulate.mininet.node import FabricHost, FabricNet, FabricSwitch

    setLogLevel("error")
    net = FabricNet(topo=None, build=False, controller=None)
    try:
        for node in fabric.nodes:
            tell(0.5 * node.index / len(fabric.nodes), node.name)
            if node.kind is Kind.HOST:
                net.addHost(node.name, cls=FabricHost, prefix=record.prefix)
            else:
                number = f"{node.index + 1:016x}"
                net.addSwitch(node.name, cls=FabricSwitch, dpid=number, prefix=record.prefix)
    except BaseException:
        _end_shells(net)
        raise
    return net


def _links(made: Network) -> None:
    from emulate.mininet.node import FabricIntf, FabricLink

    lines = []
    for link in made.fabric.links:
        first = made.fabric.ports.first
        a = made.ports[int(first[link.a]) + link.a_port]
        b = made.ports[int(first[link.b]) + link.b_port]
        if a.memory:
            continue
        ends = [
            f"{end.interface} mtu {INTERFACE_MTU} address {end.mac} "
            f"netns {made.nodes[end.node].pid}"
            for end in (a, b)
        ]
        lines.append(f"link add {ends[0]} type veth peer name {ends[1]}")
        FabricLink(
            made.net[made.nodes[a.node].name],
            made.net[made.nodes[b.node].name],
            port1=link.a_port,
            port2=link.b_port,
            intfName1=a.interface,
            intfName2=b.interface,
            addr1=a.mac,
            addr2=b.mac,
            intf=FabricIntf,
        )
    batch(lines)


def _configure(made: Network, node: NodePlan) -> None:
    """Everything inside one namespace."""
    fabric, own = made.fabric, [p for p in made.ports if p.node == node.index and not p.memory]
    with inside(node.namespace):
        for name in ("all", "default"):
            set_kernel(f"net/ipv6/conf/{name}/disable_ipv6", "1")
        set_kernel("net/ipv4/ip_forward", "0")
        offloads_off(port.interface for port in own)
        if node.kind == "host":
            made.closed.append(_held_port())
    lines = ["link set lo up"]
    lines += [f"link set {p.interface} up alias {fabric.port_name(p.port)}" for p in own]
    if node.kind == "host" and own:
        first = own[0].interface
        lines.append(f"addr add {node.ip}/8 dev {first}")
        lines += [
            f"neigh add {other.ip} lladdr {_mac(fabric, int(fabric.ports.first[other.index]))} "
            f"dev {first} nud permanent"
            for other in made.nodes
            if other.kind == "host" and other.index != node.index
        ]
        made.net[node.name].intfs[own[0].port - int(fabric.ports.first[node.index])].ip = node.ip
    batch(lines, inside_of=node.pid)


def _held_port() -> socket.socket:
    """A socket on the RoCEv2 port whose filter takes nothing: frames end there without an answer.

    The filter is one instruction of classic BPF, "return 0" (Linux, socket(7), SO_ATTACH_FILTER).
    """
    held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    code = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0), 8)
    program = struct.pack("HxxxxxxP", 1, ctypes.addressof(code))
    held.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)
    held.bind(("", ROCE_PORT))
    return held
