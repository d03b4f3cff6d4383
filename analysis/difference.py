"""What differs between two results, in numbers and on which links, and how sure that is.

Alternatives are matched by their labels; where both results have one fabric (policy), these are
matched whatever they are called. Every number is compared seed by seed over the common seeds
(`analysis.pairing`). Many are compared, so that some would differ by chance: what is told as found
is chosen so that at most one in twenty of it is expected to be false, and nothing at all is found
between equals in 95 of 100 cases (`discoveries`); numbers and links are two such families.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analysis.error import SummaryError
from analysis.handoff import window_ps
from analysis.interval import highest_quantile
from analysis.measure import MEASURES, Unit, values
from analysis.pairing import Paired, discoveries, paired, paired_quantile
from analysis.record import Cell, Study
from analysis.summary import Sample, samples
from analysis.wording import name as quantile_name

COMPARED: Final = (
    "handoff_mean",
    "over_budget",
    "transfer_mean",
    "slowdown_mean",
    "ttft_mean",
    "tpot_mean",
    "attainment",
    "goodput",
    "density",
    "marked",
    "resent",
    "utilisation_max",
    "pause_max",
    "pause_mean",
    "host_pause_max",
    "innocent_pause",
    "fairness",
    "timeouts",
    "drops",
    "not_finished",
    "rejected",
    "failed",
)
"""The measures that are compared, beside the hand-off tail."""

LINKS: Final = {"busy_ps": "utilisation", "paused_ps": "pause fraction"}

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Change:
    """One number of one matched alternative in both results; ``what`` is a measure or a port."""

    alternative: str
    what: str
    unit: Unit
    pair: Paired
    more_is_worse: bool | None = True

    @property
    def standing(self) -> str:
        """Whether the second result is ``worse`` or ``better`` in this number, or neither: "".

        A busier link is neither.
        """
        if self.more_is_worse is None or not self.pair.gap.value:
            return ""
        return "worse" if (self.pair.gap.value > 0) == self.more_is_worse else "better"


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """An alternative of both results: its names there, and whether it met the same requests."""

    first: Sample
    second: Sample
    seeds: int
    same_requests: bool

    @property
    def name(self) -> str:
        """The alternative in words, with both labels where they differ."""
        pairs = ((self.first.fabric, self.second.fabric), (self.first.policy, self.second.policy))
        return " with ".join(a if a == b else f"{a} -> {b}" for a, b in pairs)


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """Everything that was compared, what was found, and what could not be matched.

    ``numbers`` and ``links`` hold what was found, largest first; ``compared`` counts the numbers
    and the link readings compared. ``main`` has the mean hand-off of every matched alternative,
    found or not, with its 95 % interval.
    """

    matches: tuple[Match, ...]
    main: tuple[Change, ...]
    numbers: tuple[Change, ...]
    links: tuple[Change, ...]
    compared: tuple[int, int]
    unmatched: tuple[tuple[str, ...], tuple[str, ...]]
    uncompared: tuple[str, ...]

    @property
    def found(self) -> bool:
        """Whether any number or link was found to differ."""
        return bool(self.numbers or self.links)


def difference(first: Study, second: Study) -> Difference:
    """Compare two results. Raises `SummaryError` when they have no alternative in common."""
    one, other = samples(first), samples(second)
    matches = _matched(one, other)
    if not matches:
        raise SummaryError(
            f"no alternative is in both: {_labels(one)} against {_labels(other)}; give results "
            "with a common fabric and policy, or with one each"
        )
    numbers, links, uncompared = [], [], []
    for match in matches:
        if not match.seeds:
            uncompared.append(match.name)
            continue
        numbers += _numbers(match, first, second)
        links += _links(match)
    seen = {id(match.first) for match in matches}, {id(match.second) for match in matches}
    return Difference(
        tuple(matches),
        tuple(each for each in numbers if each.what == MEASURES["handoff_mean"].says),
        _believed(numbers),
        _believed(links),
        (len(numbers), len(links)),
        (
            tuple(_label(part) for part in one if id(part) not in seen[0]),
            tuple(_label(part) for part in other if id(part) not in seen[1]),
        ),
        tuple(uncompared),
    )


def _believed(changes: Sequence[Change]) -> tuple[Change, ...]:
    """What was found of these, by the size of the change relative to the first result."""
    found = discoveries([change.pair for change in changes])
    kept = [
        Change(c.alternative, c.what, c.unit, found[place], c.more_is_worse)
        for place, c in enumerate(changes)
        if place in found
    ]

    def size(change: Change) -> float:
        pair = change.pair
        if change.unit is Unit.SHARE:
            return abs(pair.gap.value)
        return abs(pair.gap.value) / max(abs(pair.first), abs(pair.second))

    return tuple(sorted(kept, key=lambda change: -size(change)))


def _matched(first: Sequence[Sample], second: Sequence[Sample]) -> list[Match]:
    alone = [
        len({getattr(part, side) for part in first}) == 1
        and len({getattr(part, side) for part in second}) == 1
        for side in ("fabric", "policy")
    ]

    def key(part: Sample) -> tuple[str, str]:
        return ("" if alone[0] else part.fabric, "" if alone[1] else part.policy)

    others = {key(part): part for part in second}
    return [_match(part, others[key(part)]) for part in first if key(part) in others]


def _match(first: Sample, second: Sample) -> Match:
    seeds = set(first.seeds()) & set(second.seeds())
    if first.impossible is not None or second.impossible is not None:
        seeds = set()
    same = all(
        _same(first.cells[first.seeds()[seed]], second.cells[second.seeds()[seed]])
        for seed in seeds
    )
    return Match(first, second, len(seeds), same)


def _same(first: Cell, second: Cell) -> bool:
    """Whether two cells served the same requests."""
    asked = ("arrival_ps", "input_tokens", "output_tokens")
    return all(np.array_equal(first.requests[name], second.requests[name]) for name in asked)


def _numbers(match: Match, first: Study, second: Study) -> list[Change]:
    changes = []
    for name in COMPARED:
        each = MEASURES[name]
        pair = paired(
            each.by_seed(match.first, first.manifest), each.by_seed(match.second, second.manifest)
        )
        if pair is not None:
            changes.append(Change(match.name, each.says, each.unit, pair, each.more_is_worse))
    tail = _tail(match)
    return changes if tail is None else [*changes, tail]


def _tail(match: Match) -> Change | None:
    """The hand-off tail at the highest quantile that both carry."""
    one, other = values("handoff", match.first), values("handoff", match.second)
    common = set(one) & set(other)
    fewest = min(sum(len(run[seed]) for seed in common) for run in (one, other))
    q = highest_quantile(fewest)
    pair = None if q is None else paired_quantile(one, other, q)
    if q is None or pair is None:
        return None
    return Change(match.name, f"{quantile_name(q)} hand-off time", Unit.TIME, pair)


def _links(match: Match) -> list[Change]:
    """Utilisation and pause of every port that both fabrics have, by its name."""
    changes = []
    for column, says in LINKS.items():
        one, other = (_by_port(part, column) for part in (match.first, match.second))
        for port in one:
            if port in other:
                pair = paired(one[port], other[port])
                # what is never busy or paused in either has nothing to compare
                if pair is not None and (pair.first or pair.second):
                    worse = True if column == "paused_ps" else None
                    changes.append(Change(match.name, f"{port} {says}", Unit.SHARE, pair, worse))
    return changes


def _by_port(sample: Sample, column: str) -> dict[str, Mapping[int, float]]:
    """The share of time of every port in a state, by its name and by seed."""
    found: dict[str, dict[int, float]] = {}
    for cell in sample.cells:
        window = max(1, window_ps(cell))
        shares = cell.ports[column].astype(np.float64) / window
        for port, share in zip(cell.ports["name"].tolist(), shares.tolist(), strict=True):
            found.setdefault(str(port), {})[cell.manifest.seed] = share
    return dict(found)


def _label(part: Sample) -> str:
    return f"{part.fabric} with {part.policy}"


def _labels(parts: Sequence[Sample]) -> str:
    shown = [_label(part) for part in parts[:3]]
    return ", ".join([*shown, "..."] if len(parts) > 3 else shown)
