"""How full the KV memory was: from a run to its table, its totals, and the words of the report."""

from pathlib import Path

import numpy as np
import pytest

from analysis.memory import memory
from analysis.observed import INSTANCES, read_observed
from analysis.record import Cell, cell_directory, read_cell, write_cell
from analysis.summary import Sample
from kvfabric.compare import jobs_of
from kvfabric.load import load
from kvfabric.run import run_cell

SCENARIO = """\
name: full
fabric: {family: leaf_spine, nic: 100Gbps, switch: {ports: 8, rate: 100Gbps}}
placement: {prefill: 4, decode: 4}
model: Llama-3.1-70B
instance: {prefill: {tp: 2}, decode: {tp: 2}}
gpu: H100-SXM
requests:
  arrivals: {rate: 20/s}
  count: 30
  lengths: {input: {kind: constant, mean: 1500}, output: {kind: constant, mean: 300}}
budget: {handoff: 5ms, allowed: 10%}
run: {seeds: 1, emulator: fluid}
"""


def cell(tmp_path: Path, keys: str = "") -> Cell:
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO + keys, encoding="utf-8")
    (job,) = jobs_of(load(path))
    return run_cell(job)


@pytest.mark.parametrize(
    ("keys", "prefill"),
    [("", 2), ("serving: {mode: colocated, chunk: 2048}\n", 0)],
    ids=["disaggregated", "colocated"],
)
def test_every_cell_keeps_a_row_an_instance_and_its_totals(
    tmp_path: Path, keys: str, prefill: int
) -> None:
    made = cell(tmp_path, keys)
    place = cell_directory(tmp_path, made.manifest.cell)
    write_cell(place, made)
    kept = read_cell(place).manifest
    table = {
        n: c.astype(np.int64) for n, c in read_observed(place, kept.digest, "instances").items()
    }
    assert tuple(table) == INSTANCES
    assert (table["side"] == 0).sum() == prefill
    assert len(table["side"]) == 4
    assert (table["kv_capacity_bytes"][table["side"] == 0] == -1).all()
    assert (table["work_without_ps"] == table["work_ps"]).all()
    mine = {name: column[table["side"] == 1] for name, column in table.items()}
    assert kept.totals["hbm.mean_bytes"] == mine["kv_mean_bytes"].sum() > 0
    assert kept.totals["hbm.evictions"] == mine["evictions"].sum() == 0
    assert kept.totals["hbm.short_most_ps"] == mine["kv_short_ps"].max()
    fullest = (mine["kv_peak_bytes"] / mine["kv_capacity_bytes"]).max()
    assert kept.totals["hbm.peak_ppm"] == int(fullest * 1e6)


def test_evictions_are_told_by_instance_and_in_all(tmp_path: Path) -> None:
    made = cell(tmp_path, "serving: {reserve: prompt}\n")
    lost = int(made.requests["preemptions"].astype(np.int64).sum())
    assert lost > 0
    assert made.manifest.totals["hbm.evictions"] == lost
    told = memory([Sample("f", "p", (made,), (), (), None)])
    assert told.rows[0][7] == f"{lost:,}"
