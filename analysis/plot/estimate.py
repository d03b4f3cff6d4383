"""The two cheap estimates beside the packets: transfers at the same quantile, one row each.

Where the three marks fall together, an estimate would have done.
"""

from collections.abc import Sequence
from math import isfinite

from analysis.plot.style import BLUE, GREY, ORANGE, RED, Plot, blank, label, labels, styled
from analysis.shown import Alternative, rows_shown, told
from analysis.summary import Gap, Summary
from analysis.wording import name, times
from topo.unit import PS_PER_MS


def estimate(
    rows: Sequence[Summary], moved: str = "packets", first: Sequence[Alternative] = ()
) -> Plot:
    """Bytes/bandwidth, max-min and emulated transfer times of every alternative that has them.

    ``moved`` says what moved the bytes; of very many those are drawn that come first in ``first``.
    """
    every = [row for row in rows if row.bandwidth is not None or row.maxmin is not None]
    q = next((name(row.q) for row in every if row.q is not None), "tail")
    some = rows_shown(every, first)
    fabrics = labels([row.fabric for row in some], 32)
    policies = labels([row.policy for row in some], 22)
    names = [f"{fabrics[row.fabric]} / {policies[row.policy]}" for row in some]
    with styled():
        figure = blank(9.6, 0.23 * max(3, len(some)) + 1.1)
        axes = figure.subplots()
        for place, row in enumerate(some):
            packet = row.transfer_tail / PS_PER_MS
            marks = [(_tail(row.bandwidth), "s", BLUE), (_tail(row.maxmin), "D", ORANGE)]
            known = [value for value, _, _ in marks if isfinite(value)]
            if isfinite(packet):
                axes.plot([min([*known, packet]), packet], [place, place], color=GREY, lw=1)
                ratio = row.bandwidth.ratio if row.bandwidth is not None else float("nan")
                axes.annotate(
                    f"{times(ratio)} bytes/bandwidth" if row.bandwidth is not None else "",
                    (packet, place),
                    xytext=(7, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=7,
                )
            for value, mark, tint in (*marks, (packet, "o", RED)):
                axes.plot([value], [place], mark, color=tint, markersize=5)
        axes.set_yticks(range(len(some)), names)
        axes.set_ylim(len(some) - 0.4, -0.6)
        axes.set_xlim(0, 1.3 * axes.dataLim.x1 if some else 1)
        axes.set_xlabel(f"{q} transfer time (ms)")
        ratios = [row.bandwidth.ratio for row in every if row.bandwidth is not None]
        most = max(filter(isfinite, ratios), default=None)
        if most is not None:
            axes.set_title(f"By {moved}, {q} transfers take up to {times(most)} bytes/bandwidth")
        handles = [
            axes.plot([], [], mark, color=tint, label=text)[0]
            for text, mark, tint in (
                ("bytes/bandwidth", "s", BLUE),
                ("max-min sharing", "D", ORANGE),
                (label(moved), "o", RED),
            )
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=3)
    return Plot(
        "estimate",
        f"{q} transfer time by bytes/bandwidth, by max-min sharing and by {moved}."
        + told(len(some), len(every), "alternatives"),
        figure,
        ("fabric", "policy", "bandwidth_ms", "maxmin_ms", "emulated_ms"),
        tuple(
            (
                row.fabric,
                row.policy,
                _tail(row.bandwidth),
                _tail(row.maxmin),
                row.transfer_tail / PS_PER_MS,
            )
            for row in every
        ),
    )


def _tail(gap: Gap | None) -> float:
    return gap.tail_ps / PS_PER_MS if gap is not None else float("nan")
