"""``kvfabric traffic``: what is drawn, exported and replayed, and what is refused."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from analysis.plot.arrival import arrival
from analysis.plot.tail import kv, length
from kvfabric.cli import main
from traffic.model import model
from traffic.request import request_table

SECOND = 10**12
SCENARIO = """\
name: small
fabric: {family: leaf_spine, nic: 100Gbps, switch: {ports: 8, rate: 100Gbps}}
placement: {prefill: 4, decode: 4}
model: gpt-oss-120b
gpu: H100-SXM
requests:
  arrivals: {process: on_off, rate: 400/s, burst: 10ms, lull: 10ms}
  tenants: [{name: a, share: 50%, priority: 2}, {name: b, share: 50%}]
  tokens_per_word: 2
  count: 40
budget: {handoff: 5ms, allowed: 10%}
run: {seeds: 1, warmup: 1 request, emulator: fluid}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return path


def kvfabric(*arguments: object) -> int:
    with pytest.raises(SystemExit) as left:
        main([str(a) for a in arguments])
    assert isinstance(left.value.code, int)
    return left.value.code


def test_an_export_is_read_back_and_exported_again_as_the_same_bytes(
    scenario: Path, tmp_path: Path
) -> None:
    one, other = tmp_path / "one.csv", tmp_path / "other.csv"
    assert kvfabric("traffic", "export", scenario, "--out", one) == 0
    assert kvfabric("traffic", "export", one, "--out", other) == 0
    assert one.read_bytes() == other.read_bytes()
    assert one.read_text().startswith("arrival_ps,input_tokens,output_tokens,tenant,priority\n")


def test_a_run_and_its_replay_give_the_same_requests_and_results(
    scenario: Path, tmp_path: Path
) -> None:
    table = tmp_path / "requests.csv"
    assert kvfabric("traffic", "export", scenario, "--out", table) == 0
    assert kvfabric("run", scenario, "--out", tmp_path / "a") == 0
    first = next((tmp_path / "a" / "cells").rglob("requests.parquet"))
    assert kvfabric("run", scenario, "--trace", table, "--out", tmp_path / "b") == 0
    replayed = next((tmp_path / "b" / "cells").rglob("requests.parquet"))
    for name in ("arrival_ps", "input_tokens", "output_tokens", "finish_ps"):
        assert column(first, name) == column(replayed, name)


def column(path: Path, name: str) -> list[int]:
    from pyarrow.parquet import read_table

    found: list[int] = read_table(path)[name].to_pylist()
    return found


def test_an_existing_file_is_not_replaced_by_an_export(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.csv").write_text("mine")
    assert kvfabric("traffic", "export", scenario, "--out", tmp_path / "mine.csv") == 2
    assert "exists; write another --out" in capsys.readouterr().err
    assert (tmp_path / "mine.csv").read_text() == "mine"
    assert kvfabric("traffic", "export", scenario, "--out", tmp_path / "no" / "a.csv") == 2


def test_show_draws_three_pictures_each_with_its_numbers(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "drawings"
    assert kvfabric("traffic", "show", scenario, "--plot", folder) == 0
    assert "at 2 tokens a word" in capsys.readouterr().out
    names = ("arrivals", "kv-bytes", "lengths")
    assert sorted(p.name for p in folder.iterdir()) == [
        f"{name}.{kind}" for name in names for kind in ("csv", "png", "svg")
    ]
    for name in names:
        ElementTree.parse(folder / f"{name}.svg")
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert len((folder / f"{name}.csv").read_text().splitlines()) > 2


def test_the_same_requests_are_drawn_as_the_same_bytes(scenario: Path, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        assert kvfabric("traffic", "show", scenario, "--plot", tmp_path / folder) == 0
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_a_tokeniser_table_holds_the_words_and_moves_the_bytes(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--ratio", "2", "--ratio", "3")
    assert kvfabric("traffic", "tokeniser", scenario, *asked) == 0
    told = capsys.readouterr().out
    rows = [line.split() for line in told.splitlines() if line.strip()[:2] in ("2 ", "3 ")]
    one, other = (int(row[1]) for row in rows)
    assert other == pytest.approx(1.5 * one, abs=1)
    assert "counted at 2 tokens a word" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("tokeniser", "TABLE"), "a trace names no model; write --model"),
        (("show", "SCENARIO", "--window", "0s", "1s"), "under requests.trace; write them there"),
        (("show", "SCENARIO", "--scale-length", "2"), "under requests.trace; write them there"),
        (("show", "SCENARIO", "--plot", "INSIDE"), "write another --plot folder"),
        (
            ("show", "TABLE", "--window", "1", "2"),
            "--window: duration '1': a number needs its unit",
        ),
    ],
)
def test_an_impossible_request_is_refused_in_one_line(
    scenario: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    told: str,
) -> None:
    table = tmp_path / "table.csv"
    table.write_text("arrival_s,input_tokens,output_tokens\n0,5,5\n1,6,6\n")
    places = {"TABLE": table, "SCENARIO": scenario, "INSIDE": table / "x"}
    assert kvfabric("traffic", *(places.get(a, a) for a in arguments)) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_the_arrival_picture_counts_every_request_once() -> None:
    at = np.sort(np.random.default_rng(1).integers(0, 3000 * SECOND, 5000))
    ones = np.ones(5000, np.int64)
    table = request_table(arrival_ps=at, input_tokens=ones, output_tokens=ones)
    plot = arrival(table, "test")
    assert len(plot.rows) <= 600
    assert sum(int(str(row[2])) for row in plot.rows) == 5000
    span = (at[-1] - at[0]) // SECOND + 1
    assert sum(float(str(row[1])) for row in plot.rows) == pytest.approx(span)


def test_a_run_below_twenty_seconds_is_counted_in_parts_of_a_second() -> None:
    at = [0, SECOND // 2, SECOND]
    plot = arrival(request_table(arrival_ps=at, input_tokens=[1] * 3, output_tokens=[1] * 3), "x")
    assert [row[2] for row in plot.rows if row[2]] == [1, 1, 1]
    assert plot.rows[0][3] == 100


def test_a_tail_falls_by_the_share_of_each_size() -> None:
    table = request_table(
        arrival_ps=[0, 1, 2, 3], input_tokens=[10, 20, 20, 40], output_tokens=[0, 1, 1, 2]
    )
    assert [row for row in length(table, "x").rows if row[0] == "input"] == [
        ("input", 4, 10.0, 1.0),
        ("input", 4, 20.0, 0.75),
        ("input", 4, 40.0, 0.25),
    ]
    weighed = kv(table, "x", model("Llama-3.1-8B")).rows
    assert [row[2:] for row in weighed] == [
        (1_310_720 / 1e6, 1.0),
        (2_621_440 / 1e6, 0.75),
        (5_242_880 / 1e6, 0.25),
    ]


def test_one_request_and_no_output_can_be_drawn() -> None:
    table = request_table(arrival_ps=[7], input_tokens=[10], output_tokens=[0])
    assert len(arrival(table, "x").rows) == 1
    assert len(length(table, "x").rows) == 2


def test_the_arrival_picture_tells_the_rate_of_the_table_and_none_of_one_moment() -> None:
    def title(at: list[int]) -> str:
        ones = [1] * len(at)
        table = request_table(arrival_ps=at, input_tokens=ones, output_tokens=ones)
        return arrival(table, "x").figure.axes[0].get_title(loc="left")

    assert title([7]) == "x\n1 request at one moment: no rate"
    assert title([7, 7]) == "x\n2 requests at one moment: no rate"
    told = title([0, 10 * 10**9, 50 * 10**9])
    assert "40 requests/s on average, 1,000 requests/s in the busiest 1 ms: 25 times" in told
