"""When a hand-off's flows are released: after the prefill, layer by layer, pulled, or staged."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topo.error import KvfabricError
from traffic.instance import Deployment
from traffic.model import model
from traffic.policy.registry import POLICIES
from traffic.request import RequestTable, request_table
from traffic.serving.run import Outcome

US = 10**6
MS = 10**9
DELAY = 20 * US
WIRE = 5 * US
LLAMA = model("Llama-3.1-8B")
LAYERS = 32


def one(tokens: int = 550, output: int = 10) -> RequestTable:
    return request_table(arrival_ps=[7], input_tokens=[tokens], output_tokens=[output])


@pytest.mark.parametrize("per_chunk", [1, 8, 32])
def test_chunks_are_released_at_equal_fractions_of_the_prefill_and_the_last_at_its_end(
    per_chunk: int,
    pools: Callable[..., Deployment],
    run: Callable[..., Outcome],
    row: Callable[..., dict[str, int]],
) -> None:
    deployment = pools(when="layer_wise", layers_per_chunk=per_chunk)
    outcome = run(one(), deployment)
    got = row(outcome)
    took = deployment.prefill.prefill_cost.ps(550)
    assert got["prefill_end_ps"] - got["prefill_start_ps"] == took
    chunks = LAYERS // per_chunk
    assert outcome.flows["release_ps"].tolist() == [
        got["prefill_start_ps"] + took * (i + 1) // chunks + DELAY for i in range(chunks)
    ]
    assert outcome.flows["bytes"].tolist() == [LLAMA.kv_bytes(550) // chunks] * chunks
    assert got["handoff_release_ps"] == int(outcome.flows["release_ps"][0])
    assert got["kv_ready_ps"] == got["prefill_end_ps"] + DELAY + WIRE
    assert len(set(outcome.flows["entropy"].tolist())) == 1  # one queue pair's path for all chunks


def test_one_chunk_of_all_layers_is_a_hand_off_after_the_prefill(
    pools: Callable[..., Deployment], run: Callable[..., Outcome]
) -> None:
    whole = run(one(), pools())
    chunk = run(one(), pools(when="layer_wise", layers_per_chunk=LAYERS))
    assert whole.flows.tobytes() == chunk.flows.tobytes()
    for name, column in whole.requests.items():
        if name != "admitted_ps":  # layer by layer, memory is taken when the prefill starts
            assert column.tolist() == chunk.requests[name].tolist(), name


def test_layers_computed_before_memory_was_free_are_released_together_when_it_is(
    pools: Callable[..., Deployment],
    run: Callable[..., Outcome],
    row: Callable[..., dict[str, int]],
) -> None:
    count = 2
    requests = request_table(
        arrival_ps=[0] * count, input_tokens=[400] * count, output_tokens=[100] * count
    )
    deployment = pools(count, 1, memory=LLAMA.kv_bytes(500), when="layer_wise", layers_per_chunk=8)
    outcome = run(requests, deployment)
    finish = outcome.requests["finish_ps"].astype(np.int64)
    late = int(np.argmax(finish))
    rows = outcome.flows[outcome.flows["handoff"] == late]
    assert rows["release_ps"].tolist() == [int(finish.min()) + DELAY] * 4
    assert int(finish.min()) > row(outcome, late)["prefill_end_ps"]


def test_a_request_without_output_takes_no_decode_instance_in_layer_wise_mode(
    pools: Callable[..., Deployment],
    run: Callable[..., Outcome],
    row: Callable[..., dict[str, int]],
) -> None:
    outcome = run(one(output=0), pools(when="layer_wise"))
    assert row(outcome)["status"] == 0
    assert row(outcome)["decode"] == -1
    assert not len(outcome.flows)


def test_a_pull_waits_for_the_request_to_travel_and_one_more_control_delay(
    pools: Callable[..., Deployment],
    run: Callable[..., Outcome],
    row: Callable[..., dict[str, int]],
) -> None:
    latency = np.array([[3 * US, 9 * US]], np.int64)
    pushed = run(one(), pools(1, 2))
    pulled = run(one(), pools(1, 2, direction="pull"), latency_ps=latency)
    got = row(pulled)
    expected = got["prefill_end_ps"] + 2 * DELAY + int(latency[0, got["decode"]])
    assert got["handoff_release_ps"] == expected
    assert got["kv_ready_ps"] == expected + WIRE
    assert not pulled.flows["write"].any()
    assert pushed.flows["write"].all()
    assert row(pushed)["handoff_release_ps"] == row(pushed)["prefill_end_ps"] + DELAY


def test_a_pull_without_the_time_of_its_request_is_refused(
    pools: Callable[..., Deployment], run: Callable[..., Outcome]
) -> None:
    with pytest.raises(KvfabricError, match=r"pulled hand-off .* give latency_ps, .*\(1, 1\)"):
        run(one(), pools(direction="pull"))


def test_staging_adds_a_gather_before_the_release_and_a_scatter_after_the_last_byte(
    pools: Callable[..., Deployment],
    run: Callable[..., Outcome],
    row: Callable[..., dict[str, int]],
) -> None:
    rate = 10**12
    size = LLAMA.kv_bytes(550)
    outcome = run(one(), pools(tp=(4, 2), staging="gpu", copy_bps=rate))
    got = row(outcome)
    gather, scatter = (-(-size // ranks * 8 * 10**12 // rate) for ranks in (4, 2))
    assert got["handoff_release_ps"] == got["prefill_end_ps"] + DELAY + gather
    assert got["kv_ready_ps"] == got["handoff_release_ps"] + WIRE + scatter
    assert got["decode_start_ps"] == got["kv_ready_ps"] + DELAY
    assert gather == size * 2  # a quarter of the bytes at 8 ps a byte
    assert scatter == size * 4


def test_the_copies_of_one_rank_follow_each_other(
    pools: Callable[..., Deployment], run: Callable[..., Outcome]
) -> None:
    rate = 10**9  # far slower than the prefill: the gathers queue behind one another
    deployment = pools(when="layer_wise", layers_per_chunk=8, staging="gpu", copy_bps=rate)
    release = run(one(), deployment).flows["release_ps"]
    each = LLAMA.kv_bytes(550) // 4 * 8 * 1000
    assert np.diff(release).tolist() == [each] * 3


@pytest.mark.parametrize("tp", [(1, 4), (4, 1), (2, 16)])
def test_unequal_degrees_are_served_with_every_byte_and_ready_with_the_last(
    tp: tuple[int, int],
    pools: Callable[..., Deployment],
    run: Callable[..., Outcome],
    row: Callable[..., dict[str, int]],
) -> None:
    outcome = run(one(), pools(2, 2, tp=tp, when="layer_wise"))
    copies = max(1, tp[1] // 8)
    assert int(outcome.flows["bytes"].sum()) == LLAMA.kv_bytes(550) * copies
    assert len(outcome.flows) == LAYERS * max(tp)
    assert row(outcome)["status"] == 0


REQUESTS = st.lists(
    st.tuples(st.integers(0, 50 * MS), st.integers(1, 2000), st.integers(0, 40)),
    min_size=1,
    max_size=15,
)
WAYS: list[dict[str, Any]] = [
    {},
    {"when": "layer_wise", "layers_per_chunk": 5},
    {"when": "layer_wise", "layers_per_chunk": 16, "staging": "gpu", "copy_bps": 10**12},
    {"direction": "pull", "block_tokens": 16},
]


@settings(max_examples=40, deadline=None)
@given(
    rows=REQUESTS,
    name=st.sampled_from(sorted(POLICIES)),
    how=st.sampled_from(WAYS),
    tp=st.sampled_from([(1, 1), (2, 1), (1, 4)]),
    decode=st.integers(1, 3),
)
def test_bytes_and_requests_are_conserved_and_ready_means_the_last_byte_in_every_mode(
    rows: list[tuple[int, int, int]],
    name: str,
    how: dict[str, Any],
    tp: tuple[int, int],
    decode: int,
    pools: Callable[..., Deployment],
    run: Callable[..., Outcome],
) -> None:
    rows.sort()
    arrival, tokens, output = (list(column) for column in zip(*rows, strict=True))
    requests = request_table(arrival_ps=arrival, input_tokens=tokens, output_tokens=output)
    memory = LLAMA.kv_bytes(2500) if tp[1] == 1 else 0
    deployment = pools(2, decode, tp=tp, memory=memory, **how)
    latency = np.full((2, decode), 4 * US, np.int64)
    outcome = run(requests, deployment, name=name, latency_ps=latency)
    table, flows = outcome.requests, outcome.flows
    assert (table["status"] == 0).all()
    assert flows["flow"].tolist() == list(range(len(flows)))
    for i in range(len(rows)):
        got = {key: int(column[i]) for key, column in table.items()}
        mine = flows[flows["handoff"] == i]
        if not got["output_tokens"]:
            assert not len(mine)
            continue
        assert int(mine["bytes"].sum()) == got["kv_bytes"]
        assert (mine["descriptors"] <= mine["bytes"]).all()
        assert got["handoff_release_ps"] == int(mine["release_ps"].min())
        last = int(mine["release_ps"].max()) + WIRE
        assert got["kv_ready_ps"] >= last
        assert (got["kv_ready_ps"] == last) == ("staging" not in how)
        assert got["kv_ready_ps"] >= got["prefill_end_ps"] + DELAY + WIRE
        assert got["decode_start_ps"] >= got["kv_ready_ps"] + DELAY
        if deployment.handoff.layer_wise:
            assert got["handoff_release_ps"] > got["prefill_start_ps"] + DELAY
        else:
            assert got["handoff_release_ps"] >= got["prefill_end_ps"] + DELAY
