"""Planes: P separate two-tier networks over the same servers.

With k-port switches a plane reaches k^2 / 2 NICs with 3 k / 2 switches and k^2 / 2 cables between
them, and P planes P times as many: 16,384 NICs, 768 switches and 16,384 cables for P = 8, k = 64
(multi-plane fat tree, DeepSeek-V3, ISCA 2025, table 3). Two ways to hang on them:

``own``: NIC i of a server sits on plane i, as DeepSeek-V3 deployed it; a flow between planes
changes over inside a server (see `topo.family.inside`).
``every``: each NIC has one port on every plane, of an equal part of its rate, so that a plane lost
costs 1 / P of every NIC (the ideal that the same paper describes). P planes then carry k^2 / 2
NICs.
"""

from typing import Literal

from topo.error import FabricError
from topo.fabric import Fabric
from topo.family.inside import SCALE_UP_BPS, add_inside
from topo.family.parameter import Count, Parameters, Rate, add_hosts, evenly, join_hosts
from topo.family.rail import servers_of
from topo.family.tally import Tally
from topo.family.upper import Upper, join_above, two_tiers
from topo.unit import rate_text


class MultiPlane(Parameters, frozen=True, kw_only=True):
    """Parameters of a multi-plane fabric.

    planes: with ``own`` the GPUs a server, with ``every`` 4, when None. attach: how NICs hang on
    the planes. leaves: leaves of a plane, the fewest that fit when None. scale_up_bps: a GPU's
    scale-up rate, each way, used with ``own``.
    """

    planes: Count | None = None
    attach: Literal["own", "every"] = "own"
    leaves: Count | None = None
    scale_up_bps: Rate = SCALE_UP_BPS

    @property
    def nic_ports(self) -> int:
        """One on each plane with ``every``, else one."""
        return (self.planes or 4) if self.attach == "every" else 1


def multi_plane_tally(planes: int, k: int) -> Tally:
    """The largest non-blocking multi-plane fabric of k-port switches, a NIC on one plane each.

    >>> multi_plane_tally(8, 64)
    Tally(hosts=16384, switches=768, switch_cables=16384, host_cables=16384)
    """
    ends = planes * k * k // 2
    return Tally(ends, planes * 3 * k // 2, ends, ends)


def multi_plane(spec: MultiPlane) -> Fabric:
    """Build a multi-plane fabric."""
    hosts = spec.total
    if hosts is None:
        raise FabricError("multi_plane: the number of hosts is missing; write hosts: 512")
    return _every(spec, hosts) if spec.attach == "every" else _own(spec, hosts)


def _own(spec: MultiPlane, hosts: int) -> Fabric:
    planes, servers = servers_of(spec, spec.planes, hosts, "multi_plane")
    leaves, upper = _plane(spec, servers, spec.nic_bps)
    fabric = Fabric("multi_plane")
    where: list[list[list[int]]] = [[[] for _ in range(leaves)] for _ in range(planes)]
    server = 0
    for leaf, size in enumerate(evenly(servers, leaves)):
        for own in range(server, server + size):
            for plane in range(planes):
                rack = plane * leaves + leaf
                host = fabric.add_host(f"h{len(fabric.nodes)}", rack=rack, server=own)
                where[plane][leaf].append(host)
        server += size
    seat = add_inside(fabric, spec, list(range(hosts)), spec.scale_up_bps, "multi_plane")
    for plane in range(planes):
        seats = [[seat[host] for host in members] for members in where[plane]]
        _join(fabric, spec, plane, seats, upper, spec.nic_bps, plane * leaves)
    return fabric


def _every(spec: MultiPlane, hosts: int) -> Fabric:
    planes = spec.nic_ports
    port_bps = spec.nic_bps // planes
    if port_bps < 1:
        raise FabricError(
            f"multi_plane: nic {rate_text(spec.nic_bps)} over {planes} planes: write a faster nic"
        )
    leaves, upper = _plane(spec, hosts, port_bps)
    fabric = Fabric("multi_plane")
    racks = add_hosts(fabric, evenly(hosts, leaves), spec.gpus_per_server)
    for plane in range(planes):
        _join(fabric, spec, plane, racks, upper, port_bps, 0)
    return fabric


def _plane(spec: MultiPlane, ends: int, port_bps: int) -> tuple[int, Upper]:
    """Leaves of a plane with that many NIC ports, and what is above them."""
    radix = spec.switch.ports
    fewest = max(1, -(-ends // radix))
    for leaves in range(fewest, radix + 1) if spec.leaves is None else [spec.leaves]:
        if leaves > min(ends, radix):
            break
        each = -(-ends // leaves)
        uplinks = spec.uplinks(each, port_bps) if leaves > 1 else 0
        upper = two_tiers(leaves, uplinks, radix - each, radix)
        if upper is not None and each <= radix:
            return leaves, upper
    asked = "" if spec.leaves is None else f", leaves {spec.leaves}"
    raise FabricError(
        f"multi_plane: {ends} NIC ports a plane{asked} do not fit two tiers of {radix}-port "
        f"switches at oversubscription {spec.allowed:g}; {radix * spec.most_down(port_bps)} would: "
        "write fewer hosts, more planes, more ports a switch or a higher oversubscription"
    )


def _join(
    fabric: Fabric,
    spec: MultiPlane,
    plane: int,
    racks: list[list[int]],
    upper: Upper,
    port_bps: int,
    rack: int,
) -> None:
    """One plane over the seats of its leaves."""
    prefix = f"plane{plane}"
    leaves = [
        fabric.add_switch(f"{prefix}leaf{i}", tier=1, switch=spec.switch, rack=rack + i)
        for i in range(len(racks))
    ]
    for seats, leaf in zip(racks, leaves, strict=True):
        join_hosts(fabric, spec, seats, leaf, port_bps)
    join_above(fabric, spec, leaves, upper, prefix)
