"""What switches and NICs said and lost: notifications, NAKs, pauses, and drops by cause.

Counts are of whole runs, warm-up included, over the time the fabric had hand-offs to carry
(`window_ps`). A hand-off met a pause when a flow of it lost time to one, at its NIC or, its last
packet, in a switch.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from analysis.breakdown import Breakdown
from analysis.budget import after_warmup
from analysis.handoff import window_ps
from analysis.observed import read_observed
from analysis.record import Cell, cell_directory
from analysis.summary import Sample
from analysis.wording import NONE, duration, percent
from topo.unit import PS_PER_S

RATES: Final = {"cnps": "CNPs/s", "naks": "NAKs/s", "pause_frames": "pause frames/s"}
"""Totals of a cell's manifest that are told a second."""

DROPS: Final = {
    "drops_buffer": "lossy buffer",
    "drops_lossless": "lossless buffer",
    "drops_fault": "fault",
    "drops_watchdog": "watchdog",
}
"""Totals that count frames dropped, by cause; a lossless buffer's are an error of the run."""


def signals(samples: Sequence[Sample], place: Path | None) -> Breakdown:
    """One row an alternative whose packets were emulated; ``place`` is where its cells lie."""
    rows = []
    for sample in samples:
        cells = [cell for cell in sample.cells if "pause_frames" in cell.manifest.totals]
        seconds = sum(window_ps(cell) for cell in cells) / PS_PER_S
        if not seconds:
            continue
        rates = (_rate(cells, name, seconds) for name in RATES)
        drops = (f"{sum(c.manifest.totals.get(name, 0) for c in cells):,}" for name in DROPS)
        rows.append(
            (
                *(sample.fabric, sample.policy, *rates),
                *(_longest(cells, place), _met(cells, place), *drops),
                _stood(cells),
            )
        )
    return Breakdown(
        "Signals and drops",
        "Congestion notifications (CNPs), NAKs and pause frames a second, mean over seeds; the "
        "longest time that a class of a port stood stopped without a break, a storm when it "
        "outlasts any burst; the share of hand-offs of which a flow lost time to a pause; frames "
        "dropped by cause, and circles of queues that waited for each other, all seeds together. "
        "Warm-up included.",
        (
            *("fabric", "policy", *RATES.values(), "longest stop", "met a pause"),
            *(f"dropped, {cause}" for cause in DROPS.values()),
            "deadlocks",
        ),
        tuple(rows),
    )


def _rate(cells: Sequence[Cell], name: str, seconds: float) -> str:
    if not all(name in cell.manifest.totals for cell in cells):
        return NONE
    return f"{sum(cell.manifest.totals[name] for cell in cells) / seconds:,.0f}"


def _longest(cells: Sequence[Cell], place: Path | None) -> str:
    """The longest stop of any cell, and whose."""
    found = []
    for cell in cells:
        table = _table(cell, place, "pauses")
        if table and len(table["longest_ps"]):
            at = int(np.argmax(table["longest_ps"]))
            port = int(table["port"][at])
            found.append((int(table["longest_ps"][at]), str(cell.ports["name"][port])))
    if not found:
        return NONE
    longest, name = max(found)
    return f"{duration(longest)} at {name}" if longest else duration(0)


def met_a_pause(cell: Cell, blame: dict[str, np.ndarray]) -> tuple[int, int]:
    """(Counted hand-offs of which a flow lost time to a pause, counted hand-offs that have flows).

    ``blame`` is the cell's table of that name (`analysis.observed.BLAME`).
    """
    counted = after_warmup(cell)["request"]
    handoff = cell.flows["handoff"].astype(np.int64)
    mine = np.isin(handoff, counted)
    hit = np.isin(cell.flows["flow"], blame["flow"][blame["blame_paused_ps"] > 0])
    return len(np.unique(handoff[mine & hit])), len(np.unique(handoff[mine]))


def _met(cells: Sequence[Cell], place: Path | None) -> str:
    tables = [(cell, _table(cell, place, "blame")) for cell in cells]
    pairs = [met_a_pause(cell, table) for cell, table in tables if table]
    every = sum(whole for _, whole in pairs)
    return percent(sum(hit for hit, _ in pairs) / every) if every else NONE


def _stood(cells: Sequence[Cell]) -> str:
    """Circles of queues that waited for each other; not told by cells that did not look."""
    known = [
        cell.manifest.totals["deadlocks"] for cell in cells if "deadlocks" in cell.manifest.totals
    ]
    return f"{sum(known):,}" if len(known) == len(cells) else NONE


def _table(cell: Cell, place: Path | None, name: str) -> dict[str, np.ndarray]:
    if place is None or name not in cell.manifest.digest:
        return {}
    home = cell_directory(place, cell.manifest.cell)
    return dict(read_observed(home, cell.manifest.digest, name))
