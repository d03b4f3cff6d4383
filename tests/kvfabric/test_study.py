"""A study is checked before anything is written, is the same every time, and survives a kill."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from analysis.record import read_study
from kvfabric.cli import main
from topo.fabric import Switch
from topo.family.registry import build
from topo.format.registry import write_fabric

SCENARIO = """\
name: tiny
fabric: {family: leaf_spine, nic: 100Gbps, switch: {ports: 8, rate: 100Gbps}}
placement: {prefill: 4, decode: 4}
model: gpt-oss-120b
gpu: H100-SXM
requests: {arrivals: {rate: 400/s}, count: 8}
budget: {handoff: 5ms, allowed: 10%}
run: {seeds: 2, warmup: 1 request}
compare:
  fabric: [{oversubscription: 1}, {oversubscription: 3}]
  policy: [random, static_groups]
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return path


def kvfabric(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as left:
        main([str(a) for a in arguments])
    assert isinstance(left.value.code, int)
    return left.value.code


def contents(out: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(out)): p.read_bytes()
        for p in sorted((out / "cells").rglob("*"))
        if p.is_file()
    }


def test_the_same_scenario_gives_the_same_bytes_whatever_the_number_of_jobs(
    scenario: Path, tmp_path: Path
) -> None:
    assert kvfabric("compare", scenario, "--out", tmp_path / "a", "--jobs", "1") == 0
    assert kvfabric("compare", scenario, "--out", tmp_path / "b", "--jobs", "2") == 0
    one, other = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert len(one) == 8 * 15  # a manifest, five tables, nine of what packets met
    assert one == other


def test_a_run_and_a_comparison_of_one_scenario_have_folders_of_their_own(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for verb in ("run", "compare"):
        assert kvfabric(verb, scenario, "--emulator", "fluid", "--jobs", "1") == 0
    assert len(read_study(tmp_path / "out" / "tiny-run").cells) == 2
    assert len(read_study(tmp_path / "out" / "tiny").cells) == 8


def test_every_request_is_finished_and_its_budgets_add_up(scenario: Path, tmp_path: Path) -> None:
    assert kvfabric("compare", scenario, "--out", tmp_path / "a") == 0
    study = read_study(tmp_path / "a")
    assert study.missing == 0
    assert len(study.cells) == 8
    for cell in study.cells:
        r, totals = cell.requests, cell.manifest.totals
        assert np.all(r["status"] == 0)
        assert len(r["request"]) == 8
        queueing = r["prefill_start_ps"] - r["arrival_ps"] + r["decode_start_ps"] - r["kv_ready_ps"]
        prefill = r["prefill_end_ps"] - r["prefill_start_ps"]
        handoff = r["kv_ready_ps"] - r["prefill_end_ps"]
        decode = r["finish_ps"] - r["decode_start_ps"]
        whole = r["finish_ps"] - r["arrival_ps"]
        assert np.array_equal(queueing + prefill + handoff + decode, whole)
        assert totals["bytes_delivered"] == int(r["kv_bytes"].sum())
        assert totals["drops_lossless"] == 0
        duration = cell.flows["finish_ps"] - cell.flows["release_ps"]
        assert np.all(duration >= cell.flows["ideal_ps"])


def test_alternatives_meet_the_same_requests(scenario: Path, tmp_path: Path) -> None:
    assert kvfabric("compare", scenario, "--out", tmp_path / "a") == 0
    by_seed: dict[int, list[np.ndarray]] = {}
    for cell in read_study(tmp_path / "a").cells:
        by_seed.setdefault(cell.manifest.seed, []).append(cell.requests["arrival_ps"])
    assert not np.array_equal(by_seed[1][0], by_seed[2][0])
    for arrivals in by_seed.values():
        assert all(np.array_equal(arrivals[0], other) for other in arrivals[1:])


def test_more_seeds_extend_a_study_and_keep_what_is_there(scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "a"
    assert kvfabric("compare", scenario, "--out", out) == 0
    before = contents(out)
    assert kvfabric("compare", scenario, "--out", out, "--seeds", "3") == 0
    after = contents(out)
    assert len(after) == 12 * 15
    assert {name: after[name] for name in before} == before


def _shorten(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


@pytest.mark.parametrize("damage", [_shorten, Path.unlink])
@pytest.mark.parametrize("name", ["manifest.json", "flows.parquet", "blame.parquet"])
def test_a_cell_with_a_damaged_or_missing_file_is_run_again_with_a_word_about_it(
    scenario: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    damage: Callable[[Path], None],
) -> None:
    out = tmp_path / "a"
    assert kvfabric("run", scenario, "--out", out, "--jobs", "1") == 0
    before = contents(out)
    victim = next((out / "cells").glob(f"*/{name}"))
    damage(victim)
    capsys.readouterr()
    assert kvfabric("run", scenario, "--out", out, "--jobs", "1") == 0
    err = capsys.readouterr().err.splitlines()
    (told,) = [line for line in err if line.endswith("; this cell is run again")]
    assert told.startswith(f"tiny: {victim}: ")
    assert contents(out) == before


def test_a_folder_of_another_scenario_is_refused_and_left_alone(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a"
    assert kvfabric("compare", scenario, "--out", out) == 0
    before = contents(out)
    scenario.write_text(SCENARIO.replace("5ms", "6ms"), encoding="utf-8")
    assert kvfabric("compare", scenario, "--out", out) == 2
    assert "holds results of another scenario" in capsys.readouterr().err
    assert contents(out) == before


def test_a_foreign_folder_is_refused_and_left_alone(scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "home"
    out.mkdir()
    (out / "precious.txt").write_text("mine", encoding="utf-8")
    assert kvfabric("compare", scenario, "--out", out) == 2
    assert [p.name for p in out.iterdir()] == ["precious.txt"]


def test_a_study_that_was_ended_at_its_begin_goes_on(scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "a"
    out.mkdir()
    for name in (".lock", ".study.json.part"):
        (out / name).touch()
    assert kvfabric("run", scenario, "--out", out, "--emulator", "fluid", "--jobs", "1") == 0


def test_a_killed_study_leaves_no_process_and_is_resumed(scenario: Path, tmp_path: Path) -> None:
    scenario.write_text(SCENARIO.replace("count: 8", "count: 150"), encoding="utf-8")
    out = tmp_path / "a"
    command = [sys.executable, "-m", "kvfabric", "compare", str(scenario), "--out", str(out)]
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL) as run:
        cells = out / "cells"
        deadline = time.monotonic() + 60
        while not (cells.is_dir() and any(c.name[0] != "." for c in cells.iterdir())):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        group = os.getpgid(run.pid)
        run.kill()
        run.wait()
    deadline = time.monotonic() + 20
    while True:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            break
        assert time.monotonic() < deadline, "a worker outlived the command"
        time.sleep(0.05)
    finished = contents(out)
    assert kvfabric("compare", scenario, "--out", out) == 0
    after = contents(out)
    kept = {name for name in finished if "/." not in f"/{name.removeprefix('cells/')}"}
    assert kept
    assert all(after[name] == finished[name] for name in kept)
    assert read_study(out).missing == 0


def test_two_commands_do_not_work_in_one_folder(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import fcntl

    out = tmp_path / "a"
    assert kvfabric("compare", scenario, "--out", out) == 0
    with (out / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert kvfabric("compare", scenario, "--out", out) == 2
    assert "another command works in it" in capsys.readouterr().err


def test_a_policy_that_a_fabric_cannot_serve_is_told_in_its_cell(
    scenario: Path, tmp_path: Path
) -> None:
    text = SCENARIO.replace("[{oversubscription: 1}, {oversubscription: 3}]", "[{groups: 2}]")
    scenario.write_text(text.replace("leaf_spine", "bipartite, leaves: 4"), encoding="utf-8")
    assert kvfabric("compare", scenario, "--out", tmp_path / "a") == 0
    for cell in read_study(tmp_path / "a").cells:
        if cell.manifest.policy == "random":
            assert "no path in this fabric" in str(cell.manifest.impossible)
        else:
            assert cell.manifest.impossible is None
            assert np.all(cell.requests["status"] == 0)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("model: gpt-oss-120b", "model: gpt-oss-12b", "tiny.yaml:4: model:"),
        ("gpu: H100-SXM", "gpu: H1000", "tiny.yaml:5: gpu:"),
        ("gpu: H100-SXM", "gpu: L40S", "tiny.yaml:1: instance.prefill.tp: "),
        ("leaf_spine", "leafspine", "tiny.yaml:2: fabric.family: 'leafspine'"),
        ("ports: 8", "ports: 2", "tiny.yaml:10: fabric: "),
        ("oversubscription: 3", "groups: 3", "groups: not a parameter of leaf_spine"),
        ("[random, static_groups]", "[rondom]", "tiny.yaml:11: policy: 'rondom'"),
        ("[random, static_groups]", "[{kind: random, x: 1}]", "tiny.yaml:11: policy.x: "),
        ("prefill: 4, decode: 4", "prefill: 4, decode: 4, by: x", "tiny.yaml:3: placement.by"),
        ("budget:", "handoff: {block: 1B}\nbudget:", "tiny.yaml:7: handoff.block: 1B"),
        ("allowed: 10%", "allowed: 0%", "tiny.yaml:7: budget.allowed: must be above 0"),
        ("seeds: 2", "control_delay: 0us, seeds: 2", "run.control_delay: must be above 0"),
        ("name: tiny", 'name: "a\\x1b[31m"', "tiny.yaml:1: name: "),
        ("{oversubscription: 3}", '{label: "a\\nb"}', "has characters that do not print"),
        ("rate: 400/s", "rate: 0/s", "tiny.yaml:6: requests.arrivals.rate: must be above 0"),
        ("count: 8", "count: 8, trace: {file: no.csv}", "tiny.yaml:6: requests.trace.file"),
        ("count: 8", "count: 8, profile: bass", "tiny.yaml:6: requests.profile: 'bass'"),
        ("nic: 100Gbps, ", "nic: 100Gbps, cable: 100km, ", "tiny.yaml:"),
        (
            "budget:",
            "network: {discipline: {ecn: {kmin: 2MB, kmax: 1MB, pmax: 1%}}}\nbudget:",
            "tiny.yaml:7: network.discipline.ecn.kmin: 2MB, kmax 1MB",
        ),
    ],
)
def test_bad_input_gives_one_line_exit_2_and_nothing_written(
    scenario: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    told: str,
) -> None:
    assert old in SCENARIO
    scenario.write_text(SCENARIO.replace(old, new), encoding="utf-8")
    assert kvfabric("compare", scenario, "--out", tmp_path / "a") == 2
    message = capsys.readouterr().err
    assert told in message
    assert message.count("\n") == 1
    assert not (tmp_path / "a").exists()


def test_an_option_of_traces_without_a_trace_is_told(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kvfabric("compare", scenario, "--out", tmp_path / "a", "--window", "0s", "1s") == 2
    assert "--window: needs --trace" in capsys.readouterr().err


def test_marking_thresholds_of_ones_own_are_used(scenario: Path, tmp_path: Path) -> None:
    own = "network: {discipline: {ecn: {kmin: 0B, kmax: 0B, pmax: 100%}}}\nbudget:"
    off = "network: {discipline: {ecn: off}}\nbudget:"
    marked = {}
    for name, text in (("own", own), ("off", off)):
        scenario.write_text(SCENARIO.replace("budget:", text), encoding="utf-8")
        assert kvfabric("run", scenario, "--out", tmp_path / name) == 0
        cells = read_study(tmp_path / name).cells
        assert name in cells[0].manifest.settings["ECN"]
        marked[name] = sum(int(cell.flows["marked"].sum()) for cell in cells)
    assert marked["off"] == 0 < marked["own"]


def test_the_report_says_what_its_run_leaves_out(scenario: Path, tmp_path: Path) -> None:
    for emulator, told in (("packet", "preset"), ("fluid", "The fluid has no queues")):
        out = tmp_path / emulator
        assert kvfabric("run", scenario, "--out", out, "--emulator", emulator) == 0
        page = (out / "report.html").read_text(encoding="utf-8")
        assert "What is not modelled" in page
        assert told in page.split("What is not modelled")[1]


def test_a_fabric_of_ones_own_is_read_from_a_file_and_belongs_to_the_study(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {"hosts": 8, "nic_bps": 10**11, "switch": Switch(8, 10**11)}
    own = tmp_path / "own.json"
    write_fabric(build("leaf_spine", values), own, "json")
    text = SCENARIO.replace("family: leaf_spine", "family: file, file: own.json")
    scenario.write_text(text.split("compare:")[0], encoding="utf-8")
    assert kvfabric("run", scenario, "--out", tmp_path / "a") == 0
    assert kvfabric("run", scenario, "--out", tmp_path / "a") == 0
    write_fabric(build("leaf_spine", {**values, "cable_m": 20.0}), own, "json", overwrite=True)
    assert kvfabric("run", scenario, "--out", tmp_path / "a") == 2
    assert "another scenario" in capsys.readouterr().err
    own.unlink()
    assert kvfabric("run", scenario, "--out", tmp_path / "b") == 2
    assert "tiny.yaml:2: fabric.file: " in capsys.readouterr().err
    assert not (tmp_path / "b").exists()
