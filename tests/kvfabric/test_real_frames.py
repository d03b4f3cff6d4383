"""Scenarios on real frames: the hand-offs of the packet emulator, or no number at all.

A busy machine makes a run invalid: it is tried again, twice, at a larger dilation as the guard
says, and then the test fails.
"""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from analysis.record import read_study
from emulate.mininet.record import records
from emulate.mininet.support import may_emulate
from kvfabric.compare import jobs_of
from kvfabric.crosscheck import Crosscheck, cheap, on_frames, rehearsed
from kvfabric.load import load
from topo.mistake import Place

_MISSING = may_emulate()

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.skipif(_MISSING is not None, reason=f"no real frames here: {_MISSING}"),
]

SCENARIOS = Path(__file__).parents[2] / "scenarios"
DILATIONS = (20_000, 40_000, 100_000)
COUNT = 50


@pytest.mark.parametrize("scenario", ["real-frames", "real-frames-tree"])
def test_handoffs_take_what_the_packet_emulator_says(scenario: str, tmp_path: Path) -> None:
    fewer: dict[Place, Any] = {("requests", "count"): COUNT}
    study = load(SCENARIOS / f"{scenario}.yaml", compare=False, overrides=fewer)
    heard = rehearsed(jobs_of(study)[0])
    rows = cheap(heard)
    for dilation in DILATIONS:
        frames, verdict, _ = on_frames(
            heard,
            name="a test",
            dilation=dilation,
            most_s=600,
            memory=False,
            tell=lambda _share, _note: None,
            base=tmp_path,
        )
        if verdict.standing != "invalid":
            break
    assert verdict.standing != "invalid", verdict.text()
    assert len(frames.handoff_ps) == COUNT
    assert frames.pauses
    assert frames.marked
    assert frames.drops == 0
    found = Crosscheck((*rows, frames))
    assert found.agrees, found.off


def _emulate(out: Path, *options: str) -> list[str]:
    scenario = str(SCENARIOS / "real-frames.yaml")
    return [sys.executable, "-m", "kvfabric", "emulate", scenario, "--out", str(out), *options]


def test_the_serving_loop_drives_real_frames_into_the_same_tables(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = subprocess.run(
        _emulate(out, "--count", "12", "--dilation", "10000"),
        capture_output=True,
        text=True,
        check=False,
    )
    verdict = json.loads((out / "fidelity.json").read_text())
    (cell,) = read_study(out).cells
    assert cell.manifest.emulator == "mininet"
    assert cell.manifest.settings["fidelity"].startswith(verdict["standing"])
    assert "dilation 10,000" in cell.manifest.settings["emulation"]
    assert f"fidelity: {verdict['standing']}" in done.stdout
    assert (out / "report.html").exists()
    if verdict["standing"] == "invalid":
        assert (done.returncode, len(cell.flows)) == (1, 0)
        return
    assert done.returncode == 0
    assert (cell.requests["status"] == 0).all()
    assert (cell.flows["finish_ps"] > cell.flows["release_ps"]).all()


def test_a_run_that_cannot_keep_up_tells_no_number(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = subprocess.run(
        _emulate(out, "--count", "12", "--dilation", "60"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "fidelity: invalid" in done.stdout
    (cell,) = read_study(out).cells
    assert cell.manifest.impossible is not None
    assert "its numbers are withheld" in cell.manifest.impossible
    assert (cell.flows, cell.manifest.totals, cell.manifest.duration_ps) == ({}, {}, 0)


def test_no_room_for_the_dilation_is_told_before_anything_is_made(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = subprocess.run(
        _emulate(out, "--dilation", "1000000", "--wall", "10s"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    *told, refused = done.stderr.splitlines()
    assert told[0] == "real frames: running its packets first"
    assert "more than --wall 10s" in refused
    assert not out.exists()


def test_the_shell_is_mininets_over_live_switches(tmp_path: Path) -> None:
    done = subprocess.run(
        _emulate(tmp_path / "out", "--shell", "--dilation", "1000"),
        input="nodes\nh0 ping -c 1 -W 3 h7\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = done.stdout + done.stderr  # Mininet answers on the latter
    assert "h0 h1 h2 h3 h4 h5 h6 h7 leaf0 leaf1 spine0 spine1" in told
    assert " 0% packet loss" in told
    # There and back three switches of 600 ns each and four cables of 50 ns, 1,000 times slower.
    assert 4.0 < float(told.partition("time=")[2].split()[0]) < 40
    assert not (tmp_path / "out").exists()


def test_ctrl_c_keeps_what_is_complete_as_partial(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with subprocess.Popen(
        _emulate(out, "--dilation", "20000"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stderr is not None
        while "network time left" not in run.stderr.readline():
            assert run.poll() is None
        run.send_signal(signal.SIGINT)
        told = run.communicate(timeout=60)
    assert run.returncode == 130, told
    assert "marked partial" in told[1]
    (cell,) = read_study(out).cells
    assert any(note.startswith("Partial: interrupted") for note in cell.manifest.notes)
    assert not [record for record in records() if record.pid == run.pid]
