"""cache_aware and lmetric by hand: match, threshold, imbalance, ties, no caches."""

from collections import Counter
from collections.abc import Callable

import pytest

from traffic.policy.choice import NOBODY, NoSettings, PolicyError, Request, View
from traffic.policy.sglang import PRESETS, CacheAware, CacheAwareSettings, Lmetric

FLAT = [[4] * 4] * 4
Picture = Callable[..., View]


def ask(number: int = 0, blocks: int = 10) -> Request:
    return Request(
        number, 160, 150, 1000, blocks=tuple(range(1, blocks + 1)), block_tokens=16 if blocks else 0
    )


def cache_aware(state: View, **settings: float) -> CacheAware:
    return CacheAware(CacheAwareSettings(**settings), state.hops, 0)  # type: ignore[arg-type]


def test_the_two_published_sets_of_thresholds() -> None:
    assert PRESETS == {"library": (0.5, 32, 1.1), "command_line": (0.3, 64, 1.5)}
    assert CacheAwareSettings().preset == "library"


def test_a_preset_gives_all_thresholds_and_one_setting_replaces_one_of_them(
    picture: Picture,
) -> None:
    state = picture(FLAT)
    cli = CacheAware(CacheAwareSettings(preset="command_line"), state.hops, 0)
    assert cli.thresholds == (0.3, 64, 1.5)
    assert cache_aware(state, balance_abs_threshold=5).thresholds == (0.5, 5, 1.1)


def test_a_match_above_the_threshold_outranks_a_less_loaded_instance(picture: Picture) -> None:
    state = picture(FLAT, held=[0, 6, 0, 0], prefill_requests=[0, 4, 0, 0])
    assert cache_aware(state).prefill(ask(), state) == 1


def test_the_threshold_is_strict(picture: Picture) -> None:
    # Five of ten blocks is exactly one half: the least loaded wins.
    state = picture(FLAT, held=[0, 5, 0, 0], prefill_requests=[1, 4, 0, 1])
    assert cache_aware(state).prefill(ask(), state) == 2
    assert cache_aware(state, cache_threshold=0.49).prefill(ask(), state) == 1


def test_load_takes_over_when_both_difference_and_ratio_are_passed(picture: Picture) -> None:
    # 40 - 0 > 32 and 40 > 1.1 x 0.
    state = picture(FLAT, held=[0, 10, 0, 0], prefill_requests=[0, 40, 9, 9])
    assert cache_aware(state).prefill(ask(), state) == 0
    # 64 apart, but 704 is not more than 1.1 x 640; 705 is.
    state.prefill_requests[:] = [640, 704, 650, 650]
    assert cache_aware(state).prefill(ask(), state) == 1
    state.prefill_requests[:] = [640, 705, 650, 650]
    assert cache_aware(state).prefill(ask(), state) == 0
    # 32 apart is not more than 32.
    state.prefill_requests[:] = [0, 32, 1, 1]
    assert cache_aware(state).prefill(ask(), state) == 1


def test_of_equal_matches_the_less_loaded_wins_and_ties_are_spread(picture: Picture) -> None:
    state = picture(FLAT, held=[8, 9, 9, 9], prefill_requests=[0, 3, 1, 1])
    policy = cache_aware(state)
    chosen = Counter(policy.prefill(ask(i), state) for i in range(200))
    assert set(chosen) == {2, 3}
    assert min(chosen.values()) > 60


def test_the_extremes_of_load_are_those_of_healthy_instances(picture: Picture) -> None:
    state = picture(
        FLAT,
        held=[0, 10, 0, 0],
        prefill_requests=[0, 20, 90, 0],
        prefill_healthy=[True, True, False, True],
    )
    # With the dead one the difference would be 90.
    assert cache_aware(state).prefill(ask(), state) == 1


def test_decode_is_chosen_by_what_the_decode_side_holds(picture: Picture) -> None:
    state = picture(
        FLAT, held=[10, 0, 0, 0], held_decode=[0, 0, 0, 7], decode_requests=[0, 0, 0, 3]
    )
    assert cache_aware(state).decode(ask(), 0, state) == 3


@pytest.mark.parametrize("blocks", [0, 10])
def test_without_caches_or_block_hashes_the_least_loaded_wins(
    picture: Picture, blocks: int
) -> None:
    state = picture(FLAT, prefill_requests=[2, 1, 3, 2], held=[9, 0, 0, 0] if not blocks else None)
    assert cache_aware(state).prefill(ask(blocks=blocks), state) == 1
    assert Lmetric(NoSettings(), state.hops, 0).prefill(ask(blocks=blocks), state) == 1


def test_lmetric_multiplies_what_is_to_compute_by_load_and_one(picture: Picture) -> None:
    # 160 tokens: 160 x 1 = 160, (160 - 128) x 4 = 128, (160 - 80) x 2 = 160, 160 x 2 = 320.
    state = picture(FLAT, held=[0, 8, 5, 0], prefill_requests=[0, 3, 1, 1])
    assert Lmetric(NoSettings(), state.hops, 0).prefill(ask(), state) == 1
    state.prefill_requests[1] = 5  # 32 x 6 = 192: now 0 and 2 tie at 160, and 0 has less load
    assert Lmetric(NoSettings(), state.hops, 0).prefill(ask(), state) == 0


def test_lmetric_with_everything_cached_goes_by_load(picture: Picture) -> None:
    # All products are 0.
    state = picture(FLAT, held=[10, 10, 10, 10], prefill_requests=[4, 2, 1, 3])
    assert Lmetric(NoSettings(), state.hops, 0).prefill(ask(), state) == 2


def test_lmetric_skips_the_unhealthy_and_says_when_there_is_nobody(picture: Picture) -> None:
    state = picture(FLAT, held=[0, 10, 9, 0], prefill_healthy=[True, False, True, True])
    policy = Lmetric(NoSettings(), state.hops, 0)
    assert policy.prefill(ask(), state) == 2
    state.prefill_healthy[:] = False
    assert policy.prefill(ask(), state) == NOBODY
    assert cache_aware(state).prefill(ask(), state) == NOBODY


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cache_threshold": 1.5}, "cache_threshold 1.5: no share"),
        ({"cache_threshold": float("nan")}, "cache_threshold nan"),
        ({"balance_abs_threshold": -1}, "balance_abs_threshold -1: below 0"),
        ({"balance_rel_threshold": 0.9}, "balance_rel_threshold 0.9: below 1"),
    ],
)
def test_impossible_thresholds_are_refused(
    picture: Picture, settings: dict[str, float], message: str
) -> None:
    with pytest.raises(PolicyError, match=message):
        cache_aware(picture(FLAT), **settings)
