"""What the latency of messages in steps costs a request: itself, and the waiting it causes.

Read from the totals of cells whose steps wait for messages (`analysis.observed` has
the same request by request): the run is compared with the same one without latency.
"""

from collections.abc import Sequence
from typing import Final

from analysis.breakdown import Breakdown
from analysis.observed import STAGES
from analysis.record import Cell
from analysis.summary import Sample
from analysis.wording import NONE, duration, percent, times

COLUMNS: Final = (
    *(
        "fabric",
        "policy",
        "without latency",
        "+ count x latency",
        "+ queueing",
        "+ memory, hand-off",
    ),
    *("+ steps shared", "= end to end", "a us costs", "GPUs idle in steps", "GPUs longer at work"),
)

_SHORT: Final = (
    *("alternative", "without", "count x latency", "+ queueing", "+ waiting", "+ sharing"),
    *("= end to end", "a us costs"),
)

_MERGED: Final = (("queueing",), ("handoff", "joining"), ("prefill", "decode"))
"""Stages that stand in one column."""


def latency(samples: Sequence[Sample]) -> Breakdown:
    """The table of the alternatives that have been compared; without rows where none was."""
    rows = [(s.fabric, s.policy, *row) for s in samples for row in _row(s.cells)]
    return Breakdown(
        "What the latency of messages costs",
        "Means over the requests that finished in the run and in the same run with messages of no "
        "latency: same requests, seed and policy, which decides anew, hand-offs as long as they "
        "were; warm-up included. Count x latency is that of a request's own steps. The next three "
        "columns are what it causes: longer queues before prefill, longer waits for decode memory "
        "and for a place in the batch, and steps that are longer because more share them (less "
        "where it shows a minus). A us costs: both together over count x latency. GPUs idle in "
        "steps is the share of their time at work in which all ranks wait for messages; longer at "
        "work is that time over what it is without latency.",
        COLUMNS,
        tuple(rows),
    )


def short(found: Breakdown) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns and rows for a terminal: narrow heads, without the GPUs."""
    return _SHORT, [(f"{fabric}, {policy}", *row[:-2]) for fabric, policy, *row in found.rows]


def _row(cells: Sequence[Cell]) -> list[tuple[str, ...]]:
    """The numbers of one alternative, over its seeds; nothing where it was not compared."""
    totals = [c.manifest.totals for c in cells if "collective.compared" in c.manifest.totals]

    def of(name: str) -> int:
        return sum(one[f"collective.{name}"] for one in totals)

    count = of("compared")
    if not count:
        return []
    direct, whole = of("compared_latency_ps"), of("compared_end_to_end_ps")
    caused = {name: of(f"caused_{name}_ps") for name in STAGES}
    both = direct + sum(caused.values())
    work, without = of("work_gpu_ps"), of("work_without_gpu_ps")
    return [
        (
            duration((whole - both) / count),
            duration(direct / count),
            *(_signed(sum(caused[name] for name in part) / count) for part in _MERGED),
            duration(whole / count),
            times(both / direct) if direct else NONE,
            percent(of("gpu_ps") / work) if work else NONE,
            times(work / without) if without else NONE,
        )
    ]


def _signed(ps: float) -> str:
    return ("-" if ps < 0 else "") + duration(abs(ps))
