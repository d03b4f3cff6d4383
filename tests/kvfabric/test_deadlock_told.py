"""Deadlocks that happened are counted in a cell and told with their circle; the verdict warns."""

from pathlib import Path

import pytest

from analysis.record import Study
from analysis.summary import samples, summaries
from analysis.verdict import verdict
from emulate.packet import Deadlock
from kvfabric import run
from kvfabric.compare import jobs_of, manifest_of
from kvfabric.deadlock import deadlock_notes, deadlock_totals
from kvfabric.load import load

TEXT = """\
name: still
fabric: {family: single_switch, nic: 100Gbps}
placement: {prefill: 1, decode: 1}
model: gpt-oss-120b
gpu: H100-SXM
requests: {arrivals: {rate: 100/s}, count: 3}
budget: {handoff: 20ms, allowed: 10%}
run: {seeds: 1, emulator: EMULATOR}
"""
CIRCLE = Deadlock(12_300_000_000, 3, ("s0:0>s1:0", "s1:1>s0:1"))


def ran(tmp_path: Path, emulator: str = "packet") -> Study:
    path = tmp_path / "s.yaml"
    path.write_text(TEXT.replace("EMULATOR", emulator), encoding="utf-8")
    study = load(path)
    jobs = jobs_of(study)
    return Study(manifest_of(study, jobs, ""), tuple(run.run_cell(job) for job in jobs), 0)


def test_a_circle_is_told_with_its_time_priority_seed_and_ports_round_to_the_first() -> None:
    assert deadlock_notes([CIRCLE], 4) == [
        "Deadlock at 12.3 ms, priority 3, seed 4: s0:0>s1:0, then s1:1>s0:1, then s0:0>s1:0."
    ]
    assert deadlock_totals([CIRCLE]) == {"deadlocks": 1}


def test_a_run_without_any_says_none_and_the_fluid_nothing(tmp_path: Path) -> None:
    (cell,) = ran(tmp_path).cells
    assert cell.manifest.totals["deadlocks"] == 0
    (cell,) = ran(tmp_path, "fluid").cells
    assert "deadlocks" not in cell.manifest.totals


def test_a_deadlock_is_in_the_notes_and_the_verdict_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "deadlocks_of", lambda _: [CIRCLE])
    study = ran(tmp_path)
    assert any(note.startswith("Deadlock at 12.3 ms") for note in study.cells[0].manifest.notes)
    told = verdict(study, samples(study), summaries(study)).text()
    assert "Deadlock: queues waited for each other in 1 cell, first in single-switch with" in told
