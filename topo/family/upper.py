"""The switches above the leaves of a folded Clos: one tier of spines, or pods of spines and cores.

Over L leaves with u uplinks each, one tier of S spines takes t = ceil(u / S) links a pair, and
needs L t ports a spine. Where the spines run out of ports, or three tiers are asked for, leaves are
gathered in pods with S spines each; spine i of every pod reaches core group i with as many links
as it has towards its leaves, so that nothing is lost above the leaf. With N hosts, k ports and
whole pods this gives N / (k / 2) leaves, as many spines, N / k cores and 2 N cables (the rule by
which the NVIDIA DGX SuperPOD reference architecture grows).
"""

from dataclasses import dataclass

from topo.fabric import Fabric
from topo.family.parameter import Parameters, evenly, join_switches


@dataclass(frozen=True, slots=True)
class Upper:
    """Leaves of each pod, spines a pod, links a leaf-spine pair, cores a spine number, and links.

    ``cores`` is 0 with two tiers; ``core_trunk`` is the links between a spine and each of its
    cores, by pod.
    """

    pods: tuple[int, ...]
    spines: int
    trunk: int
    cores: int = 0
    core_trunk: int = 0


def two_tiers(leaves: int, uplinks: int, room: int, radix: int) -> Upper | None:
    """The fewest spines, at least 2 where a leaf has 2 uplinks; None when the ports do not do.

    ``uplinks`` is the fewest a leaf needs, ``room`` the most it has ports for.
    """
    if leaves < 2:
        return Upper((leaves,), 0, 0) if leaves else None
    for spines in range(1 if uplinks == 1 or room < 2 else 2, room + 1):
        trunk = -(-uplinks // spines)
        if spines * trunk <= room and leaves * trunk <= radix:
            return Upper((leaves,), spines, trunk)
    return None


def three_tiers(
    leaves: int, uplinks: int, room: int, radix: int, pods: int | None = None
) -> Upper | None:
    """The fewest pods, at least 2, then the fewest spines; None when the ports do not do."""
    for count in range(2, leaves + 1) if pods is None else [pods]:
        if count > leaves:
            return None
        sizes = evenly(leaves, count)
        for spines in range(1 if uplinks == 1 or room < 2 else 2, room + 1):
            trunk = -(-uplinks // spines)
            up = sizes[0] * trunk
            if spines * trunk > room or up > radix // 2:
                continue
            for cores in range(1, up + 1):
                core_trunk = -(-up // cores)
                if count * core_trunk <= radix and up + cores * core_trunk <= radix:
                    return Upper(tuple(sizes), spines, trunk, cores, core_trunk)
    return None


def above(leaves: int, uplinks: int, room: int, radix: int) -> Upper | None:
    """Two tiers where they do, else three, else None."""
    return two_tiers(leaves, uplinks, room, radix) or three_tiers(leaves, uplinks, room, radix)


def join_above(
    fabric: Fabric, spec: Parameters, leaves: list[int], upper: Upper, prefix: str = ""
) -> None:
    """Add the spines and cores and cable them, pod by pod; names start with ``prefix``."""
    tier = max((fabric.nodes[leaf].tier for leaf in leaves), default=1)
    lower: list[list[int]] = []
    for pod in range(len(upper.pods)):
        first = pod * upper.spines
        lower.append(
            [
                fabric.add_switch(f"{prefix}spine{first + i}", tier=tier + 1, switch=spec.switch)
                for i in range(upper.spines)
            ]
        )
    begin = 0
    for size, spines in zip(upper.pods, lower, strict=True):
        for leaf in leaves[begin : begin + size]:
            for spine in spines:
                join_switches(fabric, spec, leaf, spine, upper.trunk)
        begin += size
    cores = [
        fabric.add_switch(f"{prefix}core{i}", tier=tier + 2, switch=spec.switch)
        for i in range(upper.cores * upper.spines)
    ]
    for spines in lower:
        for number, spine in enumerate(spines):
            for core in cores[number * upper.cores : (number + 1) * upper.cores]:
                join_switches(fabric, spec, spine, core, upper.core_trunk)
