"""Dragonfly+: groups of leaves and spines, with global links between the spines of all groups.

A group is a complete bipartite graph of l leaves with p hosts each and s spines with h global links
each. g <= s h + 1 groups: g (l + s) switches, g l p hosts, g l s local and g s h / 2 global links;
a leaf has p + s ports, a spine l + h; at most 3 hops between leaves (leaf, spine, spine, leaf)
where every spine reaches the group sought, 5 otherwise (Shpiner et al., HiPINEB 2017). Balanced:
p = l = s = h = k / 2. Global ports are ordered as in `topo.family.dragonfly`, and shortest paths
between groups may use a spine of a third.
"""

from topo.error import FabricError
from topo.fabric import Fabric
from topo.family.direct import Edge, built, refused
from topo.family.dragonfly import Wiring, global_links
from topo.family.parameter import Count, Parameters
from topo.family.tally import Tally, refuse_huge


class DragonflyPlus(Parameters, frozen=True, kw_only=True):
    """Parameters of a dragonfly+.

    leaves, spines: of a group; p: hosts a leaf; h: global links a spine; groups: of them, as many
    as the hosts need when None (s h + 1 without ``hosts``). Those that are None are equal, with
    the fewest switches. wiring: the order of global ports.
    """

    leaves: Count | None = None
    spines: Count | None = None
    p: Count | None = None
    h: Count | None = None
    groups: Count | None = None
    wiring: Wiring = "palmtree"


def dragonfly_plus_tally(leaves: int, spines: int, p: int, h: int, groups: int) -> Tally:
    """The closed form, where no global port stays free.

    >>> dragonfly_plus_tally(2, 2, 2, 2, 5)
    Tally(hosts=20, switches=20, switch_cables=30, host_cables=20)
    """
    hosts = groups * leaves * p
    cables = groups * leaves * spines + groups * spines * h // 2
    return Tally(hosts, groups * (leaves + spines), cables, hosts)


def dragonfly_plus(spec: DragonflyPlus) -> Fabric:
    """Build a dragonfly+; hosts spread evenly over all leaves."""
    leaves, spines, p, h, groups = _size(spec)
    refuse_huge("dragonfly_plus", dragonfly_plus_tally(leaves, spines, p, h, groups))
    hosts = spec.total or groups * leaves * p
    below = groups * leaves
    edges: list[Edge] = [
        (group * leaves + i, below + group * spines + j, 1)
        for group in range(groups)
        for i in range(leaves)
        for j in range(spines)
    ]
    pairs: dict[tuple[int, int], int] = {}
    for (one, port), (two, far) in global_links(groups, spines * h, spec.wiring):
        key = (below + one * spines + port // h, below + two * spines + far // h)
        pairs[key] = pairs.get(key, 0) + 1
    edges += [(i, j, links) for (i, j), links in pairs.items()]
    names = [f"group{group}leaf{i}" for group in range(groups) for i in range(leaves)]
    names += [f"group{group}spine{i}" for group in range(groups) for i in range(spines)]
    return built("dragonfly_plus", spec, hosts, names, edges, seats=below)


def _size(spec: DragonflyPlus) -> tuple[int, int, int, int, int]:
    """Leaves and spines a group, hosts a leaf, global links a spine, groups."""
    hosts, radix = spec.total, spec.switch.ports
    free = None in (spec.leaves, spec.spines, spec.p, spec.h)
    if hosts is None and free:
        raise FabricError(
            "dragonfly_plus: neither hosts nor leaves, spines, p and h are given; write hosts: 72"
        )
    best: tuple[int, int, int, int, int] | None = None
    for half in range(1, radix):
        leaves, spines = spec.leaves or half, spec.spines or half
        p, h = spec.p or half, spec.h or half
        if p + spines > radix or leaves + h > radix:
            break
        most = spines * h + 1
        groups = spec.groups or (most if hosts is None else max(2, -(-hosts // (leaves * p))))
        fits = groups <= most and (hosts is None or hosts <= groups * leaves * p)
        if fits and (best is None or (leaves + spines) * groups < (best[0] + best[1]) * best[4]):
            best = leaves, spines, p, h, groups
        if not free:
            break
    if best is not None:
        return best
    names = ("leaves", "spines", "p", "h", "groups")
    raise refused("dragonfly_plus", spec, hosts, {n: getattr(spec, n) for n in names})
