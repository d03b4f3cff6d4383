"""The keys of the hand-off: read with their units, told in the report, and served to the end."""

from pathlib import Path

import jsonschema
import msgspec
import numpy as np
import pytest

from kvfabric.build import policy_of, requests_of, stage
from kvfabric.handoff import handoff_of, handoff_told
from kvfabric.limit import not_modelled
from kvfabric.load import load
from kvfabric.quantity import Block, TokenBlock, read_quantity
from kvfabric.scenario import HandoffPart
from kvfabric.schema import scenario_schema
from kvfabric.source import ScenarioError, read_source
from traffic.handoff.flow import Handoff
from traffic.model import model
from traffic.serving.run import Outcome, serve

TEXT = """\
name: handoff
fabric: {family: leaf_spine, nic: 100Gbps, switch: {ports: 8, rate: 100Gbps}}
placement: {prefill: 8, decode: 8}
model: gpt-oss-120b
gpu: H100-SXM
requests: {arrivals: {rate: 400/s}, count: 6}
budget: {handoff: 5ms, allowed: 10%}
run: {seeds: 1}
instance: {prefill: {tp: TP_P}, decode: {tp: TP_D}}
handoff: {KEYS}
"""


def written(tmp_path: Path, keys: str, tp: tuple[int, int] = (1, 1)) -> Path:
    path = tmp_path / "s.yaml"
    text = TEXT.replace("TP_P", str(tp[0])).replace("TP_D", str(tp[1])).replace("KEYS", keys)
    path.write_text(text, encoding="utf-8")
    return path


def served(tmp_path: Path, keys: str, tp: tuple[int, int] = (1, 1)) -> Outcome:
    study = load(written(tmp_path, keys, tp))
    scenario, source = study.scenario, study.source
    ready = stage(scenario, source)
    requests, _ = requests_of(scenario, source, 1)
    return serve(
        requests,
        ready.deployment,
        policy_of(scenario, ready.hops, 1),
        ready.emulator("packet", 1),
        hops=ready.hops,
        latency_ps=ready.latency_ps,
        seed=1,
    )


def part(keys: str, tmp_path: Path) -> HandoffPart:
    return load(written(tmp_path, keys)).scenario.handoff


def test_a_block_is_written_in_bytes_or_in_tokens() -> None:
    size, tokens = read_quantity(Block, "64KiB"), read_quantity(Block, "16 tokens")
    assert (int(size), isinstance(size, TokenBlock)) == (65536, False)
    assert (int(tokens), isinstance(tokens, TokenBlock)) == (16, True)
    for wrong in ("16", "0 tokens", "-1 tokens", "1.5 tokens"):
        with pytest.raises(ValueError, match="write"):
            read_quantity(Block, wrong)


def test_without_keys_the_hand_off_is_the_one_that_the_traffic_room_defaults_to(
    tmp_path: Path,
) -> None:
    told = part("", tmp_path)
    assert handoff_of(told) == Handoff()
    assert handoff_told(told) == "push after prefill, blocks of 262 kB, 0 ps a descriptor"


def test_every_key_reaches_the_traffic_room_and_the_report(tmp_path: Path) -> None:
    keys = (
        "when: layer_wise, layers_per_chunk: 6, block: 16 tokens, merged: 25%, layout: hnd, "
        "staging: gpu, copy: 4Tbps, per_descriptor: 1us"
    )
    told = part(keys, tmp_path)
    assert handoff_of(told) == Handoff(
        when="layer_wise",
        layers_per_chunk=6,
        block_tokens=16,
        merged=0.25,
        layout="hnd",
        staging="gpu",
        copy_bps=4 * 10**12,
    )
    assert handoff_told(told) == (
        "push layer by layer, 6 layers a chunk, blocks of 16 tokens (0.25 of the borders merged), "
        "1 us a descriptor, layout hnd, staged on the GPU at 4 Tbps at both ends"
    )
    value = read_source(written(tmp_path, keys)).value
    jsonschema.validate(value, scenario_schema())
    value["handoff"]["block"] = "16 pages"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, scenario_schema())


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ("staging: gpu", "s.yaml:10: handoff.staging: gpu with a copy rate of 0"),
        ("direction: pull, when: layer_wise", "s.yaml:10: handoff.direction: pull"),
        ("merged: 50%", "s.yaml:10: handoff.merged: only blocks of tokens merge"),
        ("block: 16 pages", "s.yaml:10: handoff.block: "),
        ("block: 0B", "s.yaml:10: handoff.block: must be above 0"),
        ("block: 1B", "s.yaml:10: handoff.block: 1B a descriptor; write at least 256B, or tokens"),
    ],
)
def test_a_hand_off_that_cannot_be_is_told_with_its_place(
    tmp_path: Path, keys: str, told: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        served(tmp_path, keys)
    assert str(caught.value).replace(str(tmp_path / "s.yaml"), "s.yaml").startswith(told)


@pytest.mark.parametrize("tp", [(2, 4), (4, 2)])
@pytest.mark.parametrize(
    "keys",
    [
        "layout: hnd",
        "when: layer_wise, layers_per_chunk: 12",
        "direction: pull, block: 16 tokens",
        "staging: gpu, copy: 4Tbps",
    ],
)
def test_every_way_is_served_packet_by_packet_between_unequal_degrees(
    tmp_path: Path, keys: str, tp: tuple[int, int]
) -> None:
    outcome = served(tmp_path, keys, tp)
    table = outcome.requests
    assert (table["status"] == 0).all()
    found = model("gpt-oss-120b")
    expected = [found.kv_bytes(int(tokens)) for tokens in table["input_tokens"]]
    moved = np.zeros(len(expected), np.int64)
    np.add.at(moved, outcome.flows["handoff"], outcome.flows["bytes"])
    assert moved.tolist() == expected


def test_layer_wise_release_shortens_what_a_request_waits_after_its_prefill(
    tmp_path: Path,
) -> None:
    def waited(keys: str) -> float:
        table = served(tmp_path, keys).requests
        return float((table["kv_ready_ps"] - table["prefill_end_ps"]).mean())

    assert waited("when: layer_wise, layers_per_chunk: 1") < 0.5 * waited("when: after_prefill")


def test_a_slice_without_staging_waits_for_its_descriptors(tmp_path: Path) -> None:
    outcome = served(tmp_path, "block: 16 tokens, per_descriptor: 1us", (2, 4))
    table = outcome.requests
    rows = 2 * (18 * table["input_tokens"] + 18 * np.minimum(table["input_tokens"], 128))
    assert (table["kv_ready_ps"] - table["handoff_release_ps"] > rows * 10**6).all()


def test_what_is_not_modelled_follows_what_is_chosen(tmp_path: Path) -> None:
    def told(keys: str) -> str:
        return " ".join(not_modelled(load(written(tmp_path, keys)).scenario))

    plain = told("")
    for word in ("layer-wise", "unequal", "read request", "Staging"):
        assert word not in plain
    assert "no PCIe, memory-copy or host-processor limits" in plain
    assert "memory-copy" not in told("staging: gpu, copy: 4Tbps")
    assert "equal shares of the prefill" in told("when: layer_wise")
    assert "A read request is a delay" in told("direction: pull")


def test_a_block_in_the_file_is_kept_by_the_struct() -> None:
    found = msgspec.convert({"block": "32 tokens"}, HandoffPart, dec_hook=read_quantity)
    assert isinstance(found.block, TokenBlock)
