"""Bipartite over middle switches: prefill leaves and decode leaves meet on the same spines.

N prefill leaves with u_P uplinks and M decode leaves with u_D, each spread evenly over B middle
switches: N u_P + M u_D cables, every pair of leaves B trunks apart, 4 links host to host. It is a
leaf-spine with the roles pinned to leaves, so that the sides may have different NIC rates and
numbers of uplinks: P to D carries min(n_P c_P, N u_P c, M u_D c, n_D c_D) (`topo.capacity.mu`).
"""

from topo.error import FabricError
from topo.fabric import Fabric
from topo.family.bipartite import decode_rate, pinned, sides
from topo.family.parameter import Count, Parameters, Rate, add_hosts, evenly, join_hosts
from topo.family.parameter import join_switches as join


class BipartiteMiddle(Parameters, frozen=True, kw_only=True):
    """Parameters of a bipartite fabric over middle switches.

    leaves: leaves on each side, the fewest that fit when None. spines: middle switches, the fewest
    that fit when None. decode_nic_bps: NIC rate of the decode side, ``nic_bps`` when None.
    """

    leaves: Count | None = None
    spines: Count | None = None
    decode_nic_bps: Rate | None = None


def bipartite_middle(spec: BipartiteMiddle) -> Fabric:
    """Build a bipartite fabric over middle switches, roles pinned to its two sides."""
    prefill, decode = sides(spec, "bipartite_middle")
    rate = decode_rate(spec, spec.decode_nic_bps, "bipartite_middle")
    near, far, spines, trunks = _shape(spec, prefill, decode, rate)
    fabric = Fabric("bipartite_middle")
    counts = [*evenly(prefill, near), *evenly(decode, far)]
    racks = add_hosts(fabric, counts, spec.gpus_per_server)
    names = [f"pleaf{i}" for i in range(near)] + [f"dleaf{i}" for i in range(far)]
    leaves = [
        fabric.add_switch(name, tier=1, switch=spec.switch, rack=rack)
        for rack, name in enumerate(names)
    ]
    middle = [fabric.add_switch(f"middle{i}", tier=2, switch=spec.switch) for i in range(spines)]
    for number, (rack, leaf) in enumerate(zip(racks, leaves, strict=True)):
        join_hosts(fabric, spec, rack, leaf, spec.nic_bps if number < near else rate)
        for switch in middle:
            join(fabric, spec, leaf, switch, trunks[number >= near])
    return fabric.with_roles(pinned(racks, near))


def _shape(
    spec: BipartiteMiddle, prefill: int, decode: int, rate: int
) -> tuple[int, int, int, tuple[int, int]]:
    """Leaves of either side, middle switches, links to each from a leaf of either side."""
    radix = spec.switch.ports
    if spec.leaves is not None and spec.leaves > min(prefill, decode):
        raise FabricError(
            f"bipartite_middle: leaves {spec.leaves} a side: more than the "
            f"{min(prefill, decode)} hosts of the smaller side; write leaves: "
            f"{min(prefill, decode)} or fewer"
        )
    fewest = -(-prefill // max(1, spec.most_down())), -(-decode // max(1, spec.most_down(rate)))
    for more in range(radix) if spec.leaves is None else [0]:
        near = spec.leaves or min(prefill, fewest[0] + more)
        far = spec.leaves or min(decode, fewest[1] + more)
        here, there = -(-prefill // near), -(-decode // far)
        up = spec.uplinks(here), spec.uplinks(there, rate)
        room = radix - here, radix - there
        least = 1 if max(up) == 1 else 2
        for spines in range(least, radix) if spec.spines is None else [spec.spines]:
            trunks = -(-up[0] // spines), -(-up[1] // spines)
            fits = spines * trunks[0] <= room[0] and spines * trunks[1] <= room[1]
            if fits and near * trunks[0] + far * trunks[1] <= radix:
                return near, far, spines, trunks
    asked = spec.asked("leaves", "spines")
    raise FabricError(
        f"bipartite_middle: {prefill} prefill and {decode} decode hosts{asked} do not fit switches "
        f"of {radix} ports at oversubscription {spec.allowed:g}; write fewer hosts, more ports a "
        "switch or a higher oversubscription"
    )
