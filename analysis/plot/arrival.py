"""Arrivals of a run's requests over its time, in requests per second, with the mean.

They are counted second by second, in runs below 20 s by the tenth, hundredth or thousandth part of
one. Long runs are shown in at most 600 steps: the mean and the busiest count of each.
"""

from typing import Final

import numpy as np

from analysis.plot.style import BLUE, INK, SKY, Plot, blank, label, styled
from topo.unit import PS_PER_MS, PS_PER_S, show_duration
from traffic.load.summary import per_bin
from traffic.request import RequestTable

_MOST: Final = 600
_LEAST: Final = 20
_COUNTED: Final = (PS_PER_S, 100 * PS_PER_MS, 10 * PS_PER_MS, PS_PER_MS)


def arrival(table: RequestTable, name: str) -> Plot:
    """Requests per second from the first arrival on; ``name`` is what the requests are."""
    last = table.span_ps
    bin_ps = next((width for width in _COUNTED if last >= _LEAST * width), _COUNTED[-1])
    bins = last // bin_ps + 1
    step = -(-bins // _MOST)
    place, arrived = per_bin(table.arrival_ps, bin_ps)
    steps = -(-bins // step)
    total = np.bincount(place // step, weights=arrived, minlength=steps)
    peak = np.zeros(steps, np.int64)
    np.maximum.at(peak, place // step, arrived)
    bin_s = bin_ps / PS_PER_S
    # The last step may be shorter than the others.
    wide = np.minimum(step, bins - step * np.arange(steps)) * bin_s
    start = step * np.arange(steps) * bin_s
    # As in the table: a span has one gap less than requests, and a single moment has no rate.
    mean = (len(table) - 1) * PS_PER_S / last if last else None
    most = float(peak.max()) / bin_s
    called = "second" if bin_ps == PS_PER_S else show_duration(bin_ps)
    with styled():
        figure = blank(7.0, 3.1)
        axes = figure.subplots()
        edges = np.append(start, bins * bin_s)
        if step > 1:
            light = axes.stairs(peak / bin_s, edges, color=SKY, fill=True, alpha=0.6)
            light.set_label(f"busiest {called} of a step")
        axes.stairs(total / wide, edges, color=BLUE, linewidth=1.2, label="mean of a step")
        if mean is not None:
            axes.axhline(mean, color=INK, linewidth=1.0, linestyle=(0, (4, 2)), label="mean of all")
        axes.set(xlim=(0, bins * bin_s), ylim=(0, 1.12 * most))
        axes.set_xlabel("time since the first request (s)")
        axes.set_ylabel("requests/s")
        axes.set_title(f"{label(name, 60)}\n{_title(len(table), mean, most, called)}")
        figure.legend(loc="outside lower right", ncols=3)
    return Plot(
        "arrivals",
        "Requests per second over the run; the dashed line is the mean.",
        figure,
        ("start_s", "width_s", "requests", "busiest_requests_per_s"),
        tuple(
            (float(at), float(width), int(count), float(high))
            for at, width, count, high in zip(start, wide, total, peak / bin_s, strict=True)
        ),
    )


def _title(count: int, mean: float | None, most: float, called: str) -> str:
    """Mean and busiest moment, both as rates; without a span there are none."""
    if mean is None:
        return f"{count:,} request{'s' * (count != 1)} at one moment: no rate"
    return (
        f"{_told(mean)} requests/s on average, {_told(most)} requests/s in the busiest {called}: "
        f"{most / mean:.3g} times the mean"
    )


def _told(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"
