"""Dual-ToR segments: each NIC has two ports, on two top-of-rack switches of two planes.

A NIC of rate c sends c / 2 to each of its two leaves, which share no spine: leaf a of every pair
lies in plane 0 and leaf b in plane 1, so that a leaf, a cable or a plane lost costs a host half its
rate and never its connection. In a segment of m servers with R rails each rail has one pair:
2 R leaves, R m NICs, 2 R m host cables. Alibaba's HPN has segments of 1,024 GPUs (128 servers, 8
rails, 16 leaves of 128 x 200 Gbit/s down and 60 x 400 Gbit/s up) and up to 15 a pod, 15,360 GPUs
(Qian et al., SIGCOMM 2024). With `breakout: 2` on a switch of 128 ports of 400 Gbit/s a leaf has
those 128 ports down and 120 of 200 Gbit/s up, at oversubscription 128 / 120.
"""

from topo.error import FabricError
from topo.fabric import Fabric
from topo.family.parameter import Count, Parameters, join_hosts
from topo.family.rail import add_rails, servers_of
from topo.family.tally import Tally
from topo.family.upper import Upper, above, join_above


class DualTor(Parameters, frozen=True, kw_only=True):
    """Parameters of dual-ToR segments.

    rails: pairs of leaves a segment, ``gpus_per_server``, else 8, when None. units: segments, the
    fewest whose leaves fit when None.
    """

    rails: Count | None = None
    units: Count | None = None

    @property
    def nic_ports(self) -> int:
        """One on each plane."""
        return 2


def dual_tor_tally(servers: int, rails: int, segments: int, uplinks: int, spines: int) -> Tally:
    """Counts with that many servers a segment, uplinks a leaf and spines in both planes together.

    >>> dual_tor_tally(128, 8, 15, 60, 120).hosts
    15360
    """
    hosts, leaves = servers * rails * segments, 2 * rails * segments
    return Tally(hosts, leaves + spines, leaves * uplinks, 2 * hosts)


def dual_tor(spec: DualTor) -> Fabric:
    """Build dual-ToR segments joined by one Clos a plane."""
    hosts, rails, units, upper = _shape(spec)
    fabric = Fabric("dual_tor")
    segments = add_rails(fabric, hosts, rails, units)
    for plane in range(2):
        leaves: list[int] = []
        for unit, members in enumerate(segments):
            for rail, seats in enumerate(members):
                rack = unit * rails + rail
                name = f"leaf{rack}{'ab'[plane]}"
                leaves.append(fabric.add_switch(name, tier=1, switch=spec.switch, rack=rack))
                join_hosts(fabric, spec, seats, leaves[-1], spec.nic_bps // 2)
        join_above(fabric, spec, leaves, upper, f"plane{plane}")
    return fabric


def _shape(spec: DualTor) -> tuple[int, int, int, Upper]:
    """Hosts, rails, segments, what is above the leaves of a plane."""
    hosts, radix = spec.total, spec.switch.ports
    if hosts is None:
        raise FabricError("dual_tor: the number of hosts is missing; write hosts: 1024")
    port_bps = spec.nic_bps // 2
    if port_bps < 1:
        raise FabricError("dual_tor: nic 1bps cannot be halved; write a faster nic")
    rails, servers = servers_of(spec, spec.rails, hosts, "dual_tor")
    fewest = -(-servers // radix)
    for units in range(fewest, servers + 1) if spec.units is None else [spec.units]:
        leaves = units * rails
        if units > servers or leaves > radix * radix // 2:
            break
        each = -(-servers // units)
        if each > radix:
            continue
        uplinks = spec.uplinks(each, port_bps) if leaves > 1 else 0
        upper = above(leaves, uplinks, radix - each, radix)
        if upper is not None:
            return hosts, rails, units, upper
    asked = "" if spec.units is None else f", units {spec.units}"
    raise FabricError(
        f"dual_tor: {hosts} hosts on {rails} rails{asked} do not fit switches of {radix} ports at "
        f"oversubscription {spec.allowed:g}; write fewer hosts, more ports a switch or a higher "
        "oversubscription"
    )
