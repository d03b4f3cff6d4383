"""``kvfabric explain`` on a results folder, and the figures that the report gains from packets."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from analysis.brief import brief
from analysis.explain import story
from analysis.record import read_study
from analysis.report import plots
from analysis.result import result
from kvfabric.command.explain import command
from kvfabric.compare import run_study
from kvfabric.load import load
from topo.error import KvfabricError

TEXT = """\
name: told
fabric: {family: leaf_spine, nic: 100Gbps, switch: {ports: 16, rate: 100Gbps, buffer: 3MiB}}
placement: {prefill: 8, decode: 8}
model: gpt-oss-120b
gpu: H200-SXM
requests: {arrivals: {rate: 8000/s}, count: 40}
network: {transport: {control: none}, discipline: {ecn: off}}
budget: {handoff: 4ms, allowed: 10%}
run: {seeds: 1}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("explain")
    (home / "s.yaml").write_text(TEXT, encoding="utf-8")
    run_study(
        load(home / "s.yaml"), home / "out", processes=1, progress=lambda *_: None, reproduce=""
    )
    return home / "out"


def told(*arguments: str) -> str:
    done = CliRunner().invoke(command, list(arguments))
    if done.exception is not None:
        raise done.exception
    return done.output


def test_the_slowest_is_told_when_none_is_asked_for(place: Path) -> None:
    slow = told(str(place))
    found = result(read_study(place), place)
    assert "moving the bytes" in slow
    assert "messages and control delay" in slow
    (sample,) = found.samples
    (part,) = sample.handoffs
    number = int(part.request[part.duration.argmax()])
    assert f"hand-off {number} of" in slow
    assert told(str(place), "--handoff", str(number)) == slow


def test_the_report_shows_blame_the_slowest_hand_off_and_the_pauses(place: Path) -> None:
    made = {plot.name: plot for plot in plots(result(read_study(place), place))}
    steps = made["explain"].rows
    (sample,) = result(read_study(place), place).samples
    assert sum(int(str(row[4])) for row in steps) == sample.handoffs[0].duration.max()
    shares = [row for row in made["blame"].rows if row[4] == "moving the bytes"]
    assert len(shares) == 1
    assert made["pauses"].rows


@pytest.mark.parametrize(
    ("asked", "told_back"),
    [
        (("--handoff", "999"), "hand-off 999: none that ended after the warm-up"),
        (("--handoff", "worst"), "--handoff 'worst': write a request's number, or slowest"),
        (("--seed", "77"), "--seed 77: not in .*; it has 1"),
        (("--policy", "foo"), "--policy foo: not in .*; it has "),
    ],
)
def test_what_cannot_be_told_is_refused_in_a_line(
    place: Path, asked: tuple[str, str], told_back: str
) -> None:
    with pytest.raises(KvfabricError, match=told_back):
        told(str(place), *asked)


def test_the_steps_of_every_hand_off_follow_one_another(place: Path) -> None:
    from analysis.witness import seen

    (cell,) = read_study(place).cells
    witness = seen(cell, place)
    assert witness is not None
    for request in range(5):
        steps = story(witness, request).steps
        for one, after in pairwise(steps):
            assert one.since_ps + one.ps == after.since_ps


def test_only_a_step_that_is_no_sum_is_told_with_the_moment_it_began(place: Path) -> None:
    slow = told(str(place))
    lines = [line.split() for line in slow.splitlines()]
    when = {
        cause: " ".join(line[:2])
        for line in lines
        for cause in ("messages", "moving", "queue")
        if cause in line
    }
    assert when == {"messages": "from 0", "moving": "while sending", "queue": "last packet"}


def test_a_lost_frame_is_told_with_the_timeouts_that_it_cost(tmp_path: Path) -> None:
    lossy = TEXT.replace("{ecn: off}", "{pfc: off, ecn: off}")
    (tmp_path / "s.yaml").write_text(lossy, encoding="utf-8")
    out = tmp_path / "out"
    run_study(load(tmp_path / "s.yaml"), out, processes=1, progress=lambda *_: None, reproduce="")
    slow = " ".join(told(str(out)).split())
    assert re.search(r"while sending .* retransmission .* \d+ timeouts of 67\.1 ms", slow)
    found = result(read_study(out), out)
    (cell,), (blamed,) = found.study.cells, found.blames.values()
    assert cell.manifest.totals["retransmission_timer_ps"] == 67_108_864_000
    assert re.fullmatch(r"[\d,]+ timeouts of 67\.1 ms", blamed.timeouts)
    assert f"; {blamed.timeouts}" in brief(found)
    (line,) = [line for line in found.verdict.sentences if line.startswith("Retransmission")]
    met = np.unique(cell.flows["handoff"][cell.flows["timeouts"] > 0])
    assert f": {len(met)} of 40 hand-offs of leaf-spine with " in line
    assert f" met {cell.flows['timeouts'].sum():,} timeouts of 67.1 ms. A flow waits" in line


def test_of_a_hand_off_that_never_ended_it_says_what_it_would_have_taken(tmp_path: Path) -> None:
    slow = TEXT.replace("100Gbps", "1Mbps").replace("8000/s}, count: 40", "8/s}, count: 1")
    (tmp_path / "s.yaml").write_text(slow, encoding="utf-8")
    out = tmp_path / "out"
    run_study(load(tmp_path / "s.yaml"), out, processes=1, progress=lambda *_: None, reproduce="")
    for asked in ((), ("--handoff", "0")):
        with pytest.raises(
            KvfabricError,
            match=r"^hand-off 0: did not end in the 100 s from its release to the end of the run; "
            r"alone on the idle fabric it takes \d+ s, and [\d,]+ timeouts of 67\.1 ms "
            r"sent [\d.]+ MB again; write faster links or shorter prompts$",
        ):
            told(str(out), *asked)
