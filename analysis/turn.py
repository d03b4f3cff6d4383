"""Whether the better of two policies depends on the fabric.

An average over fabrics hides it: a mapping that one fabric is cabled for may lose on the next. Two
policies turn when one has the shorter mean hand-off on one fabric and the longer on another, both
differences being believed among all that were looked at (`analysis.pairing.discoveries`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.comparison import means
from analysis.pairing import Paired, believed, chances, paired
from analysis.summary import Sample
from analysis.wording import count, duration, duration_span

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Means = Mapping[tuple[str, str], Mapping[int, float]]
"""The mean hand-off of each seed by fabric and policy."""


@dataclass(frozen=True, slots=True)
class Turn:
    """``policy`` beats ``rival`` on the fabric ``wins`` and loses to it on ``loses``.

    ``gain`` and ``loss`` are the mean hand-off of the rival there minus that of the policy, ps.
    """

    policy: str
    rival: str
    wins: str
    gain: Paired
    loses: str
    loss: Paired

    @property
    def most(self) -> float:
        """The larger of the two differences, ps."""
        return max(self.gain.gap.value, -self.loss.gap.value)

    def text(self, size: Callable[[float, float], str]) -> str:
        """One sentence, the numbers with it; ``size`` tells a difference, from its picoseconds and
        its share of the rival's mean."""
        gain, loss = self.gain.gap, self.loss.gap
        share, back = (each.gap.value / each.second for each in (self.gain, self.loss))
        return (
            f"on {self.wins}, the mean hand-off with {self.policy} is "
            f"{size(gain.value, share)} shorter than with {self.rival} ({duration_span(gain)}, "
            f"{count(self.gain.seeds, 'common seed')}); on {self.loses} it is "
            f"{size(-loss.value, -back)} longer "
            f"({duration(-loss.high)} to {duration(-loss.low)})."
        )


def turn(parts: Sequence[Sample]) -> Turn | None:
    """The pair of policies that turns most: whose lesser difference is the largest."""
    return turned({(part.fabric, part.policy): means(part) for part in parts})


def turned(held: Means) -> Turn | None:
    """The same of means."""
    fabrics = list(dict.fromkeys(fabric for fabric, _ in held))
    policies = list(dict.fromkeys(policy for _, policy in held))
    if len(fabrics) < 2 or len(policies) < 2:
        return None
    one, other = np.triu_indices(len(policies), 1)
    gap, p = np.full((2, len(fabrics), len(one)), np.nan)
    for place, fabric in enumerate(fabrics):
        for pairs, gaps, chance in _gaps([held.get((fabric, policy), {}) for policy in policies]):
            gap[place, pairs], p[place, pairs] = gaps, chance
    most, level = believed(p[~np.isnan(p)])
    sure = p <= most
    wins, loses = np.where(sure, gap, -np.inf), np.where(sure, gap, np.inf)
    lesser = np.minimum(wins.max(0), -loses.min(0))
    best = int(lesser.argmax())
    if not lesser[best] > 0:
        return None
    policy, rival = policies[one[best]], policies[other[best]]
    told = []
    for at in (wins[:, best].argmax(), loses[:, best].argmin()):
        fabric = fabrics[at]
        found = paired(held[fabric, policy], held[fabric, rival])
        assert found is not None
        told.append((fabric, found.at(level)))
    return Turn(policy, rival, *told[0], *told[1])


def _gaps(runs: Sequence[Mapping[int, float]]) -> Iterator[tuple[Ints, Floats, Floats]]:
    """Of the runs on one fabric: pairs by their place among all, as `numpy.triu_indices` has them,
    the difference of each, as `paired` gives it, and its p. Pairs that share no seed are left out.
    """
    seeds = sorted({seed for run in runs for seed in run})
    means = np.array([[run.get(seed, np.nan) for seed in seeds] for run in runs])
    kinds, kind = np.unique(np.isfinite(means), axis=0, return_inverse=True)
    groups = [(has, np.flatnonzero(kind == number)) for number, has in enumerate(kinds)]
    for place, mine in enumerate(means):
        first = place * len(runs) - place * (place + 3) // 2 - 1
        for has, places in groups:
            shared = np.flatnonzero(has & np.isfinite(mine))
            rest = places[places > place]
            if len(shared) and len(rest):
                gaps = means[np.ix_(rest, shared)] - mine[shared]
                spread = gaps.std(1, ddof=1) if len(shared) > 1 else np.full(len(rest), np.inf)
                size = gaps.mean(1)
                yield first + rest, size, chances(size, spread, len(shared))
