"""Gates for continuous integration: ``--assert`` and ``diff``, on real runs of the fluid."""

from dataclasses import replace
from pathlib import Path

import pytest

from analysis.record import Cell, read_study
from kvfabric.account import account
from kvfabric.cli import main

SCENARIO = """\
name: gate
fabric: {family: leaf_spine, nic: 100Gbps, switch: {ports: 8, rate: 100Gbps}}
placement: {prefill: 4, decode: 4}
model: gpt-oss-120b
gpu: H100-SXM
requests: {arrivals: {rate: 400/s}, count: 30}
budget: {handoff: 30ms, allowed: 10%}
slo: {ttft: 500ms, tpot: 40ms}
run: {seeds: 6, emulator: fluid}
"""


def kvfabric(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as left:
        main([str(a) for a in arguments])
    assert isinstance(left.value.code, int)
    return left.value.code


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the scenario and three results: as it is, again, and with slower links."""
    home = tmp_path_factory.mktemp("gate")
    for name, text in (
        ("base", SCENARIO),
        ("again", SCENARIO),
        ("slower", SCENARIO.replace("nic: 100Gbps", "nic: 95Gbps")),
    ):
        (home / f"{name}.yaml").write_text(text, encoding="utf-8")
        assert kvfabric("run", home / f"{name}.yaml", "--out", home / name, "--jobs", "1") == 0
    return home


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("choice: over_budget<5%", 0),
        ("handoff_mean>1s", 1),
        # 180 hand-offs carry P90 and not P99
        ("handoff_p99<30ms", 1),
    ],
)
def test_an_assertion_decides_the_exit_code(
    home: Path, capsys: pytest.CaptureFixture[str], condition: str, code: int
) -> None:
    assert kvfabric("report", home / "base", "--assert", condition) == code
    assert f"assert {condition}: " in capsys.readouterr().out


def test_a_report_is_left_as_it_is_where_conditions_are_asked_of_it(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = home / "base" / "report.html"
    before = page.stat().st_mtime_ns if page.is_file() else None
    assert kvfabric("report", home / "base", "--assert", "handoff_mean<1s") == 0
    assert (page.stat().st_mtime_ns if page.is_file() else None) == before
    assert capsys.readouterr().out.startswith("assert handoff_mean<1s: ")
    two = ("--base", "random", "--assert", "handoff_mean<1s")
    assert kvfabric("report", home / "base", *two) == 2
    assert "--base: is of the report" in capsys.readouterr().err


def test_one_of_several_that_fails_is_enough(home: Path) -> None:
    two = ("--assert", "drops==0", "--assert", "handoff_mean>1s")
    assert kvfabric("report", home / "base", *two) == 1


@pytest.mark.parametrize("verb", ["run", "compare"])
def test_a_wrong_assertion_is_told_before_anything_runs(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    out = tmp_path / "never"
    code = kvfabric(verb, home / "base.yaml", "--out", out, "--assert", "over_budget<1")
    assert code == 2
    message = capsys.readouterr().err
    assert message.startswith("kvfabric: assertion 'over_budget<1': share '1'")
    assert message.count("\n") == 1
    assert not out.exists()


def test_run_and_compare_obey_an_assertion(home: Path) -> None:
    for verb, condition, code in (("run", "handoff_mean>1s", 1), ("compare", "drops==0", 0)):
        place = ("--out", home / "base", "--jobs", "1")
        assert kvfabric(verb, home / "base.yaml", *place, "--assert", condition) == code


def test_the_same_scenario_shows_no_difference(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kvfabric("diff", home / "base", home / "again", "--fail-if", "any") == 0
    out = capsys.readouterr().out
    assert out.startswith("No difference found in ")
    assert "The scenarios are the same." in out


def test_a_link_five_percent_slower_is_found_with_its_key_and_its_ports(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = tmp_path / "diff.md"
    code = kvfabric(
        "diff", home / "base", home / "slower", "--fail-if", "worse", "--markdown", told
    )
    assert code == 1
    out = capsys.readouterr().out
    assert "Largest in mean hand-off: leaf-spine with least_loaded, +" in out.replace("\n", " ")
    assert "worse in B" in out.replace("\n", " ")
    text = told.read_text("utf-8")
    assert "| fabric.nic | 100Gbps | 95Gbps |" in text
    assert "Links that differ" in text
    # 5 % fewer bits a second take 5.3 % longer, where the wire is all there is
    share = float(out.split("(+")[1].split(" %")[0])
    assert 2 < share < 5.4
    assert kvfabric("diff", home / "slower", home / "base", "--fail-if", "worse") in (0, 1)


def test_an_option_of_the_command_line_is_told(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "fewer"
    assert kvfabric("run", home / "base.yaml", "--out", out, "--count", "20", "--jobs", "1") == 0
    capsys.readouterr()
    assert kvfabric("diff", home / "base", out) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "an option of the command line, is not the same" in told


def test_hand_offs_that_never_ended_have_no_mean_and_are_told_by_their_number(home: Path) -> None:
    study = read_study(home / "base")
    cells = []
    for cell in study.cells:
        table = {name: column.copy() for name, column in cell.requests.items()}
        for name in ("kv_ready_ps", "decode_start_ps", "first_token_ps", "finish_ps"):
            table[name][-1] = -1
        table["status"][-1] = 1
        cells.append(Cell(cell.manifest, table, cell.flows, cell.ports))
    told = account(study, replace(study, cells=tuple(cells)), ("A", "B"), 12)
    assert told.worse
    assert told.headline.endswith("cannot be compared: in one of them some never ended.")
    assert "hand-offs never finished" in told.markdown()


def test_one_common_seed_is_told_to_give_no_interval(home: Path) -> None:
    study = read_study(home / "base")
    alone = replace(study, cells=tuple(c for c in study.cells if c.manifest.seed == 1))
    told = account(alone, alone, ("A", "B"), 12).markdown()
    assert "| none: one seed |" in told
    assert "unbounded" not in told


def test_a_folder_without_results_is_refused_in_one_line(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kvfabric("diff", home / "base", tmp_path) == 2
    assert capsys.readouterr().err.count("\n") == 1
