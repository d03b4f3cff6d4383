"""The SLO guard: when it acts, what it then does, and that it rests otherwise."""

from collections.abc import Callable

import pytest

from topo.unit import PS_PER_MS
from traffic.policy.choice import LATER, NOBODY, PolicyError, Request, View
from traffic.policy.guard import GuardSettings, SloGuard

FLAT = [[4, 4], [4, 4]]
Picture = Callable[..., View]
LATE, FINE = 60 * PS_PER_MS, 40 * PS_PER_MS  # against a budget of 50 ms


def ask(number: int = 0, tokens: int = 100) -> Request:
    return Request(
        number, tokens, 150, tokens * 1000, priority=3, blocks=(1, 2, 3, 4), block_tokens=25
    )


def guard(state: View, **settings: object) -> SloGuard:
    return SloGuard(GuardSettings(**settings), state.hops, 0)  # type: ignore[arg-type]


def late(state: View, count: int = 5, of: int = 100) -> View:
    state.handoff_ps.extend([FINE] * (of - count) + [LATE] * count)
    return state


def test_it_acts_when_hand_offs_are_late_and_queues_are_short(picture: Picture) -> None:
    state = late(picture(FLAT), 2)
    policy = guard(state)
    policy.look(state)
    assert policy.acts
    state = late(picture(FLAT), 1)
    policy = guard(state)
    policy.look(state)
    assert not policy.acts


def test_it_does_not_act_when_compute_is_behind(picture: Picture) -> None:
    # Waiting: 4 - 1 and 2 - 1, two an instance: not above 2. One more is.
    state = late(picture(FLAT, prefill_requests=[4, 2], prefill_running=[1, 1]), 50)
    policy = guard(state)
    policy.look(state)
    assert policy.acts
    state.prefill_requests[0] = 5
    state.now_ps = 10 * PS_PER_MS
    policy.look(state)
    assert not policy.acts


def test_it_needs_to_have_seen_some_hand_offs(picture: Picture) -> None:
    for of, acts in ((31, False), (32, True)):
        state = late(picture(FLAT), of, of)
        policy = guard(state)
        policy.look(state)
        assert policy.acts is acts


def test_it_acts_when_the_ways_are_full(picture: Picture) -> None:
    state = picture(FLAT, busy=[[0.7, 0.9], [0.8, 0.8]])
    policy = guard(state)
    policy.look(state)
    assert policy.acts
    policy = guard(state, utilisation=0.81)
    policy.look(state)
    assert not policy.acts


def test_it_sees_a_new_picture_of_the_ways(picture: Picture) -> None:
    state = picture(FLAT, busy=[[0.1, 0.1], [0.1, 0.1]])
    policy = guard(state)
    policy.look(state)
    assert not policy.acts
    assert state.network is not None
    state.network.utilisation()[:] = 0.9
    state.network.at_ps = 1  # type: ignore[misc]
    state.now_ps = 10 * PS_PER_MS
    policy.look(state)
    assert policy.acts


def test_it_looks_now_and_then_and_rests_below_half_of_the_bound(picture: Picture) -> None:
    state = late(picture(FLAT), 2)
    policy = guard(state)
    policy.look(state)
    state.handoff_ps.clear()
    late(state, 1)  # half of 2 %
    state.now_ps = 10 * PS_PER_MS
    policy.look(state)
    assert policy.acts
    state.handoff_ps.clear()
    late(state, 0)
    state.now_ps = 15 * PS_PER_MS
    policy.look(state)
    assert policy.acts  # not looked at yet
    state.now_ps = 20 * PS_PER_MS
    policy.look(state)
    assert not policy.acts
    assert policy.counters()["acted"] == 1
    assert policy.counters()["acted_ms"] == 20


def test_at_rest_it_is_the_least_loaded_and_changes_nothing(picture: Picture) -> None:
    state = picture([[2, 4], [4, 2]], held=[4, 0], prefill_requests=[1, 0], decode_requests=[1, 0])
    policy = guard(state, long_tokens=50)
    assert policy.priority(ask(), state) == 3
    assert policy.prefill(ask(), state) == 1
    assert policy.decode(ask(), 0, state) == 1
    assert set(policy.counters().values()) == {0}


def test_acting_it_prefills_where_least_is_read_from_the_pool(picture: Picture) -> None:
    # Load 3 allows ceil(1.5 x 4 / 4) = 2 with this request.
    state = late(picture([[4]] * 4, held=[3, 0, 0, 0], pool=3, prefill_requests=[1, 1, 1, 0]))
    policy = guard(state)
    assert policy.prefill(ask(), state) == 0
    assert policy.counters()["reuse"] == 1
    assert guard(state, reuse=False).prefill(ask(), state) == 3
    state.prefill_requests[0] = 2  # and load 4 no more
    assert policy.prefill(ask(), state) == 3


def test_acting_it_chases_no_cache_that_spares_the_fabric_nothing(picture: Picture) -> None:
    state = late(picture(FLAT, held=[4, 0], prefill_requests=[1, 0]))
    assert guard(state).prefill(ask(), state) == 1


def test_acting_it_decodes_near_by_and_where_least_is_missing(picture: Picture) -> None:
    state = late(picture([[2, 4, 4, 4]], decode_requests=[1, 0, 0, 1]))
    policy = guard(state)
    # Load 2: at most ceil(1.5 x 3 / 4) = 2 with this request.
    assert policy.decode(ask(), 0, state) == 0
    assert policy.counters()["near"] == 1
    assert guard(state, near=False, reuse=False).decode(ask(), 0, state) in (1, 2)
    state.decode_requests[0] = 2  # ceil(1.5 x 4 / 4) = 2: overloaded now
    assert policy.decode(ask(), 0, state) in (1, 2)
    # A quarter of the bytes over twice the links: less than all of them near by.
    held = late(picture([[2, 4, 4, 4]], held_decode=[0, 3, 0, 0]))
    assert guard(held).decode(ask(), 0, held) == 1
    assert guard(held, reuse=False).decode(ask(), 0, held) == 0
    assert guard(held, near=False).decode(ask(), 0, held) == 1
    assert guard(held).decode(ask(), -1, held) == 1


def test_acting_it_ranks_short_prompts_up_and_long_ones_down(picture: Picture) -> None:
    state = late(picture(FLAT))
    policy = guard(state, long_tokens=500)
    assert policy.priority(ask(), state) == 4
    assert policy.priority(ask(tokens=500), state) == 2
    assert policy.priority(ask()._replace(priority=7), state) == 7
    assert policy.priority(ask(tokens=500)._replace(priority=0), state) == 0
    assert policy.counters()["ranked"] == 4
    assert guard(state, rank=False).priority(ask(), state) == 3


def test_acting_it_holds_long_prompts_back_for_a_while(picture: Picture) -> None:
    state = late(picture(FLAT))
    policy = guard(state, long_tokens=500, hold="30ms")
    assert policy.prefill(ask(0), state) >= 0
    assert policy.prefill(ask(1, 500), state) == LATER
    state.now_ps = 29 * PS_PER_MS
    assert policy.prefill(ask(1, 500), state) == LATER
    state.now_ps = 30 * PS_PER_MS
    assert policy.prefill(ask(1, 500), state) >= 0
    assert policy.counters()["held"] == 1
    assert guard(state, long_tokens=500, hold="0s").prefill(ask(1, 500), state) >= 0


def test_a_long_prompt_that_is_cached_somewhere_is_not_held_back(picture: Picture) -> None:
    state = late(picture(FLAT, held=[4, 0]))
    policy = guard(state, long_tokens=500)
    assert policy.prefill(ask(1, 599), state) >= 0
    assert policy.prefill(ask(2, 600), state) == LATER


def test_a_held_prompt_goes_on_as_soon_as_the_guard_rests(picture: Picture) -> None:
    state = late(picture(FLAT))
    policy = guard(state, long_tokens=500)
    assert policy.prefill(ask(1, 500), state) == LATER
    state.handoff_ps.clear()
    state.now_ps = 10 * PS_PER_MS
    assert policy.prefill(ask(1, 500), state) >= 0


def test_the_unhealthy_are_left_out_at_rest_and_acting(picture: Picture) -> None:
    for state in (picture(FLAT), late(picture(FLAT, held=[4, 0]))):
        state.prefill_healthy[0] = state.decode_healthy[0] = False
        policy = guard(state)
        assert policy.prefill(ask(), state) == 1
        assert policy.decode(ask(), 1, state) == 1
        state.prefill_healthy[:] = state.decode_healthy[:] = False
        assert policy.prefill(ask(), state) == NOBODY
        assert policy.decode(ask(), 1, state) == NOBODY


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"over": 0}, "slo_guard over 0"),
        ({"utilisation": 1.5}, "slo_guard utilisation 1"),
        ({"queue": -1}, "slo_guard queue -1"),
        ({"long_tokens": 0}, "slo_guard long_tokens 0"),
        ({"bound": 0.5}, "slo_guard bound 0"),
        ({"budget": "5"}, "slo_guard budget: .*'5'"),
    ],
)
def test_impossible_settings_are_refused(
    picture: Picture, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(PolicyError, match=message):
        guard(picture(FLAT), **settings)
