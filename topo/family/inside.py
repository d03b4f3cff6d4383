"""The inside of a server: its GPUs' NICs and the scale-up switch that joins them.

Where rails or planes are not joined outside, traffic between them changes over inside a server:
from one GPU's NIC over the scale-up network (NVLink) to another's. Hosts forward nothing, so the
place of the change is told by two kinds of switch of tier 0: a ``nic`` a host, between the host,
its cable and the scale-up switch; and a ``scaleup`` a server. They have no latency of their own,
no cable length and the buffer of the fabric's switches. A host keeps one port of the NIC's rate, so
that traffic which changes over shares the NIC's cable with the host's own, as it does in hardware.
"""

from typing import Final

from topo.error import FabricError
from topo.fabric import Fabric, Switch
from topo.family.parameter import Parameters
from topo.unit import rate_text

SCALE_UP_BPS: Final = 3_600_000_000_000
"""One GPU's scale-up rate, each way: NVLink 4 of the H100, 900 GB/s both ways together (NVIDIA
H100 Tensor Core GPU data sheet)."""

MOST_HOSTS: Final = 8_192
"""Every NIC is a destination of its own here, so that routing tables grow with hosts x hosts."""


def add_inside(
    fabric: Fabric, spec: Parameters, hosts: list[int], scale_up_bps: int, family: str
) -> dict[int, int]:
    """Add the NICs and scale-up switches of hosts that have servers; returns host -> its NIC."""
    if len(hosts) > MOST_HOSTS:
        raise FabricError(
            f"{family}: {len(hosts)} hosts: at most {MOST_HOSTS} are built, as every NIC forwards "
            "and has routes of its own; write fewer hosts"
        )
    if scale_up_bps < spec.nic_bps:
        raise FabricError(
            f"{family}: scale_up {rate_text(scale_up_bps)}: slower than the nic's "
            f"{rate_text(spec.nic_bps)}; write a faster scale_up or a slower nic"
        )
    buffer = spec.switch.buffer_bytes
    servers: dict[int, list[int]] = {}
    for host in hosts:
        servers.setdefault(fabric.nodes[host].server, []).append(host)
    model = Switch(3, scale_up_bps, buffer, 0)
    nics: dict[int, int] = {}
    for host in hosts:
        rack = fabric.nodes[host].rack
        nic = fabric.add_switch(
            f"nic{fabric.nodes[host].name.removeprefix('h')}", tier=0, switch=model, rack=rack
        )
        nics[host] = nic
        fabric.connect(host, nic, rate_bps=spec.nic_bps)
    for server, members in servers.items():
        wide = Switch(max(2, len(members)), scale_up_bps, buffer, 0)
        switch = fabric.add_switch(f"scaleup{server}", tier=0, switch=wide)
        for host in members:
            fabric.connect(nics[host], switch, rate_bps=scale_up_bps)
    return nics
