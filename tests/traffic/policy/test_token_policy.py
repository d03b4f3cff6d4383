"""token_jsq, vllm and power_of_two by hand, ties included."""

from collections import Counter
from collections.abc import Callable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traffic.draw import draw
from traffic.policy.choice import NOBODY, NoSettings, Request, View
from traffic.policy.token import PowerOfTwo, PowerOfTwoSettings, TokenJsq, TokenSettings, Vllm

FLAT = [[4] * 4] * 4
Picture = Callable[..., View]


def ask(number: int = 0) -> Request:
    return Request(number, 550, 150, 1000)


def test_token_jsq_counts_tokens_and_not_requests(picture: Picture) -> None:
    state = picture(FLAT, prefill_requests=[1, 2, 3, 4], prefill_tokens=[900, 800, 100, 400])
    assert TokenJsq(TokenSettings(), state.hops, 0).prefill(ask(), state) == 2


def test_token_jsq_counts_one_token_a_request_at_decode_or_all_of_their_prompts(
    picture: Picture,
) -> None:
    state = picture(FLAT, decode_requests=[3, 2, 1, 2], decode_tokens=[10, 20, 900, 30])
    assert TokenJsq(TokenSettings(), state.hops, 0).decode(ask(), 0, state) == 2
    prompts = TokenJsq(TokenSettings(decode="prompts"), state.hops, 0)
    assert prompts.decode(ask(), 0, state) == 0


def test_token_jsq_spreads_ties(picture: Picture) -> None:
    state = picture(FLAT, prefill_tokens=[5, 1, 1, 5])
    policy = TokenJsq(TokenSettings(), state.hops, 1)
    chosen = Counter(policy.prefill(ask(i), state) for i in range(200))
    assert set(chosen) == {1, 2}
    assert min(chosen.values()) > 60


def test_vllm_counts_a_waiting_request_four_times(picture: Picture) -> None:
    # 4 x waiting + running: 4 x 1 + 1 = 5, 6, 4 x 1 = 4, 4 x 2 = 8.
    state = picture(FLAT, prefill_requests=[2, 6, 1, 2], prefill_running=[1, 6, 0, 0])
    assert Vllm(NoSettings(), state.hops, 0).prefill(ask(), state) == 2
    # Six that run, or one that waits and one that runs: 6 against 5.
    state = picture(FLAT, decode_requests=[6, 2, 9, 9], decode_running=[6, 1, 9, 9])
    assert Vllm(NoSettings(), state.hops, 0).decode(ask(), 0, state) == 1


def test_two_that_wait_weigh_more_than_seven_that_run_and_less_than_nine(picture: Picture) -> None:
    for running, chosen in ((7, 1), (9, 0)):
        state = picture([[4, 4]], decode_requests=[2, running], decode_running=[0, running])
        assert Vllm(NoSettings(), state.hops, 0).decode(ask(), 0, state) == chosen


def test_vllm_takes_ties_in_turn_in_each_pool_apart(picture: Picture) -> None:
    state = picture(FLAT, prefill_requests=[0, 1, 0, 0])
    policy = Vllm(NoSettings(), state.hops, 0)
    assert [policy.prefill(ask(i), state) for i in range(5)] == [0, 2, 3, 0, 2]
    assert [policy.decode(ask(i), 0, state) for i in range(5)] == [0, 1, 2, 3, 0]


def test_power_of_two_of_two_takes_the_less_loaded_by_tokens_or_by_requests(
    picture: Picture,
) -> None:
    two = [[4, 4], [4, 4]]
    state = picture(two, prefill_requests=[10, 2], prefill_tokens=[1_000, 100_000])
    tokens = PowerOfTwo(PowerOfTwoSettings(), state.hops, 0)
    requests = PowerOfTwo(PowerOfTwoSettings(load="requests"), state.hops, 0)
    assert {tokens.prefill(ask(i), state) for i in range(50)} == {0}
    assert {requests.prefill(ask(i), state) for i in range(50)} == {1}


def test_power_of_two_of_three_takes_the_middle_one_in_a_third_of_the_draws(
    picture: Picture,
) -> None:
    # Pairs of {0, 1, 2} with loads 2 > 1 > 0: the lightest wins two of three pairs, the middle one.
    state = picture([[4, 4, 4]], decode_tokens=[20, 10, 0])
    policy = PowerOfTwo(PowerOfTwoSettings(), state.hops, 5)
    chosen = Counter(policy.decode(ask(i), 0, state) for i in range(3000))
    assert chosen[0] == 0
    assert 900 < chosen[1] < 1100
    assert 1900 < chosen[2] < 2100


def test_power_of_two_takes_the_first_drawn_on_a_tie_and_so_everyone_equally(
    picture: Picture,
) -> None:
    state = picture(FLAT)
    policy = PowerOfTwo(PowerOfTwoSettings(), state.hops, 2)
    taken = [policy.prefill(ask(i), state) for i in range(2000)]
    assert taken == [draw(2, "policy first prefill", i, 4) for i in range(2000)]
    chosen = Counter(taken)
    assert all(400 < chosen[i] < 600 for i in range(4))


@given(st.lists(st.booleans(), min_size=4, max_size=4), st.integers(0, 10**6))
def test_these_never_take_an_unhealthy_instance(healthy: list[bool], number: int) -> None:
    state = View.idle(np.full((4, 4), 4, np.int32))
    state.prefill_healthy[:] = state.decode_healthy[:] = healthy
    for policy in (
        TokenJsq(TokenSettings(), state.hops, 0),
        Vllm(NoSettings(), state.hops, 0),
        PowerOfTwo(PowerOfTwoSettings(), state.hops, 0),
    ):
        for chosen in (policy.prefill(ask(number), state), policy.decode(ask(number), 0, state)):
            assert chosen == NOBODY if not any(healthy) else healthy[chosen]
