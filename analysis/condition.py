"""What a design meets and does not choose: workload, load, and the loss of a link or switch.

A comparison may vary them, as alternatives of their own. A design, one fabric with one policy, is
then judged by all of them together: it passes when it passes under each, and what is told of it is
its worst case. Which of the alternatives belong together stands in the study's manifest
(`StudyManifest.varied`); in results without it every fabric label is a design of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from analysis.record import StudyManifest
from analysis.summary import MET, MISSED, UNDECIDED, Summary

LOADS: Final = ("requests.arrivals.rate", "requests.trace.scale_rate", "requests.closed.users")
"""Keys of a scenario that set how much is asked."""

LOSSES: Final = ("faults",)
"""Keys that set what is out of order."""

MODEL: Final = "model"
"""The key that sets what is served: with all that says of requests which they are, the workload."""

HEALTHY: Final = "no faults"
"""The condition in which nothing is out of order."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What a fabric label is made of: the design's own part, load, loss, workload; "" for none."""

    design: str
    load: str = ""
    loss: str = ""
    workload: str = ""

    @property
    def text(self) -> str:
        """Workload, load and loss in words; empty where the comparison varies none."""
        return ", ".join(part for part in (self.workload, self.load, self.loss) if part)

    def but(self, **kept: str) -> str:
        """Design and conditions in words, with some in other words.

        >>> Condition("tree", "50/s", "no faults", "long").but(load="")
        'tree, long, no faults'
        """
        one = replace(self, **kept)
        return ", ".join(part for part in (one.design, one.text) if part)


def conditions(study: StudyManifest) -> dict[str, Condition]:
    """Where each fabric label of a study stands."""
    found = {}
    for label in study.fabrics:
        parts = study.varied.get(label, {"fabric": label})
        held: dict[str, list[str]] = {}
        # as they stand in the label; a manifest keeps its keys in an order of their own
        for key, text in sorted(parts.items(), key=lambda part: label.find(part[1])):
            held.setdefault(_kind(key), []).append(text)
        design = " ".join(held.pop("design", []))
        found[label] = Condition(design, **{kind: ", ".join(each) for kind, each in held.items()})
    return found


def is_design(key: str) -> bool:
    """Whether a key sets a part of the design, and no condition that it meets."""
    return _kind(key) == "design"


def _kind(key: str) -> str:
    if key in LOADS:
        return "load"
    if key in LOSSES:
        return "loss"
    return "workload" if key == MODEL or key.partition(".")[0] == "requests" else "design"


def at(where: Mapping[str, Condition], fabric: str) -> Condition:
    """Where a fabric label stands; one that is not told of is a design of its own."""
    return where.get(fabric, Condition(fabric))


def named(row: Summary, where: Mapping[str, Condition]) -> str:
    """Design and policy of a row, for a sentence."""
    return f"{at(where, row.fabric).design} with {row.policy}"


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A design under all its conditions, in the study's order; ``worst`` has its numbers."""

    design: str
    policy: str
    rows: tuple[Summary, ...]
    worst: Summary

    @property
    def key(self) -> tuple[str, str]:
        """Design and policy."""
        return self.design, self.policy

    @property
    def name(self) -> str:
        """Design and policy, for a sentence."""
        return f"{self.design} with {self.policy}"

    @property
    def verdict(self) -> str:
        """Fail where it misses the budget under any condition, pass where it meets it under all."""
        found = {row.verdict for row in self.rows}
        return next((kind for kind in (MISSED, UNDECIDED) if kind in found), "") or next(
            (row.verdict for row in self.rows if row.verdict != MET), MET
        )

    @property
    def passes(self) -> bool:
        """Whether it meets the budget under every condition."""
        return all(row.verdict == MET for row in self.rows)

    @property
    def met(self) -> int:
        """Under how many conditions it meets the budget."""
        return sum(row.verdict == MET for row in self.rows)


def cases(rows: Sequence[Summary], where: Mapping[str, Condition]) -> list[Case]:
    """The designs of a study, in its order; ``where`` is that of `conditions`."""
    held: dict[tuple[str, str], list[Summary]] = {}
    for row in rows:
        held.setdefault((at(where, row.fabric).design, row.policy), []).append(row)
    return [Case(*key, tuple(mine), max(mine, key=badness)) for key, mine in held.items()]


def everywhere(where: Mapping[str, Condition]) -> str:
    """What a budget is asked to be met at, to be put behind it; empty for one condition."""
    told = []
    if len({one.workload for one in where.values()}) > 1:
        told.append(" for every workload compared")
    if len({one.load for one in where.values()}) > 1:
        told.append(" at every load compared")
    if len({one.loss for one in where.values()}) > 1:
        told.append(" under every fault compared")
    return " and".join(told)


def badness(row: Summary) -> tuple[int, float, float]:
    """What ran ranks by its share over budget and its tail; what did not comes last."""
    if row.over is None:
        return (0, 0.0, 0.0)
    return (1, row.over.value, row.tail.value if row.tail is not None else row.median)
