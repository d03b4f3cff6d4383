"""Hosts cabled to hosts, with no switch at all.

*Host mesh*: every host to every other, N (N - 1) / 2 cables, N - 1 NIC ports a host, one link
between any two. *Bipartite direct*: every prefill host to every decode host by t cables, N M t
cables, M t ports on a prefill NIC and N t on a decode NIC; a circulant of ``degree`` d links each
prefill host to d decode hosts instead. Hosts do not forward: a pair has its own cables and no
others. A NIC's rate is shared evenly by its ports (those of the fuller NIC decide for a cable), so
that a host sends no more than anywhere else: complete, P to D carries min(n_P c_P, n_D c_D).
"""

from typing import Final

from topo.error import FabricError
from topo.fabric import Fabric, Role
from topo.family.bipartite import circulant, sides
from topo.family.direct import wanted
from topo.family.parameter import Count, Parameters, Rate, add_hosts
from topo.family.tally import Tally
from topo.unit import rate_text

MOST_PORTS: Final = 128
"""NIC ports a host; beyond, nobody would cable it."""


class HostMesh(Parameters, frozen=True, kw_only=True):
    """Parameters of a full mesh of hosts; ``hosts`` are required."""


class BipartiteDirect(Parameters, frozen=True, kw_only=True):
    """Parameters of prefill hosts cabled to decode hosts; both numbers are required.

    degree: decode hosts that a prefill host is cabled to, all when None. trunk: cables a pair, 1
    when None. decode_nic_bps: NIC rate of the decode side, ``nic_bps`` when None.
    """

    degree: Count | None = None
    trunk: Count | None = None
    decode_nic_bps: Rate | None = None


def host_mesh_tally(hosts: int) -> Tally:
    """The closed form; a cable between hosts is a host cable.

    >>> host_mesh_tally(8)
    Tally(hosts=8, switches=0, switch_cables=0, host_cables=28)
    """
    return Tally(hosts, 0, 0, hosts * (hosts - 1) // 2)


def host_mesh(spec: HostMesh) -> Fabric:
    """Build a full mesh of hosts."""
    hosts = wanted("host_mesh", spec)
    _afford("host_mesh", hosts - 1)
    fabric = Fabric("host_mesh")
    (members,) = add_hosts(fabric, [hosts], spec.gpus_per_server)
    rate = _port_rate("host_mesh", spec.nic_bps, hosts - 1)
    for i, a in enumerate(members):
        for b in members[i + 1 :]:
            fabric.connect(a, b, rate_bps=rate, length_m=spec.host_metres)
    return fabric


def bipartite_direct(spec: BipartiteDirect) -> Fabric:
    """Build prefill hosts cabled to decode hosts, roles pinned."""
    family = "bipartite_direct"
    prefill, decode = sides(spec, family)
    degree, trunk = spec.degree or decode, spec.trunk or 1
    if degree > decode or degree * prefill < decode:
        raise FabricError(
            f"{family}: degree {degree}: {prefill} prefill hosts reach {decode} decode hosts with "
            f"a degree from {-(-decode // prefill)} to {decode}; write one of those"
        )
    _afford(family, max(degree, -(-prefill * degree // decode)) * trunk)
    pairs = circulant(prefill, decode, degree)
    ports = [0] * (prefill + decode)
    for i, j in pairs:
        ports[i] += trunk
        ports[prefill + j] += trunk
    far_bps = spec.nic_bps if spec.decode_nic_bps is None else spec.decode_nic_bps
    fabric = Fabric(family)
    near, far = add_hosts(fabric, [prefill, decode], spec.gpus_per_server)
    for i, j in pairs:
        rate = min(
            _port_rate(family, spec.nic_bps, ports[i]),
            _port_rate(family, far_bps, ports[prefill + j]),
        )
        for _ in range(trunk):
            fabric.connect(near[i], far[j], rate_bps=rate, length_m=spec.host_metres)
    roles = dict.fromkeys(near, Role.PREFILL) | dict.fromkeys(far, Role.DECODE)
    return fabric.with_roles(roles)


def _afford(family: str, ports: int) -> None:
    if not 1 <= ports <= MOST_PORTS:
        raise FabricError(
            f"{family}: {ports} ports a NIC: must be 1 to {MOST_PORTS}, with no switch to share "
            "them; write fewer hosts, a lower degree, or a family with switches"
        )


def _port_rate(family: str, nic_bps: int, ports: int) -> int:
    if nic_bps < ports:
        raise FabricError(
            f"{family}: nic {rate_text(nic_bps)} over {ports} ports: write a faster nic"
        )
    return nic_bps // ports
