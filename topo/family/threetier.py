"""Three-tier leaf-spine: pods of leaves and spines, joined by cores.

With N hosts, k-port switches, d = k / 2 hosts and as many uplinks a leaf, and whole pods of k / 2
leaves: N / d leaves, as many spines, N / k cores, 2 N cables between switches, N / 2 links of
bisection; N up to k^3 / 4. The NVIDIA DGX SuperPOD reference architecture grows by this rule. The
oversubscription applies at the leaf: r lets a leaf take more hosts over fewer uplinks; above the
leaf nothing is oversubscribed. Unlike `fat_tree` it uses the whole radix of the switch, and so has
the fewest switches.
"""

from topo.error import FabricError
from topo.fabric import Fabric
from topo.family.parameter import Count, Parameters, add_hosts, evenly, join_hosts
from topo.family.upper import Upper, join_above, three_tiers


class ThreeTier(Parameters, frozen=True, kw_only=True):
    """Parameters of a three-tier leaf-spine.

    leaves: leaves in all, the fewest that fit, at least 2, when None. pods: the fewest that fit,
    at least 2, when None.
    """

    leaves: Count | None = None
    pods: Count | None = None


def three_tier(spec: ThreeTier) -> Fabric:
    """Build a three-tier leaf-spine."""
    hosts, leaves, upper = _shape(spec)
    fabric = Fabric("three_tier")
    racks = add_hosts(fabric, evenly(hosts, leaves), spec.gpus_per_server)
    lower = [
        fabric.add_switch(f"leaf{i}", tier=1, switch=spec.switch, rack=i) for i in range(leaves)
    ]
    for rack, leaf in zip(racks, lower, strict=True):
        join_hosts(fabric, spec, rack, leaf)
    join_above(fabric, spec, lower, upper)
    return fabric


def _shape(spec: ThreeTier) -> tuple[int, int, Upper]:
    """Hosts, leaves, what is above them."""
    hosts, radix = spec.total, spec.switch.ports
    if hosts is None:
        raise FabricError("three_tier: the number of hosts is missing; write hosts: 4096")
    if spec.pods == 1:
        raise FabricError("three_tier: pods 1: cores join at least 2 pods; write family leaf_spine")
    least, most = max(2, spec.pods or 2), min(hosts, radix * radix // 2)
    down = max(1, spec.most_down())
    fewest = max(least, -(-hosts // down))
    for leaves in range(fewest, most + 1) if spec.leaves is None else [spec.leaves]:
        if not least <= leaves <= hosts:
            break
        each = -(-hosts // leaves)
        upper = three_tiers(leaves, spec.uplinks(each), radix - each, radix, spec.pods)
        if upper is not None:
            return hosts, leaves, upper
        if leaves > 2 * fewest:
            break
    asked = spec.asked("leaves", "pods")
    raise FabricError(
        f"three_tier: {hosts} hosts{asked} do not fit switches of {radix} ports at "
        f"oversubscription {spec.allowed:g}; about {radix * radix // 2 * spec.most_down()} would "
        "with all left to choose: write fewer hosts, more ports or a higher oversubscription"
    )
