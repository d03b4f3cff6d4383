"""The tails of the same hand-offs by several emulators: the share that takes longer, log-log.

A curve goes down to 1/n; below 10/n, where fewer than ten hand-offs carry it, it is drawn pale.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analysis.plot.style import GREY, Plot, blank, colour, dash, label, plain_log, styled
from topo.unit import PS_PER_US

_CARRIED: Final = 10
_PALE: Final = 0.35
_TICKS: Final = ((20, (1, 2, 3, 5, 7)), (200, (1, 2, 5)))
"""Ticks of a decade by how many times its least value an axis spans; beyond, one a decade."""


def crosscheck(times_ps: Mapping[str, NDArray[np.int64]], title: str) -> Plot:
    """The tail of each emulator's hand-off times; -1 stands for one that never ended."""
    rows: list[tuple[object, ...]] = []
    with styled():
        figure = blank(5.2, 3.8)
        axes = figure.subplots()
        for place, (name, times) in enumerate(times_ps.items()):
            ended = np.sort(times[times >= 0]) / PS_PER_US
            if not len(ended):
                continue
            share = 1 - np.arange(len(ended)) / len(times)
            told = max(len(ended) - _CARRIED, 1)
            style = {"color": colour(place), "linestyle": dash(place), "drawstyle": "steps-post"}
            axes.plot(ended[:told], share[:told], label=name, **style)
            axes.plot(ended[told - 1 :], share[told - 1 :], alpha=_PALE, **style)
            rows += [(name, f"{t:.6f}", f"{s:.6f}") for t, s in zip(ended, share, strict=True)]
        axes.set_xlabel("hand-off time (us)")
        axes.set_ylabel("share of hand-offs that take longer")
        count = max(map(len, times_ps.values()), default=0)
        axes.set_title(f"{label(title, 40)}: the same {count:,} hand-offs")
        axes.set(xscale="log", yscale="log")
        least, most = axes.get_xlim()
        plain_log(axes, "x", next((each for span, each in _TICKS if most < span * least), (1,)))
        plain_log(axes, "y", (1,))
        axes.plot([], [], color=GREY, alpha=_PALE, label=f"pale: fewer than {_CARRIED} take longer")
        figure.legend(loc="outside lower center", ncols=3)
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
