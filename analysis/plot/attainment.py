"""Attainment against the rate of requests: how far each policy gets before it misses the goal."""

from collections.abc import Sequence
from math import ceil

import numpy as np

from analysis.goodput import Search, shown
from analysis.plot.style import (
    INK,
    MARKS,
    Plot,
    blank,
    colour,
    dash,
    label,
    labels,
    plain_log,
    styled,
)

_ACROSS = 3
_NAMED = 3
_STACKED = 6
"""Marks of so many policies stand above each other, so that equal ones are seen."""


def attainment(searches: Sequence[Search]) -> Plot:
    """One panel a fabric, one line a policy, through every rate that was tried.

    Bars are 95 % intervals over the seeds; the tick below the goal marks the goodput.
    """
    fabrics = list(dict.fromkeys(s.fabric for s in searches if s.points))
    policies = list(dict.fromkeys(s.policy for s in searches))
    across = min(_ACROSS, max(1, len(fabrics)))
    down = ceil(max(1, len(fabrics)) / across)
    with styled():
        figure = blank(3.6 * across + 1.2, 2.9 * down + 0.7)
        grid = figure.subplots(down, across, sharey=True, sharex=True, squeeze=False)
        for place, axes in enumerate(grid.flat):
            if place >= len(fabrics):
                axes.set_visible(False)
                continue
            for search in (s for s in searches if s.fabric == fabrics[place] and s.points):
                series = policies.index(search.policy)
                points = sorted(search.points, key=lambda p: p.rate_per_s)
                rates = np.array([p.rate_per_s for p in points])
                found = [p.attainment for p in points]
                share = np.array([100 * e.value for e in found])
                low = share - [100 * e.low for e in found]
                high = np.array([100 * e.high for e in found]) - share
                axes.errorbar(
                    rates,
                    share,
                    yerr=(low.clip(0), high.clip(0)),
                    color=colour(series),
                    linestyle=dash(series),
                    marker=MARKS[series % len(MARKS)],
                    markersize=3.5,
                    elinewidth=0.7,
                    label=label(search.policy),
                )
                best = search.bracket[0]
                if best is not None:
                    foot = 7 * (series % _STACKED)
                    at = [best.rate_per_s] * 2
                    axes.plot(at, [foot, foot + 6], color=colour(series), linewidth=2.0)
            goal = 100 * searches[0].goal
            axes.axhline(goal, color=INK, linewidth=0.9, linestyle=(0, (4, 2)))
            axes.text(
                1.0,
                goal,
                f" {goal:g} %",
                transform=axes.get_yaxis_transform(),
                va="center",
                fontsize=7,
                color=INK,
            )
            axes.set_xscale("log")
            low, high = axes.get_xlim()
            plain_log(axes, "x", (1, 2, 5) if high > 10 * low else (1, 1.5, 2, 3, 4, 5, 6, 8))
            axes.set_ylim(0, 104)
            mine = [one for one in searches if one.fabric == fabrics[place]]
            axes.set_title(f"{labels(fabrics, 40)[fabrics[place]]}\n{_says(mine)}")
        for axes in grid[:, 0]:
            axes.set_ylabel("requests within objectives (%)")
        for axes in grid[-1]:
            axes.set_xlabel("requests/s")
        handles, names = grid[0, 0].get_legend_handles_labels()
        if len(names) > 1:
            figure.legend(handles, names, loc="outside lower center", ncols=_NAMED * across)
    return Plot(
        "attainment",
        "Share of requests within their objectives at every rate that was tried, one line a "
        "policy; the dashed line is the goal, ticks on the axis are the goodputs.",
        figure,
        ("fabric", "policy", "rate_per_s", "attainment", "low", "high", "met_goal"),
        tuple(
            (s.fabric, s.policy, p.rate_per_s, e.value, e.low, e.high, int(e.value >= s.goal))
            for s in searches
            for p in sorted(s.points, key=lambda one: one.rate_per_s)
            for e in (p.attainment,)
        ),
    )


def _says(searches: Sequence[Search]) -> str:
    """What to see: how far the best policy gets."""
    found = [(low.rate_per_s, one.policy) for one in searches if (low := one.bracket[0])]
    if not found:
        return "goal met at no rate tried"
    rate, policy = max(found, key=lambda each: each[0])
    return f"goal met up to {shown(rate)}/s, {label(policy, 18)}"
