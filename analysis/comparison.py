"""Whether fabrics, or policies, differ: paired over the seeds that both have run.

The statistic of a cell is its mean hand-off time: one seed has too few hand-offs for a tail, and
a mean moves with its tail. Two fabrics are compared seed by seed, on the same requests, averaged
over the policies that both have run (two policies: over the fabrics). The interval is Student's t
over the seeds, at 1 - 0.05 / pairs (Bonferroni), so that all pairs hold together at 95 %. Cells
with a hand-off that never ended have no mean and are left out.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from analysis.error import SummaryError
from analysis.factor import Factor
from analysis.interval import LEVEL, Estimate
from analysis.pairing import believed, paired
from analysis.summary import Sample

Floats = NDArray[np.float64]

Statistic = Callable[[Sample], dict[int, float]]
"""A number of each seed of an alternative."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How much longer the mean hand-off of ``slow`` is than that of ``fast``; picoseconds.

    ``share`` is the difference over the mean of ``slow``; ``over`` counts the policies (fabrics)
    that it is averaged over, ``alike`` those in which ``slow`` is longer and ``contrary`` those in
    which it is shorter, as is believed among them (`analysis.pairing.believed`); ``more_seeds``
    would separate the two (`Paired.more_seeds`).
    """

    fast: str
    slow: str
    ps: Estimate
    share: float
    seeds: int
    over: int
    alike: int = 0
    contrary: int = 0
    more_seeds: int | None = None

    @property
    def found(self) -> bool:
        """Whether the interval excludes zero."""
        return self.ps.excludes(0.0)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All pairs of one kind: how many there are, and of how many the interval excludes zero.

    ``widest`` is the pair with the largest difference found, or of all where none is; no pair
    differs by more than ``bound``, in ps, at the level of the intervals.
    """

    pairs: int
    found: int
    bound: float
    widest: Difference | None


def compare_fabrics(
    parts: Sequence[Sample],
    of: Statistic | None = None,
    factor: Factor | None = None,
) -> Comparison:
    """Every two fabrics, averaged over the policies they share; ``of`` is `means` if not given.

    With ``factor``, its values are compared instead, averaged over all else that both have.
    """
    if factor is None:
        return _compare({(p.fabric, p.policy): (of or means)(p) for p in parts})
    value, rest = factor.value, factor.rest
    return _compare(
        {(value[p.fabric], (rest[p.fabric], p.policy)): (of or means)(p) for p in parts}
    )


def compare_policies(parts: Sequence[Sample], of: Statistic | None = None) -> Comparison:
    """Every two policies, averaged over the fabrics they share; ``of`` is `means` if not given."""
    return _compare({(p.policy, p.fabric): (of or means)(p) for p in parts})


def means(sample: Sample) -> dict[int, float]:
    """The mean hand-off of each seed, ps; none of a seed in which one never ended."""
    if sample.impossible is not None:
        return {}
    durations = [part.duration for part in sample.handoffs]
    return {
        seed: float(durations[place].mean())
        for seed, place in sample.seeds().items()
        if len(durations[place]) and np.isfinite(durations[place]).all()
    }


def first_tokens(sample: Sample) -> dict[int, float]:
    """The mean TTFT of each seed, ps, of requests that finished."""
    if sample.impossible is not None or not sample.budgets:
        return {}
    return {
        seed: float(sample.budgets[place].ttft.mean())
        for seed, place in sample.seeds().items()
        if len(sample.budgets[place].ttft)
    }


def _compare(means: Mapping[tuple[str, Hashable], Mapping[int, float]]) -> Comparison:
    names = list(dict.fromkeys(name for name, _ in means))
    level = 1 - (1 - LEVEL) / max(1, comb(len(names), 2))
    pairs = found = 0
    bound, best = 0.0, (False, -1.0)
    widest: tuple[str, str] | None = None
    for place, gap, half in _gaps(names, means, level):
        sure = gap > half
        pairs += int(np.count_nonzero(~np.isnan(gap)))
        found += int(np.count_nonzero(sure))
        bound = max(bound, float((gap + half).max(initial=0.0, where=~np.isnan(gap))))
        for which in (False, True):
            size = np.where(np.isnan(gap) | (sure != which), -1.0, gap)
            peer = int(size.argmax())
            if size[peer] >= 0 and (which, float(size[peer])) > best:
                best = (which, float(size[peer]))
                widest = (names[place], names[place + 1 + peer])
    return Comparison(pairs, found, bound, _difference(*widest, means, level) if widest else None)


def _gaps(
    names: Sequence[str], means: Mapping[tuple[str, Hashable], Mapping[int, float]], level: float
) -> Iterator[tuple[int, Floats, Floats]]:
    """Of each name the size of its difference from each later one, and half its interval, ps; NaN
    for two that share no seed. As `_difference`, for all pairs at once."""
    from scipy.special import stdtrit

    others = {other: place for place, other in enumerate(dict.fromkeys(o for _, o in means))}
    every = sorted({seed for each in means.values() for seed in each})
    seeds = {seed: place for place, seed in enumerate(every)}
    table = np.full((len(names), len(others), len(seeds)), np.nan)
    at_name = {name: place for place, name in enumerate(names)}
    for (name, other), each in means.items():
        for seed, value in each.items():
            table[at_name[name], others[other], seeds[seed]] = value
    ran = np.isfinite(table)
    has: NDArray[np.bool_] = np.logical_or.reduce(ran, 2, keepdims=True)
    table[~ran] = 0.0
    reach = stdtrit(np.maximum(np.arange(len(seeds) + 1) - 1, 1), (1 + level) / 2)
    reach[:2] = np.inf
    for place in range(len(names) - 1):
        mine, rest = slice(place, place + 1), slice(place + 1, None)
        both = has[mine] & has[rest]
        shared = (ran[mine] & ran[rest] | ~both).all(1) & both.any(1)
        gaps = ((table[rest] - table[mine]) * both).sum(1) / np.maximum(1, both.sum(1))
        count = shared.sum(1)
        size = (gaps * shared).sum(1) / np.where(count, count, np.nan)
        spread = ((gaps - size[:, None]) ** 2 * shared).sum(1) / np.maximum(1, count - 1)
        half = np.full(len(count), np.inf)
        np.multiply(reach[count], np.sqrt(spread / np.maximum(1, count)), out=half, where=count > 1)
        yield place, np.abs(size), half


def _difference(
    one: str,
    other: str,
    means: Mapping[tuple[str, Hashable], Mapping[int, float]],
    level: float,
) -> Difference:
    both = [
        (mine, theirs)
        for (name, held), mine in means.items()
        if name == one and mine and (theirs := means.get((other, held)))
    ]
    seeds = sorted(set.intersection(*({*a} & {*b} for a, b in both)))
    first, second = (
        {seed: float(np.mean([pair[side][seed] for pair in both])) for seed in seeds}
        for side in (0, 1)
    )
    fast, slow = one, other
    if sum(first.values()) > sum(second.values()):
        first, second, fast, slow = second, first, slow, fast
        both = [(theirs, mine) for mine, theirs in both]
    gap = paired(first, second, level)
    if gap is None:
        raise SummaryError(f"{fast} against {slow}: no finite mean; leave such seeds out")
    share = gap.gap.value / gap.second if gap.second > 0 else 0.0
    return Difference(
        fast, slow, gap.gap, share, len(seeds), len(both), *_alone(both), gap.more_seeds
    )


def _alone(both: Sequence[tuple[Mapping[int, float], Mapping[int, float]]]) -> tuple[int, int]:
    """In how many cases the second is longer than the first, and in how many it is shorter."""
    each = [gap for first, second in both if (gap := paired(first, second)) is not None]
    most, _ = believed(np.array([gap.p for gap in each]))
    sure = [gap.gap.value for gap in each if gap.p <= most]
    return sum(value > 0 for value in sure), sum(value < 0 for value in sure)
