"""The decision map: which design to choose for which workload, by the rule of the verdict.

A workload is what a comparison sets of the requests, loads apart, or the model that is served
(`analysis.condition`). Under each the cheapest design that meets the budget is told, at all its
loads and losses; among equals in cost that with the shortest tail as observed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.breakdown import Breakdown
from analysis.choice import choice, nearest, price, sold
from analysis.condition import Case, at, cases, conditions
from analysis.record import StudyManifest
from analysis.summary import Summary, tail_name
from analysis.wording import NONE, count, duration_told, listed, share_told


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

    @property
    def name(self) -> str:
        """Design and policy of what is shown, for a sentence; empty where nothing has run."""
        return next((case.name for case in self.cases if case.worst is self.shown), "")

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


def table(found: Sequence[Decision]) -> Breakdown:
    """What is chosen for each workload."""
    told = []
    for one in found:
        row = one.shown
        told.append(
            (
                *(one.workload, _told(one), (price(row) if row else "") or NONE),
                *(duration_told(row.tail if row else None), share_told(row.over if row else None)),
                f"{sum(case.passes for case in one.cases)} of {len(one.cases)}",
            )
        )
    rows = [row for one in found for case in one.cases for row in case.rows]
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


def sentence(found: Sequence[Decision]) -> str:
    """Whether the choice depends on the workload; empty where fewer than two are compared."""
    if not found:
        return ""
    held: dict[str, list[str]] = {}
    for one in found:
        name = "none" if one.chosen is None else one.name + sold(one.chosen)
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


def _told(one: Decision) -> str:
    if one.chosen is not None:
        return one.name
    if one.closest is None:
        return "nothing has run"
    return f"none is shown to meet it; closest {one.name}"


def _listed(workloads: Sequence[str], most: int = 4) -> str:
    return listed(workloads) if len(workloads) <= most else count(len(workloads), "workload")
