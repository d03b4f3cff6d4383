"""What holds for every policy: health, missing parts of the view, orders of choice, defaults."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traffic.emulator import Emulator
from traffic.instance import Deployment
from traffic.policy.choice import LATER, NOBODY, REFUSED, SIGHTS, Request, View
from traffic.policy.registry import POLICIES, policy
from traffic.request import request_table
from traffic.serving.mode import Serving
from traffic.serving.router import Service
from traffic.serving.run import Outcome, serve_all

Picture = Callable[..., View]
NAMES = sorted(POLICIES)
RACKS = [[2, 2, 4, 4], [2, 2, 4, 4], [4, 4, 2, 2], [4, 4, 2, 2]]
JOINT = [name for name in NAMES if {"pair", "scores"} & set(dir(POLICIES[name]))]


def ask(number: int = 0, decode: int = -1) -> Request:
    return Request(
        number, 160, 150, 160_000, number % 5, blocks=(1, 2, 3), block_tokens=50, decode=decode
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_tells_what_it_sees_and_where_it_comes_from(name: str) -> None:
    kind = POLICIES[name]
    assert kind.name == name
    assert kind.sees <= set(SIGHTS)
    assert kind.source
    assert kind.__doc__
    fields = kind.settings.__struct_fields__
    told = " ".join(doc or "" for doc in (c.__doc__ for c in kind.settings.__mro__))
    assert all(field in told for field in fields)


@pytest.mark.parametrize("name", NAMES)
def test_with_every_part_of_the_view_missing_or_there_a_healthy_instance_is_chosen(
    name: str, picture: Picture
) -> None:
    bare = picture(RACKS)
    full = picture(
        RACKS, held=[1, 2, 3, 0], held_decode=[0, 3, 0, 1], pool=2, busy=RACKS, times=True
    )
    assert full.network is not None
    for state in (bare, full):
        state.prefill_healthy[1] = state.decode_healthy[2] = False
        chosen = policy(name, state.hops)
        for i in range(20):
            p = chosen.prefill(ask(i), state)
            assert p in (0, 2, 3)
            assert chosen.decode(ask(i), p, state) in (0, 1, 3)
            d = chosen.decode(ask(i), -1, state)
            assert d in (0, 1, 3)
            assert chosen.prefill(ask(i, d), state) in (0, 2, 3)


@pytest.mark.parametrize("name", NAMES)
def test_with_nobody_healthy_the_answer_is_nobody(name: str, picture: Picture) -> None:
    state = picture(RACKS, times=True)
    state.prefill_healthy[:] = state.decode_healthy[:] = False
    chosen = policy(name, state.hops)
    assert chosen.prefill(ask(), state) == NOBODY
    assert chosen.decode(ask(), 0, state) == NOBODY
    assert chosen.decode(ask(), -1, state) == NOBODY


@given(
    name=st.sampled_from(NAMES),
    loads=st.lists(st.integers(0, 40), min_size=8, max_size=8),
    healthy=st.lists(st.booleans(), min_size=8, max_size=8),
    number=st.integers(0, 10**6),
    seed=st.integers(0, 5),
)
def test_the_same_question_gets_the_same_answer_and_never_an_unhealthy_one(
    name: str, loads: list[int], healthy: list[bool], number: int, seed: int
) -> None:
    state = View.idle(np.array(RACKS, np.int32))
    state.prefill_requests[:], state.decode_requests[:] = loads[:4], loads[4:]
    state.prefill_tokens[:], state.decode_tokens[:] = loads[:4], loads[4:]
    state.prefill_healthy[:], state.decode_healthy[:] = healthy[:4], healthy[4:]
    answers = set()
    for _ in range(2):
        chosen = policy(name, state.hops, seed=seed)
        p = chosen.prefill(ask(number), state)
        d = chosen.decode(ask(number), max(p, 0), state)
        assert p in (NOBODY, REFUSED, LATER) or state.prefill_healthy[p]
        assert d == NOBODY or state.decode_healthy[d]
        answers.add((p, d))
    assert len(answers) == 1


@pytest.mark.parametrize(
    ("name", "order"),
    [
        (n, o)
        for n in NAMES
        for o in ("prefill_first", "decode_first", "joint")
        if o != "joint" or n in JOINT
    ],
)
def test_every_order_of_choice_serves_all(
    name: str,
    order: str,
    pools: Callable[..., Deployment],
    wire: Callable[..., Emulator],
) -> None:
    rng = np.random.default_rng(3)
    requests = request_table(
        arrival_ps=np.cumsum(rng.exponential(10**10, 40)).astype(np.int64),
        input_tokens=rng.integers(1, 1000, 40),
        output_tokens=rng.integers(0, 20, 40),
    )
    hops = np.array(RACKS, np.int32)
    service = Service(pools(4, 4), policy(name, hops), hops, order=order)
    outcome = serve_all(requests, [service], wire())
    assert not outcome.requests["status"].any()
    used = outcome.requests["prefill"]
    assert set(used.tolist()) <= set(range(4))
    assert len(set(used.tolist())) > 1


@pytest.mark.parametrize("name", NAMES)
def test_a_colocated_service_is_served_by_every_policy(
    name: str, pools: Callable[..., Deployment], run: Callable[..., Outcome]
) -> None:
    requests = request_table(
        arrival_ps=np.arange(30) * 10**9,
        input_tokens=np.full(30, 100),
        output_tokens=np.full(30, 5),
    )
    outcome = run(requests, pools(2, 2), name, rules=Serving(mode="colocated"))
    assert not outcome.requests["status"].any()
    assert len(set(outcome.requests["prefill"].tolist())) > 1


def test_a_joint_choice_keeps_to_a_required_taint(
    pools: Callable[..., Deployment], wire: Callable[..., Emulator]
) -> None:
    requests = request_table(
        arrival_ps=np.arange(30) * 10**9,
        input_tokens=np.full(30, 100),
        output_tokens=np.full(30, 5),
    )
    hops = np.array(RACKS, np.int32)
    chosen = policy("dynamo_kv", hops, settings={"taint": "required"})
    outcome = serve_all(requests, [Service(pools(4, 4), chosen, hops, order="joint")], wire())
    pairs = zip(outcome.requests["prefill"], outcome.requests["decode"], strict=True)
    assert {int(hops[p, d]) for p, d in pairs} == {2}
