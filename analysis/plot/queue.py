"""The longest queues over time, one panel an alternative, bytes and time on the same scales.

A panel shows when most waited, as long for all. Dark is the mean of the samples of a span, pale the
most; the bars above are pauses at the port. Thresholds of ECN are lines where they lie near what
waited, and else told. The level at which PFC stops a sender has no line: it falls with the free
memory of the switch, and is of an ingress.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from analysis.plot.pause import bars
from analysis.plot.style import BLUE, INK, ORANGE, RED, SKY, Plot, blank, labels, styled
from analysis.queue import Queue, covered
from analysis.summary import Sample
from analysis.witness import Ints
from analysis.wording import duration
from topo.unit import PS_PER_MS, show_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS: Final = 4
_NEAR: Final = 2.5
"""A threshold further above the fullest queue than this would flatten all of them."""
_APART: Final = 0.07
"""Lines that are no further from each other than this share of the panel have one remark."""
_LANES: Final = (("stopped", ORANGE, 0.955), ("stops", RED, 0.9))
"""Colours of pause and queue where hand-offs are blamed on them."""
_KB: Final = 1e3
_MB: Final = 1e6


def queues(found: Sequence[tuple[Sample, Queue]], cut: str = "") -> Plot:
    """Bytes that waited over time at the port where most did, of these alternatives; ``cut`` says
    which were left out."""
    across = min(_COLUMNS, len(found))
    down = -(-len(found) // across)
    fabrics, policies, ports = (
        labels(texts, 38)
        for texts in zip(*((s.fabric, s.policy, q.name) for s, q in found), strict=True)
    )
    fullest = max(int(queue.most.max()) for _, queue in found)
    near = [m for _, queue in found for m in queue.marks or () if m <= _NEAR * fullest]
    top = max(fullest, *near, 1)
    unit, scale = ("MB", _MB) if top >= _MB else ("kB", _KB)
    spans = [queue.busiest() for _, queue in found]
    half = 0.52 * max(last - first for first, last in spans) / PS_PER_MS
    with styled():
        figure = blank(max(5.0, 2.75 * across + 0.4), 2.5 * down + 0.8)
        grid = np.atleast_1d(figure.subplots(down, across, sharey=True)).ravel()
        for axes, (sample, queue), span in zip(grid, found, spans, strict=False):
            middle = max(half, sum(span) / 2 / PS_PER_MS)
            axes.set_xlim(middle - half, middle + half)
            _draw(axes, queue, scale, top)
            axes.set_title(
                f"{fabrics[sample.fabric]}\n{policies[sample.policy]}\n{ports[queue.name]}\n"
                f"{_says(queue)}",
                fontsize=7.5,
            )
        grid[0].set_ylim(0, 1.3 * top / scale)
        for axes in grid[len(found) :]:
            axes.set_visible(False)
        figure.supxlabel("time since the start of the run (ms)", fontsize=9)
        figure.supylabel(f"bytes waiting at the port ({unit})", fontsize=9)
        _legend(figure, found)
    return Plot(
        "queues",
        "Bytes waiting over time at the port where most waited (bytes times time, worst seed), one "
        "panel an alternative, when most did: how full it got, whether ECN marked it (lines at "
        "Kmin and Kmax, of one class) before it had its senders stopped, and when its own peer "
        "stopped it. The level at which PFC stops a sender falls with the switch's free memory, so "
        "that it has no line." + cut,
        figure,
        ("fabric", "policy", "seed", "port", "from_ms", "until_ms", "mean_bytes", "max_bytes"),
        tuple(
            (
                *(sample.fabric, sample.policy, queue.witness.cell.manifest.seed, queue.name),
                *(since / PS_PER_MS, until / PS_PER_MS, mean, most),
            )
            for sample, queue in found
            for since, until, mean, most in zip(
                *(each.tolist() for each in (queue.since, queue.until, queue.mean, queue.most)),
                strict=True,
            )
        ),
    )


def _says(queue: Queue) -> str:
    """How full it got, and for how long it stopped others and stood stopped."""
    told = [f"seed {queue.witness.cell.manifest.seed}, peak {show_size(int(queue.most.max()))}"]
    if paused := covered(queue.stopped):
        told.append(f"stopped {duration(paused)}")
    return ", ".join(told)


def stairs(queue: Queue, column: Ints) -> tuple[NDArray[np.float64], Ints]:
    """A column of a queue as steps, bytes and edges in ps: zero between its spans."""
    edges = np.unique(np.concatenate((queue.since, queue.until)))
    steps = np.zeros(len(edges) - 1)
    steps[np.searchsorted(edges, queue.since)] = column
    return steps, edges


def _draw(axes: "Axes", queue: Queue, scale: float, top: int) -> None:
    for column, tint in ((queue.most, SKY), (queue.mean, BLUE)):
        steps, edges = stairs(queue, column)
        axes.stairs(steps / scale, edges / PS_PER_MS, fill=True, color=tint, linewidth=0)
    for lane, tint, height in _LANES:
        since, until = getattr(queue, lane)
        since, until, _ = bars(since, until, np.zeros(len(since), np.int64))
        axes.broken_barh(
            (np.column_stack([since, until - since]) / PS_PER_MS).tolist(),
            (height, 0.035),
            transform=axes.get_xaxis_transform(),
            facecolors=tint,
            edgecolors=tint,
            lw=0.5,
        )
    notes: dict[float, list[str]] = {}
    for name, mark in zip(("Kmin", "Kmax"), queue.marks or (), strict=False):
        # what lies above the panel, or close to the other one, shares a remark
        level = next((at for at in notes if abs(at - mark) < _APART * top), min(mark, 1.04 * top))
        notes.setdefault(level, []).append(f"{name} {show_size(mark)}" + " above" * (mark > top))
        if mark <= top:
            axes.axhline(mark / scale, color=INK, linewidth=0.9, linestyle=(0, (4, 2)))
    for level, names in notes.items():
        _note(axes, ", ".join(names), level / scale)


def _note(axes: "Axes", text: str, height: float) -> None:
    """A remark at the right end, on a level."""
    axes.annotate(
        text,
        (1, height),
        xycoords=("axes fraction", "data"),
        xytext=(-2, 1.5),
        textcoords="offset points",
        ha="right",
        fontsize=6.5,
        color=INK,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.3, "alpha": 0.7},
    )


def _legend(figure: "Figure", found: Sequence[tuple[Sample, Queue]]) -> None:
    from matplotlib.patches import Patch

    keys = [
        Patch(color=BLUE, label="mean of the samples of a span"),
        Patch(color=SKY, label="most of them"),
    ]
    names = {"stopped": "the port is stopped (PFC)", "stops": "its queue has others stopped"}
    keys += [
        Patch(color=tint, label=names[lane])
        for lane, tint, _ in _LANES
        if any(len(getattr(queue, lane)[0]) for _, queue in found)
    ]
    figure.legend(handles=keys, loc="outside upper center", ncols=min(4, len(found) + 1))
