"""Paired differences: by hand, by how often they err, and what more seeds would do."""

from math import inf, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.pairing import discoveries, paired, paired_quantile, seeds_needed

Run = dict[int, float]


def test_three_seeds_by_hand() -> None:
    found = paired({1: 1.0, 2: 5.0, 3: 9.0}, {1: 2.0, 2: 6.0, 3: 10.3})
    assert found is not None
    # differences 1, 1 and 1.3: mean 1.1, sd sqrt(0.03), t(2) = 4.30265
    assert found.gap.value == pytest.approx(1.1)
    assert found.gap.high - 1.1 == pytest.approx(4.30265 * sqrt(0.03) / sqrt(3), rel=1e-5)
    assert found.share == pytest.approx(0.22)
    assert found.found
    # t = 1.1 / 0.1 = 11 on 2 degrees: p = 1 - t / sqrt(2 + t^2), in closed form
    assert found.p == pytest.approx(1 - 11 / sqrt(123), rel=1e-9)


def test_a_run_against_itself_shows_no_difference_and_asks_for_no_seeds() -> None:
    run = {seed: float(seed) ** 2 for seed in range(5)}
    found = paired(run, run)
    assert found is not None
    assert (found.gap.value, found.gap.low, found.gap.high) == (0.0, 0.0, 0.0)
    assert not found.found
    assert found.more_seeds is None
    assert found.p == 1.0


def test_only_common_finite_seeds_count() -> None:
    found = paired({1: 1.0, 2: inf, 3: 2.0, 9: 7.0}, {1: 2.0, 2: 1.0, 3: 3.0, 8: 7.0})
    assert found is not None
    assert (found.seeds, found.gap.value) == (2, 1.0)
    assert paired({1: 1.0}, {2: 1.0}) is None


def test_one_seed_shows_nothing() -> None:
    found = paired({1: 1.0}, {1: 9.0})
    assert found is not None
    assert not found.found
    assert (found.p, found.more_seeds) == (1.0, None)


def twins(rng: np.random.Generator, seeds: int, gap: float = 0.0) -> tuple[Run, Run]:
    """Two runs that share what their seeds do, with noise of their own of 0.1."""
    base = rng.lognormal(0, 0.5, seeds)
    noise = rng.normal(0, 0.1, (2, seeds))
    return (
        dict(enumerate((base + noise[0]).tolist())),
        dict(enumerate((base + noise[1] + gap).tolist())),
    )


def test_equals_are_told_apart_as_often_as_the_level_says() -> None:
    rng = np.random.default_rng(9)
    wrong = 0
    for _ in range(200):
        found = paired(*twins(rng, 10))
        wrong += found is not None and found.found
    # 5 % of 200, within 2.5 standard errors of 1.54 %
    assert 0.05 - 2.5 * 0.0154 <= wrong / 200 <= 0.05 + 2.5 * 0.0154


def test_pairing_finds_what_unpaired_runs_hide() -> None:
    first, second = twins(np.random.default_rng(4), 10, gap=0.25)
    found = paired(first, second)
    assert found is not None
    assert found.found
    alone = np.std(list(first.values()), ddof=1) / sqrt(10)
    assert 2.262 * sqrt(2) * alone > 0.25


def test_the_advised_number_of_seeds_separates_in_four_of_five_cases() -> None:
    spread = 0.1 * sqrt(2)
    wanted = seeds_needed(0.1, spread)
    assert wanted is not None
    rng = np.random.default_rng(12)
    hits = 0
    for _ in range(300):
        found = paired(*twins(rng, wanted, gap=0.1))
        hits += found is not None and found.found
    # 80 % within 2.5 standard errors of 2.3 %, and the rounding up of the number
    assert 0.8 - 2.5 * 0.023 <= hits / 300 <= 0.9


def test_advice_is_the_number_beyond_those_already_run() -> None:
    # differences of 0.5 -+ step, of standard deviation 1
    step = sqrt(9 / 10)
    second = {seed: 0.5 + (step if seed % 2 else -step) for seed in range(10)}
    found = paired(dict.fromkeys(range(10), 0.0), second)
    assert found is not None
    assert found.spread == pytest.approx(1.0)
    assert not found.found
    assert seeds_needed(0.5, 1.0) == 34
    assert found.more_seeds == 24


def test_no_number_of_seeds_separates_what_does_not_differ() -> None:
    assert seeds_needed(0.0, 1.0) is None
    assert seeds_needed(0.001, 1.0) is None
    assert seeds_needed(1.0, 0.0) == 2


def test_a_quantile_of_one_seed_each_is_the_difference_without_an_interval() -> None:
    found = paired_quantile({1: np.arange(1.0, 11.0)}, {1: np.arange(3.0, 13.0)}, 0.5)
    assert found is not None
    assert (found.first, found.second, found.gap.value, found.gap.high) == (5.0, 7.0, 2.0, inf)


def test_a_shifted_quantile_has_the_same_difference_whatever_is_left_out() -> None:
    rng = np.random.default_rng(1)
    first = {seed: rng.exponential(1, 50) for seed in range(4)}
    found = paired_quantile(first, {seed: values + 0.5 for seed, values in first.items()}, 0.9)
    assert found is not None
    assert found.gap.value == pytest.approx(0.5)
    assert found.gap.high - found.gap.low == pytest.approx(0.0, abs=1e-12)


def test_quantiles_of_equals_are_seldom_told_apart_and_a_longer_tail_is() -> None:
    rng = np.random.default_rng(7)
    wrong = right = 0
    for _ in range(200):
        base = {seed: rng.lognormal(0, 0.5, 60) * rng.lognormal(0, 0.2) for seed in range(10)}
        runs = [
            {seed: values * rng.lognormal(0, 0.1, 60) for seed, values in base.items()}
            for _ in range(2)
        ]
        equal = paired_quantile(*runs, 0.9)
        longer = {seed: values * 1.15 for seed, values in runs[1].items()}
        worse = paired_quantile(runs[0], longer, 0.9)
        wrong += equal is not None and equal.found
        right += worse is not None and worse.found
    # the jackknife of a quantile errs on the careful side
    assert wrong / 200 <= 0.05
    assert right / 200 > 0.5


def test_hand_offs_that_never_end_leave_a_quantile_without_a_difference() -> None:
    never = {1: np.array([1.0, inf]), 2: np.array([1.0, inf])}
    assert paired_quantile(never, {1: np.ones(2), 2: np.ones(2)}, 0.9) is None


def test_among_equals_anything_is_believed_once_in_twenty() -> None:
    rng = np.random.default_rng(2)
    wrong = 0
    for _ in range(200):
        many = [paired(*twins(rng, 6)) for _ in range(20)]
        wrong += bool(discoveries([each for each in many if each is not None]))
    assert wrong / 200 <= 0.05 + 2.5 * 0.0154


def test_what_is_believed_has_an_interval_that_excludes_zero() -> None:
    rng = np.random.default_rng(5)
    many = [paired(*twins(rng, 8, gap)) for gap in [0.0] * 30 + [0.4] * 10]
    found = discoveries([each for each in many if each is not None])
    assert {place for place in found if place >= 30} == set(range(30, 40))
    assert len(found) <= 12
    assert all(each.gap.excludes(0.0) for each in found.values())


@given(
    st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=2, max_size=9),
    st.floats(-10, 10),
)
def test_swapping_the_runs_turns_the_difference_around(
    pairs: list[tuple[float, float]], shift: float
) -> None:
    first = {seed: a for seed, (a, _) in enumerate(pairs)}
    second = {seed: b + shift for seed, (_, b) in enumerate(pairs)}
    one, other = paired(first, second), paired(second, first)
    assert one is not None
    assert other is not None
    assert one.gap.value == pytest.approx(-other.gap.value, abs=1e-9)
    assert one.gap.low == pytest.approx(-other.gap.high, abs=1e-6)
    assert one.p == pytest.approx(other.p, abs=1e-9)
