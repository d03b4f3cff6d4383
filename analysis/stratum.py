"""A class of an alternative's requests as an alternative of its own: every number by class.

Classes are by model, tenant and priority, and the quarters of the counted requests by input tokens;
a kind is left out where all requests are alike in it. Of a class only its requests and their flows
are kept, so that TTFT, TPOT, end-to-end time, attainment, goodput, density and all that is read
from hand-offs mean for it what they mean for all. Rates are then those of its own arrivals. Ports
and instances serve all classes, so that what is read from them has no class.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from analysis.breakdown import Breakdown
from analysis.budget import after_warmup, budgets
from analysis.handoff import handoffs
from analysis.interval import Estimate, highest_quantile, quantile
from analysis.measure import MEASURES, QUANTILES, Measure
from analysis.record import Cell, StudyManifest
from analysis.segment import NAMED
from analysis.summary import Sample
from analysis.wording import NONE, duration, duration_told, name, share_told
from traffic.emulator import Table

MOST: Final = 32
"""Classes of one kind that are told: those with the most requests."""

Asked = dict[str, NDArray[np.int64]]
Mask = NDArray[np.bool_]

_OF_ALL: Final = frozenset(
    {
        *("known", "hbm_mean", "hbm_peak", "hbm_short", "hbm_short_max", "evictions"),
        *("utilisation_max", "pause_max", "pause_mean", "host_pause_max", "drops"),
        "innocent_pause",
    }
)

OF_CLASS: Final[dict[str, Measure]] = {
    key: each for key, each in MEASURES.items() if key not in _OF_ALL
}
"""The measures that a class has, by name."""


def strata(sample: Sample, study: StudyManifest) -> Iterator[tuple[str, str, Sample]]:
    """(kind, label, class) of an alternative that ran; each class is made when it is asked for."""
    if sample.impossible is not None or not sample.cells:
        return
    counted = [after_warmup(cell) for cell in sample.cells]
    for kind, label, masks in _classes(counted):
        cells = tuple(
            _cell(cell, table, mask)
            for cell, table, mask in zip(sample.cells, counted, masks, strict=True)
        )
        parts = tuple(handoffs(cell, study) for cell in cells)
        own = tuple(budgets(cell) for cell in cells)
        yield kind, label, Sample(sample.fabric, sample.policy, cells, parts, own, None)


def requests_by_class(sample: Sample, study: StudyManifest) -> Breakdown:
    """TTFT, TPOT, end-to-end time and attainment of the classes of one alternative, as a table."""
    rows = []
    for kind, label, part in strata(sample, study):
        n = sum(len(cell.requests["request"]) for cell in part.cells)
        carried = highest_quantile(sum(len(each.request) for each in part.budgets))
        tail = next((key for key, q in QUANTILES.items() if q == carried), None)
        attained = MEASURES["attainment"].estimate(part, study)
        rows.append(
            (
                *(kind, label, f"{n:,}"),
                _time("ttft_p50", part, study),
                f"{name(carried)} {_time(f'ttft_{tail}', part, study, span=True)}"
                if carried is not None and tail is not None
                else NONE,
                _time("tpot_p50", part, study),
                _time("e2e_p50", part, study),
                share_told(attained),
            )
        )
    return Breakdown(
        f"Requests by class: {sample.fabric} with {sample.policy}",
        "All counted requests of the same alternative, by model, tenant and priority and by "
        "quarters of the prompt length. Times are of finished requests; those that were rejected, "
        "failed or did not finish missed the objectives for TTFT and TPOT.",
        ("by", "class", "requests", "TTFT P50", "TTFT tail", "TPOT P50", "E2E P50", "attainment"),
        tuple(rows),
    )


def class_rows(
    samples: Sequence[Sample], study: StudyManifest
) -> tuple[Sequence[str], list[list[object]]]:
    """Every measure of every class: value and the ends of its 95 % interval, in base units (ps,
    shares, counts); those without a number are left out."""
    rows: list[list[object]] = []
    for sample in samples:
        for kind, label, part in strata(sample, study):
            for key, each in OF_CLASS.items():
                found = each.estimate(part, study)
                if found is not None and not np.isnan(found.value):
                    told = (each.unit.value, found.value, found.low, found.high)
                    rows.append([sample.fabric, sample.policy, kind, label, key, *told])
    return (
        *("fabric", "policy", "by", "class", "measure", "unit"),
        *("value", "low", "high"),
    ), rows


def _classes(counted: Sequence[Asked]) -> Iterator[tuple[str, str, list[Mask]]]:
    for kind in NAMED:
        every = np.concatenate([table[kind] for table in counted])
        found, count = np.unique(every, return_counts=True)
        if len(found) > 1:
            largest = np.sort(found[np.argsort(-count, kind="stable")[:MOST]])
            for value in largest.tolist():
                yield kind, f"{value}", [table[kind] == value for table in counted]
    every = np.concatenate([table["input_tokens"] for table in counted])
    if not len(every):
        return
    edges = np.unique([quantile(every.astype(np.float64), q) for q in (0.25, 0.5, 0.75, 1.0)])
    low = int(every.min())
    for edge in edges.astype(np.int64).tolist() if len(edges) > 1 else ():
        masks = [(low <= t["input_tokens"]) & (t["input_tokens"] <= edge) for t in counted]
        yield "length", f"{low:,} to {edge:,} tokens", masks
        low = edge + 1


def _cell(cell: Cell, table: Asked, mask: Mask) -> Cell:
    """A cell of these requests alone; the ports are those of all."""
    requests: Table = {column: values[mask] for column, values in table.items()}
    mine = np.isin(cell.flows["handoff"].astype(np.int64), requests["request"])
    flows = {column: values[mine] for column, values in cell.flows.items()}
    return Cell(replace(cell.manifest, warmup_requests=0), requests, flows, cell.ports)


def _time(key: str, part: Sample, study: StudyManifest, *, span: bool = False) -> str:
    found: Estimate | None = MEASURES[key].estimate(part, study)
    if found is None or np.isnan(found.value):
        return NONE
    return duration_told(found) if span else duration(found.value)
