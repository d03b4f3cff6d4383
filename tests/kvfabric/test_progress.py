"""What a long command is at: nothing for two seconds, then a line, and none left behind."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.record import cell_directory
from kvfabric import progress
from kvfabric.cli import main
from kvfabric.compare import CellWork, jobs_of, run_study
from kvfabric.load import load
from kvfabric.progress import fitted, stages, under

SCENARIO = """\
name: tiny
fabric: {family: leaf_spine, nic: 100Gbps, switch: {ports: 8, rate: 100Gbps}}
placement: {prefill: 4, decode: 4}
model: gpt-oss-120b
gpu: H100-SXM
requests: {arrivals: {rate: 400/s}, count: 40}
budget: {handoff: 5ms, allowed: 10%}
run: {seeds: 2, warmup: 1 request}
"""


def test_a_short_command_says_nothing(capsys):
    with stages("topo show") as tell:
        tell("routes")
    assert capsys.readouterr().err == ""


def test_a_long_command_says_what_it_is_at(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_QUIET_S", 0.01)
    with stages("topo show") as tell:
        under(tell, "torus")("routes")
        time.sleep(0.2)
    assert capsys.readouterr().err == "topo show: torus: routes, 0 s so far\n"


@pytest.mark.parametrize("what", ["a", "leaf-spine against torus and everything else"])
@pytest.mark.parametrize("note", ["16/36 cells", "0/1,600 cells, 12,000 requests"])
def test_a_line_of_progress_fits_a_terminal_and_keeps_its_times(what: str, note: str) -> None:
    told = f"44 %  {note}, 12 min gone, 1 h 48 min left"
    name, bar, kept = fitted(what, told, 80)
    assert kept == told
    assert bar >= 10
    assert len(name) + 1 + bar + 1 + len(told) <= 80


def test_progress_is_rounded_down_and_counts_time_from_the_first_work_of_this_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    with progress.progress("study", 1.0) as tick:
        for now, done in ((100.0, 0.5), (200.0, 0.51), (300.0, 0.999)):
            tick(done, f"at {now:.0f}")
    assert capsys.readouterr().err.splitlines() == [
        "study: 50%  at 100",
        "study: 51%  at 200, 1 h 22 min left",
        "study: 99%  at 300, 0 s left",
    ]


def test_a_cell_of_ten_times_the_bytes_counts_about_ten_times_as_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, told = tmp_path / "s.yaml", []
    sizes = (f"{{kind: constant, mean: {tokens}}}" for tokens in (1_000, 10_000))
    path.write_text(
        SCENARIO.replace("seeds: 2", "seeds: 1")
        + f"compare: {{requests.lengths.input: [{', '.join(sizes)}]}}\n",
        encoding="utf-8",
    )

    def sweep(jobs: object, work: object, *, progress: Callable[..., None], **_: object) -> None:
        for steps in ([0, 0], [40, 0], [40, 20], [40, 40]):
            progress(steps.count(40), steps)

    monkeypatch.setattr("kvfabric.compare.sweep", sweep)
    run_study(
        load(path),
        tmp_path / "out",
        processes=1,
        progress=lambda share, note: told.append((share, note)),
        reproduce="",
    )
    shares = [share for share, _ in told[1:-1]]
    assert shares == pytest.approx([0, 1 / 11, 6 / 11, 1], abs=0.02)
    assert [note for _, note in told[1:4]] == ["0/2 cells, 0 requests", "1/2 cells", "1/2 cells"]


def test_a_failing_command_stops_talking(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_QUIET_S", 0.05)
    try:
        with stages("topo show"):
            raise ValueError
    except ValueError:
        time.sleep(0.1)
    assert capsys.readouterr().err == ""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a scenario, its results and its fabric."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "tiny.yaml").write_text(SCENARIO, encoding="utf-8")
    for command in (
        "run {}/tiny.yaml --out {}/out --jobs 1",
        "topo export {}/tiny.yaml --to {}/a.json",
    ):
        with pytest.raises(SystemExit):
            main([word.replace("{}", str(folder)) for word in command.split()])
    return folder


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("report {}/out", "report: "),
        ("diff {}/out {}/out", "diff: "),
        ("explain {}/out", "explain: "),
        ("victims {}/tiny.yaml", "tiny: victims: 50%  1/2 cells"),
        ("crosscheck {}/tiny.yaml --no-mininet --out {}/crosscheck", "crosscheck: "),
        ("traffic show {}/tiny.yaml", "traffic tiny.yaml: "),
        ("traffic export {}/tiny.yaml --out {}/requests.csv", "traffic tiny.yaml: "),
        ("traffic tokeniser {}/tiny.yaml", "traffic tiny.yaml: "),
        ("traffic size {}/tiny.yaml", "traffic size tiny.yaml: "),
        ("topo draw {}/tiny.yaml --out {}/drawings", "topo draw: "),
        ("topo export {}/tiny.yaml --to {}/fabric.json", "topo export: "),
        ("topo import {}/a.json", "topo import: "),
        ("topo losses {}/tiny.yaml", "topo losses: "),
    ],
)
def test_whatever_may_take_long_says_what_it_is_at(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    told: str,
) -> None:
    monkeypatch.setattr(progress, "_QUIET_S", 0.0)
    monkeypatch.setattr(progress, "_LINE_EVERY_S", 0.001)
    with pytest.raises(SystemExit) as left:
        main([word.replace("{}", str(place)) for word in command.split()])
    assert left.value.code == 0
    assert any(line.startswith(told) for line in capsys.readouterr().err.splitlines())


def test_a_cell_is_told_as_done_when_it_is_on_the_disk(place: Path, tmp_path: Path) -> None:
    job = jobs_of(load(place / "tiny.yaml"))[0]
    told: list[tuple[int, bool]] = []

    def report(steps: int) -> None:
        told.append((steps, cell_directory(tmp_path, job.cell).exists()))

    CellWork(tmp_path)(job, report)
    *before, (last, written) = told
    assert written
    assert last > 0
    assert not any(there for _, there in before)
    assert sum(steps for steps, _ in told) == 40
