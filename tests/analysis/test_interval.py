"""Intervals against published values, by hand, and by how often they cover."""

from math import inf, sqrt
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.error import SummaryError
from analysis.interval import (
    clopper_pearson,
    design_effect,
    effective,
    highest_quantile,
    mean_interval,
    needed,
    quantile,
    quantile_interval,
    share_interval,
)


@pytest.mark.parametrize(
    ("over", "n", "low", "high"),
    [
        # 0 of n: 1 - 0.025 ** (1 / n), the closed form
        (0, 20, 0.0, 0.1684),
        (20, 20, 0.8316, 1.0),
        # Clopper and Pearson, Biometrika 26 (1934), and any table since
        (5, 10, 0.1871, 0.8129),
        (1, 10, 0.0025, 0.4450),
        (10, 100, 0.0490, 0.1762),
    ],
)
def test_a_share_has_the_tabled_clopper_pearson_interval(
    over: int, n: int, low: float, high: float
) -> None:
    found = clopper_pearson(over, n)
    assert (round(found.low, 4), round(found.high, 4)) == (low, high)


def test_nothing_over_has_the_closed_form_bound_on_fractions_of_a_trial_too() -> None:
    assert clopper_pearson(0, 33.3).high == pytest.approx(1 - 0.025 ** (1 / 33.3), rel=1e-12)


def test_the_design_effect_of_two_clusters_by_hand() -> None:
    # share 0.2; between 2/1 * ((1-2)^2 + (3-2)^2) / 20^2 = 0.01; independent 0.2*0.8/20 = 0.008
    assert design_effect([1, 3], [10, 10]) == pytest.approx(1.25, rel=1e-12)


def test_the_effective_number_pays_for_clustering_and_for_few_seeds() -> None:
    # t(19) = 2.0930, t(1) = 12.7062, from tables
    expected = 20 / 1.25 * (2.09302 / 12.70620) ** 2
    assert effective([1, 3], [10, 10]) == pytest.approx(expected, rel=1e-4)


def test_the_effective_number_is_n_when_clustering_cannot_be_told() -> None:
    assert effective([0, 0, 0], [50, 50, 50]) == 150
    assert effective([7], [50]) == 50


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=8))
def test_the_effective_number_is_never_above_n_and_the_interval_holds_the_share(
    pairs: list[tuple[int, int]],
) -> None:
    over, n = [a for a, _ in pairs], [a + b for a, b in pairs]
    if sum(n) < 2:
        return
    assert 0 < effective(over, n) <= sum(n)
    found = share_interval(over, n)
    assert 0 <= found.low <= found.value <= found.high <= 1


def covered(seeds: int, correlation: float, share: float, runs: int) -> float:
    rng = np.random.default_rng(20260101)
    hit = 0
    for _ in range(runs):
        p = np.full(seeds, share)
        if correlation:
            spread = 1 / correlation - 1
            p = rng.beta(share * spread, (1 - share) * spread, seeds)
        over = rng.binomial(50, p).tolist()
        hit += not share_interval(over, [50] * seeds).excludes(share)
    return hit / runs


@pytest.mark.parametrize(
    ("seeds", "correlation", "share"),
    [(3, 0.0, 0.1), (3, 0.05, 0.1), (3, 0.05, 0.02), (6, 0.05, 0.1), (20, 0.02, 0.1)],
)
def test_shares_are_covered_at_95_percent_with_and_without_clustering(
    seeds: int, correlation: float, share: float
) -> None:
    # the standard error of a coverage of 0.95 over 600 runs is 0.009
    assert covered(seeds, correlation, share, 600) > 0.95 - 2.5 * 0.009


@pytest.mark.parametrize(
    ("seeds", "correlation", "share", "told"),
    [(10, 0.2, 0.05, 0.89), (10, 0.05, 0.01, 0.92), (10, 0.2, 0.01, 0.65), (3, 0.2, 0.05, 0.81)],
)
def test_rare_shares_in_bursts_are_covered_as_little_as_the_book_says(
    seeds: int, correlation: float, share: float, told: float
) -> None:
    """docs/metrics.md; what no seed has met cannot be told from what is not there."""
    assert covered(seeds, correlation, share, 600) == pytest.approx(told, abs=0.05)


def test_without_the_clusters_the_same_shares_would_not_be_covered() -> None:
    rng = np.random.default_rng(5)
    hit = 0
    for _ in range(600):
        over = rng.binomial(50, rng.beta(1.9, 17.1, 3))
        hit += not clopper_pearson(int(over.sum()), 150).excludes(0.1)
    assert hit / 600 < 0.88


def test_the_median_of_20_lies_between_the_6th_and_the_15th() -> None:
    # David and Nagaraja, Order Statistics: coverage 0.9586
    found = quantile_interval([np.arange(1.0, 21.0)], 0.5)
    assert (found.value, found.low, found.high) == (10.0, 6.0, 15.0)


def test_a_quantile_that_no_value_bounds_has_an_open_interval() -> None:
    found = quantile_interval([np.arange(1.0, 21.0)], 0.99)
    assert found.high == inf
    assert found.low > 1


def test_hand_offs_that_never_end_sort_last() -> None:
    values = np.array([1.0] * 80 + [inf] * 20)
    found = quantile_interval([values], 0.9)
    assert found.value == inf
    assert quantile(values, 0.8) == 1.0
    assert quantile(values, 0.81) == inf


@pytest.mark.parametrize("correlated", [0.0, 0.3])
def test_quantiles_are_covered_at_95_percent_with_and_without_clustering(correlated: float) -> None:
    rng = np.random.default_rng(11)
    true = 1.2815515655446004 * sqrt(1 + correlated**2)
    hit = 0
    for _ in range(600):
        shift = rng.normal(0, correlated, 6) if correlated else np.zeros(6)
        clusters = [rng.normal(0, 1, 40) + each for each in shift]
        hit += not quantile_interval(clusters, 0.9).excludes(true)
    assert hit / 600 > 0.95 - 2.5 * 0.009


@pytest.mark.parametrize(
    ("n", "q"),
    [(0, None), (19, None), (20, 0.5), (99, 0.5), (100, 0.9), (199, 0.9), (200, 0.95),
     (999, 0.95), (1000, 0.99), (9_999, 0.99), (10_000, 0.999)],
)  # fmt: skip
def test_no_quantile_goes_beyond_ten_over_n(n: int, q: float | None) -> None:
    assert highest_quantile(n) == q


@given(
    st.lists(st.floats(0, 1e12), min_size=1, max_size=60),
    st.floats(0.01, 0.99),
    st.floats(0.01, 0.99),
)
def test_a_quantile_is_one_of_the_values_and_grows_with_its_share(
    values: list[float], a: float, b: float
) -> None:
    array = np.array(values)
    low, high = quantile(array, min(a, b)), quantile(array, max(a, b))
    assert low in values
    assert low <= high
    assert (array <= low).mean() >= min(a, b) - 1e-9


def test_a_quantile_of_nothing_is_refused() -> None:
    with pytest.raises(SummaryError, match="0 values"):
        quantile(np.empty(0), 0.5)


def test_the_mean_of_three_seeds_has_students_interval() -> None:
    # t(2) = 4.3027
    found = mean_interval([1.0, 2.0, 3.0])
    assert found.value == 2.0
    assert found.high - 2.0 == pytest.approx(4.30265 / sqrt(3), rel=1e-5)


def test_one_seed_bounds_nothing() -> None:
    found = mean_interval([4.0])
    assert (found.value, found.low, found.high) == (4.0, -inf, inf)


def test_the_hand_offs_needed_are_the_fewest_that_decide() -> None:
    # none over: 0.975 quantile 1 - 0.025 ** (1 / n) falls below 5 % at n = 72
    assert needed(0.0, 0.05, 1.0) == 72
    assert needed(0.0, 0.05, 0.5) == 144


def test_a_share_on_the_limit_needs_more_than_any_number() -> None:
    assert needed(0.05, 0.05, 1.0) is None


def test_what_never_ended_in_one_seed_alone_bounds_no_quantile_from_below() -> None:
    good, bad = np.arange(400.0), np.where(np.arange(400) < 370, np.arange(400.0), np.inf)
    found = quantile_interval([good, good, bad], 0.99)
    assert found.value == np.inf
    assert found.low < 395
    alike = quantile_interval([np.where(good < 390, good, np.inf)] * 3, 0.99)
    assert alike.low > 385


def test_a_tail_of_what_never_ended_covers_where_seeds_differ() -> None:
    rng, covered = np.random.default_rng(1), 0
    share, alike, rounds = 0.008, 0.02, 400
    true = NormalDist().inv_cdf(0.99 / (1 - share))
    spread = 1 / alike - 1
    for _ in range(rounds):
        seeds = rng.normal(size=(3, 400))
        never = rng.beta(share * spread, (1 - share) * spread, (3, 1))
        seeds[rng.random((3, 400)) < never] = np.inf
        found = quantile_interval(list(seeds), 0.99)
        covered += found.low <= true <= found.high
    assert covered / rounds > 0.92
