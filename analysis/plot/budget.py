"""Budget bars: where the mean request spends its time, one bar an alternative.

The left panel leaves decode out, which is so much longer that it would hide the hand-off; the
right panel has all four.
"""

from collections.abc import Sequence

import numpy as np

from analysis.budget import PARTS
from analysis.plot.style import BLUE, GREEN, GREY, ORANGE, Plot, blank, labels, styled
from analysis.shown import Alternative, rows_shown, told
from analysis.summary import Summary
from topo.unit import PS_PER_MS

_COLOUR = {"queueing": GREY, "prefill": BLUE, "handoff": ORANGE, "decode": GREEN}
_TEXT = {"queueing": "queueing", "prefill": "prefill", "handoff": "hand-off", "decode": "decode"}


def budget(rows: Sequence[Summary], first: Sequence[Alternative] = ()) -> Plot:
    """Mean queueing, prefill, hand-off and decode of every alternative that finished requests.

    Of very many those are drawn that come first in ``first``.
    """
    every = [row for row in rows if row.parts]
    some = rows_shown(every, first)
    fabrics = labels([row.fabric for row in some], 36)
    policies = labels([row.policy for row in some], 26)
    names = [f"{fabrics[row.fabric]} / {policies[row.policy]}" for row in some]
    means = np.array([row.parts for row in some], float).reshape(-1, len(PARTS)) / PS_PER_MS
    with styled():
        figure = blank(11.5, 0.23 * max(3, len(some)) + 1.1)
        early, whole = figure.subplots(1, 2, sharey=True)
        for axes, parts in ((early, PARTS[:3]), (whole, PARTS)):
            left = np.zeros(len(some))
            for part in parts:
                width = means[:, PARTS.index(part)]
                axes.barh(
                    range(len(some)), width, 0.72, left, color=_COLOUR[part], label=_TEXT[part]
                )
                left = left + width
            axes.grid(visible=False, axis="y")
            axes.margins(y=0.01)
            axes.set_xlabel("mean over finished requests (ms)")
            axes.set_xlim(0, 1.12 * max(left, default=1.0) or 1.0)
        for place, row in enumerate(means):
            early.text(row[:3].sum(), place, f" hand-off {row[2]:.3g} ms", va="center", fontsize=7)
        early.set_title("Before decode")
        whole.set_title("Whole request")
        early.set_yticks(range(len(some)), names)
        early.invert_yaxis()
        handles, texts = whole.get_legend_handles_labels()
        figure.legend(handles, texts, loc="outside upper left", ncols=4)
    return Plot(
        "budget",
        "Mean time of a request by budget: queueing, prefill, hand-off, decode, one bar an "
        f"alternative.{told(len(some), len(every), 'alternatives')}",
        figure,
        ("fabric", "policy", *(f"mean_{part}_ms" for part in PARTS)),
        tuple(
            (row.fabric, row.policy, *(float(part) / PS_PER_MS for part in row.parts))
            for row in every
        ),
    )
