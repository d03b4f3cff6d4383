"""Mooncake's Algorithm 1 by hand: own match, the pool's match, refusals, the least TBT."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.unit import PS_PER_MS
from traffic.policy.choice import NOBODY, REFUSED, PolicyError, Request, View
from traffic.policy.conductor import Conductor, ConductorSettings, step_times

FLAT = [[4] * 3] * 3
Picture = Callable[..., View]


def ask(number: int = 0) -> Request:
    """160 tokens in ten blocks of 1 Mbit each; a token takes 1 ms to prefill."""
    return Request(number, 160, 150, 10 * 125_000, blocks=tuple(range(1, 11)), block_tokens=16)


def mooncake(state: View, **settings: object) -> Conductor:
    return Conductor(ConductorSettings(**settings), state.hops, 0)  # type: ignore[arg-type]


def in_ms(cost: np.ndarray) -> list[float]:  # type: ignore[type-arg]
    return (cost / PS_PER_MS).tolist()


def test_the_published_slos() -> None:
    assert ConductorSettings().ttft_slo == "30s"
    assert ConductorSettings().tbt_slo == "200ms"
    assert ConductorSettings().reject


def test_ttft_is_the_queue_and_the_prefill_after_the_own_match(picture: Picture) -> None:
    # 160 ms, 64 + 100 ms, 128 + 0 ms.
    state = picture(
        FLAT, held=[0, 6, 2], prefill_free_ps=[0, 100 * PS_PER_MS, 0], times=True, now_ps=0
    )
    policy = mooncake(state)
    assert in_ms(policy.prefill_cost(ask(), state)) == [160, 164, 128]
    assert policy.prefill(ask(), state) == 2
    state.now_ps = 60 * PS_PER_MS  # the queue of 1 is down to 40 ms: 104 ms
    assert policy.prefill(ask(), state) == 1


def test_a_much_longer_match_of_the_pool_is_fetched(picture: Picture) -> None:
    # Pool 8: more than 2 x 0 and 2 x 3, not more than 2 x 4. At 1 Gbit/s a block takes 1 ms.
    state = picture(FLAT, held=[0, 3, 4], pool=8, times=True)
    policy = mooncake(state, transfer_rate="1Gbps")
    # 32 + 8 ms, 32 + 5 ms, 96 ms.
    assert in_ms(policy.prefill_cost(ask(), state)) == [40, 37, 96]
    assert policy.prefill(ask(), state) == 1
    assert policy.counters() == {"refused_ttft": 0, "refused_tbt": 0, "fetched": 1}
    lower = mooncake(state, transfer_rate="1Gbps", balancing_threshold=1.9)
    assert in_ms(lower.prefill_cost(ask(), state)) == [40, 37, 36]


def test_a_slow_fetch_loses_against_computing(picture: Picture) -> None:
    # 8 blocks at 10 Mbit/s: 800 ms; own match of 1 at instance 1, not doubled by the pool's 2.
    state = picture(FLAT, held=[0, 1, 0], pool=2, times=True)
    policy = mooncake(state, transfer_rate="10Mbps")
    assert policy.prefill(ask(), state) == 1
    assert policy.counters()["fetched"] == 0


def test_a_ttft_over_its_slo_is_refused(picture: Picture) -> None:
    state = picture(FLAT, times=True)
    assert mooncake(state, ttft_slo="160ms").prefill(ask(), state) >= 0
    strict = mooncake(state, ttft_slo="159ms")
    assert strict.prefill(ask(), state) == REFUSED
    assert strict.pair(ask(), state) == (REFUSED, REFUSED)
    assert strict.counters()["refused_ttft"] == 2
    assert mooncake(state, ttft_slo="159ms", reject=False).prefill(ask(), state) >= 0


def test_a_tbt_over_its_slo_everywhere_is_refused(picture: Picture) -> None:
    # A step takes 1 ms a sequence and 1 us a token: 3 + 0.26 ms at best.
    state = picture(FLAT, decode_requests=[2, 3, 4], decode_tokens=[100, 100, 100], times=True)
    assert mooncake(state, tbt_slo="3.26ms").prefill(ask(), state) >= 0
    strict = mooncake(state, tbt_slo="3.25ms")
    assert strict.prefill(ask(), state) == REFUSED
    assert strict.counters()["refused_tbt"] == 1
    assert strict.prefill(ask()._replace(output_tokens=0), state) >= 0


def test_decode_is_the_least_next_step(picture: Picture) -> None:
    # 3 + 9.16, 5 + 0.16, 4 + 2.16 ms.
    state = picture(FLAT, decode_requests=[2, 4, 3], decode_tokens=[9000, 0, 2000], times=True)
    assert mooncake(state).decode(ask(), 0, state) == 1


def test_an_unhealthy_instance_neither_wins_nor_hides_the_others(picture: Picture) -> None:
    state = picture(
        FLAT,
        decode_requests=[0, 4, 3],
        decode_tokens=[0, 0, 2000],
        decode_healthy=[False, True, True],
        held=[10, 0, 0],
        prefill_healthy=[False, True, True],
        times=True,
    )
    policy = mooncake(state)
    assert policy.decode(ask(), 1, state) == 1
    assert policy.prefill(ask(), state) in (1, 2)
    state.prefill_healthy[:] = False
    assert policy.prefill(ask(), state) == NOBODY
    state.prefill_healthy[:] = True
    state.decode_healthy[:] = False
    assert policy.prefill(ask(), state) == 0  # nobody to be slow: the router waits for one
    assert policy.decode(ask(), 0, state) == NOBODY


def test_without_times_tokens_take_their_place_and_nobody_is_refused(picture: Picture) -> None:
    state = picture(FLAT, held=[0, 6, 0], prefill_tokens=[0, 100, 50], decode_tokens=[5, 4, 9])
    policy = mooncake(state, ttft_slo="1ns")
    assert policy.prefill_cost(ask(), state).tolist() == [160, 164, 210]
    assert policy.prefill(ask(), state) == 0
    assert policy.decode(ask(), 0, state) == 1


def test_both_are_chosen_at_arrival_where_asked(picture: Picture) -> None:
    state = picture(FLAT, held=[0, 0, 9], decode_requests=[1, 0, 1], times=True)
    assert mooncake(state).pair(ask(), state) == (2, 1)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=20),
    st.integers(0, 500),
)
def test_the_few_computed_steps_hold_every_least_one(
    pairs: list[tuple[int, int]], more: int
) -> None:
    class Steps:
        def prefill_ps(self, tokens: int, cached: int = 0) -> int:
            return tokens - cached

        def step_ps(self, batch: int, tokens: int) -> int:
            return max(7 * batch, 3 * tokens)

    requests, tokens = np.array(pairs, np.int64).T
    every = [max(7 * (r + 1), 3 * (t + more)) for r, t in pairs]
    found = step_times(Steps(), requests, tokens, more)
    assert found.min() == min(every)
    assert all(f in (e, 2**62) for f, e in zip(found.tolist(), every, strict=True))


def test_impossible_settings_are_refused(picture: Picture) -> None:
    state = picture(FLAT)
    with pytest.raises(PolicyError, match="mooncake balancing_threshold 0"):
        mooncake(state, balancing_threshold=0.5)
    with pytest.raises(PolicyError, match=r"mooncake ttft_slo: .*'30'"):
        mooncake(state, ttft_slo="30")
