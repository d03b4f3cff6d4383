"""Hand-off tails: the share of hand-offs that takes longer than a time, log-log, by fabric.

One panel a fabric, one curve a policy, the same axes for all. A curve goes down to 1/n; below
10/n, where fewer than ten hand-offs carry it, it is drawn pale. Hand-offs that never ended hold
the curve up at the right edge. Of more than 2,000 hand-offs a curve keeps some, all of its last 200
among them, each at its own place: what is kept is exact.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from analysis.plot.style import (
    GREY,
    INK,
    Plot,
    blank,
    colour,
    dash,
    hide_rest,
    labels,
    of_policy,
    plain_log,
    styled,
)
from analysis.record import StudyManifest
from analysis.shown import PANELS, Alternative, shown, told
from analysis.summary import Sample
from topo.unit import PS_PER_MS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

_COLUMNS = 4
_LEAST = 5.0
"""The least width of all panels together, inches."""
_ABOVE = 8
"""More policies than this are named beside the panels, and not above them."""
_NEAR = 0.4
"""A budget in this part of the axis leaves no room for its name before it."""
_CARRIED = 10
_MOST = 2000
_LAST = 200


def ccdf(parts: Sequence[Sample], study: StudyManifest, first: Sequence[Alternative] = ()) -> Plot:
    """The CCDF of hand-off time of every alternative that has hand-offs.

    Of very many those are drawn that come first in ``first``.
    """
    curves = {(part.fabric, part.policy): _sorted(part) for part in parts if part.n}
    ran = {fabric for fabric, _ in curves}, {policy for _, policy in curves}
    every = [fabric for fabric in study.fabrics if fabric in ran[0]]
    each = [policy for policy in study.policies if policy in ran[1]]
    fabrics = shown(every, [fabric for fabric, _ in first], PANELS)
    policies = shown(each, [policy for _, policy in first], PANELS)
    drawn = [
        curve
        for (fabric, policy), curve in curves.items()
        if fabric in fabrics and policy in policies
    ]
    across = max(1, min(_COLUMNS, len(fabrics)))
    down = -(-max(1, len(fabrics)) // across)
    named = labels(fabrics, 34)
    beside = len(policies) > _ABOVE
    wide = max(_LEAST, 2.75 * across) + (2.3 if beside else 0.5)
    with styled():
        figure = blank(wide, max(2.8 * down + 0.6, 0.19 * len(policies) + 0.5 if beside else 0.0))
        grid = np.atleast_1d(figure.subplots(down, across, sharex=True, sharey=True)).ravel()
        low, high = _limits(drawn, study.budget_ps)
        smallest = min((1 / len(curve) for curve in drawn), default=0.1)
        smallest = min(smallest, study.allowed or smallest)
        for axes, fabric in zip(grid, fabrics, strict=False):
            sizes = []
            for policy in policies:
                curve = curves.get((fabric, policy))
                if curve is not None:
                    sizes.append(len(curve))
                    panel = f"panel{fabrics.index(fabric)}"
                    _draw(axes, curve, study.policies.index(policy), (low, high), panel)
            least, most = min(sizes, default=0), max(sizes, default=0)
            n = f"n = {least}" + (f" to {most}" if least < most else "")
            axes.set_title(f"{named[fabric]}\n{n}")
            axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(smallest * 0.8, 1.15))
            plain_log(axes, "x")
            plain_log(axes, "y", (1,))
            _limit_lines(axes, study)
        hide_rest(grid.tolist(), len(fabrics), across)
        figure.supxlabel("hand-off time (ms)", fontsize=9)
        figure.supylabel("share of hand-offs that take longer", fontsize=9)
        _legend(figure, policies, study.policies, 0 if beside else across + 1)
    return Plot(
        "handoff-ccdf",
        "Share of hand-offs that take longer than a time, one panel a fabric, one curve a policy; "
        "pale where fewer than 10 hand-offs carry the curve."
        + told(len(fabrics), len(every), "fabrics")
        + told(len(policies), len(each), "policies"),
        figure,
        ("fabric", "policy", "n", "handoff_ms", "share_longer"),
        tuple(
            (
                fabric,
                policy,
                len(curve),
                float(curve[rank]) / PS_PER_MS,
                1 - (rank + 1) / len(curve),
            )
            for (fabric, policy), curve in curves.items()
            for rank in kept(len(curve)).tolist()
        ),
    )


def kept(count: int) -> NDArray[np.int64]:
    """The places of a sorted sample that its curve keeps: evenly in the logarithm of the share
    that is longer, so that every decade of the tail has as many.

    >>> len(kept(1000)), len(kept(1_000_000)) <= 2200, int(kept(10**6)[-1])
    (1000, True, 999999)
    """
    if count <= _MOST:
        return np.arange(count)
    longer = np.geomspace(count, _LAST, _MOST - _LAST)
    places = np.concatenate((count - np.round(longer), np.arange(count - _LAST, count)))
    return np.unique(places.astype(np.int64))


def _sorted(part: Sample) -> Floats:
    return np.sort(np.concatenate([handoff.duration for handoff in part.handoffs]))


def _limits(curves: Sequence[Floats], budget_ps: int | None) -> tuple[float, float]:
    finite = [curve[np.isfinite(curve) & (curve > 0)] / PS_PER_MS for curve in curves]
    marks = [value for curve in finite if len(curve) for value in (curve[0], curve[-1])]
    if budget_ps:
        marks.append(budget_ps / PS_PER_MS)
    return (min(marks) * 0.85, max(marks) * 1.25) if marks else (0.1, 10.0)


def _draw(axes: "Axes", curve: Floats, place: int, limits: tuple[float, float], panel: str) -> None:
    """The steps of one curve: it falls by 1/n at every value."""
    n, (left, right) = len(curve), limits
    rank = kept(n)
    x = np.concatenate(([left], np.repeat(np.minimum(curve[rank] / PS_PER_MS, right), 2)[:-1]))
    y = np.repeat(1 - rank / n, 2)
    carried = _CARRIED / n
    for chosen, alpha, width, part in (
        (y >= carried - 1e-12, 1.0, 1.5, "carried"),
        (y <= carried + 1e-12, 0.35, 1.0, "pale"),
    ):
        axes.plot(
            x[chosen],
            y[chosen],
            color=colour(place),
            linestyle=dash(place),
            alpha=alpha,
            linewidth=width,
            gid=of_policy(place, f"{panel}-{part}"),
        )


def _limit_lines(axes: "Axes", study: StudyManifest) -> None:
    if study.budget_ps is not None:
        budget = study.budget_ps / PS_PER_MS
        axes.axvline(budget, color=INK, linewidth=1.0)
        low, high = axes.get_xlim()
        after = budget / low < (high / low) ** _NEAR
        axes.annotate(
            f"budget {budget:g} ms",
            (budget, 0),
            xycoords=("data", "axes fraction"),
            xytext=(3 if after else -3, 3),
            textcoords="offset points",
            ha="left" if after else "right",
            va="bottom",
            fontsize=7,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8},
        )
    if study.allowed > 0:
        axes.axhline(study.allowed, color=GREY, linewidth=0.8, linestyle=(0, (4, 2)))
        axes.annotate(
            f"{100 * study.allowed:g} % allowed",
            (0, study.allowed),
            xycoords=("axes fraction", "data"),
            xytext=(3, 2),
            textcoords="offset points",
            fontsize=7,
            color="#666666",
        )


def _legend(figure: "Figure", policies: Sequence[str], every: Sequence[str], columns: int) -> None:
    from matplotlib.lines import Line2D

    named = labels(policies)
    handles = [
        Line2D([], [], color=colour(place), linestyle=dash(place), label=named[policy])
        for policy in policies
        for place in (every.index(policy),)
    ]
    if columns:
        figure.legend(handles=handles, loc="outside upper left", ncols=columns)
    else:
        figure.legend(handles=handles, loc="outside right upper")
