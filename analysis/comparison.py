"""Whether fabrics, or policies, differ: paired over the seeds that both have run.

The statistic of a cell is its mean hand-off time: one seed has too few hand-offs for a tail, and
a mean moves with its tail. Two fabrics are compared seed by seed, on the same requests, averaged
over the policies that both have run (two policies: over the fabrics). The interval is Student's t
over the seeds, at 1 - 0.05 / pairs (Bonferroni), so that all pairs hold together at 95 %. Cells
with a hand-off that never ended have no mean and are left out.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from analysis.condition import Condition, at
from analysis.error import SummaryError
from analysis.interval import LEVEL, Estimate
from analysis.pairing import paired
from analysis.summary import Sample

Statistic = Callable[[Sample], dict[int, float]]
"""A number of each seed of an alternative."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How much longer the mean hand-off of ``slow`` is than that of ``fast``; picoseconds.

    ``share`` is the difference over the mean of ``slow``; ``over`` counts the policies (fabrics)
    that it is averaged over; ``more_seeds`` would separate the two (`Paired.more_seeds`).
    """

    fast: str
    slow: str
    ps: Estimate
    share: float
    seeds: int
    over: int
    more_seeds: int | None = None

    @property
    def found(self) -> bool:
        """Whether the interval excludes zero."""
        return self.ps.excludes(0.0)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All pairs of one kind, largest difference first, and which names could not be compared."""

    pairs: tuple[Difference, ...]
    left_out: tuple[str, ...]

    @property
    def found(self) -> tuple[Difference, ...]:
        """The pairs whose interval excludes zero."""
        return tuple(pair for pair in self.pairs if pair.found)

    @property
    def bound(self) -> float:
        """No pair differs by more than this, in ps, at the level of the intervals."""
        return max(max(abs(pair.ps.low), abs(pair.ps.high)) for pair in self.pairs)


def compare_fabrics(
    parts: Sequence[Sample],
    of: Statistic | None = None,
    where: Mapping[str, Condition] | None = None,
) -> Comparison:
    """Every two fabrics, averaged over the policies they share; ``of`` is `means` if not given.

    With ``where``, designs are compared instead, averaged over shared conditions and policies.
    """
    if where is None:
        return _compare({(p.fabric, p.policy): (of or means)(p) for p in parts})
    placed = ((at(where, p.fabric), p) for p in parts)
    return _compare({(c.design, (c.text, p.policy)): (of or means)(p) for c, p in placed})


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
    others = list(dict.fromkeys(other for _, other in means))
    pairs = list(combinations(names, 2))
    found = []
    for first, second in pairs:
        both = [
            (means[first, other], means[second, other])
            for other in others
            if means.get((first, other)) and means.get((second, other))
        ]
        seeds = sorted(set.intersection(*({*a} & {*b} for a, b in both))) if both else []
        if seeds:
            found.append(_difference((first, second), both, seeds, 1 - (1 - LEVEL) / len(pairs)))
    compared = {name for pair in found for name in (pair.fast, pair.slow)}
    return Comparison(
        tuple(sorted(found, key=lambda pair: -pair.ps.value)),
        tuple(name for name in names if name not in compared),
    )


def _difference(
    names: tuple[str, str],
    both: Sequence[tuple[Mapping[int, float], Mapping[int, float]]],
    seeds: Sequence[int],
    level: float,
) -> Difference:
    first, second = (
        {seed: float(np.mean([pair[side][seed] for pair in both])) for seed in seeds}
        for side in (0, 1)
    )
    fast, slow = names
    if sum(first.values()) > sum(second.values()):
        first, second, fast, slow = second, first, slow, fast
    gap = paired(first, second, level)
    if gap is None:
        raise SummaryError(f"{fast} against {slow}: no finite mean; leave such seeds out")
    share = gap.gap.value / gap.second if gap.second > 0 else 0.0
    return Difference(fast, slow, gap.gap, share, len(seeds), len(both), gap.more_seeds)
