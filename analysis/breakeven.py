"""Whether disaggregated serving is the cheaper way to a token, and up to which fabric price.

Disaggregated (d) and together (t: colocated or multi-node), each with G dollars an hour for GPUs,
F for the fabric and T tokens an hour within the objectives, compare by

    c = (G_d + F_d) / (G_t + F_t) / r,    r = T_d / T_t

c < 1 being in favour of disaggregating. With all fabrics s times as dear as they are, both cost the
same a token at

    s = (r G_t - G_d) / (F_d - r F_t)

so that d is cheaper below s where F_d > r F_t, as it is when nothing crosses the fabric together,
and above s otherwise. s depends on the ratio of the prices of fabric and GPUs alone: GPUs s times
as cheap turn the order as well.

r is the geometric mean of the ratios of the common seeds, its interval Student's t on their
logarithms. Both ends of the interval of c and s follow from those of r.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, inf, isfinite, isnan, log, nan
from typing import Final

from analysis.breakdown import Breakdown
from analysis.economics import Bill, bills
from analysis.goodput import GOAL
from analysis.interval import LEVEL, Estimate
from analysis.pairing import paired
from analysis.record import StudyManifest
from analysis.service import attainment
from analysis.summary import Sample
from analysis.wording import ONE_SEED, count, money, more_seeds, percent, times

APART: Final = "disaggregated"
"""The mode of serving that is held against the others."""

_KEY: Final = "serving"
_MOST_POWER: Final = 700
"""Just below the logarithm of the largest float."""


@dataclass(frozen=True, slots=True, eq=False)
class Rivals:
    """The cheapest disaggregated alternative of a setting and the cheapest other.

    ``ratio`` is r, over ``seeds``; ``more`` seeds would separate the two. ``met`` tells whether
    both meet their objectives for 90 % of the requests or more.
    """

    apart: Bill
    together: Bill
    ratio: Estimate
    seeds: int
    more: int | None
    met: bool

    @property
    def cost(self) -> Estimate:
        """The cost a token of the disaggregated over that of the other, c."""
        hours = self.apart.price.usd_per_hour / self.together.price.usd_per_hour
        value, low, high = (
            hours / r if r else inf for r in (self.ratio.value, self.ratio.high, self.ratio.low)
        )
        return Estimate(value, low, high)

    @property
    def turn(self) -> Estimate:
        """The factor s on fabric prices; NaN where no price above 0 turns the order, and
        ends that are NaN where an end of the interval of r has none."""
        return Estimate(
            *(self._turn(r) for r in (self.ratio.value, self.ratio.low, self.ratio.high))
        )

    def _turn(self, ratio: float) -> float:
        d, t = self.apart.price, self.together.price
        fabrics = d.fabric_usd_per_hour - ratio * t.fabric_usd_per_hour
        gpus = ratio * t.gpu_usd_per_hour - d.gpu_usd_per_hour
        if not isfinite(ratio) or not fabrics or gpus / fabrics <= 0:
            return nan
        return gpus / fabrics

    @property
    def gains(self) -> str:
        """Which of the two gains as fabrics get dearer."""
        d, t = self.apart.price, self.together.price
        falls = d.fabric_usd_per_hour < self.ratio.value * t.fabric_usd_per_hour
        return APART if falls else self.together.price.mode.replace("_", "-")


def rivals(samples: Sequence[Sample], study: StudyManifest) -> list[Rivals]:
    """The two cheapest of every setting that both ways of serving have; none without prices.

    A setting is all that the comparison varies beside serving and policy. With n pairs to choose
    from, intervals are at 1 - 0.05 / n (Bonferroni), since the cheapest were picked for their
    numbers.
    """
    settings: dict[tuple[tuple[str, str], ...], list[Bill]] = {}
    for each in bills(samples, study):
        varied = study.varied.get(each.sample.fabric, {"fabric": each.sample.fabric})
        rest = {k: v for k, v in varied.items() if k.partition(".")[0] != _KEY}
        settings.setdefault(tuple(sorted(rest.items())), []).append(each)
    found = []
    for mine in settings.values():
        apart = [each for each in mine if each.price.mode == APART]
        together = [each for each in mine if each.price.mode != APART]
        if apart and together:
            pair = _rivals(_cheapest(apart), _cheapest(together), study, len(apart) * len(together))
            found += [pair] if pair is not None else []
    return found


def _cheapest(of: Iterable[Bill]) -> Bill:
    return min(of, key=lambda each: each.usd.value)


def _rivals(apart: Bill, together: Bill, study: StudyManifest, pairs: int) -> Rivals | None:
    """The two compared; None without a common seed, or a token of either. Where a seed of one has
    none, its ratio has no logarithm: r is that of the sums, without bounds."""
    common = sorted(set(apart.tokens) & set(together.tokens))
    first, second = ({seed: of.tokens[seed] for seed in common} for of in (together, apart))
    sums = sum(first.values()), sum(second.values())
    if not any(sums):
        return None
    met = all(
        attainment(cell, study) >= GOAL for each in (apart, together) for cell in each.sample.cells
    )
    if not (all(first.values()) and all(second.values())):
        ratio = Estimate(sums[1] / sums[0] if sums[0] else inf, 0.0, inf)
        return Rivals(apart, together, ratio, len(common), None, met)
    before, after = ({seed: log(many) for seed, many in of.items()} for of in (first, second))
    gap = paired(before, after, 1 - (1 - LEVEL) / pairs)
    if gap is None:
        return None
    ends = (_exp(end) for end in (gap.gap.value, gap.gap.low, gap.gap.high))
    return Rivals(apart, together, Estimate(*ends), gap.seeds, gap.more_seeds, met)


def _exp(power: float) -> float:
    return exp(power) if power < _MOST_POWER else inf


def breakeven(samples: Sequence[Sample], study: StudyManifest) -> Breakdown:
    """Disaggregated against the other ways, one row a setting; no rows without prices."""
    rows = [
        (
            _name(each.apart),
            _name(each.together),
            _factors(each.ratio, each.seeds),
            _factors(each.cost, each.seeds),
            _verdict(each),
            _turn(each),
        )
        for each in rivals(samples, study)
    ]
    return Breakdown(
        "Worth of disaggregating",
        "The cheapest disaggregated alternative against the cheapest other: tokens within the "
        "objectives and cost a token, first over second, with intervals over common seeds, none of "
        "one seed; and the price of the first one's fabric at which both cost the "
        "same, in proportion to the price that it has, if all fabrics change alike.",
        (
            *("disaggregated", "against", "tokens, first over second", "cost a token"),
            *("cheaper", "order turns at a fabric of"),
        ),
        tuple(rows),
    )


def sentences(samples: Sequence[Sample], study: StudyManifest) -> list[str]:
    """Whether disaggregating is worth it where the cheapest token is, and in how many settings."""
    found = rivals(samples, study)
    if not found:
        return []
    best = min(found, key=lambda each: min(each.apart.usd.value, each.together.usd.value))
    told = [_sentence(best)]
    if len(found) > 1:
        kinds = [_verdict(each) for each in found]
        tally = ", ".join(f"{kind} {kinds.count(kind)}" for kind in dict.fromkeys(kinds))
        told.append(f"Cheaper a token in {count(len(found), 'setting')}: {tally}.")
    return told


def _sentence(pair: Rivals) -> str:
    names = f"{_name(pair.apart)} and {_name(pair.together)}"
    costs = f"{_usd(pair.apart)} and {_usd(pair.together)}"
    if not pair.cost.excludes(1.0):
        told = "Whether disaggregating is worth it: no difference found in cost a token between"
        return f"{told} {names} ({costs}){_why(pair)}.{_load(pair)}"
    gap, verb = pair.cost.value - 1, "less" if pair.cost.value < 1 else "more"
    ends = sorted(abs(end - 1) for end in (pair.cost.low, pair.cost.high))
    low, high = (percent(end) for end in ends)
    told = f"{low} to {high}" if low != high else "the same in every seed"
    return (
        f"{'Worth' if gap < 0 else 'Not worth'} disaggregating: an output token within the "
        f"objectives costs {percent(abs(gap))} {verb} with {_name(pair.apart)} than with "
        f"{_name(pair.together)} ({told}, "
        f"{count(pair.seeds, 'common seed')}; {costs}). {_price(pair)}{_load(pair)}"
    )


def _why(pair: Rivals) -> str:
    """What keeps the two from being told apart, or would do it."""
    if not (all(pair.apart.tokens.values()) and all(pair.together.tokens.values())):
        return "; a seed without any token within the objectives leaves it without an interval"
    return more_seeds(pair.more) if pair.seeds > 1 else "; one common seed cannot show one"


def _usd(of: Bill) -> str:
    usd = of.usd.value
    return f"{money(usd)} a million tokens" if usd < inf else "no token within the objectives"


def _price(pair: Rivals) -> str:
    """At which price of the fabric the order turns, in a sentence."""
    if isnan(pair.turn.value):
        return "No price of the fabric above $0 turns the order."
    return f"The order turns at a fabric of {_turn(pair)}; dearer ones favour {pair.gains} serving."


def _load(pair: Rivals) -> str:
    """What a reader must know where the load, and not the serving, sets the tokens."""
    if not pair.met:
        return ""
    return (
        f" Both meet the objectives for {percent(GOAL)} of the requests or more, so that the load "
        "sets the tokens: `kvfabric goodput` tells the cost at the highest that each stands."
    )


def _verdict(pair: Rivals) -> str:
    if not pair.cost.excludes(1.0):
        return "no difference found"
    return APART if pair.cost.value < 1 else pair.together.price.mode.replace("_", "-")


def _turn(pair: Rivals) -> str:
    """The price, with its interval, and the factor."""
    found, price = pair.turn, pair.apart.price.fabric_usd
    if isnan(found.value):
        return "no price"
    told = money(found.value * price)
    if not (isnan(found.low) or isnan(found.high)):
        low, high = (money(end * price) for end in sorted((found.low, found.high)))
        told += f" ({low} to {high})" if low != high else ""
    return f"{told}, {times(found.value)} its price"


def _factors(found: Estimate, seeds: int) -> str:
    """A factor with its interval over so many seeds, three digits."""
    if (found.low, found.high) == (0.0, inf):
        return f"{found.value:.3g}x ({'unbounded' if seeds > 1 else ONE_SEED})"
    return f"{found.value:.3g}x ({found.low:.3g}x to {found.high:.3g}x)"


def _name(of: Bill) -> str:
    return f"{of.sample.fabric} with {of.sample.policy}"
