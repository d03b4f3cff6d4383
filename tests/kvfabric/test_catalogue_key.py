"""Models, GPUs and cache formats of one's own, from the keys of a scenario to its bytes."""

from pathlib import Path

import pytest

from kvfabric.build import files_of, stage
from kvfabric.cli import main
from kvfabric.compare import jobs_of
from kvfabric.load import load
from kvfabric.run import run_cell, settings_of
from kvfabric.source import ScenarioError
from traffic.catalog.table import shipped

TEXT = """\
name: own
fabric: {family: leaf_spine, nic: 100Gbps, switch: {ports: 16, rate: 100Gbps}}
placement: {prefill: 2, decode: 2}
model: MODEL
gpu: GPU
requests:
  lengths: {input: {kind: constant, mean: 1000}, output: {kind: constant, mean: 3}}
  arrivals: {rate: 20/s}
  count: 4
budget: {handoff: 50ms, allowed: 10%}
run: {seeds: 1, emulator: fluid}
"""


def written(tmp_path: Path, keys: str = "", model: str = "Tiny", gpu: str = "Lab") -> Path:
    head, *rows = shipped("models.csv").splitlines()
    llama = next(row for row in rows if row.startswith("Llama-3.1-8B,"))
    own = llama.replace("Llama-3.1-8B,GQA,32,32", "Tiny,GQA,16,16", 1)
    (tmp_path / "models.csv").write_text(f"{head}\n{own}\n", encoding="utf-8")
    head, *rows = shipped("gpus.csv").splitlines()
    card = next(row for row in rows if row.startswith("H100-SXM,"))
    fast = card.replace("H100-SXM,989", "Lab,1978", 1)
    (tmp_path / "gpus.csv").write_text(f"{head}\n{fast}\n", encoding="utf-8")
    path = tmp_path / "s.yaml"
    text = TEXT.replace("MODEL", model).replace("GPU", gpu)
    path.write_text(text + keys, encoding="utf-8")
    return path


OWN = "catalogue: {models: models.csv, gpus: gpus.csv}\n"


def kvfabric(*arguments: object) -> int:
    with pytest.raises(SystemExit) as left:
        main([str(a) for a in arguments])
    assert isinstance(left.value.code, int)
    return left.value.code


def test_rows_of_ones_own_are_served_and_weighed(tmp_path: Path) -> None:
    (job,) = jobs_of(load(written(tmp_path, OWN)))
    assert set(run_cell(job).requests["kv_bytes"].tolist()) == {16 * 2 * 8 * 128 * 2 * 1000}
    made = load(written(tmp_path, OWN + "compare: {gpu: [H100-SXM, Lab]}\n"))
    pools = [stage(one.scenario, one.source).deployment.prefill for one in made.alternatives]
    slow, fast = (pool.prefill_cost.ps(1000) for pool in pools)
    assert slow == pytest.approx(2 * fast)


def test_the_shipped_rows_stay_beside_ones_own(tmp_path: Path) -> None:
    study = load(written(tmp_path, OWN, model="gpt-oss-20b", gpu="H20"))
    assert stage(study.scenario, study.source).deployment.prefill.model.name == "gpt-oss-20b"


@pytest.mark.parametrize(("kind", "half"), [("fp8", 2), ("bf16", 1), ("fp16", 1)])
def test_the_format_of_the_cache_changes_its_bytes_and_the_room_for_it(
    kind: str, half: int, tmp_path: Path
) -> None:
    path = written(tmp_path, f"kv_format: {kind}\n", model="Llama-3.1-8B", gpu="H100-SXM")
    (job,) = jobs_of(load(path))
    cell = run_cell(job)
    assert set(cell.requests["kv_bytes"].tolist()) == {131_072_000 // half}
    assert cell.flows["bytes"].sum() == cell.requests["kv_bytes"].sum()


def test_traffic_show_weighs_with_the_scenarios_own_rows_and_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, OWN + "kv_format: fp8\n")
    assert kvfabric("traffic", "show", path) == 0
    told = capsys.readouterr().out
    assert "KV a request, Tiny" in told
    assert "mean 32.8 MB" in told
    assert kvfabric("traffic", "tokeniser", path, "--ratio", "1.33") == 0
    assert "on Tiny" in capsys.readouterr().out
    assert kvfabric("traffic", "size", path) == 0


def test_several_models_are_each_weighed_with_their_own_requests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = "models: [{model: Qwen3-8B, share: 50%, prefill: 1, decode: 1}]\n"
    path = written(tmp_path, OWN + more)
    assert kvfabric("traffic", "show", path, "--count", "400") == 0
    told = capsys.readouterr().out
    assert [told.count(f"Of them for {name}") for name in ("Tiny", "Qwen3-8B")] == [1, 1]
    counts = [int(line.split()[1]) for line in told.splitlines() if line.startswith(" requests ")]
    assert counts[0] == 400 == counts[1] + counts[2]
    words = " ".join(told.split())
    assert "KV a request, Tiny mean 65.5 MB" in words
    assert "KV a request, Qwen3-8B mean 147 MB" in words


def test_a_study_depends_on_what_its_catalogues_hold(tmp_path: Path) -> None:
    study = load(written(tmp_path, OWN))
    assert [place for place, _ in files_of(study.scenario, study.source)] == [
        ("catalogue", "models"),
        ("catalogue", "gpus"),
    ]


def test_the_report_names_the_format(tmp_path: Path) -> None:
    study = load(written(tmp_path, OWN + "kv_format: fp8\n"))
    ready = stage(study.scenario, study.source)
    assert settings_of(study.scenario, ready)["model"] == "Tiny, KV cache as fp8"


def test_a_format_that_is_none_of_them_is_told_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as told:
        load(written(tmp_path, "kv_format: int4\n"))
    assert str(told.value).endswith("kv_format: 'int4' is unknown; write bf16 or fp16 or fp8")


@pytest.mark.parametrize(
    ("keys", "model", "complaint"),
    [
        ("catalogue: {models: none.csv}\n", "Tiny", "s.yaml:12: catalogue.models: "),
        ("catalogue: {gpus: models.csv}\n", "Qwen3-8B", "s.yaml:12: catalogue.gpus: "),
        ("", "Tiny", "s.yaml:4: model: 'Tiny': not in the catalogue"),
    ],
)
def test_a_bad_catalogue_is_told_with_its_place(
    keys: str, model: str, complaint: str, tmp_path: Path
) -> None:
    study = load(written(tmp_path, keys, model=model))
    with pytest.raises(ScenarioError) as told:
        stage(study.scenario, study.source)
    assert complaint in str(told.value)
    assert "\n" not in str(told.value)
