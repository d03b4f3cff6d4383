"""A picture of a fabric: tiers from hosts up, roles by colour and shape.

A fabric of one switch tier is drawn as a ring; a bipartite one with the prefill side below and
the decode side above; any other with its tiers as rows (`topo.layout`). Cables of separate planes
have colours of their own; a lost switch and its cables are shown in red. Up to `MOST_NODES` nodes
each host is a mark; beyond, each leaf tells how many hosts it has; beyond as many switches, each
tier is one box.
Colours are those of Okabe and Ito, which stay apart under colour-blindness.
"""

import math
from collections import Counter
from typing import TYPE_CHECKING, Final

from topo.bom import TIER_NAMES
from topo.error import FabricError
from topo.fabric import Fabric, Kind, Node, Role
from topo.layout import Place, group_of, is_ring, layout, on_top, seats_of
from topo.loss import planes_of
from topo.unit import show_rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_NODES: Final = 200
MOST_NAMES: Final = 48

COLOUR: Final = {
    Role.PREFILL: "#0072B2",
    Role.DECODE: "#E69F00",
    Role.BOTH: "#009E73",
    Role.STORAGE: "#CC79A7",
    Role.NONE: "#999999",
}
MARKER: Final = {
    Role.PREFILL: "o",
    Role.DECODE: "D",
    Role.BOTH: "P",
    Role.STORAGE: "v",
    Role.NONE: ".",
}

PLANE: Final = ("#56B4E9", "#D55E00", "#009E73", "#CC79A7", "#0072B2", "#E69F00")
"""Colours of the cables of planes, in turn."""

LOST: Final = "#D7191C"


def draw(fabric: Fabric, lost: str | None = None) -> "Figure":
    """Draw a fabric on a figure of its own; pyplot and its global state stay untouched.

    ``lost`` names a switch whose failure is shown: what hangs on it. Errors: no such node, or one
    that has no place of its own in the summary of a large fabric.

    >>> from topo.family.registry import build
    >>> figure = draw(build("leaf_spine", {"hosts": 16}))
    >>> figure.axes[0].get_title(loc="left")
    'leaf_spine: 16 hosts, 4 switches'
    """
    from matplotlib.figure import Figure

    switches = fabric.switches
    hosts = len(fabric.hosts)
    figure = Figure(figsize=(10, 5.6), layout="constrained")
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.set_title(f"{fabric.name}: {hosts} hosts, {len(switches)} switches", loc="left")
    if len(switches) > MOST_NODES:
        if lost is not None:
            raise FabricError(f"node {lost!r}: not drawn in the summary of a fabric this large")
        _draw_tiers(axes, fabric)
        return figure
    each = len(fabric.nodes) <= MOST_NODES
    place = layout(fabric, hosts=each)
    gone = None if lost is None else fabric.node(lost).index
    if gone is not None and gone not in place:
        raise FabricError(f"node {lost!r}: not drawn in the summary; name a switch")
    _draw_links(axes, fabric, place, gone)
    _draw_switches(axes, fabric, place, gone)
    if each:
        _draw_hosts(axes, fabric, place)
    else:
        _tell_hosts(axes, fabric, place)
    heights = [y for _, y in place.values()]
    room = 0.25 if each else 0.65
    axes.margins(x=0.04)
    if is_ring(fabric) or not switches:
        axes.set_ylim(-1.15, 1.15)
        axes.set_xlim(-2.15, 2.15)
        axes.set_aspect("equal")
    else:
        axes.set_ylim(min(heights) - room, max(heights) + room)
    return figure


def _draw_links(axes: "Axes", fabric: Fabric, place: dict[int, Place], gone: int | None) -> None:
    from matplotlib.collections import LineCollection

    trunks = Counter((link.a, link.b) for link in fabric.links)
    drawn = [(a, b) for a, b in trunks if a in place and b in place]
    planes = planes_of(fabric)
    plane: dict[int, int] = {}
    if 1 < len(planes) <= len(PLANE):
        plane = {node: i for i, members in enumerate(planes) for node in members}
    lines = [[place[a], place[b]] for a, b in drawn]
    widths = [0.5 * math.sqrt(trunks[pair]) * (2 if gone in pair else 1) for pair in drawn]
    colours = [
        LOST if gone in (a, b) else _plane_colour(plane.get(a, plane.get(b))) for a, b in drawn
    ]
    styles = ["--" if gone in pair else "-" for pair in drawn]
    axes.add_collection(
        LineCollection(lines, linewidths=widths, colors=colours, linestyles=styles, zorder=1)
    )
    most = max((trunks[pair] for pair in drawn), default=1)
    inner = any(fabric.nodes[a].kind is fabric.nodes[b].kind is Kind.SWITCH for a, b in drawn)
    notes = []
    if inner:
        rates = {link.rate_bps for link in fabric.links}
        notes.append(f"links of {', '.join(show_rate(rate) for rate in sorted(rates))}")
    if inner and most > 1:
        notes.append(f"up to {most} parallel links a line")
    if plane:
        notes.append(f"{len(planes)} planes by colour")
    if gone is not None:
        notes.append(f"{fabric.nodes[gone].name} lost: dashed")
    axes.text(0, -0.02, "; ".join(notes), transform=axes.transAxes, fontsize=8)


def _plane_colour(plane: int | None) -> str:
    return "#555555" if plane is None else PLANE[plane]


def _draw_switches(axes: "Axes", fabric: Fabric, place: dict[int, Place], gone: int | None) -> None:
    """Names in boxes where there is room, else small squares; group names inside a ring."""
    ring = is_ring(fabric)
    shown = [node for node in fabric.switches if node.index in place]
    rows = Counter(round(place[node.index][1], 6) for node in shown)
    marks: list[Node] = []
    for node in shown:
        row = rows[round(place[node.index][1], 6)]
        count = len(shown) if ring else row
        long = len(node.name) >= 10
        if node.tier == 0 or count > (16 if ring else MOST_NAMES):
            marks.append(node)
            continue
        flat = ring or count <= (8 if long else 12)
        axes.text(
            *place[node.index],
            node.name,
            fontsize=8 if count <= 12 else 6,
            rotation=0 if flat else 90,
            ha="center",
            va="center",
            zorder=3,
            bbox={
                "boxstyle": "square,pad=0.3",
                "facecolor": "white",
                "edgecolor": LOST if node.index == gone else "black",
            },
        )
    if marks:
        axes.scatter(
            [place[n.index][0] for n in marks],
            [place[n.index][1] for n in marks],
            s=[10 if n.tier == 0 else 36 for n in marks],
            marker="s",
            facecolors="white",
            edgecolors=[LOST if n.index == gone else "black" for n in marks],
            linewidths=0.9,
            zorder=3,
        )
    if ring and len(marks) == len(shown):
        _name_groups(axes, shown, place)


def _name_groups(axes: "Axes", shown: list[Node], place: dict[int, Place]) -> None:
    groups: dict[str, list[Place]] = {}
    for node in shown:
        groups.setdefault(group_of(node), []).append(place[node.index])
    if not 1 < len(groups) <= 24 or len(groups) == len(shown):
        return
    for name, places in groups.items():
        x = sum(p[0] for p in places) / len(places)
        y = sum(p[1] for p in places) / len(places)
        reach = math.hypot(x, y) or 1.0
        axes.text(
            1.16 * x / reach, 1.08 * y / reach, name, fontsize=8, ha="center", va="center", zorder=4
        )


def _draw_hosts(axes: "Axes", fabric: Fabric, place: dict[int, Place]) -> None:
    hosts = [host for host in fabric.hosts if host.index in place]
    for role in Role:
        of_role = [place[host.index] for host in hosts if host.role is role]
        if of_role:
            axes.scatter(
                [x for x, _ in of_role],
                [y for _, y in of_role],
                s=26,
                marker=MARKER[role],
                color=COLOUR[role],
                label=f"{'no role' if role is Role.NONE else role} ({len(of_role)})",
                zorder=2,
            )
    axes.legend(loc="upper right", bbox_to_anchor=(1.0, 1.09), ncols=4, frameon=False, fontsize=9)


def _tell_hosts(axes: "Axes", fabric: Fabric, place: dict[int, Place]) -> None:
    """The number of hosts of each role, written beside their leaf."""
    counts: dict[int, Counter[Role]] = {}
    for host, seats in seats_of(fabric).items():
        if seats[0] in place:
            counts.setdefault(seats[0], Counter())[fabric.nodes[host].role] += 1
    small = len(counts) > 16
    for leaf, roles in counts.items():
        above = on_top(fabric.nodes[leaf])
        for i, (role, count) in enumerate(sorted(roles.items())):
            text = f"{count}" if small else f"{count} {'hosts' if role is Role.NONE else role}"
            x, y = place[leaf]
            offset = (0.25 + 0.16 * i) * (1 if above else -1)
            axes.text(
                x,
                y + offset,
                text,
                color=COLOUR[role],
                fontsize=6 if small else 8,
                ha="center",
                va="center",
                rotation=90 if small else 0,
            )
    used = {role for roles in counts.values() for role in roles}
    for role in sorted(used):
        name = "hosts without a role" if role is Role.NONE else f"{role} hosts a leaf"
        axes.scatter([], [], s=26, marker=MARKER[role], color=COLOUR[role], label=name)
    axes.legend(loc="upper right", bbox_to_anchor=(1.0, 1.09), ncols=4, frameon=False, fontsize=9)


def _draw_tiers(axes: "Axes", fabric: Fabric) -> None:
    """One box a tier with its count, and the cables between tiers."""
    tiers = Counter(node.tier for node in fabric.nodes)
    cables = Counter(
        tuple(sorted((fabric.nodes[link.a].tier, fabric.nodes[link.b].tier)))
        for link in fabric.links
    )
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.5, max(tiers) + 0.5)
    for tier, count in sorted(tiers.items()):
        name = f"{TIER_NAMES.get(tier, f'tier {tier}')} switches" if tier else "hosts"
        axes.text(
            0.4,
            tier,
            f"{count} {name}",
            ha="center",
            va="center",
            fontsize=12,
            bbox={"boxstyle": "square,pad=0.6", "facecolor": "white", "edgecolor": "black"},
        )
    for (low, high), count in sorted(cables.items()):
        if low != high:
            axes.plot([0.4, 0.4], [low, high], color="#555555", zorder=1)
            axes.text(0.42, (low + high) / 2, f"{count} cables", va="center", fontsize=10)
        else:
            axes.text(0.6, low, f"{count} cables among them", va="center", fontsize=10)
