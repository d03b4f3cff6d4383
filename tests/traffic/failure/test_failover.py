"""Instances that die, by hand: what is lost, when it is noticed, what the next attempt costs."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from traffic.cache.tier import Caching, Tier
from traffic.failure.outage import Outage
from traffic.failure.resilience import Resilience
from traffic.failure.toll import DECODE_LOST
from traffic.instance import Deployment
from traffic.model import model
from traffic.record.ledger import FAILED, FINISHED, IN_FLIGHT, REJECTED
from traffic.request import Prefix, RequestTable, request_table
from traffic.serving.run import Outcome

US = 10**6
MS = 10**9
DELAY = 20 * US
FLIGHT = 5 * MS
LLAMA = model("Llama-3.1-8B")

Serve = Callable[..., Outcome]
Some = Callable[..., RequestTable]


def took(deployment: Deployment, tokens: int = 1000) -> int:
    return deployment.prefill.prefill_cost.ps(tokens)


def test_a_prompt_that_is_computed_when_its_instance_dies_is_computed_anew_elsewhere(
    serve: Serve, pools: Callable[..., Deployment], some: Some
) -> None:
    outcome = serve(some(0), Outage("fail", "prefill", 0, 3 * MS))
    table, toll = outcome.requests, outcome.toll
    again = 3 * MS + 10 * MS + 2 * MS
    assert table["status"][0] == FINISHED
    assert table["prefill"][0] == 1
    assert table["prefill_start_ps"][0] == again
    assert table["prefill_end_ps"][0] == again + took(pools())
    assert toll["attempts"][0] == 2
    assert toll["wasted_prefill_ps"][0] == 3 * MS
    assert toll["wasted_bytes"][0] == 0


def test_a_prompt_that_waits_where_its_instance_dies_wastes_nothing_but_time(
    serve: Serve, pools: Callable[..., Deployment], some: Some
) -> None:
    outcome = serve(some(0, 0, 0), Outage("fail", "prefill", 0, 3 * MS))
    table, toll = outcome.requests, outcome.toll
    # Round robin sends request 0 to prefill 1, then request 2 to the dead one once more.
    assert toll["attempts"].tolist() == [2, 1, 3]
    assert toll["wasted_prefill_ps"].tolist() == [3 * MS, 0, 0]
    assert table["prefill"].tolist() == [1, 1, 1]
    assert table["prefill_start_ps"][0] == max(15 * MS, took(pools()))
    assert table["status"].tolist() == [FINISHED] * 3


def test_flows_of_a_dead_sender_go_on_and_its_reservation_is_given_back_when_noticed(
    serve: Serve, pools: Callable[..., Deployment], some: Some
) -> None:
    memory = LLAMA.kv_bytes(1020)  # one sequence
    end = took(pools())
    died = end + DELAY + FLIGHT // 2
    requests = some(0, end)  # the second is on prefill 1 and would be ready first
    outcome = serve(
        requests,
        Outage("fail", "prefill", 0, died),
        sizes=(2, 1),
        memory=memory,
    )
    table, toll = outcome.requests, outcome.toll
    assert toll["wasted_prefill_ps"].tolist() == [end, 0]
    assert toll["wasted_bytes"].tolist() == [LLAMA.kv_bytes(1000), 0]
    assert outcome.strays.tolist() == [0]
    assert outcome.flows["bytes"].sum() == 3 * LLAMA.kv_bytes(1000)
    # The memory that the lost hand-off had reserved is free when the router has noticed.
    assert table["admitted_ps"][1] == max(2 * end, died + 10 * MS)
    assert table["status"].tolist() == [FINISHED, FINISHED]


def test_memory_is_short_only_until_the_wait_of_a_dead_prefill_instance_is_given_up(
    serve: Serve, some: Some
) -> None:
    # There is memory for one of the two; the prefill instance of the one that waits dies.
    memory = 1200 * LLAMA.kv_bytes(1)
    requests = some(0, 0, output=100)
    whole = serve(requests, sizes=(2, 1), memory=memory).requests
    asked = int(whole["prefill_end_ps"][1])
    assert int(whole["admitted_ps"][1]) > asked + 40 * MS
    died = asked + 10 * MS
    outcome = serve(requests, Outage("fail", "prefill", 1, died), sizes=(2, 1), memory=memory)
    table = outcome.requests
    again = int(table["admitted_ps"][1]) - int(table["prefill_end_ps"][1])
    noticed = died + 10 * MS
    assert int(table["prefill_start_ps"][1]) == noticed + 2 * MS
    assert int(outcome.memory["kv_short_ps"][0]) == noticed - asked + again


def test_a_cache_that_has_arrived_outlives_the_instance_that_computed_it(
    serve: Serve, some: Some
) -> None:
    whole = serve(some(0)).requests
    at = int(whole["kv_ready_ps"][0])
    outcome = serve(some(0), Outage("fail", "prefill", 0, at))
    assert outcome.toll["attempts"][0] == 1
    for name in whole:
        assert outcome.requests[name].tobytes() == whole[name].tobytes()


@pytest.mark.parametrize("loss", ["retry", "fail"])
def test_sequences_of_a_dead_decode_instance_are_lost_and_tried_again_or_failed_by_the_rule(
    loss: str, serve: Serve, some: Some, calm: Resilience
) -> None:
    rules = replace(calm, decode_loss=loss)
    whole = serve(some(0)).requests
    died = (int(whole["first_token_ps"][0]) + int(whole["finish_ps"][0])) // 2
    outcome = serve(some(0), Outage("fail", "decode", 0, died), rules=rules)
    table, toll = outcome.requests, outcome.toll
    prefill = int(whole["prefill_end_ps"][0])
    assert toll["wasted_prefill_ps"][0] == prefill
    assert toll["wasted_bytes"][0] == LLAMA.kv_bytes(1000)
    held = LLAMA.kv_bytes(1020) * (died - prefill) // outcome.end_ps
    assert outcome.memory["kv_mean_bytes"][0] == held  # and nothing from its death on
    if loss == "fail":
        assert table["status"][0] == FAILED
        assert toll["reason"][0] == DECODE_LOST
        assert toll["failed_ps"][0] == died + 10 * MS
        assert table["finish_ps"][0] == table["decode"][0] == -1
    else:
        assert table["status"][0] == FINISHED
        assert table["decode"][0] == 1
        assert table["finish_ps"][0] - whole["finish_ps"][0] == died + 12 * MS


def test_a_hand_off_to_an_instance_that_dies_on_the_way_fails_even_where_losses_are_final(
    serve: Serve, some: Some, calm: Resilience
) -> None:
    # Nothing was sent to the user yet, so that the rule for sequences does not act.
    whole = serve(some(0)).requests
    died = int(whole["kv_ready_ps"][0]) + 1  # arrived, and not taken into the batch
    rules = replace(calm, decode_loss="fail")
    outcome = serve(some(0), Outage("fail", "decode", 0, died), rules=rules)
    assert outcome.requests["status"][0] == FINISHED
    assert outcome.toll["attempts"][0] == 2


@pytest.mark.parametrize("side", ["prefill", "decode", None])
def test_prefix_blocks_die_with_their_instance(side: str | None, serve: Serve) -> None:
    requests = request_table(
        arrival_ps=[0, 1000 * MS],
        input_tokens=[1000, 1000],
        output_tokens=[2, 2],
        prefix=Prefix(np.array([0, 15, 30]), np.tile(np.arange(15), 2), 64),
    )
    block = LLAMA.kv_bytes(64)
    died = [] if side is None else [Outage("fail", side, 0, 500 * MS, 600 * MS)]
    outcome = serve(
        requests,
        *died,
        sizes=(1, 1),
        cache=Caching((Tier("hbm", 99 * block),)),
        cache_bytes=99 * block,
    )
    found = outcome.cache["cached_hbm_tokens"].tolist()
    assert found == [0, 0 if side == "prefill" else 15 * 64]
    moved = outcome.flows["bytes"].tolist()
    whole, rest = LLAMA.kv_bytes(1000), LLAMA.kv_bytes(1000 - 15 * 64)
    assert moved == [whole, whole if side == "decode" else rest]


def test_the_attempt_that_a_dead_decode_instance_ends_frees_the_prefill_that_still_computes(
    serve: Serve, pools: Callable[..., Deployment], some: Some
) -> None:
    # Layer by layer the decode instance is chosen when the prefill starts.
    long = took(pools(), 8000)
    assert long > 40 * MS
    requests = some(0, 1, tokens=8000)
    outcome = serve(
        requests,
        Outage("fail", "decode", 0, 5 * MS),
        sizes=(1, 3),
        when="layer_wise",
        layers_per_chunk=4,
    )
    table, toll = outcome.requests, outcome.toll
    assert toll["attempts"].tolist() == [2, 1]
    assert toll["wasted_prefill_ps"][0] == 15 * MS  # until it was noticed
    assert table["prefill_start_ps"][1] == 15 * MS
    assert toll["wasted_bytes"][0] == LLAMA.kv_bytes(8000)


def test_with_nothing_that_befalls_the_same_bytes_come_out(serve: Serve, some: Some) -> None:
    rng = np.random.default_rng(3)
    arrivals = np.cumsum(rng.exponential(4 * MS, 80)).astype(np.int64).tolist()
    for order, how in (
        ("prefill_first", {}),
        ("decode_first", {}),
        ("prefill_first", {"when": "layer_wise"}),
    ):
        name = "least_loaded"
        plain, guarded = (
            serve(some(*arrivals), name=name, order=order, hazard=hazard, **how)
            for hazard in (False, True)
        )
        assert plain.flows.tobytes() == guarded.flows.tobytes()
        for column in plain.requests:
            assert plain.requests[column].tobytes() == guarded.requests[column].tobytes()
        assert not plain.toll
        assert (guarded.toll["attempts"] == 1).all()


def test_a_run_that_ends_early_leaves_requests_in_flight_and_loses_none(
    serve: Serve, some: Some
) -> None:
    outcome = serve(
        some(0, MS, 2 * MS), Outage("fail", "prefill", 0, 3 * MS), until_ps=6 * MS, sizes=(2, 1)
    )
    assert outcome.requests["status"].tolist() == [IN_FLIGHT] * 3
    assert not outcome.toll["reason"].any()


def test_what_no_memory_can_hold_is_rejected_as_ever(serve: Serve, some: Some) -> None:
    outcome = serve(some(0), memory=LLAMA.kv_bytes(500))
    assert outcome.requests["status"][0] == REJECTED
    assert outcome.toll["attempts"][0] == 0
