"""Where the nodes of a picture stand: rows for tiers, a ring for switches of one tier.

On a ring the switches of one group (told by the first part of their names, as ``group3`` of
``group3router1``) stand together with a gap to the next. A fabric of two sides has its decode
leaves on top. A host stands under the middle of its leaves; what lies inside a server stands
between the hosts and the leaves.
"""

import math
import re
from collections import Counter

from topo.fabric import Fabric, Kind, Node

Place = tuple[float, float]


def layout(fabric: Fabric, *, hosts: bool = True) -> dict[int, Place]:
    """Where each node stands; hosts are optional, and those without a link have no place."""
    switches = fabric.switches
    if not switches:
        return dict(zip((n.index for n in fabric.nodes), _circle(len(fabric.nodes)), strict=True))
    seats = seats_of(fabric)
    if is_ring(fabric):
        return _ring(switches, {h: near[0] for h, near in seats.items()} if hosts else {})
    return _rows(fabric, seats, hosts=hosts)


def is_ring(fabric: Fabric) -> bool:
    """Is the fabric drawn as a ring: more than two switches, all of one tier and one side?"""
    switches = fabric.switches
    sided = any(on_top(node) for node in switches)
    return len({n.tier for n in switches}) == 1 and len(switches) > 2 and not sided


def on_top(node: Node) -> bool:
    """Is it a decode leaf of a fabric of two sides?"""
    return node.kind is Kind.SWITCH and node.name.startswith("dleaf")


def group_of(node: Node) -> str:
    """The first part of a name that ends in a number and is followed by more, else nothing."""
    found = re.match(r"([a-z]+\d+)[a-z]", node.name)
    return found[1] if found else ""


def seats_of(fabric: Fabric) -> dict[int, list[int]]:
    """The switches of each host that has any, in link order, each once."""
    seats: dict[int, dict[int, None]] = {}
    for link in fabric.links:
        for host, far in ((link.a, link.b), (link.b, link.a)):
            if fabric.nodes[host].kind is Kind.HOST and fabric.nodes[far].kind is Kind.SWITCH:
                seats.setdefault(host, {})[far] = None
    return {host: list(near) for host, near in sorted(seats.items())}


def _circle(count: int) -> list[Place]:
    angles = [math.pi / 2 - 2 * math.pi * i / count for i in range(count)]
    return [(math.cos(angle), math.sin(angle)) for angle in angles]


def _ring(switches: list[Node], leaf: dict[int, int]) -> dict[int, Place]:
    groups = Counter(group_of(node) for node in switches)
    gaps = len(groups) if 1 < len(groups) < len(switches) else 0
    step = 2 * math.pi / (len(switches) + gaps)
    place: dict[int, Place] = {}
    angle, before = math.pi / 2, group_of(switches[0])
    under: dict[int, list[int]] = {}
    for host, near in leaf.items():
        under.setdefault(near, []).append(host)
    for node in switches:
        if gaps and group_of(node) != before:
            angle -= step
            before = group_of(node)
        place[node.index] = (0.62 * math.cos(angle), 0.62 * math.sin(angle))
        members = under.get(node.index, [])
        for j, host in enumerate(members):
            turn = angle - ((j + 0.5) / len(members) - 0.5) * 0.8 * step
            place[host] = (math.cos(turn), math.sin(turn))
        angle -= step
    return place


def _rows(fabric: Fabric, seats: dict[int, list[int]], *, hosts: bool) -> dict[int, Place]:
    outer = [node for node in fabric.switches if node.tier > 0]
    top = max((node.tier for node in outer), default=1) + 1
    several = any(len(near) > 1 for near in seats.values())
    rows: dict[int, list[Node]] = {}
    for node in outer:
        rows.setdefault(top if on_top(node) else node.tier, []).append(node)
    place: dict[int, Place] = {}
    for row, members in rows.items():
        if several and row == 1:
            members.sort(key=lambda node: (node.rack, node.index))
        for i, node in enumerate(members):
            place[node.index] = ((i + 0.5) / len(members), float(row))
    inner = any(node.tier == 0 for node in fabric.switches)
    if not hosts:
        return place
    if inner:
        _inside(fabric, seats, place)
        return place
    width = {n.index: 1 / len(members) for members in rows.values() for n in members}
    under: dict[tuple[int, ...], list[int]] = {}
    for host, near in seats.items():
        under.setdefault(tuple(near), []).append(host)
    for leaves, members_of in under.items():
        x = sum(place[leaf][0] for leaf in leaves) / len(leaves)
        y = place[leaves[0]][1] + (1 if place[leaves[0]][1] == top else -1)
        span = 0.86 * width[leaves[0]] * len(leaves)
        for i, host in enumerate(members_of):
            place[host] = (x + ((i + 0.5) / len(members_of) - 0.5) * span, y)
    return place


def _inside(fabric: Fabric, seats: dict[int, list[int]], place: dict[int, Place]) -> None:
    """Hosts in a row, the NIC of each above it, a server's scale-up switch below its hosts."""
    servers: dict[int, list[int]] = {}
    for i, (host, near) in enumerate(seats.items()):
        x = (i + 0.5) / len(seats)
        place[host] = (x, -0.4)
        for nic in near:
            place[nic] = (x, 0.0)
    for link in fabric.links:
        for near_end, far in ((link.a, link.b), (link.b, link.a)):
            node = fabric.nodes[far]
            if node.tier == 0 and node.kind is Kind.SWITCH and far not in place:
                servers.setdefault(far, []).append(near_end)
    for switch, nics in servers.items():
        xs = [place[nic][0] for nic in nics if nic in place]
        place[switch] = (sum(xs) / len(xs), -0.9)
