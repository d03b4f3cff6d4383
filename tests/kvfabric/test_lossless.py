"""Frames lost in a lossless class for want of memory are told wherever the times are."""

from pathlib import Path

import pytest

from analysis.brief import brief
from analysis.goodput import sentences
from analysis.record import read_study
from analysis.report import write_report
from analysis.result import Result, result
from analysis.table import table
from kvfabric.cli import main
from kvfabric.compare import run_study
from kvfabric.emulate import Outlook
from kvfabric.goodput import goodput
from kvfabric.load import load

TEXT = """\
name: short headroom
fabric: {family: leaf_spine, nic: 100Gbps, switch: {ports: 16, rate: 100Gbps, buffer: 3MiB}}
placement: {prefill: 8, decode: 8}
model: gpt-oss-120b
gpu: H100-SXM
policy: random
requests: {arrivals: {rate: 3000/s}, count: 20}
budget: {handoff: 1h, allowed: 50%}
network: {discipline: {ecn: off}, transport: {control: none}}
run: {seeds: 1, warmup: 0 requests}
"""
OVERRIDE = "network: {overrides: [{node: leaf0, headroom: 0KiB}], "
RULE = "compare: {network.discipline.headroom: [sonic, 0KiB]}\n"


def ran(tmp_path: Path, text: str) -> Result:
    path = tmp_path / "s.yaml"
    path.write_text(text, encoding="utf-8")
    run_study(
        load(path), tmp_path / "out", processes=1, progress=lambda *_: None, reproduce="again"
    )
    return result(read_study(tmp_path / "out"), tmp_path / "out")


def lossless(found: Result) -> list[str]:
    return [line for line in found.verdict.sentences if line.startswith("Not lossless:")]


def test_drops_of_a_short_headroom_are_told_first_with_what_to_change(tmp_path: Path) -> None:
    found = ran(tmp_path, TEXT.replace("network: {", OVERRIDE))
    frames = found.study.cells[0].manifest.totals["drops_lossless"]
    assert frames > 0
    assert found.verdict.choice is not None
    line = found.verdict.sentences[0]
    assert [line] == lossless(found)
    assert f"{frames:,} frames of a lossless class were dropped" in line
    assert "in leaf-spine with random, the choice." in line
    assert "its times cannot be trusted as those of a lossless fabric" in line
    assert "`network.discipline.headroom`" in line
    assert "`network.overrides`" in line
    assert not any(line.startswith("Packets were dropped") for line in found.verdict.sentences)


def test_every_table_of_verdicts_marks_the_alternative_that_lost_frames(tmp_path: Path) -> None:
    found = ran(tmp_path, TEXT + RULE)
    whole, short = found.summaries
    assert whole.lossless == 0 < short.lossless
    assert "in leaf-spine headroom=0KiB with random." in lossless(found)[0]
    from rich.console import Console

    console = Console(width=100)
    with console.capture() as shown:
        console.print(table(found.summaries, found.study.manifest))
    assert shown.get().count("not lossless") == 1
    assert brief(found).count("pass, not lossless") == 1
    text = write_report(tmp_path / "out", found).read_text("utf-8")
    assert text.count('<span class="fail">not lossless</span>') == 1
    head, *rows = (tmp_path / "out" / "summary.csv").read_text("utf-8").splitlines()
    place = head.split(",").index("drops_lossless")
    assert [row.split(",")[place] for row in rows] == ["0", str(short.lossless)]


@pytest.mark.parametrize("more", ["", "{pfc: false}"])
def test_nothing_is_told_where_headroom_suffices_or_no_class_is_lossless(
    tmp_path: Path, more: str
) -> None:
    found = ran(tmp_path, TEXT.replace("{ecn: off}", more or "{ecn: off}"))
    assert lossless(found) == []
    assert found.summaries[0].lossless == 0


def test_goodput_tells_it_first(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(TEXT + "slo: {ttft: 300ms}\n" + RULE, encoding="utf-8")
    whole, short = found = goodput(
        load(path), tmp_path / "out", precision=1.0, progress=lambda *_: None
    )
    assert whole.lossless == 0 < short.lossless
    line = sentences(found)[0]
    assert line.startswith(f"Not lossless: {short.lossless:,} frames of a lossless class were dro")
    assert "in leaf-spine headroom=0KiB with random." in line


def test_crosscheck_tells_it_before_what_each_emulator_leaves_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(TEXT.replace("network: {", OVERRIDE), encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["crosscheck", str(path), "--no-mininet", "--out", str(tmp_path / "out")])
    lines = capsys.readouterr().out.splitlines()
    (at,) = (n for n, line in enumerate(lines) if line.startswith("Not lossless: "))
    assert "in leaf-spine with random (packet)." in lines[at]
    assert lines[at + 1].startswith("bytes/bandwidth leaves out")


def test_real_frames_are_foretold_by_their_packets(tmp_path: Path) -> None:
    (cell,) = ran(tmp_path, TEXT.replace("network: {", OVERRIDE)).study.cells
    (line,) = Outlook(1000, "as given", 10**9, cell).not_lossless
    assert "dropped for want of buffer in leaf-spine with random." in line
