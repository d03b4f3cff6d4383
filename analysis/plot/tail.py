"""Sizes of requests as tails: the share of requests above a size, log-log.

A curve goes down to one request in all; where fewer than ten requests carry it, it is drawn pale,
and no percentile is told from there.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from analysis.plot.style import Plot, blank, colour, dash, label, plain_log, styled
from topo.unit import show_size
from traffic.load.summary import counted, quantile_of
from traffic.model import Model
from traffic.request import RequestTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
Counted = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Distinct sizes, ascending, and how many requests have each."""

_CARRIED = 10
_MOST = 2000
_TOLD = 0.01


def length(table: RequestTable, name: str) -> Plot:
    """The tails of input and output tokens; requests without output are told, not drawn."""
    tokens = {"input": counted(table.input_tokens), "output": counted(table.output_tokens)}
    ending = int(np.count_nonzero(table.output_tokens == 0))
    title = f"{label(name, 60)}\n{_exceeded(tokens['input'], 'inputs')}, "
    title += _exceeded(tokens["output"], "outputs")
    if ending:
        title += f"; {100 * ending / len(table):.2g} % have no output"
    return _drawn("lengths", tokens, title, "tokens", "tokens")


def kv(table: RequestTable, name: str, model: Model) -> Plot:
    """The tail of KV bytes that a request's prompt leaves behind, in MB (10^6 bytes)."""
    tokens, counts = counted(table.input_tokens)
    each = np.array([model.kv_bytes(int(n)) for n in tokens], np.int64)
    mean = float(each @ counts) / len(table)
    high = _high((each, counts))
    title = f"{label(name, 60)}\n{label(model.name)}: {show_size(mean)} a hand-off "
    title += "on average" + (f", 1 in 100 above {show_size(high)}" if high is not None else "")
    return _drawn(
        "kv-bytes", {"KV cache": (each, counts)}, title, "KV cache of a request (MB)", "mb", 1e6
    )


def _high(sizes: Counted) -> float | None:
    """What one in a hundred exceeds, where at least ten requests do."""
    carried = int(sizes[1].sum()) * _TOLD >= _CARRIED
    return quantile_of(*sizes, 1 - _TOLD) if carried else None


def _exceeded(sizes: Counted, what: str) -> str:
    high = _high(sizes)
    if high is None:
        return f"{what} {quantile_of(*sizes, 0.5):,.0f} at the median"
    return f"1 in 100 {what} above {high:,.0f}"


def _drawn(
    name: str, curves: dict[str, Counted], title: str, axis: str, unit: str, scale: float = 1.0
) -> Plot:
    """The tails of sizes, shown in units of ``scale``."""
    most_n = max(int(counts.sum()) for _, counts in curves.values())
    rows: list[tuple[object, ...]] = []
    with styled():
        figure = blank(6.4, 3.6)
        axes = figure.subplots()
        for place, (called, (values, counts)) in enumerate(curves.items()):
            sizes, n = values / scale, int(counts.sum())
            above = np.cumsum(counts[::-1])[::-1]
            rows += [
                (called, n, float(size), int(over) / n)
                for size, over in zip(sizes, above, strict=True)
            ]
            _curve(axes, sizes[sizes > 0], above[sizes > 0], n, place, called)
        axes.set(xscale="log", yscale="log")
        low, most = axes.get_xlim()
        axes.set_xlim(low, most * 1.05)
        axes.set_ylim(0.8 / most_n, 1.3)
        plain_log(axes, "x", (1,) if most / low > 1000 else (1, 2, 5))
        plain_log(axes, "y", (1,))
        axes.set_xlabel(axis)
        axes.set_ylabel("share of requests at least as large")
        axes.set_title(title)
        if len(curves) > 1:
            axes.legend(loc="lower left")
    return Plot(
        name,
        "Share of requests that are at least so large; pale where fewer than 10 carry it.",
        figure,
        ("quantity", "n", f"size_{unit}", "share_at_least"),
        tuple(rows),
    )


def _curve(
    axes: "Axes", sizes: Floats, above: NDArray[np.int64], n: int, place: int, called: str
) -> None:
    """The steps of one tail, thinned evenly in rank's logarithm where there are very many."""
    if len(sizes) > _MOST:
        wanted = np.geomspace(above[0], above[-1], _MOST)
        chosen = np.unique(np.searchsorted(-above, -wanted).clip(0, len(sizes) - 1))
        sizes, above = sizes[chosen], above[chosen]
    if not len(sizes):
        return
    firm = above >= _CARRIED
    style: dict[str, object] = {"color": colour(place), "linestyle": dash(place)}
    x = np.concatenate((sizes[:1] * 0.9, sizes))
    y = np.concatenate((above[:1], above)) / n
    last = int(np.count_nonzero(firm))
    parts: Sequence[tuple[slice, float, str | None]] = (
        (slice(0, last + 1), 1.0, called),
        (slice(last, None), 0.35, None),
    )
    for part, alpha, text in parts:
        axes.step(x[part], y[part], where="pre", alpha=alpha, label=text, **style)  # type: ignore[arg-type]
