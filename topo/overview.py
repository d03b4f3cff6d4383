"""The picture of a fabric too large to draw switch by switch: a box for each tier and plane.

Hosts are told by role, a direct network by its shape or groups, and every bundle of cables by how
many there are and their rate.
"""

from collections import Counter
from typing import TYPE_CHECKING

from topo.bom import TIER_NAMES
from topo.fabric import Fabric, Kind, Role
from topo.floor import is_inside
from topo.layout import box_of, group_of
from topo.loss import planes_of
from topo.unit import show_rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_PLANES = 6
COLOUR = {
    Role.PREFILL: "#0072B2",
    Role.DECODE: "#E69F00",
    Role.BOTH: "#009E73",
    Role.STORAGE: "#CC79A7",
    Role.NONE: "#999999",
}
"""Of Okabe and Ito, which stay apart under colour-blindness."""
INK = COLOUR | {
    Role.DECODE: "#8F6200",
    Role.BOTH: "#007354",
    Role.STORAGE: "#A0507A",
    Role.NONE: "#666666",
}
"""The same for words and numbers, dark enough to be read on white."""

Spot = tuple[int, int]
"""Tier and plane; for hosts 0 and their role's place in the row."""


def draw_overview(axes: "Axes", fabric: Fabric) -> None:
    """Draw the tiers of a fabric as boxes, hosts below, with the cables between them."""
    planes = planes_of(fabric)
    apart = len(planes)
    if not 1 < apart <= MOST_PLANES:
        planes = [[node for members in planes for node in members]]
    plane = {node: i for i, members in enumerate(planes) for node in members}
    roles = [role for role in Role if any(host.role is role for host in fabric.hosts)]
    place = {node.index: (node.tier, plane[node.index]) for node in fabric.switches if node.tier}
    place |= {host.index: (0, roles.index(host.role)) for host in fabric.hosts}
    boxes = Counter(place.values())
    across = {
        (tier, number): (number + 0.5) / (len(planes) if tier else len(roles))
        for tier, number in boxes
    }
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.5, max(tier for tier, _ in boxes) + 0.6)
    _draw_cables(axes, fabric, place, across)
    for (tier, number), count in sorted(boxes.items()):
        if not tier:
            role = roles[number]
            name = "hosts" if role is Role.NONE else f"{role} hosts"
            _box(axes, across[tier, number], tier, f"{count:,} {name}", COLOUR[role])
            continue
        lines = [f"{count:,} {_name(fabric, tier)}"]
        if len(planes) > 1:
            lines.insert(0, f"plane {number}")
        elif detail := _detail(fabric, tier):
            lines.append(detail)
        _box(axes, across[tier, number], tier, "\n".join(lines), "black")
    if apart > MOST_PLANES:
        note = f"{apart:,} planes that no cable joins, taken together"
        axes.text(0, -0.02, note, transform=axes.transAxes, fontsize=8)


def _draw_cables(
    axes: "Axes", fabric: Fabric, place: dict[int, Spot], across: dict[Spot, float]
) -> None:
    """A line for each bundle; a NIC that is a switch of its own stands for its host."""
    bundles: Counter[tuple[Spot, Spot]] = Counter()
    rates: dict[tuple[Spot, Spot], set[int]] = {}
    host_of = _hosts_behind(fabric)
    for link in fabric.links:
        ends = [place.get(host_of.get(end, end)) for end in (link.a, link.b)]
        if is_inside(fabric, link.a, link.b) or ends[0] is None or ends[1] is None:
            continue
        low, high = sorted((ends[0], ends[1]))
        bundles[low, high] += 1
        rates.setdefault((low, high), set()).add(link.rate_bps)
    for (low, high), count in sorted(bundles.items()):
        told = ", ".join(show_rate(rate) for rate in sorted(rates[low, high]))
        text = f"{count:,} cables of {told}"
        x, u = across[low], across[high]
        if low == high:
            axes.text(x, low[0] + 0.3, f"{text} among them", ha="center", fontsize=9, zorder=2)
            continue
        axes.plot([x, u], [low[0], high[0]], color="#555555", linewidth=1.5, zorder=1)
        # Nearer to the lower end where lines are slanted: those that meet above are apart there.
        share = 0.5 if x == u else 0.28
        axes.text(
            x + share * (u - x),
            low[0] + share * (high[0] - low[0]),
            text,
            ha="center",
            va="center",
            fontsize=9,
            zorder=2,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )


def _hosts_behind(fabric: Fabric) -> dict[int, int]:
    """The host of each NIC that is a switch of tier 0."""
    return {
        far: near
        for link in fabric.links
        for near, far in ((link.a, link.b), (link.b, link.a))
        if fabric.nodes[near].kind is Kind.HOST and fabric.nodes[far].tier == 0
    }


def _box(axes: "Axes", x: float, y: float, text: str, colour: str) -> None:
    axes.text(
        x,
        y,
        text,
        ha="center",
        va="center",
        fontsize=11,
        zorder=3,
        bbox={"boxstyle": "square,pad=0.6", "facecolor": "white", "edgecolor": colour},
    )


def _name(fabric: Fabric, tier: int) -> str:
    if len({node.tier for node in fabric.switches if node.tier > 0}) == 1:
        return "switches"
    return f"{TIER_NAMES.get(tier, f'tier {tier}')} switches"


def _detail(fabric: Fabric, tier: int) -> str:
    """The shape of a box, or the groups of switches that have any."""
    if box := box_of(fabric):
        return "in a box of " + " x ".join(map(str, box))
    groups = Counter(group_of(node) for node in fabric.switches if node.tier == tier)
    sizes = sorted(set(groups.values()))
    if "" in groups or len(groups) < 2:
        return ""
    most = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    return f"in {len(groups):,} groups of {most}"
