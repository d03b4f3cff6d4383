"""The tails of the same hand-offs by several emulators: the share that takes longer, log-log.

A curve goes down to 1/n; below 10/n, where fewer than ten hand-offs carry it, it is drawn pale.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from analysis.plot.style import Plot, blank, colour, dash, label, plain_log, styled
from topo.unit import PS_PER_US

_CARRIED = 10


def crosscheck(times_ps: Mapping[str, NDArray[np.int64]], title: str) -> Plot:
    """The tail of each emulator's hand-off times; -1 stands for one that never ended."""
    rows: list[tuple[object, ...]] = []
    with styled():
        figure = blank(5.2, 3.4)
        axes = figure.subplots()
        for place, (name, times) in enumerate(times_ps.items()):
            ended = np.sort(times[times >= 0]) / PS_PER_US
            if not len(ended):
                continue
            share = 1 - np.arange(len(ended)) / len(times)
            told = max(len(ended) - _CARRIED, 1)
            style = {"color": colour(place), "linestyle": dash(place), "drawstyle": "steps-post"}
            axes.plot(ended[:told], share[:told], label=name, **style)
            axes.plot(ended[told - 1 :], share[told - 1 :], alpha=0.35, **style)
            rows += [(name, f"{t:.6f}", f"{s:.6f}") for t, s in zip(ended, share, strict=True)]
        axes.set_xlabel("hand-off time (us)")
        axes.set_ylabel("share of hand-offs that take longer")
        axes.set_title(label(title, 60))
        axes.set(xscale="log", yscale="log")
        plain_log(axes, "x", tuple(range(1, 10)))
        plain_log(axes, "y", (1,))
        axes.legend(loc="lower left")
    return Plot(
        "crosscheck", _says(times_ps), figure, ("emulator", "handoff_us", "share"), tuple(rows)
    )


def _says(times_ps: Mapping[str, NDArray[np.int64]]) -> str:
    medians = [
        f"{name} {np.quantile(times[times >= 0], 0.5) / PS_PER_US:.4g} us"
        for name, times in times_ps.items()
        if (times >= 0).any()
    ]
    return f"Tails of the same hand-offs; medians: {', '.join(medians)}."
