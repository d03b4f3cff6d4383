"""Cost against tail: what a shorter hand-off tail costs, with whiskers and the budget line.

One column a fabric, the cheapest on the left, under it its price; in a column a mark a policy. The
colour is the verdict. An alternative is dominated, and its mark open, when another costs no more
and has a tail no longer, one of the two strictly better, as observed; the whiskers tell how sure
that is.
"""

from collections.abc import Sequence
from math import isfinite
from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np

from analysis.condition import conditions
from analysis.plot.style import INK, MARKS, STANDING, Plot, blank, label, labels, styled
from analysis.record import StudyManifest
from analysis.shown import PANELS, Alternative, shown, told
from analysis.summary import Summary
from analysis.wording import money, name
from topo.unit import PS_PER_MS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LETTER = 0.08
"""Inches of a letter under a column, about."""
_COLUMN = 0.76
"""The part of its place that a column fills."""


def dominated(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Which (cost, tail) points another point beats.

    >>> dominated([(1, 5), (2, 3), (2, 4), (1, 5)])
    [False, False, True, False]
    """
    beaten: dict[tuple[float, float], bool] = {}
    least: float | None = None
    for point in sorted(set(points)):
        # what costs no more stands before it
        beaten[point] = least is not None and point[1] >= least
        least = point[1] if least is None else min(least, point[1])
    return [beaten[point] for point in points]


def cost(rows: Sequence[Summary], study: StudyManifest, first: Sequence[Alternative] = ()) -> Plot:
    """Cost of the fabric against the tail of every alternative that has one.

    Of very many fabrics and policies those are drawn that come first in ``first``.
    """
    every = [row for row in rows if row.tail is not None and row.facts is not None]
    points = {(row.fabric, row.policy): _point(row) for row in every}
    beaten = dict(zip(points, dominated(list(points.values())), strict=True))
    prices = {fabric: price for (fabric, _), (price, _) in points.items()}
    ran = [policy for policy in study.policies if any(row.policy == policy for row in every)]
    fabrics = sorted(shown(prices, (one for one, _ in first), PANELS), key=prices.__getitem__)
    policies = shown(ran, (one for _, one in first), len(MARKS))
    drawn = [row for row in every if row.fabric in fabrics and row.policy in policies]
    q = next((name(row.q) for row in every if row.q is not None), "tail")
    budget = study.budget_ps / PS_PER_MS if study.budget_ps else None
    cased = any(one.text for one in conditions(study).values())
    tails = [tail for row in drawn if isfinite(tail := _point(row)[1])]
    top = 1.35 * max([*tails, budget or 0.0], default=1.0)
    step = _COLUMN / max(1, len(policies))
    with styled():
        wide = min(13.6, max(4.6, len(fabrics) * (0.5 + 0.16 * len(policies))))
        names = _names({fabric: money(prices[fabric]) for fabric in fabrics}, wide)
        figure = blank(wide + 2.4, 4.6 if names else 5.6)
        axes = figure.subplots()
        for row in drawn:
            place = policies.index(row.policy)
            x = fabrics.index(row.fabric) + step * (place - (len(policies) - 1) / 2)
            _draw(axes, row, x, MARKS[place], beaten[row.fabric, row.policy], top)
        if budget is not None:
            _budget(axes, budget)
        for edge in range(1, len(fabrics)):
            axes.axvline(edge - 0.5, color="#DDDDDD", linewidth=0.6)
        axes.grid(visible=False, axis="x")
        axes.tick_params(axis="x", length=0)
        axes.set_xlim(-0.5, max(1, len(fabrics)) - 0.5)
        axes.set_ylim(0, top)
        if names:
            axes.set_xticks(range(len(names)), names)
        else:
            _lean(axes, {fabric: money(prices[fabric]) for fabric in fabrics})
        axes.set_xlabel("fabric, and its switches and the cables between them in US dollars")
        axes.set_ylabel(f"{q} hand-off time (ms)")
        best = sum(not beaten[row.fabric, row.policy] for row in every)
        axes.set_title(f"Filled marks, {best} of {len(every)}, are not beaten in cost and tail")
        _legend(figure, policies, sorted({row.verdict for row in drawn}))
    return Plot(
        "cost",
        f"Cost of the fabric against {q} hand-off time with its 95 % interval (an arrow: "
        "beyond the plot or unbounded), one column a fabric, the cheapest on the left; open marks "
        "are dominated: another costs no more and has a tail no longer."
        + " Each is drawn at the worst of its loads, losses and workloads." * cased
        + told(len(fabrics), len(prices), "fabrics")
        + told(len(policies), len(ran), "policies"),
        figure,
        ("fabric", "policy", "cost_usd", "tail_ms", "tail_low_ms", "tail_high_ms", "dominated"),
        tuple(
            (
                *(row.fabric, row.policy, *_point(row)),
                *(row.tail.low / PS_PER_MS, row.tail.high / PS_PER_MS),
                beaten[row.fabric, row.policy],
            )
            for row in every
            if row.tail is not None
        ),
    )


def _point(row: Summary) -> tuple[float, float]:
    if row.tail is None or row.facts is None:
        return (np.inf, np.inf)
    return (row.facts.cost_usd, row.tail.value / PS_PER_MS)


def _draw(axes: "Axes", row: Summary, x: float, mark: str, worse: bool, top: float) -> None:
    """An alternative; an end beyond the plot, or that the data does not bound, is at its edge."""
    if row.tail is None:
        return
    value, low, high = (
        min(top, max(0.0, end / PS_PER_MS)) for end in (row.tail.value, row.tail.low, row.tail.high)
    )
    tint = STANDING.get(row.verdict, INK)
    axes.plot([x, x], [low, high], color=tint, linewidth=1.0, alpha=0.8)
    face = "white" if worse else tint
    axes.plot([x], [value], mark, color=tint, markerfacecolor=face, markersize=6, zorder=3)
    if row.tail.high > top * PS_PER_MS:
        axes.plot([x], [top], "^", color=tint, markersize=4, clip_on=False)


def _budget(axes: "Axes", budget: float) -> None:
    """The line, and its name beyond its end, where no mark is."""
    axes.axhline(budget, color=INK, linewidth=1.0)
    axes.text(
        *(1.005, budget, f"budget\n{budget:g} ms"),
        transform=axes.get_yaxis_transform(),
        va="center",
        fontsize=7.5,
    )


def _names(prices: dict[str, str], wide: float) -> list[str]:
    """Each fabric with its price under it, over at most three lines of its column; none where the
    columns, ``wide`` inches together, are too narrow for that."""
    room = int(wide / max(1, len(prices)) / _LETTER)
    lines = {fabric: wrap(label(fabric, 80), room) for fabric in prices}
    if any(len(each) > 3 or max(map(len, each), default=0) > room for each in lines.values()):
        return []
    return ["\n".join([*lines[fabric], price]) for fabric, price in prices.items()]


def _lean(axes: "Axes", prices: dict[str, str]) -> None:
    """Each fabric with its price in one leaning line."""
    named = labels(list(prices), 44)
    texts = [f"{named[one]}, {price}" for one, price in prices.items()]
    axes.set_xticks(
        range(len(texts)), texts, rotation=30, ha="right", rotation_mode="anchor", fontsize=7
    )


def _legend(figure: "Figure", policies: Sequence[str], verdicts: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    def key(text: str, mark: str, face: str, tint: str = INK) -> "Line2D":
        return Line2D(
            *([], []),
            color=tint,
            marker=mark,
            markerfacecolor=face,
            linestyle="" if mark else "-",
            linewidth=3,
            markersize=5,
            label=text,
        )

    named = labels(policies)
    keys = [key(named[one], MARKS[place], INK) for place, one in enumerate(policies)]
    keys += [key(text, "", tint, tint) for text, tint in STANDING.items() if text in verdicts]
    figure.legend(handles=[*keys, key("dominated", "o", "white")], loc="outside right upper")
