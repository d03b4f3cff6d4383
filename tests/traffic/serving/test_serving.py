"""The serving loop: queues by the formula, budgets that add up, and no request lost."""

from collections.abc import Callable

import numpy as np
import pytest

from topo.error import KvfabricError
from traffic.compute.gpu import gpu
from traffic.emulator import Emulator
from traffic.instance import Deployment, Pool
from traffic.model import model
from traffic.policy.registry import policy
from traffic.record.book import MOMENTS
from traffic.replay import replay
from traffic.request import RequestTable, request_table
from traffic.serving.run import Outcome, serve

US = 10**6
MS = 10**9
S = 10**12
DELAY = 20 * US
LLAMA = model("Llama-3.1-8B")
H100 = gpu("H100-SXM")


def one(input_tokens: int, output_tokens: int, arrival_ps: int = 0) -> RequestTable:
    return request_table(
        arrival_ps=[arrival_ps], input_tokens=[input_tokens], output_tokens=[output_tokens]
    )


@pytest.mark.parametrize("rho", [0.5, 0.8])
def test_the_prefill_queue_waits_as_long_as_the_formula_of_m_d_1_says(
    rho: float, pools: Callable[..., Deployment], run: Callable[..., Outcome]
) -> None:
    deployment = pools(1, 1)
    service = deployment.prefill.prefill_cost.ps(500)
    count, parts = 60_000, 20
    gaps = np.random.default_rng(11).exponential(service / rho, count)
    arrival = np.cumsum(gaps).astype(np.int64)
    requests = request_table(
        arrival_ps=arrival, input_tokens=np.full(count, 500), output_tokens=np.zeros(count, int)
    )
    table = run(requests, deployment).requests
    start_ps = table["prefill_start_ps"].astype(np.int64)
    wait = (start_ps - arrival) / service
    free = 0
    for at, start in zip(arrival.tolist(), start_ps.tolist(), strict=True):
        assert start == max(at, free)  # Lindley's recursion, to the picosecond
        free = start + service
    means = wait.reshape(parts, -1).mean(axis=1)
    error = means.std(ddof=1) / np.sqrt(parts)
    expected = rho / (2 * (1 - rho))
    assert error < 0.05 * expected
    assert abs(wait.mean() - expected) < 3 * error


def test_a_lone_request_passes_every_stage_at_its_time(
    pools: Callable[..., Deployment],
    run: Callable[..., Outcome],
    row: Callable[..., dict[str, int]],
    wire: Callable[..., Emulator],
) -> None:
    deployment = pools(2, 2)
    outcome = run(one(550, 150, arrival_ps=123), deployment, emulator=wire(7 * US))
    got = row(outcome)
    prefill, decode = deployment.prefill.prefill_cost, deployment.decode.decode_cost
    assert got["prefill_start_ps"] == 123
    assert got["prefill_end_ps"] == 123 + prefill.ps(550)
    assert got["handoff_release_ps"] == got["prefill_end_ps"] + DELAY
    assert got["kv_ready_ps"] == got["handoff_release_ps"] + 7 * US
    assert got["decode_start_ps"] == got["kv_ready_ps"] + DELAY
    first = decode.step_ps(1, LLAMA.kv_bytes(550))
    assert got["first_token_ps"] == got["decode_start_ps"] + first
    read = LLAMA.kv_bytes_sum(550, 150)
    assert got["finish_ps"] == (
        got["decode_start_ps"] + 150 * decode.base_ps(1) + decode.kv_ps(read)
    )
    assert got["kv_bytes"] == LLAMA.kv_bytes(550) == int(outcome.flows["bytes"].sum())
    assert got["status"] == 0
    assert outcome.end_ps == got["finish_ps"]


def test_a_request_without_output_ends_with_its_prefill(
    pools: Callable[..., Deployment],
    run: Callable[..., Outcome],
    row: Callable[..., dict[str, int]],
) -> None:
    outcome = run(one(100, 0), pools(1, 1))
    got = row(outcome)
    assert got["finish_ps"] == got["prefill_end_ps"] > 0
    assert got["status"] == 0
    for name in ("decode", *MOMENTS, "kv_ready_ps", "decode_start_ps"):
        assert got[name] == -1
    assert got["first_token_ps"] == -1
    assert not len(outcome.flows)
    assert "1 request(s) have no output" in outcome.notes[0]


def test_a_request_with_one_token_of_output_takes_one_decode_step(
    pools: Callable[..., Deployment],
    run: Callable[..., Outcome],
    row: Callable[..., dict[str, int]],
) -> None:
    got = row(run(one(100, 1), pools(1, 1)))
    assert got["first_token_ps"] == got["finish_ps"] > got["decode_start_ps"] > 0


def test_a_request_larger_than_any_memory_is_rejected_at_arrival_and_told(
    pools: Callable[..., Deployment],
    run: Callable[..., Outcome],
    row: Callable[..., dict[str, int]],
) -> None:
    requests = request_table(arrival_ps=[0, 5], input_tokens=[900, 100], output_tokens=[200, 100])
    outcome = run(requests, pools(1, 1, memory=LLAMA.kv_bytes(1000)))
    assert outcome.requests["status"].tolist() == [2, 0]
    rejected = row(outcome)
    assert rejected["prefill"] == rejected["prefill_start_ps"] == rejected["finish_ps"] == -1
    assert "1 request(s) were rejected" in outcome.notes[0]


def test_a_handoff_waits_until_memory_for_the_whole_sequence_is_free(
    pools: Callable[..., Deployment], run: Callable[..., Outcome]
) -> None:
    count = 6
    requests = request_table(
        arrival_ps=[0] * count, input_tokens=[400] * count, output_tokens=[100] * count
    )
    table = run(requests, pools(count, 1, memory=int(2.5 * LLAMA.kv_bytes(500)))).requests
    release = np.sort(table["handoff_release_ps"].astype(np.int64))
    finish = np.sort(table["finish_ps"].astype(np.int64))
    assert (release[:2] == release[0]).all()
    assert release[2:].tolist() == (finish[: count - 2] + DELAY).tolist()


def test_overload_loses_no_request_and_the_cut_leaves_the_rest_in_flight(
    pools: Callable[..., Deployment], run: Callable[..., Outcome]
) -> None:
    count = 400
    deployment = pools(2, 1, max_batch=4)
    gap = deployment.prefill.prefill_cost.ps(500) // 6  # three times what two instances can do
    requests = request_table(
        arrival_ps=np.arange(count) * gap,
        input_tokens=np.full(count, 500),
        output_tokens=np.full(count, 20),
    )
    whole = run(requests, deployment)
    assert (whole.requests["status"] == 0).all()
    until = int(whole.end_ps * 0.4)
    table = run(requests, deployment, until_ps=until).requests
    done = table["finish_ps"].astype(np.int64) >= 0
    assert 0 < done.sum() < count
    assert (table["status"] == np.where(done, 0, 1)).all()
    for name, column in table.items():
        if name.endswith("_ps") and name != "arrival_ps":
            assert int(np.max(column.astype(np.int64))) <= until
            early = whole.requests[name].astype(np.int64) <= until
            assert column[early].tolist() == whole.requests[name][early].tolist(), name


def test_a_cut_between_decision_and_effect_shows_neither_the_release_nor_the_token(
    pools: Callable[..., Deployment],
    run: Callable[..., Outcome],
    row: Callable[..., dict[str, int]],
) -> None:
    whole = row(run(one(100, 10), pools(1, 1)))
    decided = row(run(one(100, 10), pools(1, 1), until_ps=whole["prefill_end_ps"] + 1))
    assert decided["prefill_end_ps"] == whole["prefill_end_ps"]
    assert decided["handoff_release_ps"] == -1
    begun = row(run(one(100, 10), pools(1, 1), until_ps=whole["first_token_ps"] - 1))
    assert begun["decode_start_ps"] == whole["decode_start_ps"]
    assert begun["first_token_ps"] == -1


def test_the_seed_decides_the_entropy_of_the_flows(
    pools: Callable[..., Deployment], run: Callable[..., Outcome]
) -> None:
    first, second = (run(one(100, 10), pools(1, 1), seed=seed).flows for seed in (1, 2))
    assert first["entropy"] != second["entropy"]


def test_a_network_that_delivers_nothing_ends_the_run_with_requests_in_flight(
    pools: Callable[..., Deployment],
    run: Callable[..., Outcome],
    row: Callable[..., dict[str, int]],
    hole: Callable[[], Emulator],
) -> None:
    outcome = run(one(100, 10), pools(1, 1), emulator=hole())
    assert row(outcome)["status"] == 1
    assert row(outcome)["kv_ready_ps"] == -1
    assert row(outcome)["handoff_release_ps"] > 0


def test_a_blind_policy_is_refused_where_it_may_pick_a_pair_without_a_path(
    pools: Callable[..., Deployment],
    row: Callable[..., dict[str, int]],
    wire: Callable[..., Emulator],
) -> None:
    deployment = pools(2, 2)
    hops = np.array([[2, -1], [-1, 2]], np.int32)
    message = "random may pick prefill 0 -> decode 1, .* static_groups with groups: 2"
    with pytest.raises(KvfabricError, match=message):
        serve(one(5, 5), deployment, policy("random", hops), wire(), hops=hops)
    outcome = serve(one(5, 5), deployment, policy("topology_aware", hops), wire(), hops=hops)
    got = row(outcome)
    assert got["prefill"] == got["decode"]


def test_what_cannot_be_served_is_refused_in_one_line(
    pools: Callable[..., Deployment], wire: Callable[..., Emulator]
) -> None:
    deployment = pools(2, 2)
    hops = np.full((2, 2), 2, np.int32)
    chosen = policy("random", hops)
    with pytest.raises(KvfabricError, match="control delay 0ps"):
        serve(one(5, 5), deployment, chosen, wire(), hops=hops, control_delay_ps=0)
    with pytest.raises(KvfabricError, match=r"hops \(1, 2\): must be prefill x decode"):
        serve(one(5, 5), deployment, chosen, wire(), hops=hops[:1])
    with pytest.raises(KvfabricError, match="host 0: in both pools"):
        Deployment(deployment.prefill, deployment.prefill)
    with pytest.raises(KvfabricError, match="can only be read by the model that wrote it"):
        Deployment(deployment.prefill, Pool(((9,),), model("Qwen3-8B"), H100))


def test_progress_counts_up_to_all_requests(
    pools: Callable[..., Deployment], wire: Callable[..., Emulator]
) -> None:
    count = 1000
    told: list[tuple[int, int]] = []
    requests = request_table(
        arrival_ps=np.arange(count) * MS,
        input_tokens=np.full(count, 10),
        output_tokens=np.full(count, 2),
    )
    hops = np.full((1, 1), 2, np.int32)
    serve(
        requests,
        pools(1, 1),
        policy("random", hops),
        wire(),
        hops=hops,
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == sorted(told)
    assert told[-1] == (count, count)
    assert 10 < len(told) <= 201


def test_replay_repeats_the_finish_of_every_flow(
    pools: Callable[..., Deployment],
    run: Callable[..., Outcome],
    wire: Callable[..., Emulator],
    hole: Callable[[], Emulator],
) -> None:
    requests = request_table(
        arrival_ps=np.arange(20) * MS, input_tokens=[100] * 20, output_tokens=[5] * 20
    )
    outcome = run(requests, pools(2, 2))
    ready = outcome.requests["kv_ready_ps"][outcome.flows["handoff"]]
    assert replay(outcome.flows, wire()).tolist() == ready.tolist()
    assert replay(outcome.flows, hole()).tolist() == [-1] * 20
