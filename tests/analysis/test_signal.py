"""Signals and drops by hand: rates over the window, the longest stop, who met a pause."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from analysis.observed import BLAME
from analysis.record import (
    Cell,
    StudyManifest,
    cell_directory,
    read_study,
    write_cell,
    write_study,
)
from analysis.signal import met_a_pause, signals
from analysis.summary import samples

MS = 10**9
TOTALS = {
    "pause_frames": 30,
    "cnps": 5,
    "naks": 2,
    "drops_buffer": 7,
    "drops_lossless": 1,
    "drops_fault": 4,
    "drops_watchdog": 9,
    "deadlocks": 2,
}


def blamed(paused: list[int]) -> dict[str, np.ndarray]:
    count = len(paused)
    table = {name: np.zeros(count, np.int64) for name in BLAME}
    return table | {"flow": np.arange(count), "blame_paused_ps": np.array(paused)}


@pytest.fixture
def cell(make_rows: Callable[..., Cell]) -> Cell:
    """Two hand-offs of two flows each between 0 and 10 ms, and one before the warm-up's end."""
    life = {"prefill_end_ps": 0, "handoff_release_ps": 0, "kv_ready_ps": 10 * MS}
    rows = [life | {"arrival_ps": place} for place in range(3)]
    flows = [
        {"flow": place, "handoff": place // 2, "release_ps": 0, "finish_ps": 10 * MS, "bytes": 8}
        for place in range(6)
    ]
    ports = [{"port": 0, "tier": 0}, {"port": 1, "tier": 1}]
    return make_rows(rows, flows, ports, warmup_requests=1, totals=TOTALS)


def test_a_handoff_met_a_pause_when_one_of_its_flows_lost_time_to_it(cell: Cell) -> None:
    # of hand-offs 0 (warm-up), 1 and 2
    assert met_a_pause(cell, blamed([1, 1, 0, 0, 0, 0])) == (0, 2)
    assert met_a_pause(cell, blamed([0, 0, 0, 5, 0, 0])) == (1, 2)
    assert met_a_pause(cell, blamed([0, 0, 1, 5, 9, 0])) == (2, 2)


def test_signals_are_counts_over_the_window_and_drops_by_cause(
    cell: Cell, make_question: Callable[..., StudyManifest], tmp_path: Path
) -> None:
    pauses = {
        "port": np.array([0, 1]),
        "priority": np.array([3, 3]),
        "paused_ps": np.array([4 * MS, 2 * MS]),
        "pauses": np.array([8, 1]),
        "longest_ps": np.array([MS, 2 * MS]),
    }
    write_study(tmp_path, make_question())
    whole = replace(cell, observed={"blame": blamed([0, 0, 0, 5, 0, 0]), "pauses": pauses})
    write_cell(cell_directory(tmp_path, cell.manifest.cell), whole)
    (row,) = signals(samples(read_study(tmp_path)), tmp_path).rows
    # 5 CNPs, 2 NAKs and 30 pause frames in 10 ms
    assert row[2:5] == ("500", "200", "3,000")
    assert row[5:7] == ("2 ms at s0:1", "50 %")
    assert row[7:] == ("7", "1", "4", "9", "2")


def test_cells_without_packets_have_no_signals(
    cell: Cell, make_question: Callable[..., StudyManifest], tmp_path: Path
) -> None:
    write_study(tmp_path, make_question())
    manifest = msgspec.structs.replace(cell.manifest, totals={})
    write_cell(cell_directory(tmp_path, manifest.cell), replace(cell, manifest=manifest))
    assert not signals(samples(read_study(tmp_path)), tmp_path).rows
