"""Where the nodes of a picture stand: rows for tiers, a box for tori, a ring for other switches of
one tier.

A HyperX or torus of two or three dimensions stands as the box it is, three in an oblique view.
On a ring the switches of one group (told by the first part of their names, as ``group3`` of
``group3router1``) stand together with a gap to the next. A fabric of two sides has its decode
leaves on top. A host stands under the middle of its leaves; what lies inside a server stands
between the hosts and the leaves.
"""

import math
import re
from collections import Counter
from typing import Final

from topo.error import FabricError
from topo.fabric import Fabric, Kind, Node, Role
from topo.family.lattice import coordinate, shape_of

Place = tuple[float, float]
RING: Final = 0.62
WIDE_RING: Final = 0.84
"""The same where no hosts stand around it."""

_SKEW: Final = (0.8, 0.5)
"""How far the third dimension runs right and up, in steps of the others."""


def layout(fabric: Fabric, *, hosts: bool = True) -> dict[int, Place]:
    """Where each node stands; hosts are optional, and those without a link have no place."""
    switches = fabric.switches
    if not switches:
        return _facing(fabric)
    seats = seats_of(fabric)
    leaf = {h: near[0] for h, near in seats.items()} if hosts else {}
    if box := box_of(fabric):
        return _box(switches, box, leaf)
    if is_ring(fabric):
        return _ring(switches, leaf, RING if hosts else WIDE_RING)
    return _rows(fabric, seats, hosts=hosts)


def box_of(fabric: Fabric) -> tuple[int, ...]:
    """The shape of a HyperX or torus of two or three dimensions, nothing for any other fabric."""
    if fabric.family not in ("hyperx", "torus"):
        return ()
    try:
        shape = shape_of(fabric)
    except FabricError:
        return ()
    wide = tuple(size for size in shape if size > 1)
    return shape if len(wide) in (2, 3) and len(shape) <= 3 else ()


def is_ring(fabric: Fabric) -> bool:
    """Is the fabric drawn as a ring: more than two switches, of one tier and side, and no box?"""
    if box_of(fabric):
        return False
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


def _facing(fabric: Fabric) -> dict[int, Place]:
    """Hosts alone: two rows where cables run between two pools only, else a ring."""
    sides = [fabric.hosts_with(role) for role in (Role.PREFILL, Role.DECODE)]
    role = {n.index: n.role for n in fabric.nodes}
    if not all(sides) or any(role[link.a] is role[link.b] for link in fabric.links):
        return dict(zip((n.index for n in fabric.nodes), _circle(len(fabric.nodes)), strict=True))
    place = {
        host: ((i + 0.5) / len(side), float(row))
        for row, side in enumerate(sides)
        for i, host in enumerate(side)
    }
    rest = [n.index for n in fabric.nodes if n.index not in place]
    return place | {host: ((i + 0.5) / len(rest), 2.0) for i, host in enumerate(rest)}


def _box(switches: list[Node], shape: tuple[int, ...], leaf: dict[int, int]) -> dict[int, Place]:
    """Switches by their coordinates; hosts in a short row under their switch, beside its cables."""
    flat = (1,) * (3 - len(shape)) + shape
    skew = [share / max(2, flat[0]) for share in _SKEW]
    place: dict[int, Place] = {}
    for number, node in enumerate(switches):
        deep, down, along = coordinate(number, flat)
        place[node.index] = (along + deep * skew[0], -down + deep * skew[1])
    under: dict[int, list[int]] = {}
    for host, near in leaf.items():
        under.setdefault(near, []).append(host)
    for near, members in under.items():
        x, y = place[near]
        step = min(0.07, 0.5 / len(members))
        for i, host in enumerate(members):
            place[host] = (x + 0.06 + i * step, y - 0.17)
    return place


def _ring(switches: list[Node], leaf: dict[int, int], radius: float) -> dict[int, Place]:
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
        place[node.index] = (radius * math.cos(angle), radius * math.sin(angle))
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


def line(fabric: Fabric, place: dict[int, Place], a: int, b: int) -> list[Place]:
    """The points of a cable: straight, but an arc between nodes of one row or line of a box that do
    not stand side by side, or it would run through those between them."""
    near, far = place[a], place[b]
    box = box_of(fabric)
    if not fabric.switches or is_ring(fabric):
        return [near, far]
    reach = math.dist(near, far)
    if box:
        stride = _stride(fabric, box, a, b)
        bulge = 0.0 if stride <= 1 else 0.06 * reach
    else:
        level = abs(near[1] - far[1]) < 1e-9
        bulge = 0.08 + 0.5 * reach if level else 0.0
    if not bulge:
        return [near, far]
    (x, y), (u, v) = sorted((near, far))
    top = ((x + u) / 2 - 2 * bulge * (v - y) / reach, (y + v) / 2 + 2 * bulge * (u - x) / reach)
    steps = [i / 12 for i in range(13)]
    return [
        (
            (1 - t) ** 2 * x + 2 * t * (1 - t) * top[0] + t * t * u,
            (1 - t) ** 2 * y + 2 * t * (1 - t) * top[1] + t * t * v,
        )
        for t in steps
    ]


def _stride(fabric: Fabric, shape: tuple[int, ...], a: int, b: int) -> int:
    """Steps between two switches along the dimension in which they differ; 0 with a host."""
    ends = [fabric.nodes[end] for end in (a, b)]
    if any(node.kind is Kind.HOST for node in ends):
        return 0
    places = [coordinate(node.rack, shape) for node in ends]
    one, other = places
    return max(abs(x - y) for x, y in zip(one, other, strict=True))
