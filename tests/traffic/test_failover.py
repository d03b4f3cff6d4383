"""Instances that die, by hand: what is lost, when it is noticed, what the next attempt costs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from traffic.cache.tier import Caching, Tier
from traffic.emulator import Emulator
from traffic.failure.outage import Outage
from traffic.failure.resilience import Circuit, Hazard, Health, Resilience, Retry
from traffic.failure.toll import BUDGET, DECODE_LOST, NOBODY_HEALTHY, RETRIES
from traffic.instance import Deployment
from traffic.model import model
from traffic.policy.balance import Random
from traffic.policy.choice import NOBODY, NoSettings, PolicyError, Request, View
from traffic.policy.registry import policy
from traffic.record.ledger import FAILED, FINISHED, IN_FLIGHT, REJECTED
from traffic.request import Prefix, RequestTable, request_table
from traffic.serving.mode import Serving
from traffic.serving.router import Service
from traffic.serving.run import Outcome, serve_all
from traffic.source.crowd import Talk, Users
from traffic.source.length import Constant
from traffic.source.profile import Profile

US = 10**6
MS = 10**9
DELAY = 20 * US
FLIGHT = 5 * MS
LLAMA = model("Llama-3.1-8B")

RULES = Resilience(
    health=Health(interval_ps=0),
    breaker=None,
    retry=Retry(backoff_ps=2 * MS, factor=1, jitter=0),
    timeout_ps=10 * MS,
)
"""Nobody is told of a death; attempts are given up after 10 ms and made again 2 ms later."""

Serve = Callable[..., Outcome]


@pytest.fixture
def serve(pools: Callable[..., Deployment], wire: Callable[..., Emulator]) -> Serve:
    """Serves with outages, by the round-robin policy: request r goes to prefill r mod n."""

    def served(
        requests: RequestTable,
        *outages: Outage,
        rules: Resilience = RULES,
        sizes: tuple[int, int] = (2, 2),
        name: str = "round_robin",
        order: str = "prefill_first",
        until_ps: int | None = None,
        serving: Serving | None = None,
        hazard: bool = True,
        cache: Caching | None = None,
        **how: Any,
    ) -> Outcome:
        hops = np.full(sizes, 4, np.int32)
        told = Hazard(outages, rules) if hazard else None
        deployment = replace(pools(*sizes, **how), cache=cache)
        service = Service(deployment, policy(name, hops, seed=1), hops, order=order, hazard=told)
        return serve_all(
            requests, [service], wire(FLIGHT), rules=serving, until_ps=until_ps, seed=1
        )

    return served


def some(*arrival_ps: int, tokens: int = 1000, output: int = 20) -> RequestTable:
    count = len(arrival_ps)
    return request_table(
        arrival_ps=arrival_ps, input_tokens=[tokens] * count, output_tokens=[output] * count
    )


def took(deployment: Deployment, tokens: int = 1000) -> int:
    return deployment.prefill.prefill_cost.ps(tokens)


def test_a_prompt_that_is_computed_when_its_instance_dies_is_computed_anew_elsewhere(
    serve: Serve, pools: Callable[..., Deployment]
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
    serve: Serve, pools: Callable[..., Deployment]
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
    serve: Serve, pools: Callable[..., Deployment]
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
    serve: Serve,
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


def test_a_cache_that_has_arrived_outlives_the_instance_that_computed_it(serve: Serve) -> None:
    whole = serve(some(0)).requests
    at = int(whole["kv_ready_ps"][0])
    outcome = serve(some(0), Outage("fail", "prefill", 0, at))
    assert outcome.toll["attempts"][0] == 1
    for name in whole:
        assert outcome.requests[name].tobytes() == whole[name].tobytes()


@pytest.mark.parametrize("loss", ["retry", "fail"])
def test_sequences_of_a_dead_decode_instance_are_lost_and_tried_again_or_failed_by_the_rule(
    loss: str, serve: Serve
) -> None:
    rules = replace(RULES, decode_loss=loss)
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
    serve: Serve,
) -> None:
    # Nothing was sent to the user yet, so that the rule for sequences does not act.
    whole = serve(some(0)).requests
    died = int(whole["kv_ready_ps"][0]) + 1  # arrived, and not taken into the batch
    rules = replace(RULES, decode_loss="fail")
    outcome = serve(some(0), Outage("fail", "decode", 0, died), rules=rules)
    assert outcome.requests["status"][0] == FINISHED
    assert outcome.toll["attempts"][0] == 2


def test_a_dead_instance_is_sent_requests_until_its_death_is_known(serve: Serve) -> None:
    # Probes at 100 and 200 ms: out at 200 ms. Before, every request goes there, fails, and takes
    # the turn of the other.
    rules = replace(RULES, health=Health(100 * MS, 0, failures=2))
    arrivals = range(1 * MS, 400 * MS, 20 * MS)
    outcome = serve(some(*arrivals, tokens=10), Outage("fail", "prefill", 0, 1), rules=rules)
    toll, (unseen,) = outcome.toll, outcome.spells["unseen_ps"].tolist()
    assert unseen == 200 * MS
    late = np.array(arrivals) >= 200 * MS
    assert (toll["attempts"][late] == 1).all()
    assert (toll["attempts"][~late] == 2).all()
    assert (outcome.requests["prefill"] == 1).all()


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


def test_a_drained_instance_finishes_what_it_has_and_gets_nothing_new(
    serve: Serve, pools: Callable[..., Deployment]
) -> None:
    at = took(pools()) // 2
    requests = some(0, 0, 0, at + 1, at + 2, at + 3)
    outcome = serve(requests, Outage("drain", "prefill", 0, at))
    table = outcome.requests
    assert table["prefill"].tolist() == [0, 1, 0, 1, 1, 1]
    assert outcome.toll["attempts"].tolist() == [1] * 6
    assert table["status"].tolist() == [FINISHED] * 6


def test_an_instance_that_joins_gets_nothing_before_it_is_loaded_and_discovered(
    serve: Serve,
) -> None:
    rules = replace(RULES, load_ps=50 * MS, discovery_ps=30 * MS)
    arrivals = range(0, 400 * MS, 10 * MS)
    outcome = serve(some(*arrivals, tokens=10), Outage("join", "decode", 1, 100 * MS), rules=rules)
    table = outcome.requests
    first = table["prefill_end_ps"][table["decode"] == 1].min()
    assert 180 * MS <= first < 210 * MS
    assert (outcome.toll["attempts"] == 1).all()


def test_requests_wait_while_nobody_is_healthy_and_fail_when_that_takes_too_long(
    serve: Serve,
) -> None:
    rules = replace(RULES, health=Health(10 * MS, 0, failures=1, successes=1), wait_ps=100 * MS)
    outages = [Outage("fail", "prefill", i, 0, 200 * MS) for i in range(2)]
    outcome = serve(some(50 * MS, 99 * MS, 101 * MS, 150 * MS), *outages, rules=rules)
    table, toll = outcome.requests, outcome.toll
    assert table["status"].tolist() == [FAILED, FAILED, FINISHED, FINISHED]
    assert toll["reason"].tolist() == [NOBODY_HEALTHY, NOBODY_HEALTHY, 0, 0]
    assert toll["failed_ps"].tolist() == [150 * MS, 199 * MS, -1, -1]
    assert toll["attempts"].tolist() == [0, 0, 1, 1]
    assert table["prefill_start_ps"][2] == 200 * MS


def test_a_prompt_waits_with_its_cache_while_no_decode_instance_is_healthy(
    serve: Serve, pools: Callable[..., Deployment]
) -> None:
    rules = replace(RULES, health=Health(10 * MS, 0, failures=1, successes=1))
    outages = [Outage("fail", "decode", i, 0, 200 * MS) for i in range(2)]
    outcome = serve(some(50 * MS), *outages, rules=rules)
    table = outcome.requests
    assert table["prefill_end_ps"][0] == 50 * MS + took(pools())
    assert table["admitted_ps"][0] == 200 * MS
    assert outcome.toll["attempts"][0] == 1


def test_attempts_are_limited_and_each_takes_the_timeout_and_the_pause(serve: Serve) -> None:
    rules = replace(RULES, retry=replace(RULES.retry, retries=3))
    outages = [Outage("fail", "prefill", i, 0) for i in range(2)]
    outcome = serve(some(5 * MS), *outages, rules=rules)
    assert outcome.toll["attempts"][0] == 4
    assert outcome.toll["reason"][0] == RETRIES
    assert outcome.toll["failed_ps"][0] == 5 * MS + 4 * 10 * MS + 3 * 2 * MS


def test_a_retry_budget_refuses_what_would_be_a_storm(serve: Serve) -> None:
    rules = replace(RULES, retry=replace(RULES.retry, budget=0.2, least=1))
    # Ten requests wait on each side of a pool whose instance 0 dies: 20 % of 20 may be retried.
    outcome = serve(some(*[0] * 20), Outage("fail", "prefill", 0, MS), rules=rules)
    reasons = outcome.toll["reason"]
    assert (reasons == BUDGET).sum() == 10 - 4
    assert (outcome.requests["status"] == FINISHED).sum() == 14


def test_a_black_hole_draws_requests_to_itself_and_a_breaker_ends_that(serve: Serve) -> None:
    # Refused at once, so that the dead instance is always the least loaded.
    arrivals = [10 * MS * i for i in range(200)]
    rules = replace(RULES, timeout_ps=MS, retry=replace(RULES.retry, retries=3))
    breaker = Circuit(failures=3, successes=1, open_ps=100_000 * MS)
    without, closed = (
        serve(
            some(*arrivals, tokens=2000),
            Outage("fail", "prefill", 0, 0),
            rules=replace(rules, breaker=rule),
            sizes=(3, 3),
            name="least_loaded",
        )
        for rule in (None, breaker)
    )
    assert without.toll["attempts"].sum() > 1.3 * 200
    assert closed.toll["attempts"].sum() == 200 + 3
    lost = [int((o.requests["status"] == FAILED).sum()) for o in (without, closed)]
    assert lost[0] > 5
    assert lost[1] == 0


def test_the_attempt_that_a_dead_decode_instance_ends_frees_the_prefill_that_still_computes(
    serve: Serve, pools: Callable[..., Deployment]
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


def test_with_nothing_that_befalls_the_same_bytes_come_out(serve: Serve) -> None:
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


def test_a_run_that_ends_early_leaves_requests_in_flight_and_loses_none(serve: Serve) -> None:
    outcome = serve(
        some(0, MS, 2 * MS), Outage("fail", "prefill", 0, 3 * MS), until_ps=6 * MS, sizes=(2, 1)
    )
    assert outcome.requests["status"].tolist() == [IN_FLIGHT] * 3
    assert not outcome.toll["reason"].any()


def test_users_who_wait_for_an_answer_ask_again_after_a_failure(
    pools: Callable[..., Deployment], wire: Callable[..., Emulator]
) -> None:
    lengths = Profile("flat", Constant(500), Constant(5), "test")
    users = Users(4, 40, Talk([lengths], MS, 1), 1)
    hops = np.full((2, 2), 4, np.int32)
    hazard = Hazard([Outage("fail", "prefill", i, 50 * MS) for i in range(2)], RULES)
    service = Service(pools(2, 2), policy("random", hops, seed=1), hops, hazard=hazard)
    outcome = serve_all(users, [service], wire(FLIGHT))
    status = outcome.requests["status"]
    assert len(status) == 40
    assert set(status.tolist()) == {FINISHED, FAILED}
    assert ((outcome.toll["reason"] == RETRIES) == (status == FAILED)).all()


class Silent(Random):
    """A policy that finds nobody."""

    def decode(self, request: Request, prefill: int, view: View) -> int:
        return NOBODY


def test_a_policy_that_finds_nobody_while_all_are_healthy_is_reported(
    pools: Callable[..., Deployment], wire: Callable[..., Emulator]
) -> None:
    hops = np.full((2, 2), 4, np.int32)
    service = Service(pools(2, 2), Silent(NoSettings(), hops, 1), hops, hazard=Hazard())
    with pytest.raises(PolicyError, match="chose nobody for request 0 although every instance"):
        serve_all(some(0), [service], wire(FLIGHT))


def test_what_no_memory_can_hold_is_rejected_as_ever(serve: Serve) -> None:
    outcome = serve(some(0), memory=LLAMA.kv_bytes(500))
    assert outcome.requests["status"][0] == REJECTED
    assert outcome.toll["attempts"][0] == 0
