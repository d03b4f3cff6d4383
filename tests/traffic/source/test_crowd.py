"""A closed loop: users ask again only after their answers, as queueing theory says."""

from collections.abc import Callable
from math import sqrt

import numpy as np
import pytest

from topo.error import KvfabricError
from traffic.compute.measured import Curve, Measurements
from traffic.emulator import Emulator
from traffic.error import RequestError
from traffic.instance import Deployment
from traffic.policy.registry import policy
from traffic.serving.router import Service
from traffic.serving.run import Outcome, serve_all
from traffic.source.crowd import Talk, Users, Work, talk
from traffic.source.length import Constant, Normal
from traffic.source.profile import Profile
from traffic.source.session import Agent, played
from traffic.source.tenant import Tenant

S = 10**12
MS = 10**9
FLAT = Profile("flat", Constant(500), Constant(0), "test")
ONE_S = Measurements(Curve(((1, S),)))


@pytest.fixture
def asked(
    pools: Callable[..., Deployment], wire: Callable[..., Emulator]
) -> Callable[..., Outcome]:
    """Serves users on so many prefill and decode instances."""

    def served(users: Users, prefill: int = 1, decode: int = 1, **keys: object) -> Outcome:
        hops = np.full((prefill, decode), 4, np.int32)
        deployment = pools(prefill, decode, **keys)
        return serve_all(users, [Service(deployment, policy("least_loaded", hops), hops)], wire())

    return served


def test_a_lone_user_asks_again_exactly_a_thought_after_the_answer(
    asked: Callable[..., Outcome],
) -> None:
    lengths = Profile("some", Normal(300, 100), Normal(20, 5), "test")
    table = asked(Users(1, 200, Talk([lengths], 3 * S, 7), 7)).requests
    script = Talk([lengths], 3 * S, 7)
    ended = 0
    for place in range(200):
        turn = script.turn(0)
        assert table["arrival_ps"][place] == ended + turn.pause_ps
        assert table["input_tokens"][place] == turn.input_tokens
        ended = int(table["finish_ps"][place])
    assert (table["status"] == 0).all()


@pytest.mark.parametrize("users", [2, 6])
def test_machines_of_one_repairman_keep_him_as_busy_as_the_closed_queue_says(
    asked: Callable[..., Outcome], users: int
) -> None:
    """M/M/1//N: throughput from the closed form, with exponential service and thought."""
    # Tokens are exponential (in thousandths of the mean) and a token takes a fixed time.
    each = Measurements(Curve(((1, MS), (10**6, 10**6 * MS))))

    class Exponential:
        def draw(self, count: int, random: np.random.Generator) -> np.ndarray:
            return np.maximum(1, np.rint(random.exponential(1000, count))).astype(np.int32)

    lengths = Profile("exponential", Exponential(), Constant(0), "test")
    count, ratio = 12_000, 2.0  # thought over service
    table = asked(Users(users, count, Talk([lengths], 2 * S, 1), 1), measured=each).requests
    weights = [1.0]
    for waiting in range(1, users + 1):
        weights.append(weights[-1] * (users - waiting + 1) / ratio)
    busy = 1 - weights[0] / sum(weights)
    finish = np.sort(table["finish_ps"].astype(np.int64))
    served = (len(finish) - 1) / (int(finish[-1]) - int(finish[0])) * S  # a second, of 1 s each
    assert abs(served - busy) < 4 * sqrt(2 / count) * busy


def test_users_obey_the_interactive_response_time_law_and_are_never_more_under_way(
    asked: Callable[..., Outcome],
) -> None:
    users, count = 12, 3000
    lengths = Profile("some", Normal(500, 100), Normal(30, 10), "test")
    script = Talk([lengths], S // 5, 3)
    table = asked(Users(users, count, script, 3), 2, 1, max_batch=4).requests
    arrival, finish = (np.asarray(table[n], np.int64) for n in ("arrival_ps", "finish_ps"))
    assert (np.diff(arrival) >= 0).all()
    # N = X (R + Z), over whole cycles: every user's time is response and thought, nothing else.
    cycles = np.sum(finish - arrival) / S
    thoughts = users * int(finish.max()) / S - cycles
    assert abs(thoughts / count - 0.2) < 5 * 0.2 / sqrt(count) + 0.01
    for at in arrival[::37].tolist():
        assert ((arrival <= at) & (finish > at)).sum() <= users


def test_a_slower_network_makes_users_ask_later_but_never_less(
    pools: Callable[..., Deployment], wire: Callable[..., Emulator]
) -> None:
    lengths = Profile("some", Normal(500, 100), Normal(5, 1), "test")
    hops = np.full((1, 1), 4, np.int32)

    def served(flight: int) -> Outcome:
        users = Users(3, 90, Talk([lengths], S, 5), 5)
        service = Service(pools(), policy("random", hops), hops)
        return serve_all(users, [service], wire(flight))

    fast, slow = served(MS), served(2 * S)
    assert slow.end_ps > fast.end_ps + 30 * S
    for outcome in (fast, slow):
        assert len(outcome.requests["request"]) == 90
        assert (outcome.requests["status"] == 0).all()


def test_a_refused_request_is_thought_over_and_the_run_goes_on(
    asked: Callable[..., Outcome],
) -> None:
    huge = Profile("huge", Constant(10**6), Constant(10), "test")
    table = asked(Users(2, 10, Talk([huge], S, 1), 1), memory=10**9).requests
    assert (table["status"] == 2).all()
    assert len(table["status"]) == 10


def test_users_play_the_sessions_of_an_agent_call_by_call(asked: Callable[..., Outcome]) -> None:
    agent = Agent(turns=2, calls=3, context=60_000, retry=0)
    users = Users(4, 120, Work(played(agent, 9), 9), 9)
    table = asked(users, 4, 1).requests
    pool = played(agent, 9)
    known = {pool.rows(session) for session in range(len(pool))}
    heads = {tuple(pool.attempt(row)[:2]) for first, _ in known for row in [first]}
    sessions = table["session"]
    assert sessions.max() >= 4
    for number in np.unique(sessions):
        mine = sessions == number
        arrival, finish = table["arrival_ps"][mine], table["finish_ps"][mine]
        assert (arrival[1:] >= finish[:-1]).all()  # the next call waits for the answer
        tokens = table["input_tokens"][mine]
        assert (np.diff(tokens) >= 0).all()  # the context grows
        assert (int(tokens[0]), int(table["output_tokens"][mine][0])) in heads


def test_users_belong_to_tenants_and_models_for_good_and_by_share(
    asked: Callable[..., Outcome],
) -> None:
    tenants = [Tenant("a", 0.25, 1), Tenant("b", 0.75, 6, FLAT)]
    lengths = Profile("other", Constant(9), Constant(0), "test")
    users = Users(400, 800, talk(400, tenants, lengths, S, 2), 2, tenants=tenants)
    table = asked(users, measured=ONE_S).requests
    mine = table["tenant"] == 1
    assert abs(mine[:400].mean() - 0.75) < 5 * sqrt(0.75 * 0.25 / 400)
    assert set(table["priority"][mine].tolist()) == {6}
    assert set(table["input_tokens"][mine].tolist()) == {500}
    assert set(table["input_tokens"][~mine].tolist()) == {9}


def test_the_same_seed_gives_the_same_users(asked: Callable[..., Outcome]) -> None:
    one, two, other = (
        asked(Users(5, 60, Talk([FLAT], S, seed), seed)).requests for seed in (1, 1, 2)
    )
    for name in one:
        assert one[name].tobytes() == two[name].tobytes()
    assert one["arrival_ps"].tolist() != other["arrival_ps"].tolist()


@pytest.mark.parametrize(("users", "count"), [(0, 5), (6, 5)])
def test_a_crowd_that_cannot_be_is_refused(users: int, count: int) -> None:
    with pytest.raises(RequestError, match=r"closed.users \d for 5 requests"):
        Users(users, count, Talk([FLAT], S, 1), 1)
    with pytest.raises(KvfabricError, match=r"closed.think -1 ps"):
        talk(1, [], FLAT, -1, 1)
