"""The account of what changed between two results, as sections that a terminal or Markdown shows.

A headline says whether anything was found; then what changed in the scenario, the mean hand-off of
every alternative with advice on sample size, what else was found, and on which links.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from analysis.difference import Change, Difference, difference
from analysis.interval import Estimate
from analysis.markdown import escaped, prose, table
from analysis.measure import Unit
from analysis.record import Study
from analysis.wording import count, more_seeds
from kvfabric.change import scenario_changes, setting_changes, unexplained

_HANDOFF = "mean hand-off time"


@dataclass(frozen=True, slots=True)
class Section:
    """A titled table and the sentences below it."""

    title: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Account:
    """Everything that is told; ``found`` and ``worse`` are what a gate asks."""

    headline: str
    sections: tuple[Section, ...]
    found: bool
    worse: bool

    def _repr_markdown_(self) -> str:
        return self.markdown()

    def markdown(self) -> str:
        """The account as GitHub Markdown."""
        parts = [f"**{escaped(self.headline)}**"]
        for section in self.sections:
            if section.rows or section.lines:
                parts.append(f"### {section.title}")
            if section.rows:
                parts.append(table(section.columns, section.rows))
            parts += [prose(line) for line in section.lines]
        return "\n\n".join(parts) + "\n"


def account(first: Study, second: Study, names: tuple[str, str], most: int) -> Account:
    """Compare two results and tell it in at most ``most`` rows a table.

    Raises `SummaryError` when they have no alternative in common.
    """
    found = difference(first, second)
    sections = (
        _scenario(first, second, names, most),
        _means(found, most),
        _numbers(found, most),
        _links(found, most),
        _rest(found, names),
    )
    worse = any(change.standing == "worse" for change in found.numbers)
    return Account(_headline(found), sections, found.found, worse)


def _headline(found: Difference) -> str:
    compared = sum(found.compared)
    if not compared:
        return "Nothing could be compared: the results share no seed that ran in both."
    if max(match.seeds for match in found.matches) < 2:
        return "One common seed cannot show a difference; run more seeds in both."
    if not found.found:
        return f"No difference found in {count(compared, 'number')} compared seed by seed."
    told = [
        f"{len(found.numbers)} of {count(found.compared[0], 'number')} and "
        f"{len(found.links)} of {count(found.compared[1], 'link reading')} differ."
    ]
    main = [change for change in found.numbers if change.what == _HANDOFF]
    if main:
        change = main[0]
        told.append(
            f"Largest in mean hand-off: {change.alternative}, {_delta(change)} "
            f"({_percent(change)}), {change.standing} in B."
        )
    elif found.main:
        told.append("No difference found in mean hand-off time.")
    else:
        told.append("Mean hand-off times cannot be compared: in one of them some never ended.")
    return " ".join(told)


def _scenario(first: Study, second: Study, names: tuple[str, str], most: int) -> Section:
    changes = scenario_changes(first.manifest, second.manifest)
    told = {change.key for change in changes}
    changes += [change for change in setting_changes(first, second) if change.key not in told]
    lines = []
    if not changes:
        lines.append("The scenarios are the same.")
    if unexplained(first, second):
        lines.append(
            "Their digests differ: a file that the scenario reads, or an option of the command "
            f"line, is not the same. A: {_commands(first)}; B: {_commands(second)}."
        )
    if len(changes) > most:
        lines.append(f"And {count(len(changes) - most, 'more change')}.")
    rows = tuple((c.key, _short(c.first), _short(c.second)) for c in changes[:most])
    return Section("What changed in the scenario", ("key", *names), rows, tuple(lines))


def _commands(study: Study) -> str:
    return "; ".join(study.manifest.reproduce) or "no command recorded"


def _means(found: Difference, most: int) -> Section:
    """The mean hand-off of every alternative, found or not, with 95 % intervals of their own."""
    believed = {c.alternative for c in found.numbers if c.what == _HANDOFF}
    rows = []
    for change in found.main[:most]:
        pair = change.pair
        if change.alternative in believed:
            verdict = change.standing
        elif pair.seeds < 2:
            verdict = "one common seed cannot show a difference; run more seeds"
        else:
            verdict = f"no difference found{more_seeds(pair.more_seeds)}"
        show = change.unit.show
        rows.append(
            (
                change.alternative,
                show(pair.first),
                show(pair.second),
                _delta(change),
                "none: one seed" if pair.seeds < 2 else _span(change.unit, pair.gap),
                verdict,
            )
        )
    seeds = sorted({change.pair.seeds for change in found.main})
    lines = [f"Common seeds: {' to '.join(map(str, seeds[:: max(1, len(seeds) - 1)]))}."]
    if any(not match.same_requests for match in found.matches):
        lines.append(
            "The requests of a seed are not the same in both, so that pairing removes less noise."
        )
    if len(found.main) > most:
        lines.append(f"And {count(len(found.main) - most, 'more alternative')}.")
    columns = ("alternative", "A", "B", "B - A", "95 % interval", "")
    return Section("Mean hand-off time", columns, tuple(rows), tuple(lines if rows else []))


def _numbers(found: Difference, most: int) -> Section:
    shown = [change for change in found.numbers if change.what != _HANDOFF]
    return _changes("Other numbers that differ", "number", shown, most)


def _links(found: Difference, most: int) -> Section:
    return _changes("Links that differ, largest change first", "port", list(found.links), most)


def _changes(title: str, what: str, shown: Sequence[Change], most: int) -> Section:
    rows = tuple(
        (
            change.alternative,
            change.what,
            change.unit.show(change.pair.first),
            change.unit.show(change.pair.second),
            _span(change.unit, change.pair.gap),
            change.standing,
        )
        for change in shown[:most]
    )
    lines = []
    if shown:
        lines.append(
            "At most one in twenty of the differences found is expected to be false; the intervals "
            "allow for the number compared."
        )
    if len(shown) > most:
        lines.append(f"And {len(shown) - most:,} more.")
    return Section(title, ("alternative", what, "A", "B", "B - A", ""), rows, tuple(lines))


def _rest(found: Difference, names: tuple[str, str]) -> Section:
    lines = [
        f"Only in {name}: {', '.join(labels)}."
        for name, labels in zip(names, found.unmatched, strict=True)
        if labels
    ]
    if found.uncompared:
        lines.append(f"No seed ran in both: {', '.join(found.uncompared)}.")
    return Section("Not compared", lines=tuple(lines))


def _delta(change: Change) -> str:
    value = change.pair.gap.value
    return ("+" if value > 0 else "") + _gap(change.unit, value)


def _percent(change: Change) -> str:
    share = change.pair.share
    return f"{100 * share:+.2g} %" if isfinite(share) else "from nothing"


def _span(unit: Unit, gap: Estimate) -> str:
    if not isfinite(gap.low):
        return "no interval"
    if gap.low == gap.high:
        return f"{_gap(unit, gap.low)} in every seed"
    return f"{_gap(unit, gap.low)} to {_gap(unit, gap.high)}"


def _gap(unit: Unit, value: float) -> str:
    """A difference; of two shares it is told in percentage points."""
    return f"{100 * value:.2g} points" if unit is Unit.SHARE else unit.show(value)


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
