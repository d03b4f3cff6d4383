"""Linux routers: a fabric's routes in its nodes' own tables, with all equal-cost next hops.

Every switch forwards IPv4 by one route a host, with all next hops of the fabric's routes; the
kernel picks one by a hash of addresses and ports (`net.ipv4.fib_multipath_hash_policy` 1, Linux,
ip-sysctl.rst), with a seed of its own that changes with every boot. Next hops are link-local
addresses with static neighbours, one a port of the fabric, and exist nowhere else. Hosts lead
everything to their switches. Whatever is set is read back.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Final

from emulate.mininet.error import EmulationError
from emulate.mininet.namespace import inside
from emulate.mininet.network import Network
from emulate.mininet.plan import PortPlan
from emulate.mininet.program import call
from topo.route import Routes

SWITCH: Final = {
    "net/ipv4/ip_forward": "1",
    "net/ipv4/fib_multipath_hash_policy": "1",
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/default/rp_filter": "0",
    "net/ipv4/conf/all/send_redirects": "0",
}
"""Kernel settings of a router."""

HOST: Final = {
    "net/ipv4/ip_forward": "0",
    "net/ipv4/fib_multipath_hash_policy": "1",
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/default/rp_filter": "0",
    "net/ipv4/tcp_ecn": "2",
    "net/ipv4/tcp_no_metrics_save": "1",
    "net/ipv4/tcp_rmem": "4096\t131072\t33554432",
    "net/ipv4/tcp_wmem": "4096\t65536\t33554432",
}
"""Of a host: earlier connections teach nothing, and windows may outgrow any buffer. ECN is granted
to who asks: DCTCP does, by itself, cubic and bbr do not."""


def settle(name: str, value: str) -> None:
    """Set a /proc/sys value of the namespace of this thread, read it back, refuse a difference."""
    file = Path("/proc/sys") / name
    try:
        file.write_text(value)
        found = file.read_text().strip()
    except OSError as error:
        raise EmulationError(
            f"sysctl {name.replace('/', '.')}: {error.strerror}; this kernel has no such setting, "
            "run in the VM (docs/vm.md), or use --dataplane softswitch"
        ) from None
    if found != value:
        raise EmulationError(
            f"sysctl {name.replace('/', '.')} was set to {value!r} and reads back as {found!r}; "
            "use another kernel (docs/vm.md), or --dataplane softswitch"
        )


def gateway(port: int) -> str:
    """The link-local address that stands for a port of the fabric, below 65,024.

    >>> gateway(0), gateway(300)
    ('169.254.1.0', '169.254.2.44')
    """
    return f"169.254.{(port >> 8) + 1}.{port & 255}"


def next_hops(network: Network, routes: Routes, node: int) -> dict[str, list[PortPlan]]:
    """The own ports of a node by destination address, of all hosts that it can reach."""
    found = {}
    for host in network.fabric.hosts:
        ports = routes.next_hops(node, host.index)
        if host.index != node and len(ports):
            found[network.nodes[host.index].ip] = [network.ports[int(p)] for p in ports]
    return found


def become_router(network: Network, routes: Routes, node: int) -> None:
    """Make a switch's namespace forward by the fabric's routes."""
    settings = dict(SWITCH)
    for port in _own(network, node):
        settings[f"net/ipv4/conf/{port.interface}/rp_filter"] = "0"
        settings[f"net/ipv4/conf/{port.interface}/send_redirects"] = "0"
    hops = next_hops(network, routes, node)
    lines = _neighbours(network, node)
    lines += [f"route add {ip}/32 {_via(network, ports)}" for ip, ports in hops.items()]
    _carry_out(network, node, settings, lines, hops)


def become_host(network: Network, node: int) -> None:
    """Lead a host's traffic to its switches, over all of its NICs."""
    own = _own(network, node)
    settings = HOST | {f"net/ipv4/conf/{port.interface}/rp_filter": "0" for port in own}
    ip = network.nodes[node].ip
    lines = [f"addr flush dev {own[0].interface}", f"addr add {ip}/32 dev {own[0].interface}"]
    lines += _neighbours(network, node)
    lines.append(f"route add default {_via(network, own)} src {ip}")
    _carry_out(network, node, settings, lines, {"default": own})


def _own(network: Network, node: int) -> list[PortPlan]:
    return [port for port in network.ports if port.node == node]


def _far(network: Network, port: PortPlan) -> PortPlan:
    return network.ports[int(network.fabric.ports.reverse[port.port])]


def _neighbours(network: Network, node: int) -> list[str]:
    return [
        f"neigh add {gateway(far.port)} lladdr {far.mac} dev {port.interface} nud permanent"
        for port in _own(network, node)
        for far in [_far(network, port)]
    ]


def _via(network: Network, ports: list[PortPlan]) -> str:
    hops = [f"via {gateway(_far(network, p).port)} dev {p.interface}" for p in ports]
    if len(hops) == 1:
        return f"{hops[0]} onlink"
    return " ".join(f"nexthop {hop} onlink" for hop in hops)


def _carry_out(
    network: Network,
    node: int,
    settings: dict[str, str],
    lines: list[str],
    wanted: dict[str, list[PortPlan]],
) -> None:
    with inside(network.namespace(node)):
        for name, value in settings.items():
            settle(name, value)
        call("ip", "-batch", "-", text="\n".join(lines) + "\n")
        told = json.loads(call("ip", "-json", "route", "show") or "[]")
    found: dict[str, set[str]] = defaultdict(set)
    for route in told:
        for hop in route.get("nexthops", [route]):
            found[str(route["dst"])].add(str(hop["dev"]))
    for target, ports in wanted.items():
        meant = {port.interface for port in ports}
        if found[target] != meant:
            raise EmulationError(
                f"{network.nodes[node].name}: route to {target} was set over {len(meant)} next "
                f"hop(s) and reads back with {len(found[target])}; this kernel lacks multipath "
                "routes, run in the VM (docs/vm.md), or use --dataplane softswitch"
            )
