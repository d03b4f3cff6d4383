"""Whether the better of two policies depends on the fabric.

An average over fabrics hides it: a mapping that one fabric is cabled for may lose on the next. Two
policies turn when one has the shorter mean hand-off on one fabric and the longer on another, both
differences being believed among all that were looked at (`analysis.pairing.discoveries`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

from analysis.comparison import means
from analysis.pairing import Paired, discoveries, paired
from analysis.summary import Sample
from analysis.wording import count, duration, duration_span, percent


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

    def text(self) -> str:
        """One sentence, the numbers with it."""
        gain, loss = self.gain.gap, self.loss.gap
        share, back = (each.gap.value / each.second for each in (self.gain, self.loss))
        return (
            f"on {self.wins}, the mean hand-off with {self.policy} is {duration(gain.value)} "
            f"({percent(share)}) shorter than with {self.rival} ({duration_span(gain)}, "
            f"{count(self.gain.seeds, 'common seed')}); on {self.loses} it is "
            f"{duration(-loss.value)} ({percent(-back)}) longer "
            f"({duration(-loss.high)} to {duration(-loss.low)})."
        )


def turn(parts: Sequence[Sample]) -> Turn | None:
    """The pair of policies that turns most: whose lesser difference is the largest."""
    held = {(part.fabric, part.policy): means(part) for part in parts}
    fabrics = list(dict.fromkeys(fabric for fabric, _ in held))
    policies = list(dict.fromkeys(policy for _, policy in held))
    if len(fabrics) < 2:
        return None
    keys, gaps = [], []
    for (one, other), fabric in product(combinations(policies, 2), fabrics):
        if (fabric, one) in held and (fabric, other) in held:
            gap = paired(held[fabric, one], held[fabric, other])
            if gap is not None:
                keys.append((one, other, fabric))
                gaps.append(gap)
    sure: dict[tuple[str, str], list[tuple[str, Paired]]] = {}
    for place, gap in discoveries(gaps).items():
        one, other, fabric = keys[place]
        sure.setdefault((one, other), []).append((fabric, gap))
    found = []
    for (one, other), each in sure.items():
        wins, gain = max(each, key=lambda pair: pair[1].gap.value)
        loses, loss = min(each, key=lambda pair: pair[1].gap.value)
        if gain.gap.value > 0 > loss.gap.value:
            found.append(Turn(one, other, wins, gain, loses, loss))
    return max(found, key=lambda each: min(each.gain.gap.value, -each.loss.gap.value), default=None)
