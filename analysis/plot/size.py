"""Slowdown against size: does the network treat large caches worse than small ones, or the reverse?

One panel a fabric, one colour a policy, the same axes in all. Hand-offs are put into bins of equal
count by their bytes; a point stands at its bin's median size: marked the highest quantile that a
bin carries, pale the median. A ratio says what a duration cannot, since large caches take longer
anyway (as in the figures of HPCC, SIGCOMM 2019).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from analysis.interval import highest_quantile, quantile
from analysis.plot.style import (
    MARKS,
    Plot,
    blank,
    colour,
    dash,
    hide_rest,
    labels,
    plain_log,
    policy_keys,
    styled,
)
from analysis.record import StudyManifest
from analysis.shown import PANELS, Alternative, shown, told
from analysis.summary import Sample
from analysis.wording import name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

_ACROSS = 4
_BINS = 8
_ABOVE = 8
"""More policies than this are named beside the panels, and not above them."""
_LEAST = 100
"""Hand-offs in a bin, at least: P90 is told from so many."""


def binned(size: Floats, slowdown: Floats, bins: int, q: float) -> list[tuple[float, float, float]]:
    """(median size, median slowdown, slowdown at q) of bins of equal count, by size.

    >>> binned(np.array([1.0, 3.0, 2.0, 4.0]), np.array([1.0, 5.0, 2.0, 6.0]), 2, 0.9)
    [(1.0, 1.0, 2.0), (3.0, 5.0, 6.0)]
    """
    order = np.argsort(size, kind="stable")
    parts = np.array_split(order, bins)
    return [
        (quantile(size[part], 0.5), quantile(slowdown[part], 0.5), quantile(slowdown[part], q))
        for part in parts
    ]


def sizes(parts: Sequence[Sample]) -> dict[tuple[str, str], tuple[Floats, Floats]]:
    """Bytes and slowdown (transfer over that of its flows each alone on an idle fabric) of the
    counted hand-offs of every alternative with `_LEAST` of different sizes that ended."""
    found = {}
    for part in parts:
        columns = [(each.payload, each.transfer, each.ideal) for each in part.handoffs]
        if not columns:
            continue
        size, took, ideal = (
            np.concatenate([one[place] for one in columns]).astype(np.float64) for place in range(3)
        )
        whole = np.isfinite(took) & (size > 0) & (ideal > 0)
        if np.count_nonzero(whole) >= _LEAST and np.ptp(size[whole]) > 0:
            found[part.fabric, part.policy] = (size[whole], took[whole] / ideal[whole])
    return found


def size(
    parts: Sequence[Sample], study: StudyManifest, first: Sequence[Alternative] = ()
) -> Plot | None:
    """The figure; None where no alternative has `_LEAST` hand-offs of different sizes.

    Of very many alternatives those are drawn that come first in ``first``.
    """
    held = sizes(parts)
    if not held:
        return None
    least = min(len(each) for each, _ in held.values())
    bins = max(1, min(_BINS, least // _LEAST))
    q = highest_quantile(least // bins) or 0.5
    ran = {fabric for fabric, _ in held}, {policy for _, policy in held}
    every = [fabric for fabric in study.fabrics if fabric in ran[0]]
    each = [policy for policy in study.policies if policy in ran[1]]
    fabrics = shown(every, [fabric for fabric, _ in first], PANELS)
    policies = shown(each, [policy for _, policy in first], PANELS)
    points = {key: np.array(binned(*held[key], bins, q)) for key in held}
    across = min(_ACROSS, len(fabrics))
    down = -(-len(fabrics) // across)
    named = labels(fabrics, 34)
    with styled():
        beside = len(policies) > _ABOVE
        tall = max(2.7 * down + 0.7, 0.19 * len(policies) + 0.5 if beside else 0.0)
        figure = blank(max(5.0, 2.75 * across) + (2.3 if beside else 0.5), tall)
        grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
        for axes, fabric in zip(grid, fabrics, strict=False):
            for policy in policies:
                if (fabric, policy) not in held:
                    continue
                place = study.policies.index(policy)
                at, middle, tail = points[fabric, policy].T
                look: dict[str, Any] = {"color": colour(place), "linestyle": dash(place)}
                mark = MARKS[place % len(MARKS)]
                axes.plot(at / 1e6, tail, marker=mark, markersize=4, **look)
                axes.plot(at / 1e6, middle, linewidth=0.9, alpha=0.5, **look)
            axes.set_title(named[fabric])
            axes.set_xscale("log")
            plain_log(axes, "x", (1, 2, 3, 5, 7))
        hide_rest(grid.tolist(), len(fabrics), across)
        figure.supxlabel("size of the hand-off (MB)", fontsize=9)
        figure.supylabel("slowdown (times the idle fabric)", fontsize=9)
        _legend(figure, policies, study, 0 if beside else across + 1)
    return Plot(
        "size",
        f"Slowdown against size, {bins} bins of equal count an alternative: marked {name(q)} of a "
        "bin, pale its median; 1 is the same flow alone on an idle fabric."
        + told(len(fabrics), len(every), "fabrics")
        + told(len(policies), len(each), "policies"),
        figure,
        ("fabric", "policy", "hand_offs", "size_mb", "slowdown_p50", f"slowdown_{name(q).lower()}"),
        tuple(
            (*key, len(held[key][0]) // bins, float(at) / 1e6, float(middle), float(tail))
            for key in held
            for at, middle, tail in points[key]
        ),
    )


def _legend(figure: "Figure", policies: Sequence[str], study: StudyManifest, columns: int) -> None:
    handles = policy_keys(policies, study.policies, 4)
    if columns:
        figure.legend(handles=handles, loc="outside upper left", ncols=columns)
    else:
        figure.legend(handles=handles, loc="outside right upper")
