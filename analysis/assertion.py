"""A condition on results, for gates in continuous integration: ``over_budget<1%``.

    assertion  = [which ":"] measure comparison value ["observed"]
    which      = "all" | "any" | "choice" | fabric "/" policy
    comparison = "<" | "<=" | ">" | ">=" | "==" (for counts)
    value      = a number with the unit of the measure: 25ms, 1%, 1.5x, 800/s, or a plain count

A condition on a number with an interval holds when the whole interval does, fails when no part of
it does, and is undecided otherwise, as a verdict is; with ``observed`` the number alone decides.
Without ``which`` every alternative that can run must hold; ``any`` asks for one, ``choice`` for the
one that the verdict names. `*` stands for every fabric or policy.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import isinf
from typing import Final

from analysis.error import SummaryError
from analysis.interval import Estimate, effective, needed
from analysis.measure import Measure, Unit, measure
from analysis.record import StudyManifest
from analysis.summary import Sample
from analysis.wording import count, printable
from topo import unit
from topo.error import UnitError

HOLDS: Final = "holds"
FAILS: Final = "fails"
UNDECIDED: Final = "undecided"

_FORM: Final = re.compile(
    r"\s*(?:(?P<which>.*?)\s*:\s*)?(?P<name>[A-Za-z_][\w.]*)\s*(?P<sign><=|>=|==|<|>)\s*"
    r"(?P<value>[^<>=:]*?)(?P<observed>\s+observed)?\s*"
)
_SHOWN: Final = 10

_EXAMPLE: Final = {
    Unit.TIME: "25ms",
    Unit.SHARE: "1%",
    Unit.FACTOR: "1.5x",
    Unit.COUNT: "0",
    Unit.RATE: "800/s",
    Unit.DENSITY: "1500",
}


@dataclass(frozen=True, slots=True)
class Assertion:
    """A condition read from text; ``limit`` is in the base unit of the measure."""

    text: str
    which: str
    measure: Measure
    sign: str
    limit: float
    observed: bool

    def standing(self, found: Estimate) -> str:
        """Whether a number holds, fails or is undecided."""
        ends = (found.value,) if self.observed else (found.low, found.high)
        kept = [self._kept(end) for end in ends]
        return HOLDS if all(kept) else UNDECIDED if any(kept) else FAILS

    def _kept(self, value: float) -> bool:
        if self.sign == "<":
            return value < self.limit
        if self.sign == "<=":
            return value <= self.limit
        if self.sign == "==":
            return value == self.limit
        return value > self.limit if self.sign == ">" else value >= self.limit


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an assertion: holds, fails or undecided, and one line for each alternative."""

    assertion: Assertion
    standing: str
    lines: tuple[str, ...]

    def text(self) -> str:
        """One line, and below it the alternatives that do not hold."""
        head = f"assert {self.assertion.text}: {self.standing}"
        lines = [f"  {printable(line)}" for line in self.lines[:_SHOWN]]
        if len(self.lines) > _SHOWN:
            lines.append(f"  and {count(len(self.lines) - _SHOWN, 'more alternative')}")
        return "\n".join((head, *lines))


def assertion(text: str) -> Assertion:
    """Read an assertion. Raises `SummaryError` in one line for what is not one.

    >>> read = assertion("over_budget<1%")
    >>> read.which, read.measure.name, read.sign, read.limit
    ('all', 'over_budget', '<', 0.01)
    """
    shown = repr(text[:80])
    found = _FORM.fullmatch(text)
    if found is None:
        raise SummaryError(
            f"assertion {shown}: not `measure < value`; write 'over_budget<1%' or "
            "'choice: handoff_p99 <= 25ms'"
        )
    which = found["which"] or "all"
    if which not in ("all", "any", "choice") and "/" not in which:
        raise SummaryError(
            f"assertion {shown}: {which[:40]!r} names no alternative; write all, any, choice or "
            "fabric/policy"
        )
    try:
        asked = measure(found["name"])
        limit = _value(found["value"], asked.unit)
    except (SummaryError, UnitError) as error:
        raise SummaryError(f"assertion {shown}: {error}") from None
    if found["sign"] == "==" and asked.unit is not Unit.COUNT:
        raise SummaryError(f"assertion {shown}: only counts are equal or not; write < or >")
    return Assertion(
        text.strip(), which, asked, found["sign"], limit, found["observed"] is not None
    )


def _value(text: str, kind: Unit) -> float:
    if kind is Unit.TIME:
        return float(unit.duration(text))
    if kind is Unit.SHARE:
        return unit.share(text)
    if kind is Unit.RATE:
        return unit.frequency(text)
    number = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,12})?)" + "x?" * (kind is Unit.FACTOR), text)
    if number is None:
        raise SummaryError(f"value {text[:40]!r}: not a plain number; write {_EXAMPLE[kind]}")
    return float(number[1])


def decide(
    asked: Assertion, parts: Sequence[Sample], study: StudyManifest, choice: tuple[str, str] | None
) -> Outcome:
    """Hold an assertion against the samples of a study; ``choice`` is the fabric and the policy
    that the verdict names, if any.

    An alternative that cannot run is left out, unless it is named; one that has not run, or that
    has too few values for the quantile, is undecided. Nothing to hold it against fails it.
    """
    chosen = _chosen(asked, parts, choice)
    if not chosen:
        why = "the verdict chooses none" if asked.which == "choice" else "no such alternative ran"
        return Outcome(asked, FAILS, (why,))
    standings, lines = [], []
    for part in chosen:
        standing, told = _one(asked, part, study)
        standings.append(standing)
        if standing != HOLDS:
            lines.append(f"{part.fabric} with {part.policy}: {standing}, {told}")
    if asked.which == "any":
        if HOLDS in standings:
            return Outcome(asked, HOLDS, ())
        return Outcome(asked, UNDECIDED if UNDECIDED in standings else FAILS, tuple(lines))
    if FAILS in standings:
        return Outcome(asked, FAILS, tuple(lines))
    return Outcome(asked, UNDECIDED if lines else HOLDS, tuple(lines))


def _chosen(
    asked: Assertion, parts: Sequence[Sample], choice: tuple[str, str] | None
) -> list[Sample]:
    if asked.which == "choice":
        return [part for part in parts if (part.fabric, part.policy) == choice]
    if asked.which in ("all", "any"):
        return [part for part in parts if part.impossible is None]
    return [
        part for part in parts if fnmatchcase(f"{part.fabric}/{part.policy}", _literal(asked.which))
    ]


def _literal(pattern: str) -> str:
    """Only the star is special: labels may hold brackets and question marks."""
    return re.sub(r"[\[?]", lambda found: f"[{found[0]}]", pattern)


def _one(asked: Assertion, part: Sample, study: StudyManifest) -> tuple[str, str]:
    """The standing of one alternative, and the number in words."""
    if part.impossible is not None:
        return FAILS, f"impossible: {part.impossible}"
    if not part.cells:
        return UNDECIDED, "it has not run"
    found = asked.measure.estimate(part, study)
    if found is None:
        why = "there is nothing to tell it from"
        if part.n and "_p" in asked.measure.name:
            why = f"fewer than ten of {count(part.n, 'hand-off')} lie beyond it"
        return UNDECIDED, f"{asked.measure.says} cannot be told, {why}"
    show = asked.measure.unit.show
    told = f"{asked.measure.says} {show(found.value)}"
    if found.low < found.high:
        told += f" ({_span(show, found, len(part.cells))}, {part.n:,} hand-offs)"
    standing = asked.standing(found)
    if standing == UNDECIDED and asked.measure.name == "over_budget":
        over = [int(each.over.sum()) for each in part.handoffs]
        worth = effective(over, [len(each.over) for each in part.handoffs]) / part.n
        more = needed(found.value, asked.limit, worth)
        if more is not None and more > part.n:
            told += f"; about {more - part.n:,} more hand-offs would decide"
    return standing, told


def _span(show: Callable[[float], str], found: Estimate, seeds: int) -> str:
    """The interval; that there is none of one seed."""
    if isinf(found.low) and isinf(found.high):
        return "one seed gives no interval" if seeds == 1 else "no interval"
    return f"{_end(show, found.low)} to {_end(show, found.high)}"


def _end(show: Callable[[float], str], value: float) -> str:
    return "unbounded" if isinf(value) else show(value)
