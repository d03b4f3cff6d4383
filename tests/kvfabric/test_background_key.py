"""The keys around a hand-off and beside it: background, orchestration, kept blocks, dp."""

from pathlib import Path

import jsonschema
import numpy as np
import pytest
from numpy.typing import NDArray

from analysis.record import Cell
from kvfabric.build import stage
from kvfabric.compare import jobs_of
from kvfabric.limit import not_modelled
from kvfabric.load import load
from kvfabric.run import run_cell, settings_of
from kvfabric.schema import scenario_schema
from kvfabric.source import ScenarioError, read_source
from traffic.emulator import Table

MS = 10**9
TEXT = """\
name: beside
fabric: {family: leaf_spine, nic: 100Gbps, switch: {ports: 16, rate: 100Gbps}, gpus_per_server: 4}
placement: {prefill: 8, decode: 8, storage: 4}
model: MODEL
gpu: H200-SXM
requests: {arrivals: {rate: 400/s}, count: 8}
budget: {handoff: 5ms, allowed: 10%}
run: {seeds: 1, emulator: EMULATOR}
"""


def written(
    tmp_path: Path, more: str, emulator: str = "packet", kind: str = "gpt-oss-120b"
) -> Path:
    path = tmp_path / "s.yaml"
    text = TEXT.replace("EMULATOR", emulator).replace("MODEL", kind)
    path.write_text(text + more, encoding="utf-8")
    return path


def run(
    tmp_path: Path, more: str = "", emulator: str = "packet", kind: str = "gpt-oss-120b"
) -> Cell:
    (job,) = jobs_of(load(written(tmp_path, more, emulator, kind)))
    assert job.impossible is None
    return run_cell(job)


def whole(table: Table, name: str) -> NDArray[np.int64]:
    return table[name].astype(np.int64)


def mean(table: Table, name: str, less: str | None = None) -> float:
    return float((whole(table, name) - (whole(table, less) if less else 0)).mean())


BESIDE = """\
background:
  - {kind: all_to_all, among: decode, group: 4, bytes: 2MiB, every: 1ms, duty: 50%, cycle: 20ms}
  - {name: loads, kind: weights, among: prefill, group: 4, bytes: 20MB, every: 10ms}
  - {kind: fetch, among: prefill, bytes: 1MiB, every: 4ms, priority: 4}
"""


@pytest.mark.parametrize("emulator", ["packet", "fluid"])
def test_background_slows_hand_offs_down_and_is_told_apart_from_them(
    tmp_path: Path, emulator: str
) -> None:
    alone, beside = run(tmp_path, emulator=emulator), run(tmp_path, BESIDE, emulator)
    assert set(beside.flows["handoff"].tolist()) == set(range(8))
    assert beside.flows["bytes"].tolist() == alone.flows["bytes"].tolist()

    assert mean(beside.flows, "finish_ps", "release_ps") > mean(
        alone.flows, "finish_ps", "release_ps"
    )
    assert mean(beside.flows, "maxmin_ps") > mean(alone.flows, "maxmin_ps")
    totals = beside.manifest.totals
    for name in ("all_to_all", "loads", "fetch"):
        assert totals[f"background.{name}.bytes"] > 0
        assert totals[f"background.{name}.finished"] <= totals[f"background.{name}.flows"]
    own = int(whole(beside.flows, "bytes").sum())
    others = sum(totals[f"background.{n}.bytes_finished"] for n in ("all_to_all", "loads", "fetch"))
    sent = whole(beside.ports, "tx_bytes")[whole(beside.ports, "tier") == 0]
    assert int(sent.sum()) > own + others  # the wire carries both, and headers


def test_a_run_with_background_is_the_same_every_time(tmp_path: Path) -> None:
    one, other = run(tmp_path, BESIDE), run(tmp_path, BESIDE)
    for name in ("flows", "requests", "ports"):
        for column, values in one.table(name).items():
            assert values.tolist() == other.table(name)[column].tolist()
    assert one.manifest.totals == other.manifest.totals


def test_the_report_says_what_is_beside_the_hand_offs_and_around_them(tmp_path: Path) -> None:
    more = BESIDE + (
        "handoff: {cache: 2GB, staging: host, copy: 2Tbps, orchestration: {dispatch: 1ms, "
        "routers: 2, handshake: 3ms, align: true, message: 1KiB}}\n"
        "instance: {decode: {tp: 4, dp: 2}}\n"
    )
    path = written(tmp_path, more)
    jsonschema.validate(read_source(path).value, scenario_schema())
    study = load(path)
    told = settings_of(study.scenario, stage(study.scenario, study.source))
    assert told["orchestration"] == (
        "dispatch 1 ms, 2 at a time, handshake 3 ms once a pair of instances, posted at a step "
        "boundary of the decode engine, control messages of 1.02 kB over the fabric"
    )
    assert (
        "all_to_all of 2.1 MB every 1 ms among decode in groups of 4, 50% of each 20 ms"
        in (told["background"])
    )
    assert "through the server's memory at 2 Tbps" in told["hand-off"]
    assert "2 GB of earlier prompts kept" in told["hand-off"]
    assert told["decode"].startswith("2 x H200-SXM, tp 4, attention dp 2")
    limits = " ".join(not_modelled(study.scenario))
    assert "Nothing but hand-offs" not in limits
    assert "197 ms" not in limits
    assert "197 ms" in " ".join(not_modelled(load(written(tmp_path, "")).scenario))


def test_orchestration_adds_itself_to_every_hand_off(tmp_path: Path) -> None:
    plain = run(tmp_path).requests
    late = run(tmp_path, "handoff: {orchestration: {dispatch: 32ms}}\n").requests
    for table, extra in ((plain, 0), (late, 32 * MS)):
        assert np.all(
            whole(table, "dispatched_ps") - whole(table, "admitted_ps") == extra + 20 * 10**6
        )


def test_control_messages_cross_the_fabric_and_are_no_hand_offs(tmp_path: Path) -> None:
    cell = run(tmp_path, "handoff: {orchestration: {message: 1KiB}}\n")
    number = whole(cell.flows, "handoff")
    assert sorted(set(number[number < 0].tolist())) == list(range(-8, 0))
    assert set(cell.flows["bytes"][number < 0].tolist()) == {1024}
    assert int((number < 0).sum()) == 16
    gap = whole(cell.requests, "kv_ready_ps") - whole(cell.requests, "arrived_ps")
    assert int(gap.min()) > 20 * 10**6


def test_an_mla_model_hands_over_to_the_data_parallel_rank_that_owns_the_request(
    tmp_path: Path,
) -> None:
    more = "instance: {prefill: {tp: 8}, decode: {tp: 8, dp: 8}}\n"
    cell = run(tmp_path, more, kind="DeepSeek-V3")
    assert len(cell.flows["handoff"]) == 8  # one rank owns it: one flow of the whole latent
    assert len(set(cell.flows["destination"].tolist())) == 8
    assert cell.flows["bytes"].tolist() == cell.requests["kv_bytes"].tolist()


def test_sixteen_ranks_hand_over_to_twenty_four_and_the_report_says_that_nobody_does(
    tmp_path: Path,
) -> None:
    more = "instance: {prefill: {tp: 16}, decode: {tp: 24}}\n"
    path = written(tmp_path, more, "fluid", "Mixtral-8x22B")
    text = path.read_text().replace("prefill: 8, decode: 8", "prefill: 16, decode: 24")
    path.write_text(text.replace("count: 8", "count: 2"))
    study = load(path)
    (job,) = jobs_of(study)
    cell = run_cell(job)
    assert set(whole(cell.requests, "status").tolist()) == {0}
    assert len(cell.flows["handoff"]) == 2 * 24
    # 8 KV heads on 24 ranks: each of them is held, and moved, three times.
    assert int(whole(cell.flows, "bytes").sum()) == 3 * int(whole(cell.requests, "kv_bytes").sum())
    assert "from 16 to 24 ranks, of which neither divides" in " ".join(not_modelled(study.scenario))


def test_twenty_microseconds_a_message_are_told_apart_from_what_they_cause(tmp_path: Path) -> None:
    spans = "instance: {prefill: {tp: 8}, decode: {tp: 8}}\ncollective: {extra: EXTRA}\n"
    cells = [run(tmp_path, spans.replace("EXTRA", extra)) for extra in ("0us", "20us")]
    one, other = (cell.manifest.totals for cell in cells)
    output = whole(cells[0].requests, "output_tokens")
    # 36 layers, 2 all-reduces each, and a ring of the 3 servers that 8 neighbours lie in: 4 hops.
    messages = 36 * 2 * 4 * int((1 + output).sum())
    assert one["collective.messages"] == other["collective.messages"] == messages
    more = other["collective.latency_ps"] - one["collective.latency_ps"]
    assert more == messages * 20 * 10**6
    late = [mean(c.requests, "finish_ps", "arrival_ps") for c in cells]
    assert 8 * (late[1] - late[0]) > more  # and the waiting that it causes
    assert one["collective.requests"] == 8
    # Its eight ranks wait once a prompt and once a step, which the batch shares.
    idle = other["collective.gpu_ps"] - one["collective.gpu_ps"]
    lone = 36 * 2 * 4 * 20 * 10**6 * 8
    assert lone * (8 + int(output.max())) <= idle < lone * (8 + int(output.sum()))
    alone = run(tmp_path, "collective: {}\n")
    assert "collective.messages" not in alone.manifest.totals
    assert alone.manifest.settings["collectives"].endswith("decode: none spans servers")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("background: [{kind: gossip, bytes: 1MB, every: 1ms}]", "background"),
        ("background: [{kind: fetch, bytes: 1MB, every: 1ms, group: 2}]", "a fetch has no group"),
        (
            "background: [{kind: all_to_all, bytes: 1MB, every: 1ms, group: 5}]",
            "16 hosts do not divide into groups of 5",
        ),
        (
            "background: [{kind: fetch, bytes: 1MB, every: 1ms}, "
            "{kind: fetch, bytes: 1MB, every: 1ms}]",
            "fetch: is there twice; give one of them a `name`",
        ),
        ("instance: {decode: {tp: 4, dp: 3}}", "4 ranks do not divide into so many groups"),
        ("handoff: {orchestration: {routers: 2}}", "without a dispatch time"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_with_its_place(
    tmp_path: Path, more: str, told: str
) -> None:
    with pytest.raises(ScenarioError, match=told) as caught:
        jobs_of(load(written(tmp_path, more + "\n")))
    assert str(caught.value).startswith(str(tmp_path / "s.yaml:9"))
    assert "\n" not in str(caught.value)
