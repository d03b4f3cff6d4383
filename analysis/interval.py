"""Intervals that hold for few seeds and rare events, and the quantiles that n can carry.

Hand-offs of one seed share their bursts, so they are not independent: the seeds are the clusters.
A share gets the exact interval of Clopper and Pearson (Biometrika 26, 1934) on an effective number
of hand-offs as Korn and Graubard do it (Survey Methodology 24, 1998): n over the design effect (the
variance of the share between seeds over that of independent hand-offs), times the square of
t(n - 1) / t(seeds - 1), since few seeds tell the design effect badly; at most n. Without that
factor, three seeds of 50 hand-offs with a correlation of 0.05 would cover 89 % and not 95 %.
A quantile is an order statistic and gets the exact binomial interval of order statistics (David
and Nagaraja, Order Statistics, 7.1) on the same effective number. Means of seeds get Student's t.
All intervals are two-sided, 95 % unless asked otherwise.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analysis.error import SummaryError

LEVEL: Final = 0.95

_NEEDED: Final = {0.999: 10_000, 0.99: 1_000, 0.95: 200, 0.9: 100, 0.5: 20}


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its interval; an end that the data cannot bound is infinite."""

    value: float
    low: float
    high: float

    def excludes(self, value: float) -> bool:
        """Whether a value lies outside the interval."""
        return not self.low <= value <= self.high


def highest_quantile(n: int) -> float | None:
    """The highest of P50, P90, P95, P99, P99.9 that at least 10 of n values exceed.

    >>> [highest_quantile(n) for n in (19, 20, 150, 999, 1000)]
    [None, 0.5, 0.9, 0.95, 0.99]
    """
    return next((q for q, needed in _NEEDED.items() if n >= needed), None)


def quantile(values: NDArray[np.float64], q: float) -> float:
    """The smallest value that a share q of all values does not exceed: x(ceil(q n)).

    >>> quantile(np.array([4.0, 1.0, 3.0, 2.0]), 0.5)
    2.0
    """
    if not len(values):
        raise SummaryError("quantile of 0 values; there is nothing to rank")
    rank = max(1, ceil(q * len(values) - 1e-9))
    return float(np.partition(values, rank - 1)[rank - 1])


def clopper_pearson(over: float, n: float, level: float = LEVEL) -> Estimate:
    """The exact interval of a share; ``over`` of ``n`` may be fractions of effective trials.

    >>> round(clopper_pearson(0, 20).high, 4)
    0.1684
    """
    from scipy.special import betaincinv

    if not 0 <= over <= n or n <= 0:
        raise SummaryError(f"share {over} of {n}: impossible; count at most n, n above 0")
    tail = (1 - level) / 2
    low = 0.0 if over == 0 else float(betaincinv(over, n - over + 1, tail))
    high = 1.0 if over == n else float(betaincinv(over + 1, n - over, 1 - tail))
    return Estimate(over / n, low, high)


def design_effect(over: Sequence[int], n: Sequence[int]) -> float:
    """Variance of a pooled share between clusters over that of independent trials.

    One count and one size a cluster; the variance is the linearised one of a ratio (Cochran,
    Sampling Techniques, 1977, 11.8). With one cluster, or none or all over, it cannot be told: 1.
    """
    counts, sizes = np.asarray(over, float), np.asarray(n, float)
    clusters, total = int((sizes > 0).sum()), sizes.sum()
    if clusters < 2:
        return 1.0
    share = counts.sum() / total
    if share in (0.0, 1.0):
        return 1.0
    spread = float(((counts - share * sizes) ** 2).sum())
    between = clusters / (clusters - 1) * spread / total**2
    return float(between / (share * (1 - share) / total))


def effective(over: Sequence[int], n: Sequence[int], level: float = LEVEL) -> float:
    """The number of independent trials that carry as much, at most all: Korn and Graubard's n*.

    With one cluster, or none or all over, it is n, since the clustering cannot be told.
    """
    from scipy.special import stdtrit

    total, clusters = sum(n), sum(size > 0 for size in n)
    if clusters < 2 or sum(over) in (0, total):
        return float(total)
    within = float(stdtrit(total - 1, (1 + level) / 2))
    between = float(stdtrit(clusters - 1, (1 + level) / 2))
    effect = design_effect(over, n)
    if effect == 0:
        return float(total)
    return min(float(total), total / effect * (within / between) ** 2)


def share_interval(over: Sequence[int], n: Sequence[int], level: float = LEVEL) -> Estimate:
    """The share over all clusters, with the interval on the effective number of trials."""
    total = sum(n)
    if total == 0:
        raise SummaryError("share of 0 hand-offs; there is nothing to count")
    share, trials = sum(over) / total, effective(over, n, level)
    bounds = clopper_pearson(min(share * trials, trials), trials, level)
    return Estimate(share, bounds.low, bounds.high)


def quantile_interval(
    clusters: Sequence[NDArray[np.float64]], q: float, level: float = LEVEL
) -> Estimate:
    """A quantile over all clusters, between the order statistics that bound it.

    The effective number is that of the share that exceeds it, or reaches it where none exceeds it,
    as none exceeds what never ended. Where even the largest (smallest) value does not bound the
    quantile, that end is infinite.
    """
    from scipy.special import betainc

    values = np.sort(np.concatenate(list(clusters))) if clusters else np.empty(0)
    value = quantile(values, q)
    total = len(values)
    exceed = [int((cluster > value).sum()) for cluster in clusters]
    if not any(exceed):
        exceed = [int((cluster >= value).sum()) for cluster in clusters]
    trials = max(1, floor(effective(exceed, [len(cluster) for cluster in clusters], level)))
    tail = (1 - level) / 2

    def at_most(below: int) -> float:
        """The chance that at most so many of the trials lie below the quantile: it grows."""
        return float(betainc(trials - below, below + 1, 1 - q))

    first = bisect_right(range(trials), tail, key=at_most)
    last = bisect_left(range(trials), 1 - tail, key=at_most) + 1
    low = -inf if first == 0 else values[max(1, floor(first * total / trials)) - 1]
    high = inf if last > trials else values[min(total, ceil(last * total / trials)) - 1]
    return Estimate(value, float(low), float(high))


def mean_interval(values: Sequence[float], level: float = LEVEL) -> Estimate:
    """The mean of one value a seed, with Student's t interval; unbounded for a single seed."""
    from scipy.special import stdtrit

    count = len(values)
    if count == 0:
        raise SummaryError("mean of 0 seeds; there is nothing to average")
    mean = float(np.mean(values))
    if count == 1 or not np.isfinite(mean):
        return Estimate(mean, -inf, inf)
    half = float(stdtrit(count - 1, (1 + level) / 2)) * float(np.std(values, ddof=1)) / sqrt(count)
    return Estimate(mean, mean - half, mean + half)


def needed(share: float, allowed: float, worth: float, most: int = 1_000_000) -> int | None:
    """Hand-offs that would decide whether a share lies below or above what is allowed.

    Supposes that the observed share stays, and that each hand-off stays ``worth`` as many
    effective trials (at most 1); None when ``most`` would not do.
    """

    def decides(n: int) -> bool:
        trials = n * worth
        return clopper_pearson(min(share * trials, trials), trials).excludes(allowed)

    if not decides(most):
        return None
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle + 1, high)
    return low
