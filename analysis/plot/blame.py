"""Blame: the mean time of the slowest hand-offs of every alternative, by what it is charged to.

All alternatives stand on one axis, in milliseconds; the label says which hand-offs they are.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from analysis.blame import Blame
from analysis.charge import KINDS
from analysis.plot.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PINK,
    RED,
    SKY,
    Plot,
    blank,
    labels,
    styled,
)
from analysis.shown import ROWS, Alternative, shown, told
from topo.unit import PS_PER_MS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOOK: Final = {
    "wire": (GREY, ""),
    "slow": (GREY, "////"),
    "queue": (RED, ""),
    "pause": (ORANGE, ""),
    "pacing": (PINK, ""),
    "retransmission": (BLACK, ""),
    "source": (BLUE, ""),
    "window": (BLUE, "////"),
    "issue": (BLUE, "...."),
    "release": (SKY, ""),
    "copies": (SKY, "////"),
    "orchestration": (GREEN, ""),
    "memory": (GREEN, "////"),
}
"""The colour and hatch of each kind: one colour a family, hatches inside it."""


def blames(found: Mapping[Alternative, Blame], first: Sequence[Alternative] = ()) -> Plot:
    """Stacked bars, one an alternative; of very many those that come first in ``first``."""
    some = {key: found[key] for key in shown(found, first, ROWS)}
    with styled():
        figure = blank(9.6, 1.4 + 0.31 * len(some))
        axes: Axes = figure.add_subplot()
        used = [kind for kind in KINDS if any(each.kinds[kind] for each in found.values())]
        left = [0.0] * len(some)
        for kind in used:
            values = [each.kinds[kind] / each.handoffs / PS_PER_MS for each in some.values()]
            colour, hatch = LOOK[kind]
            axes.barh(
                range(len(some)),
                values,
                left=left,
                color=colour,
                hatch=hatch,
                edgecolor="white",
                linewidth=0.4,
                label=KINDS[kind],
            )
            left = [a + b for a, b in zip(left, values, strict=True)]
        fabrics = labels([fabric for fabric, _ in some], 34)
        policies = labels([policy for _, policy in some], 18)
        names = [
            f"{fabrics[fabric]}, {policies[policy]}\n{each.handoffs:,}: {each.asked}"
            for (fabric, policy), each in some.items()
        ]
        axes.set_yticks(range(len(some)), names, fontsize=7)
        axes.set_ylim(len(some) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("mean time of these hand-offs (ms)")
        whole = {kind: sum(each.kinds[kind] for each in found.values()) for kind in used}
        lost = max((kind for kind in used if kind != "wire"), key=whole.__getitem__, default=None)
        if lost is not None:
            axes.set_title(f"What held the slowest hand-offs most: {KINDS[lost]}")
        figure.legend(loc="outside lower center", ncols=7, fontsize=7.5)
    return Plot(
        "blame",
        "Mean time of the hand-offs over budget, or of the slowest 5 % where none is, by what it "
        f"is charged to.{told(len(some), len(found), 'alternatives')}",
        figure,
        ("fabric", "policy", "which", "handoffs", "cause", "mean_ms", "share"),
        tuple(
            (
                *key,
                each.asked,
                each.handoffs,
                KINDS[kind],
                each.kinds[kind] / each.handoffs / PS_PER_MS,
                each.kinds[kind] / max(1, each.total_ps),
            )
            for key, each in found.items()
            for kind in used
        ),
    )
