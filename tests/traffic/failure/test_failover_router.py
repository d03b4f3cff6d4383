"""What a router does of instances that fail: whom it asks, how often, and how long it waits."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from traffic.emulator import Emulator
from traffic.failure.outage import Outage
from traffic.failure.resilience import Circuit, Hazard, Health, Resilience
from traffic.failure.toll import BUDGET, NOBODY_HEALTHY, RETRIES
from traffic.instance import Deployment
from traffic.policy.balance import Random
from traffic.policy.choice import NOBODY, NoSettings, PolicyError, Request, View
from traffic.policy.registry import policy
from traffic.record.ledger import FAILED, FINISHED
from traffic.request import RequestTable
from traffic.serving.router import Service
from traffic.serving.run import Outcome, serve_all
from traffic.source.crowd import Talk, Users
from traffic.source.length import Constant
from traffic.source.profile import Profile

MS = 10**9
FLIGHT = 5 * MS

Serve = Callable[..., Outcome]
Some = Callable[..., RequestTable]


def took(deployment: Deployment, tokens: int = 1000) -> int:
    return deployment.prefill.prefill_cost.ps(tokens)


def test_a_dead_instance_is_sent_requests_until_its_death_is_known(
    serve: Serve, some: Some, calm: Resilience
) -> None:
    # Probes at 100 and 200 ms: out at 200 ms. Before, every request goes there, fails, and takes
    # the turn of the other.
    rules = replace(calm, health=Health(100 * MS, 0, failures=2))
    arrivals = range(1 * MS, 400 * MS, 20 * MS)
    outcome = serve(some(*arrivals, tokens=10), Outage("fail", "prefill", 0, 1), rules=rules)
    toll, (unseen,) = outcome.toll, outcome.spells["unseen_ps"].tolist()
    assert unseen == 200 * MS
    late = np.array(arrivals) >= 200 * MS
    assert (toll["attempts"][late] == 1).all()
    assert (toll["attempts"][~late] == 2).all()
    assert (outcome.requests["prefill"] == 1).all()


def test_a_drained_instance_finishes_what_it_has_and_gets_nothing_new(
    serve: Serve, pools: Callable[..., Deployment], some: Some
) -> None:
    at = took(pools()) // 2
    requests = some(0, 0, 0, at + 1, at + 2, at + 3)
    outcome = serve(requests, Outage("drain", "prefill", 0, at))
    table = outcome.requests
    assert table["prefill"].tolist() == [0, 1, 0, 1, 1, 1]
    assert outcome.toll["attempts"].tolist() == [1] * 6
    assert table["status"].tolist() == [FINISHED] * 6


def test_an_instance_that_joins_gets_nothing_before_it_is_loaded_and_discovered(
    serve: Serve, some: Some, calm: Resilience
) -> None:
    rules = replace(calm, load_ps=50 * MS, discovery_ps=30 * MS)
    arrivals = range(0, 400 * MS, 10 * MS)
    outcome = serve(some(*arrivals, tokens=10), Outage("join", "decode", 1, 100 * MS), rules=rules)
    table = outcome.requests
    first = table["prefill_end_ps"][table["decode"] == 1].min()
    assert 180 * MS <= first < 210 * MS
    assert (outcome.toll["attempts"] == 1).all()


def test_requests_wait_while_nobody_is_healthy_and_fail_when_that_takes_too_long(
    serve: Serve, some: Some, calm: Resilience
) -> None:
    rules = replace(calm, health=Health(10 * MS, 0, failures=1, successes=1), wait_ps=100 * MS)
    outages = [Outage("fail", "prefill", i, 0, 200 * MS) for i in range(2)]
    outcome = serve(some(50 * MS, 99 * MS, 101 * MS, 150 * MS), *outages, rules=rules)
    table, toll = outcome.requests, outcome.toll
    assert table["status"].tolist() == [FAILED, FAILED, FINISHED, FINISHED]
    assert toll["reason"].tolist() == [NOBODY_HEALTHY, NOBODY_HEALTHY, 0, 0]
    assert toll["failed_ps"].tolist() == [150 * MS, 199 * MS, -1, -1]
    assert toll["attempts"].tolist() == [0, 0, 1, 1]
    assert table["prefill_start_ps"][2] == 200 * MS


def test_a_prompt_waits_with_its_cache_while_no_decode_instance_is_healthy(
    serve: Serve,
    pools: Callable[..., Deployment],
    some: Some,
    calm: Resilience,
) -> None:
    rules = replace(calm, health=Health(10 * MS, 0, failures=1, successes=1))
    outages = [Outage("fail", "decode", i, 0, 200 * MS) for i in range(2)]
    outcome = serve(some(50 * MS), *outages, rules=rules)
    table = outcome.requests
    assert table["prefill_end_ps"][0] == 50 * MS + took(pools())
    assert table["admitted_ps"][0] == 200 * MS
    assert outcome.toll["attempts"][0] == 1


def test_attempts_are_limited_and_each_takes_the_timeout_and_the_pause(
    serve: Serve, some: Some, calm: Resilience
) -> None:
    rules = replace(calm, retry=replace(calm.retry, retries=3))
    outages = [Outage("fail", "prefill", i, 0) for i in range(2)]
    outcome = serve(some(5 * MS), *outages, rules=rules)
    assert outcome.toll["attempts"][0] == 4
    assert outcome.toll["reason"][0] == RETRIES
    assert outcome.toll["failed_ps"][0] == 5 * MS + 4 * 10 * MS + 3 * 2 * MS


def test_a_retry_budget_refuses_what_would_be_a_storm(
    serve: Serve, some: Some, calm: Resilience
) -> None:
    rules = replace(calm, retry=replace(calm.retry, budget=0.2, least=1))
    # Ten requests wait on each side of a pool whose instance 0 dies: 20 % of 20 may be retried.
    outcome = serve(some(*[0] * 20), Outage("fail", "prefill", 0, MS), rules=rules)
    reasons = outcome.toll["reason"]
    assert (reasons == BUDGET).sum() == 10 - 4
    assert (outcome.requests["status"] == FINISHED).sum() == 14


def test_a_black_hole_draws_requests_to_itself_and_a_breaker_ends_that(
    serve: Serve, some: Some, calm: Resilience
) -> None:
    # Refused at once, so that the dead instance is always the least loaded.
    arrivals = [10 * MS * i for i in range(200)]
    rules = replace(calm, timeout_ps=MS, retry=replace(calm.retry, retries=3))
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


def test_users_who_wait_for_an_answer_ask_again_after_a_failure(
    pools: Callable[..., Deployment], wire: Callable[..., Emulator], calm: Resilience
) -> None:
    lengths = Profile("flat", Constant(500), Constant(5), "test")
    users = Users(4, 40, Talk([lengths], MS, 1), 1)
    hops = np.full((2, 2), 4, np.int32)
    hazard = Hazard([Outage("fail", "prefill", i, 50 * MS) for i in range(2)], calm)
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
    pools: Callable[..., Deployment],
    wire: Callable[..., Emulator],
    some: Some,
) -> None:
    hops = np.full((2, 2), 4, np.int32)
    service = Service(pools(2, 2), Silent(NoSettings(), hops, 1), hops, hazard=Hazard())
    with pytest.raises(PolicyError, match="chose nobody for request 0 although every instance"):
        serve_all(some(0), [service], wire(FLIGHT))
