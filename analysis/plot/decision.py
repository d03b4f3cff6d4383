"""The decision map as a figure: a row a design, a column a workload, the choice of each framed.

A field is coloured by the verdict of the design under the workload and says it, the tail and the
share over budget of its worst case there.
"""

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING

from analysis.condition import Case
from analysis.decision import Decision, always
from analysis.plot.style import GREY, INK, STANDING, Plot, blank, label, labels, styled
from analysis.shown import PANELS
from analysis.shown import shown as some_of
from analysis.summary import tail_name
from analysis.wording import count, duration, percent
from topo.unit import PS_PER_MS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LETTER = 0.07
"""Inches that a letter of a row's name takes."""
_TITLE = 4.2
"""Inches that the longest title takes."""


def decision(found: Sequence[Decision]) -> Plot:
    """The figure of the decisions of `analysis.decision.decisions`."""
    merit = _merit(found)
    designs = some_of(merit, sorted(merit, key=lambda key: merit[key], reverse=True), PANELS)
    names = [f"{design} with {policy}" for design, policy in designs]
    shown = labels(names, 46)
    across = labels([one.workload for one in found], 22)
    q = tail_name([case.worst for one in found for case in one.cases])
    with styled():
        beside = _LETTER * max(map(len, shown.values()))
        figure = blank(beside + max(_TITLE, 1.5 * len(found)), 1.5 + 0.42 * len(designs))
        axes = figure.subplots()
        for column, one in enumerate(found):
            held = {case.key: case for case in one.cases}
            for row, key in enumerate(designs):
                if key in held:
                    _field(axes, column, row, held[key], one.chooses(held[key]))
        axes.set_xlim(-0.5, len(found) - 0.5)
        axes.set_ylim(len(designs) - 0.5, -0.5)
        axes.set_xticks(range(len(found)), [across[one.workload] for one in found])
        axes.xaxis.tick_top()
        axes.set_yticks(range(len(designs)), [shown[name] for name in names])
        axes.tick_params(length=0)
        axes.grid(visible=False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.set_title(f"{_says(found)}\n{q} hand-off time, share over budget", pad=10)
    left = len(merit) - len(designs)
    rest = f" {count(left, 'more design')}: see the CSV." if left > 0 else ""
    return Plot(
        "decision",
        f"{q} hand-off time and share over budget of every design under every workload, each at "
        "its worst load and fault; green meets the budget, red misses it, orange is undecided; "
        f"framed is the cheapest that meets it.{rest}",
        figure,
        (
            *("workload", "fabric", "policy", "verdict", "chosen", "cost_usd", "tail_ms"),
            *("tail_low_ms", "tail_high_ms", "over_budget"),
        ),
        tuple(_row(one, case) for one in found for case in one.cases),
    )


def _merit(found: Sequence[Decision]) -> dict[tuple[str, str], tuple[int, int]]:
    """For how many workloads each design is chosen, and under how many it meets the budget."""
    merit: dict[tuple[str, str], tuple[int, int]] = {}
    for one in found:
        for case in one.cases:
            chosen, met = merit.get(case.key, (0, 0))
            merit[case.key] = chosen + one.chooses(case), met + case.passes
    return merit


def _field(axes: "Axes", column: int, row: int, case: Case, chosen: bool) -> None:
    from matplotlib.patches import Rectangle

    worst = case.worst
    tint = STANDING.get(case.verdict, GREY)
    corner = (column - 0.47, row - 0.44)
    axes.add_patch(Rectangle(corner, 0.94, 0.88, facecolor=tint, alpha=0.3, linewidth=0))
    if chosen:
        axes.add_patch(
            Rectangle(corner, 0.94, 0.88, facecolor="none", edgecolor=INK, linewidth=2.0)
        )
    told = [case.verdict]
    if worst.over is not None:
        tail = worst.tail.value if worst.tail is not None else worst.median
        told = [
            f"{case.verdict}, {duration(tail) if isfinite(tail) else 'never ends'}",
            f"{percent(worst.over.value)} over",
        ]
    axes.text(
        column, row, "\n".join(told), ha="center", va="center", fontsize=7,
        fontweight="bold" if chosen else "normal",
    )  # fmt: skip


def _says(found: Sequence[Decision]) -> str:
    """What to see."""
    names = {case.key for one in found for case in one.cases if one.chooses(case)}
    unmet = sum(one.chosen is None for one in found)
    if unmet:
        return f"{count(unmet, 'workload')} of {len(found)} without a design that meets the budget"
    if len(names) == 1:
        ((design, policy),) = names
        return f"One choice for all {len(found)} workloads: {label(f'{design} with {policy}', 50)}"
    fit = len(always(found))
    return (
        f"{len(names)} choices for {len(found)} workloads; "
        f"{count(fit, 'design') if fit else 'no design'} would do for all"
    )


def _row(one: Decision, case: Case) -> tuple[object, ...]:
    worst = case.worst
    tail, over, facts = worst.tail, worst.over, worst.facts
    ends = (tail.value, tail.low, tail.high) if tail is not None else (None,) * 3
    return (
        *(one.workload, *case.key, case.verdict, one.chooses(case)),
        facts.cost_usd if facts is not None else None,
        *(None if end is None else end / PS_PER_MS for end in ends),
        over.value if over is not None else None,
    )
