"""A picture of a fabric: tiers from hosts up, roles by colour and shape.

A fabric of one switch tier is drawn as a ring; a bipartite one with the prefill side below and
the decode side above; any other with its tiers as rows. Up to `MOST_NODES` nodes each host is a
mark; beyond, each leaf tells how many hosts it has; beyond as many switches, each tier is one box.
Colours are those of Okabe and Ito, which stay apart under colour-blindness.
"""

import math
from collections import Counter
from typing import TYPE_CHECKING, Final

from topo.bom import TIER_NAMES
from topo.fabric import Fabric, Kind, Node, Role
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

Place = tuple[float, float]


def draw(fabric: Fabric) -> "Figure":
    """Draw a fabric on a figure of its own; pyplot and its global state stay untouched.

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
        _draw_tiers(axes, fabric)
        return figure
    each = len(fabric.nodes) <= MOST_NODES
    place = layout(fabric, hosts=each)
    _draw_links(axes, fabric, place)
    _draw_switches(axes, switches, place)
    if each:
        _draw_hosts(axes, fabric, place)
    else:
        _tell_hosts(axes, fabric, place)
    heights = [y for _, y in place.values()]
    room = 0.25 if each else 0.65
    axes.set_ylim(min(heights) - room, max(heights) + room)
    axes.margins(x=0.04)
    return figure


def layout(fabric: Fabric, *, hosts: bool = True) -> dict[int, Place]:
    """Where each node stands, x and y between 0 and the number of rows; hosts are optional.

    Every switch has a place; so has every host with a link, next to its first leaf.
    """
    switches = fabric.switches
    if not switches:
        step = 2 * math.pi / len(fabric.nodes)
        return {
            n.index: (math.cos(i * step), math.sin(i * step)) for i, n in enumerate(fabric.nodes)
        }
    leaf = _leaves(fabric) if hosts else {}
    if len({n.tier for n in switches}) == 1 and fabric.family != "bipartite" and len(switches) > 2:
        return _ring(switches, leaf)
    rows: dict[int, list[int]] = {}
    above: set[int] = set()
    for node in switches:
        upper = fabric.family == "bipartite" and node.name.startswith("dleaf")
        rows.setdefault(node.tier + upper, []).append(node.index)
        if upper:
            above.add(node.index)
    place: dict[int, Place] = {}
    for row, members in rows.items():
        for i, node_index in enumerate(members):
            place[node_index] = ((i + 0.5) / len(members), float(row))
    width = {n.index: 1 / len(rows[n.tier + (n.index in above)]) for n in switches}
    under: dict[int, list[int]] = {}
    for host, near in leaf.items():
        under.setdefault(near, []).append(host)
    for near, members in under.items():
        x, y = place[near]
        for i, host in enumerate(members):
            shift = ((i + 0.5) / len(members) - 0.5) * 0.86 * width[near]
            place[host] = (x + shift, y + 1 if near in above else y - 1)
    return place


def _ring(switches: list[Node], leaf: dict[int, int]) -> dict[int, Place]:
    step = 2 * math.pi / len(switches)
    place: dict[int, Place] = {}
    for i, node in enumerate(switches):
        angle = math.pi / 2 - i * step
        place[node.index] = (0.5 + 0.3 * math.cos(angle), 1 + 0.6 * math.sin(angle))
        members = [host for host, near in leaf.items() if near == node.index]
        for j, host in enumerate(members):
            turn = angle + ((j + 0.5) / len(members) - 0.5) * 0.8 * step
            place[host] = (0.5 + 0.5 * math.cos(turn), 1 + math.sin(turn))
    return place


def _leaves(fabric: Fabric) -> dict[int, int]:
    """Each host's first switch."""
    leaf: dict[int, int] = {}
    for link in fabric.links:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            if (
                fabric.nodes[near].kind is Kind.HOST
                and fabric.nodes[far].kind is Kind.SWITCH
                and near not in leaf
            ):
                leaf[near] = far
    return dict(sorted(leaf.items()))


def _draw_links(axes: "Axes", fabric: Fabric, place: dict[int, Place]) -> None:
    from matplotlib.collections import LineCollection

    trunks = Counter((link.a, link.b) for link in fabric.links)
    drawn = [(a, b) for a, b in trunks if a in place and b in place]
    inner = {fabric.nodes[a].kind is fabric.nodes[b].kind is Kind.SWITCH: 0 for a, b in drawn}
    lines = [[place[a], place[b]] for a, b in drawn]
    widths = [0.5 * math.sqrt(trunks[pair]) for pair in drawn]
    axes.add_collection(LineCollection(lines, linewidths=widths, colors="#555555", zorder=1))
    most = max((trunks[pair] for pair in drawn), default=1)
    if True in inner:
        rates = {link.rate_bps for link in fabric.links}
        shown = ", ".join(show_rate(rate) for rate in sorted(rates))
        trunk = f"; up to {most} parallel links a line" if most > 1 else ""
        axes.text(0, -0.02, f"links of {shown}{trunk}", transform=axes.transAxes, fontsize=8)


def _draw_switches(axes: "Axes", switches: list[Node], place: dict[int, Place]) -> None:
    tiers = Counter(node.tier for node in switches)
    for node in switches:
        named = tiers[node.tier] <= MOST_NAMES
        axes.text(
            *place[node.index],
            node.name if named else "",
            fontsize=8 if tiers[node.tier] <= 12 else 6,
            rotation=0 if tiers[node.tier] <= 12 else 90,
            ha="center",
            va="center",
            zorder=3,
            bbox={"boxstyle": "square,pad=0.3", "facecolor": "white", "edgecolor": "black"},
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
    for host, leaf in _leaves(fabric).items():
        counts.setdefault(leaf, Counter())[fabric.nodes[host].role] += 1
    small = len(counts) > 16
    for leaf, roles in counts.items():
        above = fabric.nodes[leaf].name.startswith("dleaf")
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
