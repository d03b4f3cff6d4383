"""Full mesh: every switch linked to every other, hosts spread evenly.

n switches with p hosts each and t parallel links (a trunk) a pair use p + (n - 1) t ports a
switch and n (n - 1) t / 2 cables. Any two switches are one hop apart, but shortest paths use only
the trunk between them: a pair of switches exchanges at most t links' worth, however idle the rest.
"""

from topo.error import FabricError
from topo.fabric import Fabric
from topo.family.parameter import (
    Count,
    Parameters,
    add_hosts,
    evenly,
    join_hosts,
    join_switches,
)
from topo.family.tally import Tally, refuse_huge


class FullMesh(Parameters, frozen=True, kw_only=True):
    """Parameters of a full mesh.

    leaves: number of switches, the fewest that keep the oversubscription when None. trunk:
    parallel links a pair, the fewest that keep it when None. oversubscription: 1 when None and
    leaves or trunk are left to choose.
    """

    leaves: Count | None = None
    trunk: Count | None = None


def full_mesh(spec: FullMesh) -> Fabric:
    """Build a full mesh of ``spec.leaves`` switches."""
    leaves, trunk, hosts = _size(spec)
    cables = leaves * (leaves - 1) // 2
    refuse_huge("full_mesh", Tally(hosts, leaves, cables, hosts), trunk)
    fabric = Fabric("full_mesh")
    racks = add_hosts(fabric, evenly(hosts, leaves), spec.gpus_per_server)
    switches = [
        fabric.add_switch(f"leaf{i}", tier=1, switch=spec.switch, rack=i) for i in range(leaves)
    ]
    for rack, leaf in zip(racks, switches, strict=True):
        join_hosts(fabric, spec, rack, leaf)
    for i, a in enumerate(switches):
        for b in switches[i + 1 :]:
            join_switches(fabric, spec, a, b, trunk)
    return fabric


def _size(spec: FullMesh) -> tuple[int, int, int]:
    """Switches, links a pair, hosts."""
    hosts = spec.total
    if hosts is None:
        raise FabricError("full_mesh: the number of hosts is missing; write hosts: 64")
    radix = spec.switch.ports
    choices = range(2, radix + 1) if spec.leaves is None else [spec.leaves]
    if spec.leaves == 1:
        raise FabricError("full_mesh: leaves 1: a mesh needs at least 2 switches")
    if hosts < choices[0]:
        raise FabricError(
            f"full_mesh: {hosts} hosts on {choices[0]} switches leave a switch without hosts; "
            "write fewer leaves or more hosts"
        )
    nearest = float("inf")
    for leaves in choices:
        each = -(-hosts // leaves)
        room = (radix - each) // (leaves - 1) if each < radix else 0
        if leaves > hosts or room < (spec.trunk or 1):
            continue
        trunk = spec.trunk or min(room, -(-spec.uplinks(each) // (leaves - 1)))
        ratio = spec.ratio(each, trunk * (leaves - 1))
        free = spec.oversubscription is None and spec.leaves is not None
        if ratio <= spec.allowed or free:
            return leaves, trunk, hosts
        nearest = min(nearest, ratio)
    if nearest == float("inf"):
        most = max(n * (radix - (n - 1) * (spec.trunk or 1)) for n in choices)
        raise FabricError(
            f"full_mesh: {hosts} hosts do not fit switches of {radix} ports; at most "
            f"{max(most, 0)} would: write fewer hosts, more ports a switch, or a fat_tree"
        )
    raise FabricError(
        f"full_mesh: {hosts} hosts on switches of {radix} ports cannot keep oversubscription "
        f"{spec.allowed:g}; the nearest is {nearest:.3g}: write oversubscription: "
        f"{_above(nearest)} or more ports a switch"
    )


def _above(ratio: float) -> str:
    """The ratio rounded up to two digits after the point, as a scenario writes it."""
    return f"{-(-ratio * 100 // 1) / 100:g}"
