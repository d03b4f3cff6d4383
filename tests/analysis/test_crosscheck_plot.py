"""The plot of all emulators can be read: no tick, curve or entry lies on another's text."""

from itertools import pairwise

import numpy as np
import pytest

from analysis.plot.crosscheck import crosscheck
from analysis.plot.style import png

NAMES = ("bytes/bandwidth", "fluid", "packet", "Mininet", "TCP cubic", "TCP bbr")
US = 10**6


@pytest.mark.parametrize("most", [60, 300, 3_000, 60_000])
def test_nothing_overlaps(most: int) -> None:
    times = {name: np.linspace(25 + i, most, 200).astype(int) * US for i, name in enumerate(NAMES)}
    plot = crosscheck(
        times, "a scenario with a name that goes on and on, longer than any plot is wide"
    )
    png(plot)  # settles the layout
    (axes,) = plot.figure.axes
    low, high = axes.get_xlim()
    ticks = [text for text in axes.get_xticklabels() if low <= text.get_position()[0] <= high]
    assert len(ticks) >= 2
    for left, right in pairwise(ticks):
        assert left.get_window_extent().x1 + 2 < right.get_window_extent().x0
    (legend,) = plot.figure.legends
    assert not legend.get_window_extent().overlaps(axes.get_tightbbox())
    assert axes.get_tightbbox().x1 <= plot.figure.bbox.x1
    assert [text.get_text() for text in legend.get_texts()][:6] == list(NAMES)
    assert axes.get_title("left").endswith("...: the same 200 hand-offs")
    assert axes.get_xlabel() == "hand-off time (us)"
