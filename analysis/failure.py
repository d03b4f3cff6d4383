"""What failures of instances did to requests: before, during and after, one row a phase.

A request counts as *during* when its way from arrival to its (last) first token overlaps an outage:
from the moment something befell an instance until the router used it again, for good where it never
did. *Before* are those that had it before the first outage, *after* all others. One that failed,
was turned away or had not finished has no first token: its time to it is infinite, so that losing
requests does not improve the tail.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analysis.breakdown import Breakdown
from analysis.budget import after_warmup
from analysis.interval import highest_quantile, quantile
from analysis.observed import read_observed
from analysis.record import FINISHED, Cell, cell_directory
from analysis.result import Result
from analysis.summary import Sample
from analysis.wording import NONE, duration, name
from topo.unit import show_size
from traffic.emulator import Table
from traffic.record.ledger import FAILED

PHASES: Final = ("before", "during", "after")
TOLL: Final = "toll"
SPELLS: Final = "spells"


@dataclass(frozen=True, slots=True, eq=False)
class Phases:
    """One row a request after the warm-up: the number of its phase in `PHASES`, what became of
    it, its time to first token (ps, infinite without one), and its toll."""

    phase: NDArray[np.int64]
    status: NDArray[np.int64]
    ttft: NDArray[np.float64]
    attempts: NDArray[np.int64]
    wasted_prefill_ps: NDArray[np.int64]
    wasted_bytes: NDArray[np.int64]


def phases(cell: Cell, toll: Table, spells: Table) -> Phases:
    """Where each counted request of a cell stands; ``toll`` and ``spells`` are its tables."""
    table = after_warmup(cell)
    mine = {key: np.asarray(column, np.int64)[table["request"]] for key, column in toll.items()}
    arrival, status = table["arrival_ps"], table["status"]
    first = np.where(table["first_token_ps"] < 0, table["finish_ps"], table["first_token_ps"])
    end = np.where(status == FINISHED, first, mine["failed_ps"])
    end = np.where(end < 0, np.iinfo(np.int64).max, end)
    start = np.asarray(spells["from_ps"], np.int64)
    seen = np.asarray(spells["seen_ps"], np.int64)
    seen = np.where(seen < 0, np.iinfo(np.int64).max, seen)
    hit = ((arrival[:, None] < seen) & (end[:, None] >= start)).any(axis=1)
    early = end < (start.min() if len(start) else np.iinfo(np.int64).max)
    ttft = np.where(status == FINISHED, first - arrival, np.inf).astype(np.float64)
    return Phases(
        np.where(hit, 1, np.where(early, 0, 2)),
        status,
        ttft,
        mine["attempts"],
        mine["wasted_prefill_ps"],
        mine["wasted_bytes"],
    )


def failures(found: Result) -> Breakdown:
    """The phases of every alternative whose instances failed; no rows where none did."""
    rows: list[tuple[str, ...]] = []
    for sample in found.samples:
        parts = _parts(found, sample)
        for number, phase in enumerate(PHASES if parts else ()):
            rows.append((sample.fabric, sample.policy, phase, *_told(parts, number)))
    return Breakdown(
        "Failures of instances",
        "Requests by when they waited for their first token: before the first outage, during one, "
        "after the last; all seeds together. Who failed, or had not finished, has an infinite time "
        "to first token. Attempts are sendings to instances, a request; wasted is the work of "
        "attempts that were lost: prefill time, and bytes that the fabric carried for them.",
        (
            *("fabric", "policy", "phase", "requests", "failed", "not finished", "attempts"),
            *("TTFT P50", "TTFT tail", "prefill wasted", "bytes wasted"),
        ),
        tuple(rows),
    )


def short(told: Breakdown) -> tuple[tuple[str, ...], dict[str, list[tuple[str, ...]]]]:
    """Its columns without those of the alternative, and each alternative's rows."""
    tables: dict[str, list[tuple[str, ...]]] = {}
    for row in told.rows:
        tables.setdefault(f"{row[0]}, {row[1]}", []).append(row[2:])
    return told.columns[2:], tables


def _parts(found: Result, sample: Sample) -> list[Phases]:
    if found.place is None:
        return []
    parts: list[Phases] = []
    for cell in sample.cells:
        digest = cell.manifest.digest
        if TOLL not in digest:
            continue
        place = cell_directory(found.place, cell.manifest.cell)
        toll, spells = (read_observed(place, digest, key) for key in (TOLL, SPELLS))
        parts.append(phases(cell, toll, spells))
    return parts


def _told(parts: Sequence[Phases], phase: int) -> tuple[str, ...]:
    chosen = [part.phase == phase for part in parts]
    status, ttft, attempts, prefill, wasted = (
        np.concatenate([getattr(part, key)[mask] for part, mask in zip(parts, chosen, strict=True)])
        for key in ("status", "ttft", "attempts", "wasted_prefill_ps", "wasted_bytes")
    )
    count = len(status)
    if not count:
        return ("0", *(NONE,) * 7)
    failed = int(np.count_nonzero(status == FAILED))
    q = highest_quantile(count)
    return (
        f"{count:,}",
        f"{failed:,}",
        f"{count - failed - int(np.count_nonzero(status == FINISHED)):,}",
        f"{attempts.mean():.2f}",
        duration(quantile(ttft, 0.5)),
        NONE if q is None else f"{name(q)} {duration(quantile(ttft, q))}",
        duration(float(prefill.sum())),
        show_size(int(wasted.sum())),
    )
