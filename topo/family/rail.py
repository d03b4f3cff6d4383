"""Rails: GPU i of every server hangs on a leaf of rail i.

R rails and scalable units of m servers give R leaves a unit with m hosts each (m + u <= k), so that
GPUs of one rail and unit are one leaf apart. *Rail-optimised* joins all leaves by one Clos: R m U
hosts and R U leaves for U units; the NVIDIA DGX SuperPOD reference architecture (B200) has 8 rails
and units of 32 servers: 512 GPUs on 16 leaves and 8 spines, 1,024 on 32 and 16, 2,048 on 64 and 32.
*Rail-only* joins the leaves of one rail at a time: R independent Clos networks of N / R hosts; a
flow between rails changes rail inside a server, over its scale-up switch (Wang et al., "Rail-only",
arXiv:2307.12169).
"""

from topo.error import FabricError
from topo.fabric import Fabric
from topo.family.inside import SCALE_UP_BPS, add_inside
from topo.family.parameter import Count, Parameters, Rate, evenly
from topo.family.upper import Upper, above, join_above


class RailOptimised(Parameters, frozen=True, kw_only=True):
    """Parameters of a rail-optimised Clos.

    rails: ``gpus_per_server``, else 8, when None; a server has one GPU a rail. units: scalable
    units, the fewest whose leaves fit when None.
    """

    rails: Count | None = None
    units: Count | None = None


class RailOnly(RailOptimised, frozen=True, kw_only=True):
    """Parameters of a rail-only fabric. scale_up_bps: a GPU's scale-up rate, each way."""

    scale_up_bps: Rate = SCALE_UP_BPS


def rail_optimised(spec: RailOptimised) -> Fabric:
    """Build a rail-optimised Clos."""
    hosts, rails, units, upper = shape(spec, "rail_optimised", joined=True)
    fabric = Fabric("rail_optimised")
    leaves = add_rails(fabric, hosts, rails, units)
    seat = {host: host for host in range(hosts)}
    switches = _cable(fabric, spec, leaves, seat, rails)
    join_above(fabric, spec, [s for unit in switches for s in unit], upper)
    return fabric


def rail_only(spec: RailOnly) -> Fabric:
    """Build a rail-only fabric with its scale-up switches."""
    hosts, rails, units, upper = shape(spec, "rail_only", joined=False)
    fabric = Fabric("rail_only")
    leaves = add_rails(fabric, hosts, rails, units)
    seat = add_inside(fabric, spec, list(range(hosts)), spec.scale_up_bps, "rail_only")
    switches = _cable(fabric, spec, leaves, seat, rails)
    for rail in range(rails):
        join_above(fabric, spec, [unit[rail] for unit in switches], upper, f"rail{rail}")
    return fabric


def servers_of(spec: Parameters, rails: int | None, hosts: int, family: str) -> tuple[int, int]:
    """GPUs a server, one a rail, and servers; hosts that are not whole servers are refused.

    Rails are as given, else as many as GPUs a server, else 8 (or all hosts, when fewer).
    """
    if rails is not None and spec.gpus_per_server not in (None, rails):
        raise FabricError(
            f"{family}: rails {rails}, yet {spec.gpus_per_server} GPUs a server: each has a rail "
            f"of its own; write rails: {spec.gpus_per_server}, or leave it out"
        )
    each = rails or spec.gpus_per_server or min(8, hosts)
    if hosts % each:
        raise FabricError(
            f"{family}: {hosts} hosts are not whole servers of {each} GPUs; write hosts: "
            f"{each * -(-hosts // each)} (those without a role are idle)"
        )
    return each, hosts // each


def shape(spec: RailOptimised, family: str, *, joined: bool) -> tuple[int, int, int, Upper]:
    """Hosts, rails, units, and what is above: all leaves when ``joined``, else those of a rail."""
    hosts, radix = spec.total, spec.switch.ports
    if hosts is None:
        raise FabricError(f"{family}: the number of hosts is missing; write hosts: 512")
    rails, servers = servers_of(spec, spec.rails, hosts, family)
    fewest = -(-servers // max(1, spec.most_down()))
    for units in range(fewest, servers + 1) if spec.units is None else [spec.units]:
        each = -(-servers // units)
        leaves = units * rails if joined else units
        if units > servers or leaves > radix * radix // 2:
            break
        if each >= radix and leaves > 1:
            continue
        uplinks = spec.uplinks(each) if leaves > 1 else 0
        upper = above(leaves, uplinks, radix - each, radix) if each <= radix else None
        if upper is not None:
            return hosts, rails, units, upper
    asked = "" if spec.units is None else f", units {spec.units}"
    raise FabricError(
        f"{family}: {hosts} hosts on {rails} rails{asked} do not fit switches of {radix} ports at "
        f"oversubscription {spec.allowed:g}; write fewer hosts, more ports a switch, a higher "
        "oversubscription, or leave units out"
    )


def add_rails(fabric: Fabric, hosts: int, rails: int, units: int) -> list[list[list[int]]]:
    """Add the hosts server by server; returns them unit by unit, rail by rail.

    The rack of a host is the number of its leaf.
    """
    servers = evenly(hosts // rails, units)
    found: list[list[list[int]]] = []
    server = 0
    for unit, size in enumerate(servers):
        members: list[list[int]] = [[] for _ in range(rails)]
        for own in range(server, server + size):
            for rail in range(rails):
                host = fabric.add_host(
                    f"h{len(fabric.nodes)}", rack=unit * rails + rail, server=own
                )
                members[rail].append(host)
        found.append(members)
        server += size
    return found


def _cable(
    fabric: Fabric,
    spec: Parameters,
    leaves: list[list[list[int]]],
    seat: dict[int, int],
    rails: int,
) -> list[list[int]]:
    """Add a leaf a unit and rail and cable the hosts' seats to it."""
    switches: list[list[int]] = []
    for unit, members in enumerate(leaves):
        row: list[int] = []
        for rail, hosts in enumerate(members):
            number = unit * rails + rail
            leaf = fabric.add_switch(f"leaf{number}", tier=1, switch=spec.switch, rack=number)
            for host in hosts:
                fabric.connect(seat[host], leaf, rate_bps=spec.nic_bps, length_m=spec.host_metres)
            row.append(leaf)
        switches.append(row)
    return switches
