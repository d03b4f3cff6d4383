"""What a table of requests looks like: lengths, rate and burstiness, and the KV load it offers.

Percentiles interpolate between order statistics (Hyndman and Fan 1996, type 7, as numpy does).
Rates are those of a renewal process seen from its first arrival: (n - 1) / span.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topo.unit import PS_PER_S, show_duration, show_rate, show_size
from traffic.error import RequestError
from traffic.model import Model
from traffic.request import RequestTable
from traffic.workload import TOKENS_PER_WORD, words


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
    """

    count: int
    span_ps: int
    rate_per_s: float
    input: Spread
    output: Spread
    gap_cv: float
    peak_to_mean: float
    load: Load | None = None

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
    gaps = np.diff(table.arrival_ps).astype(np.float64)
    return Summary(
        count=count,
        span_ps=table.span_ps,
        rate_per_s=rate,
        input=spread(table.input_tokens),
        output=spread(table.output_tokens),
        gap_cv=float(gaps.std() / gaps.mean()) if count > 2 and span_s else 0.0,
        peak_to_mean=peak_to_mean(table.arrival_ps),
        load=None if model is None else _load(table, model, span_s),
    )


def spread(values: NDArray[np.integer]) -> Spread:
    """The spread of at least one whole number."""
    p50, p95, p99 = np.percentile(values, (50, 95, 99))
    return Spread(
        mean=float(values.mean()),
        std=float(values.std()),
        p50=float(p50),
        p95=float(p95),
        p99=float(p99),
        most=int(values.max()),
    )


def peak_to_mean(arrival_ps: NDArray[np.int64]) -> float:
    """Most arrivals in a second (bins from the first arrival) over the mean rate; 1 if no span."""
    since = arrival_ps - arrival_ps[0]
    if not since[-1]:
        return 1.0
    _, arrived = np.unique(since // PS_PER_S, return_counts=True)
    rate = (len(since) - 1) * PS_PER_S / int(since[-1])
    return float(arrived.max() / rate)


def _load(table: RequestTable, model: Model, span_s: float) -> Load:
    lengths, back = np.unique(table.input_tokens, return_inverse=True)
    each = np.array([model.kv_bytes(int(n)) for n in lengths], np.int64)[back]
    # The first request opens the span and is not part of its load.
    rate = 8 * float(each[1:].sum()) / span_s if span_s else 0.0
    total = table.input_tokens.astype(np.int64) + table.output_tokens
    most = model.max_tokens
    beyond = int(np.count_nonzero(total > most)) if most else 0
    return Load(model.name, spread(each), rate, most, beyond)


def _shown(s: Spread) -> str:
    return (
        f"{s.mean:,.0f} +- {s.std:,.0f}, P50 {s.p50:,.0f}, P95 {s.p95:,.0f}, P99 {s.p99:,.0f}, "
        f"most {s.most:,}"
    )
