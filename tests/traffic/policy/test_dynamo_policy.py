"""Dynamo's cost, its softmax and its topology taints, by hand."""

import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traffic.policy.choice import NOBODY, PolicyError, Request, View
from traffic.policy.dynamo import DynamoKv, DynamoSettings, softmax

FLAT = [[4, 4, 4]] * 3
TWO_RACKS = [[2, 2, 4, 4], [2, 2, 4, 4], [4, 4, 2, 2], [4, 4, 2, 2]]
Picture = Callable[..., View]


def ask(number: int = 0) -> Request:
    """160 tokens, ten blocks."""
    return Request(number, 160, 150, 1000, blocks=tuple(range(1, 11)), block_tokens=16)


def dynamo(state: View, **settings: object) -> DynamoKv:
    return DynamoKv(DynamoSettings(**settings), state.hops, 0)  # type: ignore[arg-type]


def test_the_published_defaults() -> None:
    defaults = DynamoSettings()
    assert defaults.overlap_score_credit == defaults.prefill_load_scale == 1.0
    assert defaults.temperature == defaults.shared_cache_multiplier == 0.0
    assert defaults.taint == "none"
    assert defaults.preferred_weight == 0.85


def test_prefill_costs_active_and_incoming_blocks_less_the_overlap(picture: Picture) -> None:
    # 10 + 0 - 0 = 10, 10 + 8 - 9 = 9, 10 + 5 - 2 = 13.
    state = picture(FLAT, held=[0, 9, 2], prefill_tokens=[0, 128, 80])
    assert dynamo(state).prefill_cost(ask(), state).tolist() == [10, 9, 13]
    assert dynamo(state).prefill(ask(), state) == 1
    # Without credit for overlap the loads decide.
    assert dynamo(state, overlap_score_credit=0).prefill(ask(), state) == 0


def test_more_credit_than_work_costs_nothing_and_not_less(picture: Picture) -> None:
    state = picture(FLAT, held=[10, 0, 0])
    cost = dynamo(state, overlap_score_credit=2.0).prefill_cost(ask(), state)
    assert cost.tolist() == [0, 10, 10]


def test_blocks_of_the_remote_pool_count_by_their_multiplier(picture: Picture) -> None:
    state = picture(FLAT, held=[6, 0, 0], pool=8)
    assert dynamo(state).prefill_cost(ask(), state).tolist() == [4, 10, 10]
    shared = dynamo(state, shared_cache_multiplier=0.5)
    assert shared.prefill_cost(ask(), state).tolist() == [3, 6, 6]


def test_decode_goes_by_active_blocks_and_not_by_overlap(picture: Picture) -> None:
    state = picture(FLAT, held_decode=[10, 0, 0], decode_tokens=[320, 160, 480])
    assert dynamo(state).decode_cost(ask(), 0, state).tolist() == [30, 20, 40]
    assert dynamo(state).decode(ask(), 0, state) == 1


def test_without_caches_prefill_goes_by_load_in_blocks_of_sixteen(picture: Picture) -> None:
    state = picture(FLAT, prefill_tokens=[320, 160, 480])
    bare = Request(0, 160, 150, 1000)
    assert dynamo(state).prefill_cost(bare, state).tolist() == [30, 20, 40]


def test_ties_are_spread_and_the_unhealthy_left_out(picture: Picture) -> None:
    state = picture(FLAT, prefill_healthy=[True, False, True])
    chosen = Counter(dynamo(state).prefill(ask(i), state) for i in range(200))
    assert set(chosen) == {0, 2}
    assert min(chosen.values()) > 60
    state.prefill_healthy[:] = False
    assert dynamo(state).prefill(ask(), state) == NOBODY
    assert dynamo(state, temperature=0.5).prefill(ask(), state) == NOBODY


def test_softmax_is_over_costs_normalised_by_their_range() -> None:
    # exp(0), exp(-1/2 / 1), exp(-1) for costs at 0, half and all of the range.
    weights = np.exp([0, -0.5, -1])
    assert softmax(np.array([10, 15, 20]), 1.0) == pytest.approx(weights / weights.sum())
    assert softmax(np.array([7, 7]), 0.1).tolist() == [0.5, 0.5]


def test_a_temperature_draws_by_these_chances(picture: Picture) -> None:
    state = picture(FLAT, decode_tokens=[0, 160, 320])
    policy = dynamo(state, temperature=1.0)
    chosen = Counter(policy.decode(ask(i), 0, state) for i in range(4000))
    for i, share in enumerate(softmax(np.array([10, 20, 30]), 1.0).tolist()):
        # Four standard deviations of a share of 4000 draws.
        assert abs(chosen[i] / 4000 - share) < 4 * math.sqrt(share * (1 - share) / 4000)


def test_a_low_temperature_all_but_takes_the_least(picture: Picture) -> None:
    state = picture(FLAT, decode_tokens=[0, 160, 320])
    policy = dynamo(state, temperature=0.01)
    assert {policy.decode(ask(i), 0, state) for i in range(300)} == {0}


def test_a_required_taint_keeps_decode_in_the_domain_and_fails_closed(picture: Picture) -> None:
    state = picture(TWO_RACKS, decode_tokens=[800, 900, 0, 0])
    policy = dynamo(state, taint="required")
    assert policy.decode(ask(), 1, state) == 0
    assert policy.decode(ask(), 2, state) in (2, 3)
    state.decode_healthy[:2] = False
    assert policy.decode(ask(), 1, state) == NOBODY


def test_a_required_taint_binds_prefill_where_decode_comes_first(picture: Picture) -> None:
    state = picture(TWO_RACKS, prefill_tokens=[0, 0, 800, 900])
    policy = dynamo(state, taint="required")
    assert policy.prefill(ask()._replace(decode=3), state) == 2


def test_a_required_taint_chooses_decode_first_only_where_some_prefill_is_near(
    picture: Picture,
) -> None:
    state = picture(TWO_RACKS, decode_tokens=[800, 900, 0, 10])
    assert dynamo(state, taint="required").decode(ask(), -1, state) == 2
    state = picture([[2, 4], [2, 4]], decode_tokens=[800, 0])
    assert dynamo(state, taint="required").decode(ask(), -1, state) == 0
    assert dynamo(state).decode(ask(), -1, state) == 1


def test_a_preferred_taint_makes_the_domain_cheaper_by_its_weight(picture: Picture) -> None:
    state = picture(TWO_RACKS, decode_tokens=[320, 480, 160, 160])
    policy = dynamo(state, taint="preferred")
    inside = math.exp(-math.tanh(0.85))
    # (cost + 1) x 0.50 in the rack: 31, 41 against 21, 21 outside.
    expected = [31 * inside, 41 * inside, 21, 21]
    assert policy.decode_cost(ask(), 0, state).tolist() == pytest.approx(expected)
    assert policy.decode(ask(), 0, state) == 0
    # Load can still outweigh the preference.
    state.decode_tokens[:2] = 1600
    assert policy.decode(ask(), 0, state) in (2, 3)
    # No weight, no preference.
    state.decode_tokens[:] = [320, 480, 160, 800]
    assert dynamo(state, taint="preferred", preferred_weight=0).decode(ask(), 0, state) == 2


def test_a_required_taint_that_could_never_be_met_is_refused(picture: Picture) -> None:
    state = picture([[2, 4], [4, 4]])
    with pytest.raises(PolicyError, match="prefill instance 1 has no decode instance so near"):
        dynamo(state, taint="required")
    assert dynamo(state, taint="required", domain_links=4).decode(ask(), 1, state) in (0, 1)


@pytest.mark.parametrize(
    "settings",
    [{"temperature": -1}, {"prefill_load_scale": float("nan")}, {"preferred_weight": 2}],
)
def test_impossible_settings_are_refused(picture: Picture, settings: dict[str, float]) -> None:
    with pytest.raises(PolicyError, match=f"dynamo_kv {next(iter(settings))}"):
        dynamo(picture(FLAT), **settings)


@given(
    st.lists(st.integers(0, 2000), min_size=8, max_size=8),
    st.sampled_from(["none", "preferred", "required"]),
)
def test_the_best_of_all_pairs_is_the_best_prefill_with_its_best_decode_where_untainted(
    tokens: list[int], taint: str
) -> None:
    state = View.idle(np.array(TWO_RACKS, np.int32))
    state.prefill_tokens[:], state.decode_tokens[:] = tokens[:4], tokens[4:]
    policy = dynamo(state, taint=taint)
    scores = policy.scores(ask(), state)
    for p in range(4):
        decode = np.where(
            policy.decode_usable(ask(), p, state), policy.decode_cost(ask(), p, state), np.inf
        )
        assert scores[p] == pytest.approx(policy.prefill_cost(ask(), state)[p] + decode)
