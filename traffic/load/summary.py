"""What a table of requests looks like: lengths, rate and burstiness, and the KV load it offers.

Percentiles interpolate between order statistics (Hyndman and Fan 1996, type 7, as numpy does).
Rates are those of a renewal process seen from its first arrival: (n - 1) / span. All of it is
exact: lengths are counted, not sketched, and tables of tens of millions of rows are gone through
piece by piece, so that nothing as large as the table is made beside it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from topo.unit import PS_PER_S, show_duration, show_rate, show_size
from traffic.error import RequestError
from traffic.model import Model
from traffic.request import Prefix, RequestTable
from traffic.source.workload import TOKENS_PER_WORD, words

_PIECE: Final = 2**20
_MOST_COUNTED: Final = 2**22
"""The longest text of which every length has a counter; beyond, lengths are sorted."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean, population standard deviation and percentiles of one quantity."""

    mean: float
    std: float
    p50: float
    p95: float
    p99: float
    most: int


@dataclass(frozen=True, slots=True)
class Load:
    """What the requests offer to the fabric with one model.

    ``kv_bytes`` are those of a request's prompt, the size of its hand-off; ``kv_bps`` is their mean
    rate over the span (0 when there is no span), payload only. ``beyond_context`` counts requests
    whose input and output together exceed the ``context_tokens`` the model is made for.
    """

    model: str
    kv_bytes: Spread
    kv_bps: float
    context_tokens: int
    beyond_context: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The statistics of a table.

    ``gap_cv``: coefficient of variation of the gaps between arrivals (1 for Poisson); 0 with fewer
    than three requests. ``peak_to_mean``: most arrivals in a second, over the mean rate.
    ``blocks``: prefix blocks of all requests, and how many of them an endless cache would find
    again (`found_again`); None where there are none.
    """

    count: int
    span_ps: int
    rate_per_s: float
    input: Spread
    output: Spread
    gap_cv: float
    peak_to_mean: float
    load: Load | None = None
    blocks: tuple[int, int] | None = None

    def rows(self, tokens_per_word: float = TOKENS_PER_WORD) -> list[tuple[str, str]]:
        """Label and value, for people."""
        spoken = words(np.array([self.input.mean, self.output.mean]), tokens_per_word)
        short, gaps = self.span_ps < 2 * PS_PER_S, self.span_ps > 0 and self.count > 2
        peak = "- (less than 2 s)" if short else f"{self.peak_to_mean:.1f}"
        said = [
            ("requests", f"{self.count:,}"),
            ("span", show_duration(self.span_ps)),
            ("mean rate", f"{self.rate_per_s:.4g} requests/s" if self.span_ps else "- (no span)"),
            ("gap CV", f"{self.gap_cv:.2f} (Poisson: 1)" if gaps else "- (fewer than 2 gaps)"),
            ("1 s peak / mean", peak),
            ("input tokens", _shown(self.input)),
            ("output tokens", _shown(self.output)),
            (
                "text words",
                f"mean {spoken[0]:,.0f} in, {spoken[1]:,.0f} out "
                f"at {tokens_per_word:g} tokens a word",
            ),
        ]
        if self.blocks is not None:
            whole, again = self.blocks
            said.append(
                ("prefix blocks", f"{whole:,}, an endless cache finds {again / whole:.1%} again")
            )
        if self.load is not None:
            kv = self.load.kv_bytes
            said += [
                (
                    f"KV a request, {self.load.model}",
                    f"mean {show_size(kv.mean)}, P50 {show_size(kv.p50)}, "
                    f"P95 {show_size(kv.p95)}, P99 {show_size(kv.p99)}",
                ),
                (
                    "offered KV load",
                    show_rate(self.load.kv_bps) if self.span_ps else "- (no span)",
                ),
            ]
            if self.load.beyond_context:
                said.append(
                    (
                        "beyond the context",
                        f"{self.load.beyond_context:,} requests exceed the "
                        f"{self.load.context_tokens:,} tokens that {self.load.model} is made for",
                    )
                )
        return said


def summary(table: RequestTable, model: Model | None = None) -> Summary:
    """The statistics of a table, with the KV load when a model is given."""
    count = len(table)
    if not count:
        raise RequestError("requests: the table is empty; widen the window or raise the count")
    span_s = table.span_ps / PS_PER_S
    rate = (count - 1) / span_s if span_s else 0.0
    return Summary(
        count=count,
        span_ps=table.span_ps,
        rate_per_s=rate,
        input=spread(table.input_tokens),
        output=spread(table.output_tokens),
        gap_cv=_gap_cv(table.arrival_ps) if count > 2 and span_s else 0.0,
        peak_to_mean=peak_to_mean(table.arrival_ps),
        load=None if model is None else _load(table, model, span_s),
        blocks=None
        if table.prefix is None or not len(table.prefix.blocks)
        else (len(table.prefix.blocks), found_again(table.prefix)),
    )


def found_again(prefix: Prefix) -> int:
    """The blocks that a single cache without end would find: each first block of a request that
    an earlier request had, up to the first that none had.

    >>> found_again(Prefix(np.array([0, 2, 5]), np.array([7, 8, 7, 9, 8]), 512))
    1
    """
    first, blocks = prefix.first, prefix.blocks
    _, came, which = np.unique(blocks, return_index=True, return_inverse=True)
    start = np.repeat(first[:-1], np.diff(first))
    missed = np.concatenate((np.zeros(1, np.int64), np.cumsum(came[which] >= start)))
    return int(np.count_nonzero(missed[1:] == missed[start]))


def spread(values: NDArray[np.integer]) -> Spread:
    """The spread of at least one whole number of at least 0.

    >>> round(spread(np.array([1, 2, 3, 4, 8])).p95, 9)
    7.2
    """
    return _spread(*counted(values))


def counted(values: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct values of whole numbers of at least 0, ascending, and how many of each."""
    if int(values.max()) > _MOST_COUNTED:
        found, counts = np.unique(values, return_counts=True)
        return found.astype(np.int64), counts
    total = np.zeros(int(values.max()) + 1, np.int64)
    for piece in pieces(len(values)):
        part = np.bincount(values[piece])
        total[: len(part)] += part
    found = np.flatnonzero(total)
    return found, total[found]


def pieces(count: int) -> Iterator[slice]:
    """Slices of a million rows that cover ``count``."""
    for start in range(0, count, _PIECE):
        yield slice(start, min(start + _PIECE, count))


def _spread(values: NDArray[np.int64], counts: NDArray[np.int64]) -> Spread:
    """The spread of ascending values, each as often as counted."""
    n = int(counts.sum())
    exact = values.astype(np.float64)
    mean = float(exact @ counts) / n

    def at(share: float) -> float:
        return quantile_of(values, counts, share)

    return Spread(
        mean=mean,
        std=float(np.sqrt((exact - mean) ** 2 @ counts / n)),
        p50=at(0.5),
        p95=at(0.95),
        p99=at(0.99),
        most=int(values[-1]),
    )


def quantile_of(values: NDArray[np.int64], counts: NDArray[np.int64], share: float) -> float:
    """The quantile of ascending values, each as often as counted."""
    upto = np.cumsum(counts)
    place = share * (int(upto[-1]) - 1)
    first = int(place)
    low, high = values[np.searchsorted(upto, (first, min(first + 1, upto[-1] - 1)), "right")]
    return float(low + (high - low) * (place - first))


def _gap_cv(arrival_ps: NDArray[np.int64]) -> float:
    mean = int(arrival_ps[-1] - arrival_ps[0]) / (len(arrival_ps) - 1)
    off = 0.0
    for piece in pieces(len(arrival_ps) - 1):
        gaps = np.diff(arrival_ps[piece.start : piece.stop + 1]).astype(np.float64)
        off += float(((gaps - mean) ** 2).sum())
    return float(np.sqrt(off / (len(arrival_ps) - 1)) / mean)


def per_bin(
    arrival_ps: NDArray[np.int64], bin_ps: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Bins of ``bin_ps`` from the first arrival that hold any, and how many each holds.

    ``arrival_ps`` never decreases.
    """
    places: list[NDArray[np.int64]] = []
    counts: list[NDArray[np.int64]] = []
    for piece in pieces(len(arrival_ps)):
        place, count = np.unique((arrival_ps[piece] - arrival_ps[0]) // bin_ps, return_counts=True)
        if places and places[-1][-1] == place[0]:
            counts[-1][-1] += count[0]
            place, count = place[1:], count[1:]
        if len(place):
            places.append(place)
            counts.append(count)
    return np.concatenate(places), np.concatenate(counts)


def peak_to_mean(arrival_ps: NDArray[np.int64]) -> float:
    """Most arrivals in a second (bins from the first arrival) over the mean rate; 1 if no span."""
    span = int(arrival_ps[-1] - arrival_ps[0])
    if not span:
        return 1.0
    rate = (len(arrival_ps) - 1) * PS_PER_S / span
    return float(per_bin(arrival_ps, PS_PER_S)[1].max() / rate)


def _load(table: RequestTable, model: Model, span_s: float) -> Load:
    lengths, counts = counted(table.input_tokens)
    each = np.array([model.kv_bytes(int(n)) for n in lengths], np.int64)
    # The first request opens the span and is not part of its load.
    total = float(each @ counts) - model.kv_bytes(int(table.input_tokens[0]))
    most, beyond = model.max_tokens, 0
    if most:
        for piece in pieces(len(table)):
            tokens = table.input_tokens[piece].astype(np.int64) + table.output_tokens[piece]
            beyond += int(np.count_nonzero(tokens > most))
    rate = 8 * total / span_s if span_s else 0.0
    return Load(model.name, _spread(each, counts), rate, most, beyond)


def _shown(s: Spread) -> str:
    return (
        f"{s.mean:,.0f} +- {s.std:,.0f}, P50 {s.p50:,.0f}, P95 {s.p95:,.0f}, P99 {s.p99:,.0f}, "
        f"most {s.most:,}"
    )
