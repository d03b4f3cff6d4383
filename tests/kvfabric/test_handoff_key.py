"""The keys of the hand-off: read with their units, told in the report, and served to the end."""

from collections.abc import Callable
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

Write = Callable[..., Path]


def written(write: Write, keys: str, tp: tuple[int, int] = (1, 1)) -> Path:
    return write(
        f"handoff: {{{keys}}}\n",
        requests="{arrivals: {rate: 400/s}, count: 6}",
        run="{seeds: 1}",
        instance=f"{{prefill: {{tp: {tp[0]}}}, decode: {{tp: {tp[1]}}}}}",
    )


def served(write: Write, keys: str, tp: tuple[int, int] = (1, 1)) -> Outcome:
    study = load(written(write, keys, tp))
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


def part(keys: str, write: Write) -> HandoffPart:
    return load(written(write, keys)).scenario.handoff


def test_a_block_is_written_in_bytes_or_in_tokens() -> None:
    size, tokens = read_quantity(Block, "64KiB"), read_quantity(Block, "16 tokens")
    assert (int(size), isinstance(size, TokenBlock)) == (65536, False)
    assert (int(tokens), isinstance(tokens, TokenBlock)) == (16, True)
    for wrong in ("16", "0 tokens", "-1 tokens", "1.5 tokens"):
        with pytest.raises(ValueError, match="write"):
            read_quantity(Block, wrong)


def test_without_keys_the_hand_off_is_the_one_that_the_traffic_room_defaults_to(
    write: Write,
) -> None:
    told = part("", write)
    assert handoff_of(told) == Handoff()
    assert handoff_told(told) == "push after prefill, blocks of 262 kB, 0 s a descriptor"


def test_every_key_reaches_the_traffic_room_and_the_report(write: Write) -> None:
    keys = (
        "when: layer_wise, layers_per_chunk: 6, block: 16 tokens, merged: 25%, layout: hnd, "
        "staging: gpu, copy: 4Tbps, per_descriptor: 1us"
    )
    told = part(keys, write)
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
    value = read_source(written(write, keys)).value
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
    write: Write, keys: str, told: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        served(write, keys)
    assert f"/{told}" in str(caught.value)


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
    write: Write, keys: str, tp: tuple[int, int]
) -> None:
    outcome = served(write, keys, tp)
    table = outcome.requests
    assert (table["status"] == 0).all()
    found = model("gpt-oss-120b")
    expected = [found.kv_bytes(int(tokens)) for tokens in table["input_tokens"]]
    moved = np.zeros(len(expected), np.int64)
    np.add.at(moved, outcome.flows["handoff"], outcome.flows["bytes"])
    assert moved.tolist() == expected


def test_layer_wise_release_shortens_what_a_request_waits_after_its_prefill(
    write: Write,
) -> None:
    def waited(keys: str) -> float:
        table = served(write, keys).requests
        return float((table["kv_ready_ps"] - table["prefill_end_ps"]).mean())

    assert waited("when: layer_wise, layers_per_chunk: 1") < 0.5 * waited("when: after_prefill")


def test_a_slice_without_staging_waits_for_its_descriptors(write: Write) -> None:
    outcome = served(write, "block: 16 tokens, per_descriptor: 1us", (2, 4))
    table = outcome.requests
    rows = 2 * (18 * table["input_tokens"] + 18 * np.minimum(table["input_tokens"], 128))
    assert (table["kv_ready_ps"] - table["handoff_release_ps"] > rows * 10**6).all()


def test_what_is_not_modelled_follows_what_is_chosen(write: Write) -> None:
    def told(keys: str) -> str:
        return " ".join(not_modelled(load(written(write, keys)).scenario))

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
