"""The same flows through every emulator: the same hand-offs, told side by side."""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from emulate.mininet.error import EmulationError
from emulate.mininet.guard import Limits, Verdict
from kvfabric.command.crosscheck import command
from kvfabric.compare import jobs_of
from kvfabric.crosscheck import MININET, PACKET, Checked, Crosscheck, Rehearsal, cheap, rehearsed
from kvfabric.load import load

SCENARIO = Path(__file__).parents[2] / "scenarios" / "real-frames.yaml"


@pytest.fixture(name="heard", scope="module")
def _heard() -> Rehearsal:
    study = load(SCENARIO, overrides={("requests", "count"): 30}, compare=False)
    return rehearsed(jobs_of(study)[0])


def test_a_handoff_lasts_from_its_first_release_to_its_last_byte(heard: Rehearsal) -> None:
    times = heard.handoff_ps(heard.finish_ps)
    assert len(times) == 30
    own = heard.flows[heard.flows["handoff"] == 7]
    place = heard.flows["handoff"] == 7
    assert times[7] == heard.finish_ps[place].max() - own["release_ps"].min()


def test_a_handoff_without_its_last_flow_never_ended(heard: Rehearsal) -> None:
    finish = heard.finish_ps.copy()
    finish[np.flatnonzero(heard.flows["handoff"] == 7)[0]] = -1
    assert heard.handoff_ps(finish)[7] == -1
    assert (np.delete(heard.handoff_ps(finish), 7) > 0).all()


def test_each_emulator_sees_more_than_the_one_before(heard: Rehearsal) -> None:
    alone, fluid, packet = cheap(heard)
    assert (alone.handoff_ps < fluid.handoff_ps).all()
    assert alone.quantile_ps(0.5) < fluid.quantile_ps(0.5) <= packet.quantile_ps(0.5)
    assert (alone.marked, alone.pauses) == (None, None)


def test_the_shipped_scenario_has_two_hundred_handoffs_with_pauses_and_marks() -> None:
    job = jobs_of(load(SCENARIO, compare=False))[0]
    heard = rehearsed(job)
    *_, packet = cheap(heard)
    assert len(packet.handoff_ps) == 200
    assert packet.pauses
    assert packet.marked
    assert packet.drops == 0
    # Each is at least ten times what a port holds before it stops its peer: alpha of the pool that
    # headrooms leave, and the reserve.
    size = np.bincount(heard.flows["handoff"], heard.flows["bytes"])
    rules = job.stage.discipline
    ports = job.stage.fabric.ports
    for node in job.stage.fabric.switches:
        own = slice(int(ports.first[node.index]), int(ports.first[node.index + 1]))
        kept = int(heard.setup.headroom()[own].sum())
        kept += (own.stop - own.start) * rules.reserve_bytes
        assert node.switch is not None
        xoff = rules.alpha * (node.switch.buffer_bytes - kept) + rules.reserve_bytes
        assert size.min() >= 10 * xoff


def test_a_handoff_of_several_flows_lasts_as_long_as_all_of_them(heard: Rehearsal) -> None:
    flows = heard.flows[:3].copy()
    flows["handoff"] = [5, 5, 9]
    flows["release_ps"] = [10, 20, 30]
    several = Rehearsal(flows, 3, heard.packet, heard.setup)
    assert several.handoff_ps(np.array([40, 70, 35])).tolist() == [60, 5]
    assert several.handoff_ps(np.array([40, -1, 35])).tolist() == [-1, 5]


@pytest.mark.parametrize(
    ("times", "off", "agrees"),
    [
        ((100, 100), (0.0, 0.0), True),
        ((109, 119), (0.09, 0.19), True),
        ((111, 115), (0.11, 0.15), False),
        ((100, 121), (0.0, 0.21), False),
        ((100, -1), (0.0, np.inf), False),
    ],
)
def test_agreement_is_within_a_tenth_and_a_fifth(
    times: tuple[int, int], off: tuple[float, float], agrees: bool
) -> None:
    packet = Checked(PACKET, np.full(200, 100))
    frames = Checked(MININET, np.array([times[0]] * 189 + [times[1]] * 11))
    found = Crosscheck((packet, frames))
    assert found.off == pytest.approx(off)
    assert found.agrees is agrees


@pytest.mark.parametrize(("count", "beyond"), [(50, 10), (20, 10), (12, 6), (200, 10), (400, 20)])
def test_the_tail_is_read_where_ten_handoffs_lie_beyond(count: int, beyond: int) -> None:
    packet = Checked(PACKET, np.full(count, 100))
    for late in (beyond, beyond + 1):
        frames = Checked(MININET, np.array([100] * (count - late) + [500] * late))
        assert Crosscheck((packet, frames)).agrees is (late == beyond)


def test_without_frames_there_is_nothing_to_agree() -> None:
    assert Crosscheck((Checked(PACKET, np.full(20, 100)),)).agrees is None


def _run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(command, arguments, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.output


def _able(monkeypatch: pytest.MonkeyPatch, on_frames: Callable[..., object]) -> None:
    """A machine that can, and what real frames give there."""
    monkeypatch.setattr("emulate.mininet.support.may_emulate", lambda: None)
    monkeypatch.setattr("kvfabric.crosscheck.refuse_real", lambda *_, **__: None)
    monkeypatch.setattr("kvfabric.crosscheck.on_frames", on_frames)


def test_the_command_writes_a_table_and_a_plot(tmp_path: Path) -> None:
    code, told = _run(str(SCENARIO), "--no-mininet", "--count", "20", "--out", str(tmp_path))
    assert code == 0
    assert "20 hand-offs" in told
    assert "Mininet left out: --no-mininet" in told
    for name in ("bytes/bandwidth", "fluid", "packet"):
        assert f"{name} leaves out" in told
    with (tmp_path / "crosscheck.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 20
    assert all(int(row["bytes/bandwidth_ps"]) < int(row["packet_ps"]) for row in rows)
    drawn = (tmp_path / "crosscheck.svg").read_bytes()
    assert drawn.startswith(b"<?xml")
    assert b"mathdefault" not in drawn


def test_an_invalid_run_shows_no_number_and_exits_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = (Checked(MININET, np.full(20, 123_456_789)), Verdict("invalid", [], Limits()), 777)
    _able(monkeypatch, lambda *_, **__: broken)
    code, told = _run(str(SCENARIO), "--count", "20", "--out", str(tmp_path))
    assert code == 1
    assert "Mininet withheld: invalid" in told
    assert "123" not in told.partition("packet leaves out")[0].partition("\n")[2]
    assert "Mininet_ps" not in (tmp_path / "crosscheck.csv").read_text()


def test_an_interrupted_run_is_held_against_the_hand_offs_that_had_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(heard: Rehearsal, **_: object) -> tuple[Checked, Verdict, int]:
        times = heard.handoff_ps(heard.finish_ps) * 2
        times[::2] = -1
        return Checked(MININET, times, partial=True), Verdict("valid", [], Limits()), 777

    _able(monkeypatch, half)
    code, told = _run(str(SCENARIO), "--count", "20", "--out", str(tmp_path))
    assert code == 130
    row = next(line for line in told.splitlines() if "partial: 10 of 20" in line)
    assert "(+100.0%)" in row  # each took twice as long, and is held against itself
    assert "interrupted: what is complete is kept" in told
    times = [row["Mininet_ps"] for row in _table(tmp_path)]
    assert times.count("-1") == 10


def test_an_interruption_before_anything_was_complete_keeps_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    _able(monkeypatch, interrupted)
    code, told = _run(str(SCENARIO), "--count", "20", "--out", str(tmp_path))
    assert code == 130
    assert "Mininet left out: interrupted" in told
    assert "packet_ps" in _table(tmp_path)[0]


def test_rates_are_told_by_pair_and_the_file_says_who_sent_what(tmp_path: Path) -> None:
    incast = SCENARIO.with_name("incast.yaml")
    given = ("--alternative", "2", "--pairs", "--no-mininet", "--out", str(tmp_path))
    code, told = _run(str(incast), *given)
    assert code == 0
    told = told.partition("Rate of each pair, Gbps: median (slowest)")[2]
    lines = [line.split() for line in told.splitlines() if line.strip().startswith("h")]
    assert [line[:3] for line in lines] == [[f"h{i}", "h4", "2"] for i in range(3)] + [
        ["h3", "h5", "2"]
    ]
    rows = [row for row in _table(tmp_path) if row["from"] == "h3"]
    rates = [int(row["bytes"]) * 8000 / int(row["packet_ps"]) for row in rows]
    assert lines[3][-2:] == [f"{np.median(rates):.3g}", f"({min(rates):.3g})"]


def _table(place: Path) -> list[dict[str, str]]:
    with (place / "crosscheck.csv").open() as file:
        return list(csv.DictReader(file))


def test_frames_that_cannot_be_are_left_out_unless_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise EmulationError("dilation 9: takes too long")

    _able(monkeypatch, refused)
    code, told = _run(str(SCENARIO), "--count", "20", "--out", str(tmp_path))
    assert code == 0
    assert "Mininet left out: dilation 9: takes too long" in told
    with pytest.raises(EmulationError, match="takes too long"):
        _run(str(SCENARIO), "--count", "20", "--out", str(tmp_path), "--mininet")


def test_what_real_frames_do_not_know_is_compared_without_them(tmp_path: Path) -> None:
    lines = SCENARIO.read_text().splitlines(keepends=True)
    kept = "".join(line for line in lines if not line.startswith("  discipline:"))
    text = kept.replace(
        "{kind: rocev2, control: dcqcn, preset: connectx}", "{kind: infiniband, credits: 8KiB}"
    )
    scenario = tmp_path / "credits.yaml"
    scenario.write_text(text)
    code, told = _run(str(scenario), "--count", "10", "--out", str(tmp_path / "out"))
    assert code == 0
    assert "Mininet left out" in told
    assert "packet leaves out" in told
