"""A picture of a fabric: tiers from hosts up, roles by colour and shape.

A fabric of one switch tier is drawn as a ring, a torus or HyperX as a box; a bipartite one with the
prefill side below and the decode side above; any other with its tiers as rows (`topo.layout`).
Cables of separate planes have colours of their own; a lost switch and its cables are shown in red.
Up to `MOST_NODES` nodes each host is a mark; beyond, each leaf tells how many hosts it has and what
lies inside servers is left out; beyond as many switches, the picture is that of `topo.overview`.
Colours are those of Okabe and Ito, which stay apart under colour-blindness.
"""

import math
from collections import Counter
from typing import TYPE_CHECKING, Final

from topo.error import FabricError
from topo.fabric import Fabric, Kind, Node, Role
from topo.layout import Place, box_of, group_of, is_ring, layout, line, on_top, seats_of
from topo.loss import leaves_of, planes_of
from topo.overview import COLOUR, INK, draw_overview
from topo.unit import show_rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_NODES: Final = 200
MOST_NAMES: Final = 48

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
    from matplotlib import rc_context

    # A dollar sign in a name is a dollar sign.
    with rc_context({"text.parse_math": False}):
        return _figure(fabric, lost)


def _figure(fabric: Fabric, lost: str | None) -> "Figure":
    from matplotlib.figure import Figure

    switches = [node for node in fabric.switches if node.tier > 0]
    hosts = len(fabric.hosts)
    figure = Figure(figsize=(10, 5.6), layout="constrained")
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.set_title(f"{fabric.name}: {hosts} hosts, {len(switches)} switches", loc="left")
    if len(switches) > MOST_NODES:
        if lost is not None:
            raise FabricError(f"node {lost!r}: not drawn in the summary of a fabric this large")
        draw_overview(axes, fabric)
        return figure
    each = len(fabric.nodes) <= MOST_NODES
    place = layout(fabric, hosts=each)
    if not each:
        place = {n: spot for n, spot in place.items() if fabric.nodes[n].tier > 0}
    gone = None if lost is None else fabric.node(lost).index
    if gone is not None and gone not in place:
        raise FabricError(f"node {lost!r}: not drawn in the summary; name a switch")
    _draw_links(axes, fabric, place, gone)
    _draw_switches(axes, fabric, place, gone)
    if each:
        _draw_hosts(axes, fabric, place)
    else:
        _tell_hosts(axes, fabric, place)
    _fit(axes, fabric, place, each=each)
    return figure


def _fit(axes: "Axes", fabric: Fabric, place: dict[int, Place], *, each: bool) -> None:
    """Limits with room for what stands around the nodes."""
    axes.margins(x=0.04)
    axes.update_datalim(list(place.values()))
    heights = [y for _, y in place.values()]
    if box_of(fabric):
        axes.margins(x=0.05, y=0.09)
        axes.autoscale_view()
    elif is_ring(fabric) or (not fabric.switches and len(set(heights)) > 3):
        axes.set_ylim(-1.15, 1.15)
        axes.set_xlim(-2.15, 2.15)
        axes.set_aspect("equal")
    else:
        room = 0.25 if each else 0.65
        axes.set_ylim(min(heights) - room, max(heights) + room)
        axes.autoscale_view(scaley=False)
        # Arcs between switches of one row stand above it.
        axes.set_ylim(top=max(float(axes.dataLim.y1) + 0.12, max(heights) + room))


def _draw_links(axes: "Axes", fabric: Fabric, place: dict[int, Place], gone: int | None) -> None:
    from matplotlib.collections import LineCollection

    trunks = Counter((link.a, link.b) for link in fabric.links)
    drawn = [(a, b) for a, b in trunks if a in place and b in place]
    planes = planes_of(fabric)
    plane: dict[int, int] = {}
    if 1 < len(planes) <= len(PLANE):
        plane = {node: i for i, members in enumerate(planes) for node in members}
    lines = [line(fabric, place, a, b) for a, b in drawn]
    widths = [0.5 * math.sqrt(trunks[pair]) * (2 if gone in pair else 1) for pair in drawn]
    colours = [
        LOST if gone in (a, b) else _plane_colour(plane.get(a, plane.get(b))) for a, b in drawn
    ]
    styles = ["--" if gone in pair else "-" for pair in drawn]
    axes.add_collection(
        LineCollection(
            lines,
            linewidths=widths,
            colors=colours,
            linestyles=styles,
            alpha=min(1.0, max(0.3, 600 / max(1, len(lines)))),
            zorder=1,
        )
    )
    most = max((trunks[pair] for pair in drawn), default=1)
    inner = any(fabric.nodes[a].kind is fabric.nodes[b].kind is Kind.SWITCH for a, b in drawn)
    notes = []
    if inner:
        rates = {x.rate_bps for x in fabric.links if x.a in place and x.b in place}
        notes.append(f"links of {', '.join(show_rate(rate) for rate in sorted(rates))}")
    if inner and most > 1:
        notes.append(f"up to {most} parallel links a line")
    if any(node.tier == 0 and node.index in place for node in fabric.switches):
        notes.append("small squares: NICs and scale-up switches of servers")
    if plane:
        notes.append(f"{len(planes)} planes by colour")
    if gone is not None:
        notes.append(f"{fabric.nodes[gone].name} lost: dashed")
    axes.text(0, -0.02, "; ".join(notes), transform=axes.transAxes, fontsize=8)


def _plane_colour(plane: int | None) -> str:
    return "#555555" if plane is None else PLANE[plane]


def _draw_switches(axes: "Axes", fabric: Fabric, place: dict[int, Place], gone: int | None) -> None:
    """Names in boxes where there is room, else small squares; group names inside a ring."""
    ring, box = is_ring(fabric), bool(box_of(fabric))
    shown = [node for node in fabric.switches if node.index in place]
    rows = Counter(round(place[node.index][1], 6) for node in shown)
    marks: list[Node] = []
    for node in shown:
        row = rows[round(place[node.index][1], 6)]
        count = len(shown) if ring or box else row
        long = len(node.name) >= 10
        if node.tier == 0 or count > (8 if ring and long else 16 if ring or box else MOST_NAMES):
            marks.append(node)
            continue
        flat = ring or box or count <= (8 if long else 12)
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
            1.16 * x / reach, 1.07 * y / reach, name, fontsize=8, ha="center", va="center", zorder=4
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
    for host, leaf in _leaf_of(fabric).items():
        counts.setdefault(leaf, Counter())[fabric.nodes[host].role] += 1
    small = len(counts) > 16
    ring, box = is_ring(fabric), bool(box_of(fabric))
    for leaf, roles in counts.items():
        above = on_top(fabric.nodes[leaf])
        x, y = place[leaf]
        for i, (role, count) in enumerate((r, roles[r]) for r in Role if r in roles):
            text = (
                f"{count}" if small or box else f"{count} {'hosts' if role is Role.NONE else role}"
            )
            if ring:
                out = 1.12 + 0.09 * i
                spot, turn = (x * out, y * out), 0.0
            elif box:
                spot, turn = (x + 0.09 + 0.14 * i, y - 0.11), 0.0
            else:
                offset = (0.25 + 0.16 * i) * (1 if above else -1)
                spot, turn = (x, y + offset), 90.0 if small else 0.0
            axes.text(
                *spot,
                text,
                color=INK[role],
                fontsize=7 if small or box else 8,
                ha="center",
                va="center",
                rotation=turn,
            )
    used = {role for roles in counts.values() for role in roles}
    for role in (role for role in Role if role in used):
        name = "hosts without a role" if role is Role.NONE else f"{role} hosts a leaf"
        axes.scatter([], [], s=26, marker=MARKER[role], color=COLOUR[role], label=name)
    axes.legend(loc="upper right", bbox_to_anchor=(1.0, 1.09), ncols=4, frameon=False, fontsize=9)


def _leaf_of(fabric: Fabric) -> dict[int, int]:
    """The first leaf of each host, through its NIC where that is a switch of tier 0."""
    leaves = set(leaves_of(fabric))
    above: dict[int, int] = {}
    for link in fabric.links:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            if far in leaves and fabric.nodes[near].tier == 0:
                above.setdefault(near, far)
    found: dict[int, int] = {}
    for host, seats in seats_of(fabric).items():
        leaf = above.get(host, above.get(seats[0]))
        if leaf is not None:
            found[host] = leaf
    return found
