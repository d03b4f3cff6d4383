"""The decision map: which design to choose for which workload, by the rule of the verdict.

A workload is what a comparison sets of the requests, loads apart, or the model that is served
(`analysis.condition`). Under each the cheapest design that meets the budget is told, at all its
loads and losses; among equals in cost that with the shortest tail as observed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from analysis.breakdown import Breakdown
from analysis.choice import choice, cost, nearest
from analysis.condition import Case, Condition, at, cases, conditions, named
from analysis.record import StudyManifest
from analysis.summary import Summary, tail_name
from analysis.wording import (
    NONE,
    count,
    duration,
    duration_span,
    listed,
    money,
    percent,
    share_span,
)


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """What is chosen for a workload: every design under it, the worst case of the chosen one, and,
    where none is shown to meet the budget, of the one that comes closest."""

    workload: str
    cases: tuple[Case, ...]
    chosen: Summary | None
    closest: Summary | None

    @property
    def shown(self) -> Summary | None:
        """What is chosen, or else what comes closest."""
        return self.chosen or self.closest

    def chooses(self, case: Case) -> bool:
        """Whether this design is the one that is chosen."""
        return self.chosen is not None and self.chosen is case.worst


def decisions(rows: Sequence[Summary], study: StudyManifest) -> list[Decision]:
    """One for each workload, in the study's order; none where fewer than two are compared."""
    where = conditions(study)
    held: dict[str, list[Summary]] = {}
    for row in rows:
        held.setdefault(at(where, row.fabric).workload, []).append(row)
    if len(held) < 2:
        return []
    return [
        Decision(told, tuple(cases(mine, where)), choice(mine, where), nearest(mine, where))
        for told, mine in held.items()
    ]


def table(rows: Sequence[Summary], study: StudyManifest) -> Breakdown:
    """What is chosen for each workload; no rows where fewer than two are compared."""
    where = conditions(study)
    told = []
    for one in decisions(rows, study):
        row = one.shown
        tail = (
            f"{duration(row.tail.value)} ({duration_span(row.tail)})" if row and row.tail else NONE
        )
        over = f"{percent(row.over.value)} ({share_span(row.over)})" if row and row.over else NONE
        price = cost(row) if row is not None else float("nan")
        told.append(
            (
                *(one.workload, _told(one, where), money(price) if isfinite(price) else NONE),
                *(tail, over, f"{sum(case.passes for case in one.cases)} of {len(one.cases)}"),
            )
        )
    return Breakdown(
        "What to choose for which workload",
        "The cheapest design that meets the budget under the workload, at all loads and under all "
        "faults compared; among equals in cost the one with the shortest tail as observed, whose "
        "lead may lie within its interval. Its numbers are those of its worst case.",
        (
            *("workload", "choice", "switches and cables", f"{tail_name(rows)} hand-off (95 %)"),
            *("over budget (95 %)", "designs that meet it"),
        ),
        tuple(told),
    )


def sentence(rows: Sequence[Summary], study: StudyManifest) -> str:
    """Whether the choice depends on the workload; empty where fewer than two are compared."""
    found, where = decisions(rows, study), conditions(study)
    if not found:
        return ""
    held: dict[str, list[str]] = {}
    for one in found:
        name = named(one.chosen, where) if one.chosen is not None else "none"
        held.setdefault(name, []).append(one.workload)
    if len(held) == 1:
        (name,) = held
        if name == "none":
            return f"Workload: no design is shown to meet the budget under any of the {len(found)}."
        return f"Workload: it does not change the choice, {name} for each of the {len(found)}."
    parts = [f"{name} for {_listed(workloads)}" for name, workloads in held.items()]
    return f"Workload: the choice depends on it: {'; '.join(parts)}."


def always(found: Sequence[Decision]) -> list[tuple[str, str]]:
    """The designs, as (design, policy), that meet the budget under every workload."""
    met: dict[tuple[str, str], int] = {}
    for one in found:
        for case in one.cases:
            met[case.key] = met.get(case.key, 0) + case.passes
    return [key for key, times in met.items() if times == len(found)]


def _told(one: Decision, where: Mapping[str, Condition]) -> str:
    if one.chosen is not None:
        return named(one.chosen, where)
    if one.closest is None:
        return "nothing has run"
    return f"none is shown to meet it; closest {named(one.closest, where)}"


def _listed(workloads: Sequence[str], most: int = 4) -> str:
    return listed(workloads) if len(workloads) <= most else count(len(workloads), "workload")
