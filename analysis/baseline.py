"""Every policy against one of them, the base, on each fabric: differences paired over the seeds.

All policies of a fabric meet the same requests at the same seed, so that what a seed does to both
cancels in the difference (`analysis.pairing`). The base is fixed before the numbers are known, the
first policy that the scenario names or the one asked for: against the best of many, picked by its
luck, the others would look worse than they are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final

from analysis.breakdown import Breakdown
from analysis.error import SummaryError
from analysis.measure import MEASURES, Unit
from analysis.pairing import Paired, discoveries, paired
from analysis.record import StudyManifest
from analysis.summary import Sample
from analysis.wording import NONE, ONE_SEED, between
from topo.unit import PS_PER_MS

COMPARED: Final = ("handoff_mean", "over_budget", "ttft_mean", "attainment", "known")
"""The measures that are compared; a column stands only where a policy has the number."""

_HEADS: Final = {
    "handoff_mean": "mean hand-off, ms",
    "over_budget": "over budget, points",
    "ttft_mean": "mean TTFT, ms",
    "attainment": "within objectives, points",
    "known": "prompt tokens known, points",
}

_LONG: Final = tuple(_HEADS[name] for name in ("attainment", "known"))

SAME: Final = "same"
"""A difference of exactly zero in every seed."""

_FOUND: Final = " *"

SHORT: Final = (
    "First row: the base itself. Others: their difference from it, paired over the seeds, 95 % "
    "interval, none of one seed; * held to be one (at most one in twenty is expected not to be)."
)

LEGEND: Final = (
    "The first row is the base itself, the others are their difference from it, seed by seed, "
    "with its 95 % interval; one seed gives none. * marks what is held to be a difference, of "
    "which at most one in twenty is expected not to be (Benjamini and Hochberg); a single interval "
    "off zero is not enough where many are looked at."
)


@dataclass(frozen=True, slots=True)
class Rival:
    """One policy on one fabric: its difference from the base in each of `COMPARED` it has."""

    fabric: str
    policy: str
    gaps: Mapping[str, Paired]
    found: frozenset[str]
    """The measures in which the difference is believed."""

    @property
    def seeds(self) -> int:
        """The common seeds of the mean hand-off, or of the measure that has most."""
        main = self.gaps.get("handoff_mean")
        return main.seeds if main else max((gap.seeds for gap in self.gaps.values()), default=0)


def base_of(samples: Sequence[Sample], base: str | None = None) -> str:
    """The policy that the others are held against: the one asked for, or the first.

    Raises `SummaryError` for one that is not among them.
    """
    names = list(dict.fromkeys(sample.policy for sample in samples))
    if base is not None and base not in names:
        raise SummaryError(f"base {base[:40]!r}: no policy of these results; write one of {names}")
    return base if base is not None else next(iter(names), "")


def rivals(
    samples: Sequence[Sample], study: StudyManifest, base: str | None = None
) -> tuple[Rival, ...]:
    """Every other policy against the base, fabric by fabric, in the study's order."""
    chosen = base_of(samples, base)
    held = {(sample.fabric, sample.policy): sample for sample in samples}
    gaps: dict[tuple[str, str], dict[str, Paired]] = {}
    for sample in samples:
        peer = held.get((sample.fabric, chosen))
        if sample.policy != chosen and peer is not None:
            gaps[sample.fabric, sample.policy] = _gaps(peer, sample, study)
    every = [(key, name, gap) for key, told in gaps.items() for name, gap in told.items()]
    believed = {every[place][:2] for place in discoveries([gap for _, _, gap in every])}
    return tuple(
        Rival(*key, told, frozenset(name for name in told if (key, name) in believed))
        for key, told in gaps.items()
    )


def _gaps(base: Sample, sample: Sample, study: StudyManifest) -> dict[str, Paired]:
    made = {
        name: paired(MEASURES[name].by_seed(base, study), MEASURES[name].by_seed(sample, study))
        for name in COMPARED
    }
    return {name: gap for name, gap in made.items() if gap is not None}


def baseline(samples: Sequence[Sample], study: StudyManifest, base: str | None = None) -> Breakdown:
    """The table: a row a policy and fabric, the base first; none where it has no rival that ran."""
    found = rivals(samples, study, base)
    chosen = base_of(samples, base)
    names = [
        name
        for name in COMPARED
        if any(gap.first or gap.second for r in found for gap in [r.gaps.get(name)] if gap)
    ]
    held = {(sample.fabric, sample.policy): sample for sample in samples}
    rows: list[tuple[str, ...]] = []
    for fabric in dict.fromkeys(rival.fabric for rival in found if names):
        own = held[fabric, chosen]
        told = (_level(own, study, name) for name in names)
        rows.append((fabric, chosen, f"{len(own.seeds())}", *told))
        rows += [
            (fabric, rival.policy, f"{rival.seeds}", *(_gap(rival, name) for name in names))
            for rival in found
            if rival.fabric == fabric
        ]
    return Breakdown(
        f"Policies against {chosen}",
        LEGEND,
        ("fabric", "policy", "seeds", *(_HEADS[name] for name in names)),
        tuple(rows),
    )


def rival_rows(
    samples: Sequence[Sample], study: StudyManifest, base: str | None = None
) -> tuple[Sequence[str], list[list[object]]]:
    """The same as columns and rows for a file, in base units (ps, shares)."""
    chosen = base_of(samples, base)
    rows: list[list[object]] = [
        [
            *(rival.fabric, rival.policy, chosen, name, MEASURES[name].unit.value, gap.seeds),
            *(gap.gap.value, gap.gap.low, gap.gap.high, name in rival.found),
        ]
        for rival in rivals(samples, study, base)
        for name, gap in rival.gaps.items()
    ]
    return (
        *("fabric", "policy", "base", "measure", "unit", "seeds"),
        *("difference", "low", "high", "found"),
    ), rows


def short(told: Breakdown) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The columns and rows for a terminal: no fabric where there is one, the first three measures,
    the seeds only where they are not the same throughout."""
    places = [place for place in range(len(told.columns)) if told.columns[place] not in _LONG]
    for head, place in (("seeds", 2), ("fabric", 0)):
        if len({row[place] for row in told.rows}) == 1:
            places = [each for each in places if told.columns[each] != head]

    def kept(row: Sequence[str]) -> tuple[str, ...]:
        return tuple(row[place] for place in places)

    return kept(told.columns), [kept(row) for row in told.rows]


def _level(sample: Sample, study: StudyManifest, name: str) -> str:
    """The base's own number, the mean of its seeds."""
    known = [value for value in MEASURES[name].by_seed(sample, study).values() if isfinite(value)]
    return _scale(name)(sum(known) / len(known), "") if known else NONE


def _gap(rival: Rival, name: str) -> str:
    gap = rival.gaps.get(name)
    if gap is None:
        return NONE
    return gap_told(gap, _scale(name)) + (_FOUND if name in rival.found else "")


def gap_told(pair: Paired, show: Callable[[float, str], str]) -> str:
    """A difference with its interval; of one seed, which gives none, with that instead.

    ``show`` writes a number with a sign, or without where it gets "" for it.

    >>> plain = lambda value, sign: f"{value:{sign}.1f}"
    >>> one, equal = ({1: 2.0}, {1: 3.5}), ({1: 2.0, 2: 1.0},) * 2
    >>> [gap_told(paired(*each), plain) for each in (one, (one[0], one[0]), equal) if paired(*each)]
    ['+1.5 (one seed)', 'same (one seed)', 'same']
    """
    gap, alone = pair.gap, pair.seeds < 2
    same = not gap.value and (alone or gap.low == gap.high)
    shown = SAME if same else show(gap.value, "+")
    if same and not alone:
        return shown
    span = ONE_SEED if alone else between(show(gap.low, ""), show(gap.high, ""), gap)
    return f"{shown} ({span})"


def _scale(name: str) -> Callable[[float, str], str]:
    """Writes milliseconds to three digits, or hundredths, with a sign where one is asked for.

    >>> _scale("handoff_mean")(-1_064_000_000, "+"), _scale("over_budget")(0.0312, "+")
    ('-1.06', '+3.1')
    """
    if MEASURES[name].unit is Unit.TIME:
        return lambda ps, sign: _plain(ps / PS_PER_MS, sign)
    return lambda share, sign: _plain(100 * share, sign, 1)


def _plain(value: float, sign: str, places: int | None = None) -> str:
    """A number to three digits and thousandths, or with so many places; zero has no sign.

    >>> _plain(1234.6, "+"), _plain(-0.004, "+", 1), _plain(0.0456, "")
    ('+1235', '0.0', '0.046')
    """
    if places is not None:
        shown = f"{value:{sign}.{places}f}"
    elif abs(value) >= 999.5:
        shown = f"{value:{sign}.0f}"
    else:
        shown = f"{round(value, 3):{sign}.3g}"
    return shown.lstrip("+-") if not float(shown) else shown
