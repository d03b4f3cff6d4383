"""Dragonfly: groups of routers, complete inside, with global links between all groups.

a routers a group with p hosts and h global links each, g <= a h + 1 groups: a g routers, a p g
hosts, g C(a, 2) local and g a h / 2 global links, p + a - 1 + h ports a router, at most 3 hops
between routers (local, global, local). Balanced: a = 2 p = 2 h (Kim, Dally, Scott, Abts, ISCA
2008). p = 16, a = 32, h = 16, g = 511 gives 261,632 hosts on 16,352 routers with 384,272 cables
(DeepSeek-V3, ISCA 2025, table 3).

A group numbers its global ports 0 .. a h - 1, router by router, and gives them to the other groups
in order: ``absolute``, by the other group's number; ``palmtree``, by how many groups it is ahead
(Camarero, Vallejo, Beivide, ACM TACO 2014). With fewer groups than a h + 1 every pair of groups
gets floor(a h / (g - 1)) links; what remains goes to the nearest groups on a ring (and one port a
group stays free where a h and g are both odd).
"""

from typing import Literal

from topo.error import FabricError
from topo.fabric import Fabric
from topo.family.direct import Edge, built, refused
from topo.family.parameter import Count, Parameters
from topo.family.tally import Tally, refuse_huge

Wiring = Literal["palmtree", "absolute"]


class Dragonfly(Parameters, frozen=True, kw_only=True):
    """Parameters of a dragonfly.

    a: routers a group; p: hosts a router; h: global links a router; groups: of them, as many as
    the hosts need when None (a h + 1 without ``hosts``). a, p and h are balanced, with the fewest
    routers, when None. wiring: the order of global ports.
    """

    a: Count | None = None
    p: Count | None = None
    h: Count | None = None
    groups: Count | None = None
    wiring: Wiring = "palmtree"


def dragonfly_tally(p: int, a: int, h: int, groups: int) -> Tally:
    """The closed form, where a h is a multiple of groups - 1 or even.

    >>> dragonfly_tally(2, 4, 2, 9)
    Tally(hosts=72, switches=36, switch_cables=90, host_cables=72)
    """
    routers, hosts = a * groups, a * p * groups
    return Tally(hosts, routers, groups * (a * (a - 1) // 2) + routers * h // 2, hosts)


def dragonfly(spec: Dragonfly) -> Fabric:
    """Build a dragonfly; hosts spread evenly over all routers."""
    p, a, h, groups = _size(spec)
    refuse_huge("dragonfly", dragonfly_tally(p, a, h, groups))
    hosts = spec.total or a * p * groups
    edges: list[Edge] = [
        (group * a + i, group * a + j, 1)
        for group in range(groups)
        for i in range(a)
        for j in range(i + 1, a)
    ]
    pairs: dict[tuple[int, int], int] = {}
    for (one, port), (two, far) in global_links(groups, a * h, spec.wiring):
        key = (one * a + port // h, two * a + far // h)
        pairs[key] = pairs.get(key, 0) + 1
    edges += [(i, j, links) for (i, j), links in pairs.items()]
    names = [f"group{group}router{i}" for group in range(groups) for i in range(a)]
    return built("dragonfly", spec, hosts, names, edges)


def global_links(
    groups: int, ports: int, wiring: Wiring
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Links between groups with ``ports`` global ports each: (group, port) to (group, port).

    >>> global_links(3, 2, "palmtree")
    [((0, 0), (1, 1)), ((0, 1), (2, 0)), ((1, 0), (2, 1))]
    """
    seats: dict[tuple[int, int, int], int] = {}
    for group in range(groups):
        for number, (other, copy) in enumerate(_order(group, groups, ports, wiring)):
            seats[group, other, copy] = number
    return [
        ((group, number), (other, seats[other, group, copy]))
        for (group, other, copy), number in seats.items()
        if group < other
    ]


def _order(group: int, groups: int, ports: int, wiring: Wiring) -> list[tuple[int, int]]:
    """The other groups in the order of one group's global ports, each with a copy number."""
    if groups < 2:
        return []
    whole, rest = divmod(ports, groups - 1)
    ahead = list(range(1, groups))
    order = [(step, copy) for copy in range(whole) for step in ahead]
    near = {s for step in range(1, rest // 2 + 1) for s in (step, groups - step)}
    if rest % 2 and groups % 2 == 0:
        near.add(groups // 2)
    order += [(step, whole) for step in ahead if step in near]
    found = [((group + step) % groups, copy) for step, copy in order]
    if wiring == "absolute":
        found.sort(key=lambda seat: (seat[1], seat[0]))
    return found


def _size(spec: Dragonfly) -> tuple[int, int, int, int]:
    """p, a, h, groups."""
    hosts, radix = spec.total, spec.switch.ports
    if hosts is None and None in (spec.a, spec.p, spec.h):
        raise FabricError("dragonfly: neither hosts nor a, p and h are given; write hosts: 72")
    best: tuple[int, int, int, int] | None = None
    for half in range(1, radix):
        h, p = spec.h or spec.p or half, spec.p or spec.h or half
        a = spec.a or 2 * half
        most = a * h + 1
        if p + a - 1 + h > radix:
            break
        groups = spec.groups or (most if hosts is None else max(2, -(-hosts // (a * p))))
        if groups <= most and (hosts is None or hosts <= a * p * groups):
            if best is None or a * groups < best[1] * best[3]:
                best = p, a, h, groups
            if hosts is None:
                break
        if None not in (spec.a, spec.p, spec.h):
            break
    if best is not None:
        return best
    asked: dict[str, object] = {n: getattr(spec, n) for n in ("a", "p", "h", "groups")}
    raise refused("dragonfly", spec, hosts, asked)
