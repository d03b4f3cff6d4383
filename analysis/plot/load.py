"""The load sweep: tail and share over budget against the load, a line a policy, the knee marked.

One column a fabric, the same axes in all. Above, the tail on a logarithmic scale against the
budget; below, the share over budget against what is allowed. A load at which prefill fell behind is
drawn open: there the system is unstable and what is shown depends on the length of the run. The
mark on the lower axis is the highest load up to which every one met the budget.
"""

from collections.abc import Sequence
from math import ceil, inf, isfinite
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from analysis.interval import Estimate
from analysis.plot.style import (
    GREY,
    INK,
    MARKS,
    Plot,
    blank,
    colour,
    dash,
    label,
    labels,
    plain_log,
    policy_keys,
    styled,
)
from analysis.record import StudyManifest
from analysis.shown import PANELS, Alternative, shown, told
from analysis.summary import tail_name
from analysis.sweep import Curve, Point, reach
from topo.unit import PS_PER_MS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ACROSS = 4


def load(every: Sequence[Curve], study: StudyManifest, first: Sequence[Alternative] = ()) -> Plot:
    """The figure of the curves of `analysis.sweep.curves`.

    Of very many those are drawn that come first in ``first``.
    """
    designs = {point.row.fabric: curve.fabric for curve in every for point in curve.points}
    whole = len(set(designs.values())), len({curve.policy for curve in every})
    asked = [(designs[fabric], policy) for fabric, policy in first if fabric in designs]
    policies = shown((curve.policy for curve in every), (policy for _, policy in asked), PANELS)
    drawn = [curve for curve in every if curve.policy in policies]
    fabrics = shown((curve.fabric for curve in drawn), (fabric for fabric, _ in asked), PANELS)
    drawn = [curve for curve in drawn if curve.fabric in fabrics]
    across = min(_ACROSS, len(fabrics))
    bands = ceil(len(fabrics) / across)
    named = labels(fabrics, 34)
    q = tail_name([point.row for curve in drawn for point in curve.points])
    with styled():
        figure = blank(max(6.4, 2.9 * across + 0.8), 4.9 * bands + 0.5)
        grid = figure.subplots(
            2 * bands, across, sharex=True, squeeze=False, height_ratios=[3, 2] * bands
        )
        tops, lows = grid[::2].ravel(), grid[1::2].ravel()
        top = _ceiling(drawn, study)
        for place, (tail, over) in enumerate(zip(tops, lows, strict=True)):
            if place >= len(fabrics):
                tail.set_visible(False)
                over.set_visible(False)
                continue
            mine = [curve for curve in drawn if curve.fabric == fabrics[place]]
            for curve in mine:
                _draw(tail, over, curve, study.policies.index(curve.policy), top)
            tail.set_title(f"{named[fabrics[place]]}\n{_says(mine)}")
            last = place % across == across - 1 or place == len(fabrics) - 1
            _tails(tail, drawn, study, top, last)
            _shares(over, drawn, study, last)
            over.set_xlabel("requests/s offered")
            if place % across == 0:
                tail.set_ylabel(f"{q} hand-off time (ms)")
                over.set_ylabel("over budget (%)")
            _capacity(tail, mine)
        _legend(figure, drawn, study)
    return Plot(
        "load",
        f"{q} hand-off time and share over budget against the load, one column a fabric, one line "
        "a policy, with 95 % intervals; the tick on the lower axis is the highest load up to which "
        "every one met the budget; an open mark is a load at which prefill fell behind."
        + told(len(fabrics), whole[0], "fabrics")
        + told(len(policies), whole[1], "policies"),
        figure,
        (
            *("fabric", "policy", "load", "requests_per_s", "share_of_max_flow", "tail_ms"),
            *("tail_low_ms", "tail_high_ms", "over_budget", "over_low", "over_high", "verdict"),
            *("prefill_fell_behind", "met_up_to"),
        ),
        tuple(
            (
                *(curve.fabric, curve.policy, point.load, point.rate_per_s, point.share),
                *_ends(point.row.tail, PS_PER_MS),
                *_ends(point.row.over, 1),
                *(point.row.verdict, int(point.behind), int(point is curve.knee[0])),
            )
            for curve in every
            for point in curve.points
        ),
    )


def _ends(found: Estimate | None, unit: float) -> tuple[float | None, ...]:
    if found is None:
        return (None, None, None)
    return (found.value / unit, found.low / unit, found.high / unit)


def _says(mine: Sequence[Curve]) -> str:
    """What to see: how far the policies get, the best and the first to break."""
    least, most = (
        "at no load" if point is None else f"up to {label(point.load, 24)}" for point in reach(mine)
    )
    if least == most:
        return f"budget met {most}"
    return f"budget met {most} at best,\n{least} at worst"


def _ceiling(every: Sequence[Curve], study: StudyManifest) -> float:
    """The top of the tails, ms: what never ended, and ends that nothing bounds, are drawn there."""
    known = [study.budget_ps / PS_PER_MS] if study.budget_ps else []
    for curve in every:
        for point in curve.points:
            known += [x for x in _ends(point.row.tail, PS_PER_MS) if x is not None and x < inf]
    return 1.5 * max(known, default=1.0)


def _draw(tail: "Axes", over: "Axes", curve: Curve, series: int, top: float) -> None:
    tint, line = colour(series), dash(series)
    read = [point for point in curve.points if point.row.tail is not None]
    for axes, points, which, unit, most in (
        (tail, read, "tail", PS_PER_MS, top),
        (over, curve.points, "over", 0.01, 100.0),
    ):
        at = np.array([point.rate_per_s for point in points])
        found = np.array([_ends(getattr(point.row, which), unit) for point in points], float)
        if not len(found):
            continue
        value, low, high = np.clip(found, 0, most).T
        bars = (value - low, high - value)
        axes.errorbar(at, value, yerr=bars, color=tint, linestyle=line, elinewidth=0.6)
        for x, y, point in zip(at, value, points, strict=True):
            _mark(axes, x, y, point, series)
    met = curve.knee[0]
    if met is not None:
        foot = 0.07 * series
        over.plot(
            [met.rate_per_s] * 2,
            [foot, foot + 0.06],
            transform=over.get_xaxis_transform(),
            color=tint,
            linewidth=2.5,
            solid_capstyle="butt",
        )


def _mark(axes: "Axes", x: float, y: float, point: Point, series: int) -> None:
    axes.plot(
        [x],
        [y],
        MARKS[series % len(MARKS)],
        color=colour(series),
        markerfacecolor="white" if point.behind else colour(series),
        markersize=4.5,
        zorder=3,
    )


def _tails(
    axes: "Axes", every: Sequence[Curve], study: StudyManifest, top: float, last: bool
) -> None:
    known = [
        point.row.tail.value / PS_PER_MS
        for curve in every
        for point in curve.points
        if point.row.tail is not None and isfinite(point.row.tail.value)
    ]
    axes.set_yscale("log")
    low = 0.7 * min(known, default=0.1)
    axes.set_ylim(low, top)
    plain_log(axes, "y", (1, 2, 5) if top > 20 * low else (1, 2, 3, 5, 7))
    if study.budget_ps is not None:
        budget = study.budget_ps / PS_PER_MS
        axes.axhline(budget, color=INK, linewidth=1.0)
        if last:
            _note(axes, f"budget\n{budget:g} ms", budget)


def _shares(axes: "Axes", every: Sequence[Curve], study: StudyManifest, last: bool) -> None:
    known = [100 * p.row.over.value for curve in every for p in curve.points if p.row.over]
    allowed = 100 * study.allowed
    axes.set_ylim(0, min(104.0, 1.25 * max(*known, 2 * allowed)))
    axes.axhline(allowed, color=GREY, linewidth=0.9, linestyle=(0, (4, 2)))
    if last:
        _note(axes, f"{allowed:g} %\nallowed", allowed)


def _note(axes: "Axes", text: str, y: float) -> None:
    """The name of a line, beyond its end, where no curve is."""
    axes.text(
        1.01, y, text, transform=axes.get_yaxis_transform(), va="center", fontsize=7, color=INK
    )


def _capacity(axes: "Axes", mine: Sequence[Curve]) -> None:
    """The loads as shares of the max-flow, above the panel."""
    loads = {point.rate_per_s: point.share for curve in mine for point in curve.points}
    told = {rate: share for rate, share in sorted(loads.items()) if isfinite(share)}
    if not told:
        return
    slope = float(np.median([share / rate for rate, share in told.items()])) * 100

    def shares(rate: NDArray[np.float64]) -> NDArray[np.float64]:
        return rate * slope

    def rates(share: NDArray[np.float64]) -> NDArray[np.float64]:
        return share / slope

    above = axes.secondary_xaxis("top", functions=(shares, rates))  # type: ignore[arg-type]
    above.tick_params(labelsize=7)
    above.set_xlabel("offered, % of max-flow", fontsize=7)


def _legend(figure: "Figure", every: Sequence[Curve], study: StudyManifest) -> None:
    from matplotlib.lines import Line2D

    policies = [name for name in study.policies if any(c.policy == name for c in every)]
    handles = policy_keys(policies, study.policies, 4.5)
    if any(point.behind for curve in every for point in curve.points):
        handles.append(
            Line2D(
                [],
                [],
                color=INK,
                linestyle="",
                marker="o",
                markerfacecolor="white",
                markersize=4.5,
                label="prefill fell behind",
            )
        )
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
