"""Two runs over common seeds: their difference, its interval, and what would narrow it.

A seed gives both runs the same arrivals and lengths (common random numbers; Law, Simulation
Modeling and Analysis, 11.2), so that what the seed does to both cancels in the difference.
A number a seed has Student's t interval over the seeds. A pooled quantile has none a seed, since
one seed has too few values: it gets the jackknife that leaves out one seed at a time, with
Student's t on the pseudo-values (Tukey, Annals of Mathematical Statistics 29, 1958; leaving out
groups, and not single values, is what makes it right for quantiles: Shao and Wu, Annals of
Statistics 17, 1989).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, isfinite, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analysis.error import SummaryError
from analysis.interval import LEVEL, Estimate, quantile

POWER: Final = 0.8
"""The chance of finding a difference that advice on sample size is given for; the usual one."""

MOST_SEEDS: Final = 1000

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Paired:
    """A number in two runs, each the mean over the common seeds, and ``gap``, second - first.

    ``spread`` is the standard deviation of the difference between seeds, ``level`` that of the
    interval.
    """

    first: float
    second: float
    gap: Estimate
    spread: float
    seeds: int
    level: float = LEVEL

    @property
    def found(self) -> bool:
        """Whether the interval excludes zero."""
        return self.gap.excludes(0.0)

    @property
    def share(self) -> float:
        """The difference over the first; NaN when that is zero."""
        return self.gap.value / self.first if self.first else np.nan

    @property
    def p(self) -> float:
        """The chance of a difference at least as large if there were none: paired t, two-sided.

        1 for a single seed and for no difference; 0 where every seed has the same one.
        """
        return float(chances(np.array([self.gap.value]), np.array([self.spread]), self.seeds)[0])

    def at(self, level: float) -> "Paired":
        """The same difference with an interval of another level."""
        gap = _around(self.gap.value, self.spread, self.seeds, level)
        return replace(self, gap=gap, level=level)

    @property
    def more_seeds(self) -> int | None:
        """How many more seeds would separate the two with a chance of 80 %.

        None when the difference is found, when it is zero, or when 1000 seeds would not do.
        """
        if self.found or not self.gap.value or self.seeds < 2:
            return None
        wanted = seeds_needed(self.gap.value, self.spread, self.level)
        return None if wanted is None else max(1, wanted - self.seeds)


def paired(
    first: Mapping[int, float], second: Mapping[int, float], level: float = LEVEL
) -> Paired | None:
    """The difference of one number a seed; None when the runs share no seed with both finite.

    >>> found = paired({1: 1.0, 2: 5.0, 3: 9.0}, {1: 2.0, 2: 6.0, 3: 10.3})
    >>> round(found.gap.value, 3), round(found.gap.low, 3), found.found
    (1.1, 0.67, True)
    """
    seeds = [
        seed
        for seed in sorted(set(first) & set(second))
        if isfinite(first[seed]) and isfinite(second[seed])
    ]
    if not seeds:
        return None
    before, after = (np.array([run[seed] for seed in seeds], float) for run in (first, second))
    gaps = after - before
    spread = float(gaps.std(ddof=1)) if len(seeds) > 1 else inf
    gap = _around(float(gaps.mean()), spread, len(seeds), level)
    return Paired(float(before.mean()), float(after.mean()), gap, spread, len(seeds), level)


def paired_quantile(
    first: Mapping[int, Floats], second: Mapping[int, Floats], q: float, level: float = LEVEL
) -> Paired | None:
    """The difference of the quantile q over all values of the common seeds.

    Each run maps a seed to its values. None when no common seed has values, and when the quantile
    is not finite in either run.
    """
    seeds = [seed for seed in sorted(set(first) & set(second)) if len(first[seed])]
    seeds = [seed for seed in seeds if len(second[seed])]
    if not seeds:
        return None

    def both(chosen: Sequence[int]) -> tuple[float, float]:
        before, after = (np.concatenate([run[s] for s in chosen]) for run in (first, second))
        return quantile(before, q), quantile(after, q)

    before, after = both(seeds)
    if not (isfinite(before) and isfinite(after)):
        return None
    count, gap = len(seeds), after - before
    pseudo = []
    for left_out in seeds if count > 1 else []:
        one, other = both([seed for seed in seeds if seed != left_out])
        pseudo.append(count * gap - (count - 1) * (other - one))
    spread = float(np.std(pseudo, ddof=1)) if np.isfinite(pseudo).all() and count > 1 else inf
    return Paired(before, after, _around(gap, spread, count, level), spread, count, level)


def _around(gap: float, spread: float, seeds: int, level: float) -> Estimate:
    """Student's t interval of a mean difference; unbounded for one seed or an unknown spread."""
    from scipy.special import stdtrit

    if seeds < 2 or not isfinite(spread):
        return Estimate(gap, -inf, inf)
    half = float(stdtrit(seeds - 1, (1 + level) / 2)) * spread / sqrt(seeds)
    return Estimate(gap, gap - half, gap + half)


def chances(gap: Floats, spread: Floats, seeds: int) -> Floats:
    """`Paired.p` of many differences over as many seeds."""
    from scipy.special import stdtr

    if seeds < 2:
        return np.ones_like(gap)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.abs(gap) / (spread / sqrt(seeds))
    return np.where(gap == 0, 1.0, 2 * stdtr(seeds - 1, -t))


def discoveries(found: Sequence[Paired], rate: float = 1 - LEVEL) -> dict[int, Paired]:
    """Which of many differences to believe, by their place, each with an interval to match.

    Benjamini and Hochberg (Journal of the Royal Statistical Society B 57, 1995): of those believed
    at most the share ``rate`` is expected to be false, and where nothing differs anything is
    believed with that chance alone. The intervals are those of Benjamini and Yekutieli (Journal of
    the American Statistical Association 100, 2005), at 1 - believed x rate / all.

    >>> same, other = paired({1: 1.0, 2: 2.0}, {1: 1.0, 2: 2.0}), paired({1: 1, 2: 2}, {1: 2, 2: 3})
    >>> list(discoveries([same, other]))
    [1]
    """
    p = np.array([each.p for each in found])
    most, level = believed(p, rate)
    return {place: found[place].at(level) for place in np.flatnonzero(p <= most).tolist()}


def believed(p: Floats, rate: float = 1 - LEVEL) -> tuple[float, float]:
    """The largest p to believe, as `discoveries` does, and the level of the intervals to match;
    -1 and a level of 1 where nothing is.

    >>> believed(np.array([0.5, 0.01, 0.02]))
    (0.02, 0.9666666666666667)
    """
    ordered = np.sort(p)
    under = np.flatnonzero(ordered <= rate * np.arange(1, len(p) + 1) / max(1, len(p)))
    if not len(under):
        return -1.0, 1.0
    return float(ordered[under[-1]]), float(1 - (under[-1] + 1) * rate / len(p))


def seeds_needed(gap: float, spread: float, level: float = LEVEL) -> int | None:
    """Seeds at which a paired t test finds this difference with a chance of 80 %.

    The least n with (t(n - 1, (1 + level) / 2) + t(n - 1, 0.8)) x spread / sqrt(n) <= |gap|, the
    usual approximation (Montgomery, Design and Analysis of Experiments, 2.4). ``gap`` and
    ``spread`` (the standard deviation of the differences) in one unit. None beyond 1000 seeds.

    >>> seeds_needed(1.0, 1.0), seeds_needed(0.5, 1.0)
    (10, 34)
    """
    from scipy.special import stdtrit

    if not spread >= 0:
        raise SummaryError(f"spread {spread}: not a standard deviation; give one of 0 or more")
    if gap == 0 or not isfinite(spread):
        return None
    first = max(2, ceil(2 * (spread / gap) ** 2))
    for count in range(first, MOST_SEEDS + 1):
        reach = float(stdtrit(count - 1, (1 + level) / 2) + stdtrit(count - 1, POWER))
        if reach * spread / sqrt(count) <= abs(gap):
            return count
    return None
