"""N-1 as a tornado: for each loss a bar from the tail of the whole fabric to that with the loss.

One panel a fabric, losses sorted by what they do in the worst panel, a bar a policy; the same axes
in all. Bars end at the tail, so that the budget is one line; whiskers are the 95 % interval of the
tail with the loss. A tail that never ended goes to the edge and says so.
"""

from collections import Counter
from collections.abc import Sequence
from math import inf, isfinite
from typing import TYPE_CHECKING

from analysis.loss import Loss, Losses, size, unserved
from analysis.plot.style import INK, SERIES, Plot, blank, label, labels, styled
from analysis.record import StudyManifest
from analysis.shown import PANELS, ROWS, Alternative, shown, told
from analysis.summary import MET, UNDECIDED, tail_name
from analysis.wording import percent, times
from topo.unit import PS_PER_MS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BARS = 8
"""Bars of a loss, at most."""
_ALL_BARS = 600
"""Bars of a figure, at most, if it has more than one panel."""
_ROOM = 1.45
"""How far the axis goes beyond the longest bar, for what is written at its end."""


def tornado(
    every: Sequence[Losses], study: StudyManifest, first: Sequence[Alternative] = ()
) -> Plot:
    """The figure of the losses of `analysis.loss.losses`.

    Of very many losses the largest are drawn, and of designs those that come first in ``first``.
    """
    designs = {loss.row.fabric: mine.fabric for mine in every for loss in mine.each}
    designs |= {mine.healthy.fabric: mine.fabric for mine in every}
    asked = [(designs[fabric], policy) for fabric, policy in first if fabric in designs]
    ran = {mine.policy for mine in every}
    each = [policy for policy in study.policies if policy in ran]
    policies = shown(each, (policy for _, policy in asked), _BARS)
    whole = _order(every)
    order = whole[:ROWS]
    panels = max(1, min(PANELS, _ALL_BARS // (len(order) * len(policies))))
    drawn = [mine for mine in every if mine.policy in policies]
    fabrics = shown((mine.fabric for mine in drawn), (fabric for fabric, _ in asked), panels)
    drawn = [mine for mine in drawn if mine.fabric in fabrics]
    q = tail_name([mine.healthy for mine in drawn])
    most = _most(drawn, study)
    named, titles = labels(order, 46), labels(fabrics, 44)
    bar = 0.8 / len(policies)
    with styled():
        tall = max(0.3, 0.2 * len(policies)) * len(order)
        figure = blank(8.6, (tall + 0.85) * len(fabrics) + 0.8)
        grid = figure.subplots(len(fabrics), 1, sharex=True, squeeze=False)[:, 0]
        for axes, fabric in zip(grid, fabrics, strict=True):
            mine = [one for one in drawn if one.fabric == fabric]
            for one in mine:
                series = policies.index(one.policy)
                shift = (series - (len(policies) - 1) / 2) * bar
                for loss in one.each:
                    if loss.what not in order:
                        continue
                    y = order.index(loss.what) + shift
                    _bar(axes, one, loss, y, bar, SERIES[series % len(SERIES)], most)
                _whole(axes, one, SERIES[series % len(SERIES)])
            axes.set_yticks(range(len(order)), [named[what] for what in order])
            axes.set_ylim(len(order) - 0.45, -0.55)
            axes.set_xlim(0, most * _ROOM)
            axes.grid(visible=False, axis="y")
            axes.set_title(f"{titles[fabric]}\n{_says(mine)}")
            if study.budget_ps is not None:
                _budget(axes, study.budget_ps / PS_PER_MS)
        grid[-1].set_xlabel(f"{q} hand-off time (ms)")
        if len(policies) > 1:
            _legend(figure, policies)
    return Plot(
        "losses",
        f"{q} hand-off time after each loss: a bar from that of the whole fabric (dotted) to that "
        "with the loss, the largest on top, with 95 % intervals (an arrow: beyond the plot or "
        "unbounded); at its end how many times the "
        "whole fabric's it is, and the share over budget. Which pass is decided by the interval of "
        "that share, so that a bar may end within the budget and its verdict be undecided."
        + (f" Shown are the worst {len(order)} of {len(whole)} losses." if whole[ROWS:] else "")
        + told(len(fabrics), len(set(designs.values())), "fabrics")
        + told(len(policies), len(each), "policies"),
        figure,
        (
            *("fabric", "policy", "lost", "max_flow_left", "healthy_tail_ms", "tail_ms"),
            *("tail_low_ms", "tail_high_ms", "times", "over_budget", "verdict"),
        ),
        tuple(_row(mine, loss) for mine in every for loss in mine.each),
    )


def _order(every: Sequence[Losses]) -> list[str]:
    """All losses, that which leaves most requests unserved anywhere first, then by the tail."""
    sizes: dict[str, tuple[int, float]] = {}
    for mine in every:
        for loss in mine.each:
            sizes[loss.what] = max(size(loss), sizes.get(loss.what, (0, -inf)))
    return sorted(sizes, key=lambda what: sizes[what], reverse=True)


def _most(every: Sequence[Losses], study: StudyManifest) -> float:
    """The largest tail, healthy or not, and the budget, ms."""
    known = [study.budget_ps / PS_PER_MS] if study.budget_ps else []
    for mine in every:
        rows = [mine.healthy, *(loss.row for loss in mine.each)]
        tails = [row.tail.value / PS_PER_MS for row in rows if row.tail is not None]
        known += [tail for tail in tails if isfinite(tail)]
    return max(known, default=1.0)


def _ms(losses: Losses) -> float | None:
    whole = losses.healthy.tail
    return whole.value / PS_PER_MS if whole is not None and isfinite(whole.value) else None


def _bar(
    axes: "Axes", mine: Losses, loss: Loss, y: float, height: float, tint: str, most: float
) -> None:
    whole, tail = _ms(mine), loss.row.tail
    if loss.row.over is None:
        axes.text(0, y, f" {loss.row.verdict}", va="center", fontsize=7)
        return
    over = f"{percent(loss.row.over.value)} over"
    if whole is None or tail is None:
        axes.text(0, y, f" too few for a tail, {over}", va="center", fontsize=7)
        return
    end = min(tail.value / PS_PER_MS, most)
    axes.barh([y], [end - whole], left=whole, height=0.85 * height, color=tint)
    reach = end
    if isfinite(tail.value):
        low, high = tail.low / PS_PER_MS, min(tail.high / PS_PER_MS, 1.08 * most)
        if tail.high / PS_PER_MS > high:
            axes.plot([high], [y], ">", color=INK, markersize=4)
        reach = max(end, high)
        axes.plot([max(0.0, low), high], [y, y], color=INK, linewidth=0.8)
        grown = times(mine.times(loss))
    else:
        grown = "never finished"
    axes.annotate(
        f"{grown}, {over}{unserved(loss.unserved)}",
        (max(reach, whole), y),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        fontsize=7,
        color=INK,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.3, "alpha": 0.8},
    )


def _whole(axes: "Axes", mine: Losses, tint: str) -> None:
    whole = _ms(mine)
    if whole is not None:
        axes.axvline(whole, color=tint, linewidth=1.2, linestyle=(0, (1, 1.2)))


def _budget(axes: "Axes", budget: float) -> None:
    axes.axvline(budget, color=INK, linewidth=1.0)
    axes.annotate(
        f"budget {budget:g} ms",
        (budget, 0),
        xycoords=("data", "axes fraction"),
        xytext=(3, 3),
        textcoords="offset points",
        fontsize=7,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8},
    )


def _says(mine: Sequence[Losses]) -> str:
    """What to see: the worst loss, and how many of all have which verdict, which intervals decide
    and not where bars end."""
    each = [loss for one in mine for loss in one.each]
    found = Counter(loss.row.verdict for loss in each)
    kinds = sorted(found, key=lambda kind: (kind != MET, kind != UNDECIDED))
    tally = ", ".join(f"{found[kind]} {kind}" for kind in kinds)
    worst = max(each, key=size)
    return f"{tally}; worst: {label(worst.what, 50)}"


def _row(mine: Losses, loss: Loss) -> tuple[object, ...]:
    tail, over = loss.row.tail, loss.row.over
    ends = (tail.value, tail.low, tail.high) if tail is not None else (None,) * 3
    return (
        *(mine.fabric, mine.policy, loss.what, loss.left, _ms(mine)),
        *(None if end is None else end / PS_PER_MS for end in ends),
        *(mine.times(loss), over.value if over is not None else None, loss.row.verdict),
    )


def _legend(figure: "Figure", policies: Sequence[str]) -> None:
    from matplotlib.patches import Patch

    named = labels(policies)
    handles = [
        Patch(color=SERIES[place % len(SERIES)], label=named[policy])
        for place, policy in enumerate(policies)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
