"""Goodput: the highest request rate at which enough requests meet their objectives, and per GPU.

The definition is DistServe's, whose example of enough is 90 % (Zhong et al., OSDI 2024, section 2).
It is searched by trying rates: doubled or halved from a first one until one meets the goal and the
next misses it, then bisected.
Attainment is not taken to fall with the rate: what is told is the bracket, a rate that met the goal
and a higher one that did not, and every rate outside it that says otherwise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log, log2, log10, nan, sqrt
from typing import Final

from msgspec import Struct

from analysis import lossless
from analysis.interval import Estimate, share_interval
from analysis.wording import NONE, money, percent, share_told

GOAL: Final = 0.9
"""The share of requests that must meet both objectives (DistServe, section 2)."""

DOUBLINGS: Final = 12
"""How often the first rate is doubled, or halved, at most."""

MILLION: Final = 1e6
HOUR_S: Final = 3600

_DIGITS: Final = 4

COLUMNS: Final = (
    *("fabric", "policy", "goodput (requests/s)", "a GPU", "missed at (requests/s)"),
    *("attainment", "attainment there", "there: late TTFT, late TPOT, unserved"),
    "$ a million tokens",
)


class Trial(Struct, frozen=True, kw_only=True):
    """One rate and seed: requests counted (after warm-up), and how many met both objectives.

    ``tokens`` are the output tokens of those that met, None in trials that did not count them.
    Of the others ``unserved`` were rejected or not finished, ``late_first`` and ``late_token``
    missed the objective for TTFT and for TPOT, maybe both. ``lossless`` are frames that a lossless
    class lost.
    """

    rate_per_s: float
    seed: int
    counted: int
    met: int
    unserved: int
    late_first: int
    late_token: int
    tokens: int | None = None
    lossless: int = 0


@dataclass(frozen=True, slots=True)
class Point:
    """All seeds of one rate."""

    rate_per_s: float
    trials: tuple[Trial, ...]

    @property
    def attainment(self) -> Estimate:
        """The share that met both objectives, with its 95 % interval over the seeds."""
        return share_interval([t.met for t in self.trials], [t.counted for t in self.trials])

    @property
    def tokens_per_s(self) -> float:
        """Output tokens of requests that met both objectives, a second; NaN where not counted."""
        counted = sum(t.counted for t in self.trials)
        tokens = sum(nan if t.tokens is None else t.tokens for t in self.trials)
        return self.rate_per_s * tokens / counted

    def share(self, name: str) -> float:
        """The share of counted requests that a column of `Trial` counts."""
        counted = sum(int(getattr(t, name)) for t in self.trials)
        return counted / sum(t.counted for t in self.trials)


@dataclass(frozen=True, slots=True)
class Search:
    """The rates tried on one alternative, ascending; ``reason`` says why none was, or nothing.

    ``usd_per_hour`` is what GPUs and fabric cost for an hour, NaN without prices; ``faults`` says
    whether the scenario has any.
    """

    fabric: str
    policy: str
    gpus: int
    points: tuple[Point, ...]
    start: float
    goal: float = GOAL
    precision: float = 0.05
    reason: str = ""
    usd_per_hour: float = nan
    faults: bool = False

    @property
    def name(self) -> str:
        """The alternative, in a sentence."""
        return f"{self.fabric} with {self.policy}"

    @property
    def lossless(self) -> int:
        """Frames that a lossless class lost, at all rates."""
        return sum(trial.lossless for point in self.points for trial in point.trials)

    @property
    def usd(self) -> float:
        """US dollars a million output tokens within the objectives at the goodput; NaN without."""
        low = self.bracket[0]
        tokens = 0.0 if low is None else HOUR_S * low.tokens_per_s
        return MILLION * self.usd_per_hour / tokens if tokens else nan

    @property
    def met(self) -> dict[float, bool]:
        """Whether each rate met the goal."""
        return {p.rate_per_s: p.attainment.value >= self.goal for p in self.points}

    @property
    def bracket(self) -> tuple[Point | None, Point | None]:
        """The highest rate that met the goal and the lowest above it that missed it, as searched;
        None where no rate did."""
        low, high = bracket(self.met, self.start)
        held = {p.rate_per_s: p for p in self.points}
        return held.get(low), held.get(high)

    @property
    def odd(self) -> list[float]:
        """Rates that speak against a single threshold: missed below the bracket, met above it."""
        low, high = bracket(self.met, self.start)
        return [
            rate
            for rate, met in self.met.items()
            if (rate < low and not met) or (0 < high < rate and met)
        ]


def bracket(met: Mapping[float, bool], start: float) -> tuple[float, float]:
    """(highest rate that met, lowest that missed) around the search's path; 0 where there is none.

    >>> bracket({100.0: True, 200.0: False, 141.4: True}, 100.0)
    (141.4, 200.0)
    """
    low = high = 0.0
    rate = start
    while rate in met:
        if met[rate]:
            low = rate
            if high:
                break
            rate = ladder(rate, 2)
        else:
            high = rate
            if low:
                break
            rate = ladder(rate, 0.5)
    if not (low and high):
        return low, high
    while low < (middle := between(low, high)) < high and middle in met:
        low, high = (middle, high) if met[middle] else (low, middle)
    return low, high


def next_rate(met: Mapping[float, bool], start: float, precision: float) -> float | None:
    """The rate to be tried after those that are known; None when the search is over.

    It is over when the rates of the bracket are within 1 + ``precision`` of each other, or after
    `DOUBLINGS` in one direction.

    >>> next_rate({}, 100, 0.05), next_rate({100.0: False}, 100, 0.05)
    (100.0, 50.0)
    """
    start = rounded(start)
    if start not in met:
        return start
    low, high = bracket(met, start)
    if low and high:
        return between(low, high) if high > low * (1 + precision) else None
    last = low or high
    if abs(log2(last / start)) > DOUBLINGS - 0.5:
        return None
    return ladder(last, 2 if low else 0.5)


def rounds_left(met: Mapping[float, bool], start: float, precision: float) -> int:
    """How many rates are still to be tried, if one more doubling is enough."""
    if next_rate(met, start, precision) is None:
        return 0
    low, high = bracket(met, rounded(start))
    width = high / low if low and high else 2.0
    halvings = max(0, ceil(log2(log(width) / log(1 + precision)))) if width > 1 else 0
    return halvings + (0 if low and high else 1)


def ladder(rate: float, factor: float) -> float:
    """The rate that comes after one."""
    return rounded(rate * factor)


def between(low: float, high: float) -> float:
    """The geometric middle of two rates; one of them when they are neighbours."""
    return rounded(sqrt(low * high))


def rounded(rate: float) -> float:
    """To four digits, so that policies with the same first rate are tried at the same ones.

    >>> rounded(141.4213), rounded(0.0123456)
    (141.4, 0.01235)
    """
    return float(round(rate, _DIGITS - 1 - floor(log10(rate))))


def row(search: Search) -> tuple[str, ...]:
    """The search in words, as `COLUMNS`."""
    names = (search.fabric, search.policy)
    if search.reason:
        return (*names, "impossible", *[NONE] * (len(COLUMNS) - 3))
    low, high = search.bracket
    if low is None:
        found = ("none", NONE)
    else:
        sign = "" if high is not None else ">= "
        found = (
            sign + shown(low.rate_per_s),
            sign + f"{low.rate_per_s / search.gpus:.3g}" if search.gpus else NONE,
        )
    late = NONE
    if high is not None:
        kinds = ("late_first", "late_token", "unserved")
        late = ", ".join(percent(high.share(kind)) for kind in kinds)
    return (
        *names,
        *found,
        shown(high.rate_per_s) if high is not None else NONE,
        *(_attained(point) for point in (low, high)),
        late,
        money(search.usd) if isfinite(search.usd) else NONE,
    )


def shown(rate: float) -> str:
    """A rate for people."""
    return f"{rate:,.0f}" if rate >= 1000 else f"{rate:.4g}"


def _attained(point: Point | None) -> str:
    return share_told(point.attainment if point is not None else None)


def sentences(searches: Sequence[Search]) -> list[str]:
    """What a reader should know of the numbers."""
    ran = [s for s in searches if not s.reason]
    told = lossless.told({s.name: s.lossless for s in ran}, faults=any(s.faults for s in ran))
    best = max(ran, key=lambda s: s.bracket[0].rate_per_s if s.bracket[0] else 0.0, default=None)
    if best is not None and best.bracket[0] is not None:
        top = best.bracket[0].rate_per_s
        least = "at least " if best.bracket[1] is None else ""
        told.append(f"Highest: {least}{shown(top)} requests/s on {best.name}.")
        close = [s for s in ran if s is not best and not _apart(s, top)]
        if close:
            names = ", ".join(s.name for s in close)
            told.append(f"Within its search's precision of {percent(best.precision)}: {names}.")
    paid = sorted((s for s in ran if isfinite(s.usd)), key=lambda s: s.usd)
    if paid:
        first, last = paid[0], paid[-1]
        told.append(
            f"Cheapest a token at its goodput: {first.name}, "
            f"{money(first.usd)} a million output tokens within the objectives"
            + (f"; dearest: {last.name}, {money(last.usd)}." if last is not first else ".")
        )
    unbounded = [s for s in ran if s.bracket[0] is not None and s.bracket[1] is None]
    if unbounded:
        told.append(
            f"{len(unbounded)} of {len(ran)} met the objectives at the highest rate tried, where "
            "so few requests come all at once that no more load could show: give more by --count."
        )
    unsure = [s for s in ran if any(_across(point, s.goal) for point in s.bracket)]
    if unsure:
        told.append(
            f"{len(unsure)} of {len(ran)} brackets have an end whose 95 % interval holds the goal: "
            "more seeds or requests may move it."
        )
    for search in ran:
        if search.odd:
            rates = ", ".join(shown(rate) for rate in search.odd)
            told.append(
                f"{search.name}: attainment does not fall steadily with the "
                f"rate; {rates} requests/s say otherwise than the bracket."
            )
    told += [f"{s.name}: impossible, {s.reason}." for s in searches if s.reason]
    return told


def _apart(search: Search, top: float) -> bool:
    """Whether a search ended clearly below a rate."""
    low = search.bracket[0]
    return low is None or low.rate_per_s * (1 + search.precision) < top


def _across(point: Point | None, goal: float) -> bool:
    return point is not None and point.attainment.low < goal <= point.attainment.high
