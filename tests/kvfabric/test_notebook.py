"""The notebook face: tables, frames and figures of a results folder, without running anything."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import kvfabric
from analysis.error import RecordError, SummaryError
from kvfabric import Results
from kvfabric.cli import main
from topo.error import KvfabricError

SCENARIO = """\
name: book
fabric: {family: leaf_spine, nic: 100Gbps, switch: {ports: 8, rate: 100Gbps}}
placement: {prefill: 4, decode: 4}
model: gpt-oss-120b
gpu: H100-SXM
requests: {arrivals: {rate: 400/s}, count: 30}
budget: {handoff: 30ms, allowed: 10%}
slo: {ttft: 500ms}
run: {seeds: 2, emulator: fluid, warmup: 5 requests}
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Results:
    home = tmp_path_factory.mktemp("book")
    (home / "book.yaml").write_text(SCENARIO, encoding="utf-8")
    with pytest.raises(SystemExit) as left:
        main(["run", str(home / "book.yaml"), "--out", str(home / "out"), "--jobs", "1"])
    assert left.value.code == 0
    return kvfabric.results(home / "out")


def test_every_table_has_the_rows_of_every_cell(found: Results) -> None:
    rows = {name: found.table(name).num_rows for name in found.tables}
    assert rows["summary"] == 1
    assert rows["requests"] == rows["flows"] == 60
    # five a seed are warm-up
    assert rows["handoffs"] == rows["budgets"] == 50
    requests = found.table("requests")
    assert set(requests["seed"].to_pylist()) == {1, 2}
    assert str(requests.schema.field("arrival_ps").type) == "int64"


def test_hand_off_times_are_those_of_the_summary(found: Results) -> None:
    times = sorted(found.table("handoffs")["duration_ps"].to_pylist())
    assert found.table("summary")["handoff_p50_ms"].to_pylist() == [times[24] / 1e9]


def test_measures_have_their_intervals_in_base_units(found: Results) -> None:
    rows = {row["measure"]: row for row in found.table("measures").to_pylist()}
    share = rows["over_budget"]
    assert share["unit"] == "share"
    assert share["low"] <= share["value"] <= share["high"]
    assert "handoff_p99" not in rows


def test_an_unknown_table_or_plot_is_told_with_those_there_are(found: Results) -> None:
    with pytest.raises(SummaryError, match="write one of requests, flows, ports, handoffs"):
        found.table("nothing")
    with pytest.raises(KvfabricError, match="these results have handoff-ccdf"):
        found.plot("nothing")


def test_frames_need_pandas_and_say_so(found: Results) -> None:
    if importlib.util.find_spec("pandas") is None:
        with pytest.raises(KvfabricError, match="pandas is not installed"):
            found.frame()
    else:
        assert len(found.frame("requests")) == 60


def test_a_figure_can_be_restyled_and_saved(found: Results, tmp_path: Path) -> None:
    drawing = found.plot("handoff-ccdf")
    (panel,) = drawing.axes
    panel.set_title("mine")
    drawing.save(tmp_path / "tail.svg")
    assert "mine" in (tmp_path / "tail.svg").read_text("utf-8")
    assert "mine" in drawing._repr_svg_()
    assert drawing.table.column_names == ["fabric", "policy", "n", "handoff_ms", "share_longer"]
    with pytest.raises(KvfabricError, match=r"write a .svg or .png"):
        drawing.save(tmp_path / "tail.nothing")


def test_conditions_and_differences_are_those_of_the_command_line(found: Results) -> None:
    assert found.holds("drops==0")
    assert not found.holds("handoff_mean>1s")
    assert found.diff(found).headline.startswith("No difference found")
    assert found._repr_markdown_().startswith("## book")


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"study\.json"):
        kvfabric.results(tmp_path)


def test_the_package_is_imported_without_its_libraries() -> None:
    code = "import sys, kvfabric; print(len({'numpy', 'pyarrow', 'matplotlib'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
