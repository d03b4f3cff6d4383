"""Cost against tail: what a shorter hand-off tail costs, with whiskers and the budget line.

An alternative is dominated, and grey, when another costs no more and has a tail no longer, one of
the two strictly better, as observed; the whiskers tell how sure that is.
"""

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.plot.style import GREY, INK, MARKS, STANDING, Plot, blank, labels, styled
from analysis.record import StudyManifest
from analysis.summary import Summary
from analysis.wording import name
from topo.unit import PS_PER_MS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_SCALE = 1e3
_STEP = 0.016
_ROOM = 0.35
"""What the name of a policy takes beside a column, as a share of the span of costs."""
_STACK = 7
"""Names of fabrics above one another, at most."""


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


def cost(rows: Sequence[Summary], study: StudyManifest) -> Plot:
    """Cost of the fabric against the tail of every alternative that has one."""
    shown = [row for row in rows if row.tail is not None and row.facts is not None]
    points = [_point(row) for row in shown]
    beaten = dominated(points)
    q = next((name(row.q) for row in shown if row.q is not None), "tail")
    finite = [tail for _, tail in points if isfinite(tail)]
    budget = study.budget_ps / PS_PER_MS if study.budget_ps else None
    top = 1.35 * max([*finite, budget or 0.0], default=1.0)
    policies = [p for p in study.policies if any(row.policy == p for row in shown)]
    prices = [price / _SCALE for price, _ in points]
    span = (max(prices) - min(prices) if prices else 0) or max(prices, default=1.0) or 1.0
    with styled():
        figure = blank(9.5, 4.6)
        axes = figure.subplots()
        drawn = zip(shown, points, beaten, strict=True)
        for row, (price, tail), worse in sorted(drawn, key=lambda each: not each[2]):
            tint = GREY if worse else STANDING.get(row.verdict, INK)
            shift = policies.index(row.policy) - (len(policies) - 1) / 2
            x = price / _SCALE + span * _STEP * shift
            y = min(tail, top)
            low, high = _ends(row, top)
            axes.plot([x, x], [low, high], color=tint, linewidth=1.0, alpha=0.8)
            mark = MARKS[policies.index(row.policy) % len(MARKS)]
            axes.plot([x], [y], mark, color=tint, markersize=6, zorder=3)
            if row.tail is not None and row.tail.high > top * PS_PER_MS:
                axes.plot([x], [top], "^", color=tint, markersize=4, clip_on=False)
        columns = sorted(set(zip(prices, (row.fabric for row in shown), strict=True)))
        _fabrics(axes, columns, span)
        best = [row for row, worse in zip(shown, beaten, strict=True) if not worse]
        _name(axes, best, columns, span, span * _STEP * (len(policies) / 2 + 0.3))
        if budget is not None:
            axes.axhline(budget, color=INK, linewidth=1.0)
            axes.annotate(
                f"budget {budget:g} ms",
                (1, budget),
                xytext=(0, 2),
                ha="right",
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                fontsize=7.5,
            )
        axes.set_ylim(0, top)
        left, right = (min(prices, default=0.0), max(prices, default=1.0))
        axes.set_xlim(max(0.0, left - 0.3 * span), right + 0.35 * span)
        axes.set_xlabel("switches and cables between them (thousand US dollars)")
        axes.set_ylabel(f"{q} hand-off time (ms)")
        _legend(axes, policies)
    return Plot(
        "cost",
        f"Cost of the fabric against {q} hand-off time with its 95 % interval (an arrow: "
        "beyond the plot or unbounded); dominated alternatives are grey. "
        "Policies of one fabric are set side by side; its price is in the table.",
        figure,
        ("fabric", "policy", "cost_usd", "tail_ms", "tail_low_ms", "tail_high_ms", "dominated"),
        tuple(
            (
                row.fabric,
                row.policy,
                price,
                tail,
                row.tail.low / PS_PER_MS,
                row.tail.high / PS_PER_MS,
                worse,
            )
            for row, (price, tail), worse in zip(shown, points, beaten, strict=True)
            if row.tail is not None
        ),
    )


def _point(row: Summary) -> tuple[float, float]:
    if row.tail is None or row.facts is None:
        return (np.inf, np.inf)
    return (row.facts.cost_usd, row.tail.value / PS_PER_MS)


def _ends(row: Summary, top: float) -> tuple[float, float]:
    """The whisker; an end beyond the plot, or that the data does not bound, goes to its edge."""
    if row.tail is None:
        return (0.0, 0.0)
    return (max(0.0, row.tail.low / PS_PER_MS), min(top, row.tail.high / PS_PER_MS))


def _fabrics(axes: "Axes", places: Sequence[tuple[float, str]], span: float) -> None:
    """The name of each fabric above its price, one step higher where two would overlap; of more
    than `_STACK` in one place it says how many."""
    stacks: list[list[tuple[float, str]]] = []
    for price, fabric in places:
        if stacks and price - stacks[-1][-1][0] < 0.16 * span:
            stacks[-1].append((price, fabric))
        else:
            stacks.append([(price, fabric)])
    kept = [stack[: _STACK if len(stack) > _STACK + 1 else None] for stack in stacks]
    named = labels([fabric for stack in kept for _, fabric in stack], 20)
    texts = [
        (price, height, named[fabric])
        for stack in kept
        for height, (price, fabric) in enumerate(stack)
    ]
    texts += [
        (some[-1][0], len(some), f"and {len(stack) - len(some)} more")
        for stack, some in zip(stacks, kept, strict=True)
        if len(stack) > len(some)
    ]
    for price, height, text in texts:
        axes.annotate(
            text,
            (price, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 5 + 10 * height),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )


def _name(
    axes: "Axes",
    rows: Sequence[Summary],
    columns: Sequence[tuple[float, str]],
    span: float,
    edge: float,
) -> None:
    """Name the policies of the undominated beside their fabric's column, where it is free."""
    alike: dict[tuple[float, float, str], list[str]] = {}
    named = labels([row.policy for row in rows], 18)
    for row in rows:
        alike.setdefault((*_point(row), row.fabric), []).append(named[row.policy])
    for (price, tail, _), names in alike.items():
        x = price / _SCALE
        after = min((p - x for p, _ in columns if p > x), default=np.inf)
        before = min((x - p for p, _ in columns if p < x), default=np.inf)
        # the undominated are the lowest: below them it is free where beside them it is not
        room = _ROOM * span
        place: dict[str, Any] = {"xy": (x, tail), "xytext": (0, -7), "ha": "center", "va": "top"}
        if after > room or before > room:
            left = after <= room
            at = x - edge if left else x + edge
            place = {"xy": (at, tail), "xytext": (0, 0), "va": "center"}
            place["ha"] = "right" if left else "left"
        axes.annotate(
            "\n".join((*names[:2], "...")[: min(3, len(names))]),
            **place,
            textcoords="offset points",
            fontsize=7.5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8},
        )


def _legend(axes: "Axes", policies: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    named = labels(policies)
    handles = [
        Line2D(
            [],
            [],
            color=INK,
            marker=MARKS[place % len(MARKS)],
            linestyle="",
            label=named[policy],
            markersize=5,
        )
        for place, policy in enumerate(policies)
    ]
    handles += [
        Line2D([], [], color=tint, linewidth=3, label=text)
        for text, tint in (*STANDING.items(), ("dominated", GREY))
    ]
    axes.figure.legend(handles=handles, loc="outside right upper")
