"""``kvfabric goodput``: a deterministic server of known capacity, resumption, refusals."""

from pathlib import Path

import pytest

from analysis.goodput import Search
from kvfabric.cli import main
from kvfabric.compare import StudyError, jobs_of
from kvfabric.goodput import goodput
from kvfabric.load import load
from kvfabric.run import run_cell
from kvfabric.source import ScenarioError

COUNT = 60
TEXT = """\
name: one server
fabric: {family: leaf_spine, nic: 100Gbps, switch: {ports: 8, rate: 100Gbps}}
placement: {prefill: 1, decode: 1}
model: Llama-3.1-8B
gpu: H100-SXM
budget: {handoff: 50ms, allowed: 10%}
run: {seeds: 1, emulator: fluid}
"""
LENGTHS = "lengths: {input: {kind: constant, mean: 2000}, output: {kind: constant, mean: 1}}"
ARRIVALS = "arrivals: {process: deterministic, rate: 4/s}"
EVENLY = f"requests: {{{LENGTHS}, {ARRIVALS}, count: {COUNT}}}\n"

SLO = "slo: {ttft: 400ms}\n"


def written(tmp_path: Path, keys: str = "", requests: str = EVENLY, slo: str = SLO) -> Path:
    path = tmp_path / "s.yaml"
    path.write_text(TEXT + requests + slo + keys, encoding="utf-8")
    return path


def found(path: Path, out: Path, **more: float) -> list[Search]:
    return goodput(load(path), out, progress=lambda *_: None, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("goal", "must"), [(0.9, 54), (0.5, 30)])
def test_a_deterministic_server_gives_the_rate_of_its_closed_form(
    tmp_path: Path, goal: float, must: int
) -> None:
    # Evenly spaced prompts of one length before one prefill instance (D/D/1): at gaps g below the
    # service s, request k waits k (s - g). With w = objective - unloaded TTFT the goal's last
    # request, the must-th, is in time while (must - 1) (s - g) <= w.
    path = written(tmp_path)
    (job,) = jobs_of(load(path))
    table = run_cell(job).requests
    unloaded = int(table["first_token_ps"][0] - table["arrival_ps"][0])
    service = job.stage.deployment.prefill.prefill_cost.ps(2000)
    gap = service - (400 * 10**9 - unloaded) / (must - 1)
    (one,) = found(path, tmp_path / "out", goal=goal, precision=0.01)
    low, high = one.bracket
    assert low is not None
    assert high is not None
    assert low.rate_per_s <= 10**12 / gap <= high.rate_per_s <= 1.0101 * low.rate_per_s
    assert low.trials[0].counted == COUNT
    assert low.trials[0].met >= must > high.trials[0].met
    assert high.trials[0].late_first == COUNT - high.trials[0].met
    assert one.gpus == 2
    assert one.odd == []


def test_a_trace_is_searched_by_playing_it_faster(tmp_path: Path) -> None:
    rows = "".join(f"{i / 4},2000,1\n" for i in range(COUNT))
    (tmp_path / "t.csv").write_text("arrival_s,input_tokens,output_tokens\n" + rows, "utf-8")
    recorded = f"requests: {{trace: {{file: t.csv}}, count: {COUNT}}}\n"
    (evenly,) = found(written(tmp_path), tmp_path / "one", precision=0.2)
    (played,) = found(written(tmp_path, requests=recorded), tmp_path / "other", precision=0.2)
    assert played.start == evenly.start == 4
    assert played.met == evenly.met
    assert [p.trials[0].met for p in played.points] == [p.trials[0].met for p in evenly.points]


def test_what_was_tried_is_not_tried_again_and_a_finer_search_goes_on_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = written(tmp_path), tmp_path / "out"
    (coarse,) = found(path, out, precision=0.3)
    tried: list[float] = []
    from kvfabric import goodput as module

    measure = module.measure
    monkeypatch.setattr(module, "measure", lambda one: tried.append(one.rate_per_s) or measure(one))
    assert found(path, out, precision=0.3)[0].met == coarse.met
    assert tried == []
    (finer,) = found(path, out, precision=0.08)
    assert set(tried) == set(finer.met) - set(coarse.met)
    assert 0 < len(tried) < 4


def test_a_damaged_trial_is_run_again_with_a_word_about_it(tmp_path: Path) -> None:
    path, out = written(tmp_path), tmp_path / "out"
    first = found(path, out, precision=0.2)
    victim = next(out.glob("trials/*/4-1.json"))
    before = victim.read_bytes()
    victim.write_bytes(before[:-9])
    told: list[str] = []
    study = load(path)
    again = goodput(study, out, precision=0.2, progress=lambda *_: None, announce=told.append)
    assert told == [f"{victim}: damaged; this trial is run again"]
    assert [one.points for one in again] == [one.points for one in first]
    assert victim.read_bytes() == before


def test_a_search_that_was_ended_at_its_begin_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for name in (".lock", ".goodput.key.part"):
        (out / name).touch()
    assert found(written(tmp_path), out, precision=0.5)


def test_policies_and_fabrics_are_searched_with_the_same_seeds_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = "compare: {policy: [random, {kind: static_groups, groups: 2}]}\n"
    text = TEXT.replace("{prefill: 1, decode: 1}", "{prefill: 2, decode: 2}").replace(
        "one server", "two <servers>"
    )
    path = tmp_path / "s.yaml"
    drawn = f"requests: {{{LENGTHS}, arrivals: {{rate: 8/s}}, count: 40}}\n"
    path.write_text(text.replace("seeds: 1", "seeds: 2") + drawn + SLO + keys, encoding="utf-8")
    out = tmp_path / "out"
    with pytest.raises(SystemExit) as left:
        main(["goodput", str(path), "--precision", "30%", "--out", str(out), "--jobs", "1"])
    assert left.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "goodput: 90 % of requests within their objectives" in shown
    assert "Highest:" in shown
    page = (out / "goodput.html").read_text()
    assert "two &lt;servers&gt;" in page
    assert "static_groups groups=2" in page
    assert "<svg" in page
    assert (out / "plots" / "attainment.csv").read_text().startswith("fabric,policy,rate_per_s")
    with pytest.raises(SystemExit) as refused:
        main(["report", str(out)])
    assert refused.value.code == 2
    assert "whose report is goodput.html" in capsys.readouterr().err
    searches = found(path, out, precision=0.3)
    assert [one.policy for one in searches] == ["random", "static_groups groups=2"]
    assert all({t.seed for t in p.trials} == {1, 2} for one in searches for p in one.points)
    assert searches[0].start == searches[1].start == 8


@pytest.mark.parametrize(
    ("keys", "requests", "slo", "told"),
    [
        ("", EVENLY, "", "slo: goodput is measured against objectives; write slo: {ttft: 300ms}"),
        (
            "",
            "requests: {closed: {users: 2}, count: 5}\n",
            SLO,
            "requests.closed: users decide when they ask",
        ),
        (
            "compare: {requests.arrivals.rate: [4/s, 8/s]}\n",
            EVENLY,
            SLO,
            "compare: alternatives differ in their rate",
        ),
    ],
)
def test_what_has_no_goodput_is_refused_with_its_place(
    tmp_path: Path, keys: str, requests: str, slo: str, told: str
) -> None:
    with pytest.raises(ScenarioError) as refused:
        found(written(tmp_path, keys, requests, slo), tmp_path / "out")
    assert told in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("x", encoding="utf-8")
    with pytest.raises(StudyError, match="holds something else"):
        found(written(tmp_path), out)
    found(written(tmp_path), tmp_path / "other", precision=1.0)
    with pytest.raises(StudyError, match="another scenario or version"):
        found(written(tmp_path, "kv_format: fp8\n"), tmp_path / "other")


@pytest.mark.parametrize("option", [["--goal", "0%"], ["--goal", "90"], ["--precision", "0.5%"]])
def test_a_share_that_cannot_be_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: list[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["goodput", str(written(tmp_path)), *option])
    assert left.value.code == 2
    assert f"{option[0]} {option[1]!r}: write" in capsys.readouterr().err
