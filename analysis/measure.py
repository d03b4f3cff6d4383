"""Numbers with a name: what an assertion may ask, and what two results are compared by.

Each has a unit, a value of one seed, and an estimate over the seeds of an alternative with its
95 % interval. Shares of hand-offs and quantiles of them have the intervals of `analysis.interval`;
what has one value a seed, Student's t over the seeds; counts are exact.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import Enum
from math import nan
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analysis.breakdown import handoff_parts
from analysis.caching import known
from analysis.economics import bill, token_cost
from analysis.error import SummaryError
from analysis.fairness import fairness
from analysis.handoff import window_ps
from analysis.idle import gpu_time
from analysis.innocence import innocent_share
from analysis.interval import (
    Estimate,
    highest_quantile,
    mean_interval,
    quantile_interval,
    share_interval,
)
from analysis.memory import evictions, held, peak, short, short_most
from analysis.record import Cell, StudyManifest
from analysis.service import attained, attainment, density, goodput_per_s
from analysis.summary import Sample
from analysis.throughput import Throughput, throughput
from analysis.wording import duration, money, percent

Floats = NDArray[np.float64]
OfSeed = Callable[[Sample, int, StudyManifest], float]
OverSeeds = Callable[[Sample, StudyManifest], Estimate | None]


class Unit(Enum):
    """How a number is written."""

    TIME = "time"
    SHARE = "share"
    FACTOR = "factor"
    COUNT = "count"
    RATE = "rate"
    DENSITY = "density"
    MONEY = "money"

    def show(self, value: float) -> str:
        """The number for people, with its sign.

        >>> Unit.SHARE.show(-0.04), Unit.COUNT.show(1200), Unit.RATE.show(812.4)
        ('-4.0 %', '1,200', '812 /s')
        """
        size, sign = abs(value), "-" if value < 0 else ""
        if self is Unit.TIME:
            return sign + duration(size)
        if self is Unit.SHARE:
            return sign + percent(size)
        if self is Unit.MONEY:
            return sign + money(size)
        if self is Unit.COUNT:
            return f"{value:,.0f}" if value == round(value) else f"{value:,.3g}"
        number = f"{value:,.0f}" if size >= 1000 else f"{value:.3g}"
        return number + {Unit.RATE: " /s", Unit.FACTOR: "x"}.get(self, " tokens/GPU/s")


@dataclass(frozen=True, slots=True)
class Measure:
    """A named number; ``of_seed`` is its value in the cell at a place of a sample, NaN for none.

    ``over_seeds`` gives the estimate where it is not the mean of the seeds. ``more_is_worse`` says
    which way is bad; None: neither.
    """

    name: str
    says: str
    unit: Unit
    of_seed: OfSeed
    over_seeds: OverSeeds | None = None
    more_is_worse: bool | None = True

    def by_seed(self, sample: Sample, study: StudyManifest) -> dict[int, float]:
        """The number of each seed; none where the alternative could not run."""
        if sample.impossible is not None:
            return {}
        return {seed: self.of_seed(sample, at, study) for seed, at in sample.seeds().items()}

    def estimate(self, sample: Sample, study: StudyManifest) -> Estimate | None:
        """The number over all seeds; None where there is nothing to measure."""
        if sample.impossible is not None or not sample.cells:
            return None
        if self.over_seeds is not None:
            return self.over_seeds(sample, study)
        values = list(self.by_seed(sample, study).values())
        known = [value for value in values if not np.isnan(value)]
        if known and self.unit is Unit.COUNT:
            whole = float(sum(values))
            return Estimate(whole, whole, whole)
        return mean_interval(known) if known else None


def _mean(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else nan


def _over(sample: Sample, _: StudyManifest) -> Estimate | None:
    counts = [len(part.over) for part in sample.handoffs]
    over = [int(part.over.sum()) for part in sample.handoffs]
    return share_interval(over, counts) if sum(counts) else None


def _attained(sample: Sample, study: StudyManifest) -> Estimate | None:
    if study.ttft_ps is None and study.tpot_ps is None:
        return None
    met = [attained(cell, study) for cell in sample.cells]
    counts = [len(part) for part in met]
    return share_interval([int(part.sum()) for part in met], counts) if sum(counts) else None


def _token_cost(sample: Sample, study: StudyManifest) -> Estimate | None:
    found = bill(sample, study)
    return found.usd if found is not None else None


def _handed(column: str, whole: str) -> OfSeed:
    """A count of the hand-offs of a seed over another."""

    def of_seed(sample: Sample, at: int, _: StudyManifest) -> float:
        part = sample.handoffs[at]
        total = getattr(part, whole)
        return float(getattr(part, column) / total) if total else nan

    return of_seed


def _counted(column: str) -> OfSeed:
    return lambda sample, at, _: float(getattr(sample.handoffs[at], column))


def _port(column: str, fold: Callable[[Floats], np.floating], *, hosts: bool = False) -> OfSeed:
    """A port's share of time in a state, folded over the switch (host) ports of a seed."""

    def of_seed(sample: Sample, at: int, _: StudyManifest) -> float:
        cell = sample.cells[at]
        side = (cell.ports["tier"].astype(np.int64) == 0) == hosts
        chosen = cell.ports[column].astype(np.float64)[side]
        window = window_ps(cell)
        return float(fold(chosen)) / window if len(chosen) and window else nan

    return of_seed


def _part(name: str) -> Callable[[Sample, int], Floats]:
    """A part of every hand-off that became ready."""
    return lambda sample, at: handoff_parts(sample.cells[at])[name].astype(np.float64)


def _cell(share: Callable[[Cell], float]) -> OfSeed:
    """A number that the cell of a seed tells alone."""
    return lambda sample, at, _: share(sample.cells[at])


def _missed(cell: Cell) -> float:
    found = gpu_time(cell) if "cache.prompt_tokens" in cell.manifest.totals else None
    return found.lost_to_misses if found is not None else nan


def _through(name: str) -> Measure:
    def of_seed(sample: Sample, at: int, _: StudyManifest) -> float:
        return float(getattr(throughput(sample.cells[at]), name))

    says = f"{name.replace('_', ' ').replace('kv', 'KV')} that went through"
    return Measure(f"through_{name}", says, Unit.RATE, of_seed, more_is_worse=False)


_VALUES: Final[dict[str, tuple[str, Unit, Callable[[Sample, int], Floats]]]] = {
    "handoff": ("hand-off time", Unit.TIME, lambda s, at: s.handoffs[at].duration),
    "transfer": ("transfer time", Unit.TIME, lambda s, at: s.handoffs[at].transfer),
    "memory": ("wait of a hand-off for memory", Unit.TIME, _part("memory")),
    "orchestration": ("orchestration of a hand-off", Unit.TIME, _part("orchestration")),
    "copies": ("copies of a hand-off", Unit.TIME, _part("copies")),
    "slowdown": ("slowdown of a flow", Unit.FACTOR, lambda s, at: s.handoffs[at].slowdown),
    "ttft": ("TTFT", Unit.TIME, lambda s, at: s.budgets[at].ttft.astype(np.float64)),
    "tpot": ("TPOT", Unit.TIME, lambda s, at: s.budgets[at].tpot),
    "e2e": ("end-to-end time", Unit.TIME, lambda s, at: s.budgets[at].end_to_end.astype(float)),
}
"""What has one value a hand-off, flow or request; a quantile or the mean of it is a measure."""

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}


def values(kind: str, sample: Sample) -> dict[int, Floats]:
    """The values of one kind (``handoff``, ``ttft``, ...) by seed, without those unknown."""
    if sample.impossible is not None:
        return {}
    found = {seed: _VALUES[kind][2](sample, at) for seed, at in sample.seeds().items()}
    return {seed: each[~np.isnan(each)] for seed, each in found.items()}


def _average(kind: str) -> Measure:
    title, unit, column = _VALUES[kind]
    return Measure(
        f"{kind}_mean", f"mean {title}", unit, lambda sample, at, _: _mean(column(sample, at))
    )


def _quantile(kind: str, name: str) -> Measure:
    title, unit, _ = _VALUES[kind]
    q = QUANTILES[name]

    def over_seeds(sample: Sample, _: StudyManifest) -> Estimate | None:
        parts = list(values(kind, sample).values())
        carried = highest_quantile(sum(len(part) for part in parts))
        return None if carried is None or carried < q else quantile_interval(parts, q)

    return Measure(f"{kind}_{name}", f"{name.upper()} {title}", unit, lambda *_: nan, over_seeds)


_PLAIN: Final = (
    Measure(
        "over_budget",
        "share of hand-offs over budget",
        Unit.SHARE,
        lambda sample, at, _: _mean(sample.handoffs[at].over.astype(np.float64)),
        _over,
    ),
    Measure(
        "attainment",
        "share of requests within the objectives",
        Unit.SHARE,
        lambda sample, at, study: attainment(sample.cells[at], study),
        _attained,
        more_is_worse=False,
    ),
    Measure(
        "goodput",
        "requests within the objectives",
        Unit.RATE,
        lambda sample, at, study: goodput_per_s(sample.cells[at], study),
        more_is_worse=False,
    ),
    Measure(
        "density",
        "output tokens within the objectives per GPU-second",
        Unit.DENSITY,
        lambda sample, at, study: density(sample.cells[at], study),
        more_is_worse=False,
    ),
    Measure(
        "token_cost",
        "US dollars a million output tokens within the objectives",
        Unit.MONEY,
        lambda sample, at, study: token_cost(sample.cells[at], study),
        _token_cost,
    ),
    *(_through(each.name) for each in fields(Throughput)),
    Measure(
        "known",
        "prompt tokens that prefix caches knew",
        Unit.SHARE,
        _cell(known),
        more_is_worse=False,
    ),
    Measure(
        "computed_again", "prefill GPU time that a prefix cache missed", Unit.SHARE, _cell(_missed)
    ),
    Measure("hbm_mean", "KV memory held, mean over time and instances", Unit.SHARE, _cell(held)),
    Measure("hbm_peak", "KV memory held, peak of the fullest instance", Unit.SHARE, _cell(peak)),
    Measure("hbm_short", "time in which somebody waited for KV memory", Unit.SHARE, _cell(short)),
    Measure("hbm_short_max", "the same, worst instance", Unit.SHARE, _cell(short_most)),
    Measure("evictions", "evictions from KV memory", Unit.COUNT, _cell(evictions)),
    Measure("marked", "packets marked", Unit.SHARE, _handed("marked", "packets")),
    Measure(
        "touched",
        "hand-offs with a marked packet",
        Unit.SHARE,
        lambda sample, at, _: _mean(sample.handoffs[at].touched.astype(np.float64)),
    ),
    Measure("resent", "bytes resent", Unit.SHARE, _handed("resent_bytes", "bytes")),
    Measure(
        "utilisation_max",
        "busiest switch port",
        Unit.SHARE,
        _port("busy_ps", np.max),
        more_is_worse=None,
    ),
    Measure("pause_max", "most paused switch port", Unit.SHARE, _port("paused_ps", np.max)),
    Measure("pause_mean", "pause of switch ports, mean", Unit.SHARE, _port("paused_ps", np.mean)),
    Measure(
        "host_pause_max",
        "most paused host port",
        Unit.SHARE,
        _port("paused_ps", np.max, hosts=True),
    ),
    Measure(
        "innocent_pause",
        "bytes behind stops that were bound for a free port",
        Unit.SHARE,
        _cell(innocent_share),
    ),
    Measure(
        "fairness",
        "Jain's index of what flows get of their demand",
        Unit.SHARE,
        lambda sample, at, _: fairness(sample.cells[at]).index,
        more_is_worse=False,
    ),
    Measure(
        "drops",
        "frames dropped",
        Unit.COUNT,
        lambda sample, at, _: float(sample.cells[at].ports["drops"].astype(np.int64).sum()),
    ),
    Measure("timeouts", "timeouts", Unit.COUNT, _counted("timeouts")),
    Measure("not_finished", "hand-offs never finished", Unit.COUNT, _counted("not_finished")),
    Measure("rejected", "requests rejected", Unit.COUNT, _counted("rejected")),
    Measure("failed", "requests failed with their instances", Unit.COUNT, _counted("failed")),
)

MEASURES: Final[dict[str, Measure]] = {
    each.name: each
    for each in (
        *(_average(kind) for kind in _VALUES),
        *(_quantile(kind, name) for kind in _VALUES for name in QUANTILES),
        *_PLAIN,
    )
}
"""Every measure by its name."""


def measure(name: str) -> Measure:
    """The measure of this name. Raises `SummaryError` with the names that are alike.

    >>> measure("handoff_p99").says
    'P99 hand-off time'
    """
    found = MEASURES.get(name)
    if found is not None:
        return found
    from difflib import get_close_matches

    turned = re.sub(r"^(p[0-9.]+|mean)_(\w+)$", r"\2_\1", name)
    close = [turned] if turned in MEASURES else get_close_matches(name, MEASURES, 3)
    plain = [each.name for each in _PLAIN]
    kinds = ", ".join(_VALUES)
    told = f"did you mean {' or '.join(close)}?" if close else f"write one of {', '.join(plain)},"
    raise SummaryError(
        f"measure {name[:40]!r}: unknown; {told} or KIND_mean, KIND_p50, _p90, _p95, _p99, _p99.9 "
        f"with KIND one of {kinds}"
    )
