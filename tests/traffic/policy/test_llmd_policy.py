"""llm-d's scores, filter and pickers by hand."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traffic.policy.choice import NOBODY, PolicyError, Request, View
from traffic.policy.llmd import LEVELS, Llmd, LlmdSettings, active_score, queue_score

FLAT = [[4] * 3] * 3
Picture = Callable[..., View]
NONE = {"queue": 0, "kv": 0, "prefix": 0}


def ask(number: int = 0, decode: int = -1) -> Request:
    return Request(
        number, 160, 150, 1000, blocks=tuple(range(1, 11)), block_tokens=16, decode=decode
    )


def llmd(state: View, **settings: object) -> Llmd:
    return Llmd(LlmdSettings(**settings), state.hops, 0)  # type: ignore[arg-type]


def only(state: View, **settings: object) -> Llmd:
    return llmd(state, **(NONE | settings))


def test_the_published_defaults() -> None:
    defaults = LlmdSettings()
    assert (defaults.queue, defaults.kv, defaults.prefix) == (2, 2, 3)
    assert defaults.queue_threshold_tokens == 4194304
    assert (defaults.idle_threshold, defaults.max_busy_score) == (0, 1)
    assert defaults.picker == "max"
    assert LEVELS == {"host": 1.0, "rack": 0.2, "zone": 0.05}


def test_the_queue_score_counts_who_waits_and_not_who_runs(picture: Picture) -> None:
    state = picture(FLAT, decode_requests=[9, 3, 4], decode_running=[9, 0, 2])
    assert only(state, queue=1).decode(ask(), 0, state) == 0
    assert queue_score(np.array([3, 3])).tolist() == [1, 1]


def test_the_kv_score_is_what_is_free_and_never_below_nothing(picture: Picture) -> None:
    state = picture(FLAT, decode_bytes=[900, 100, 5000], decode_capacity_bytes=1000)
    assert only(state, kv=1).decode(ask(), 0, state) == 1


def test_the_prefix_score_is_the_share_of_blocks_held(picture: Picture) -> None:
    state = picture(FLAT, held=[2, 0, 3], held_decode=[0, 4, 0])
    policy = only(state, prefix=1)
    assert policy.prefill(ask(), state) == 2
    assert policy.decode(ask(), 0, state) == 1


def test_an_idle_instance_scores_one_and_a_busy_one_up_to_its_most() -> None:
    assert active_score(np.array([0, 1, 4]), 0, 1.0).tolist() == [1.0, 0.75, 0.0]
    assert active_score(np.array([2, 1, 4]), 2, 0.5).tolist() == [1.0, 1.0, 0.0]
    assert active_score(np.array([0, 0]), 0, 1.0).tolist() == [1.0, 1.0]


def test_the_token_score_falls_with_tokens_up_to_the_threshold(picture: Picture) -> None:
    state = picture(FLAT, prefill_tokens=[50, 400, 90])
    assert only(state, token=1, queue_threshold_tokens=100).prefill(ask(), state) == 0


def test_scores_are_summed_by_their_weights(picture: Picture) -> None:
    # queue 1, 0.5, 0; prefix 0, 0.4, 1; sums at weights 2 and 3: 2, 2.2, 3; at 2 and 1: 2, 1.4, 1.
    state = picture(FLAT, prefill_requests=[0, 2, 4], held=[0, 4, 10])
    assert only(state, queue=2, prefix=3).prefill(ask(), state) == 2
    assert only(state, queue=2, prefix=1).prefill(ask(), state) == 0


def test_topology_scores_the_second_choice_against_the_first(picture: Picture) -> None:
    state = picture([[2, 4], [4, 2], [4, 4]], prefill_requests=[0, 1, 0])
    policy = only(state, topology=1)
    assert policy.prefill(ask(decode=1), state) == 1
    assert policy.decode(ask(), 0, state) == 0
    # Weighted below the queue it only breaks ties: 2 x 1 + 0.05 beats 2 x 0 + 0.2.
    both = only(state, topology=1, queue=2)
    assert both.prefill(ask(decode=1), state) in (0, 2)


def test_levels_go_by_links(picture: Picture) -> None:
    # Host 1, rack 0.2, zone 0.05.
    state = picture([[4, 2, 0]])
    assert only(state, topology=1).decode(ask(), 0, state) == 2
    state = picture([[2, 4, 6]])
    assert only(state, topology=1).decode(ask(), 0, state) == 0
    chosen = {only(state, topology=1, rack_links=4).decode(ask(i), 0, state) for i in range(40)}
    assert chosen == {0, 1}


def test_the_filter_keeps_the_near_and_lets_all_through_when_none_is(picture: Picture) -> None:
    state = picture([[2, 4, 4]], decode_requests=[9, 0, 0])
    assert only(state, queue=1).decode(ask(), 0, state) in (1, 2)
    near = only(state, queue=1, min_affinity="rack")
    assert near.decode(ask(), 0, state) == 0
    state.decode_healthy[0] = False
    assert near.decode(ask(), 0, state) in (1, 2)


def test_a_peer_is_needed_for_topology(picture: Picture) -> None:
    state = picture([[2, 4]], decode_requests=[1, 0])
    policy = only(state, queue=1, topology=100, min_affinity="rack")
    assert policy.decode(ask(), -1, state) == 1


def test_the_weighted_picker_draws_in_proportion_to_the_score(picture: Picture) -> None:
    state = picture(FLAT, held=[1, 3, 0])
    policy = only(state, prefix=1, picker="weighted")
    chosen = Counter(policy.prefill(ask(i), state) for i in range(4000))
    assert chosen[2] == 0
    assert 880 < chosen[0] < 1120
    state = picture(FLAT)
    chosen = Counter(policy.prefill(ask(i), state) for i in range(3000))
    assert all(880 < chosen[i] < 1120 for i in range(3))  # all scores 0: anyone


def test_the_random_picker_takes_any_candidate(picture: Picture) -> None:
    state = picture(FLAT, held=[10, 0, 0], prefill_healthy=[True, True, False])
    chosen = Counter(llmd(state, picker="random").prefill(ask(i), state) for i in range(2000))
    assert set(chosen) == {0, 1}
    assert 900 < chosen[0] < 1100


def test_ties_of_the_highest_score_are_spread(picture: Picture) -> None:
    state = picture(FLAT, prefill_requests=[1, 0, 0])
    chosen = Counter(llmd(state).prefill(ask(i), state) for i in range(200))
    assert set(chosen) == {1, 2}
    assert min(chosen.values()) > 60


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"queue": -1}, "llm_d queue -1: not a weight"),
        ({"max_busy_score": 2}, "max_busy_score 2: not a score"),
        ({"queue_threshold_tokens": 0}, "queue_threshold_tokens 0: below 1"),
    ],
)
def test_impossible_settings_are_refused(
    picture: Picture, settings: dict[str, int], message: str
) -> None:
    with pytest.raises(PolicyError, match=message):
        llmd(picture(FLAT), **settings)


@given(
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.sampled_from(["max", "random", "weighted"]),
    st.sampled_from(["none", "host", "rack", "zone"]),
)
def test_only_healthy_instances_with_a_path_are_picked(
    healthy: list[bool], picker: str, affinity: str
) -> None:
    state = View.idle(np.array([[2, 4, -1], [4, 2, 2], [-1, 2, 2]], np.int32))
    state.decode_healthy[:] = healthy
    policy = llmd(state, picker=picker, min_affinity=affinity, topology=1)
    for p in range(3):
        chosen = policy.decode(ask(), p, state)
        usable = state.decode_healthy & (state.hops[p] >= 0)
        assert usable[chosen] if usable.any() else chosen == NOBODY
