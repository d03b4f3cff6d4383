"""Synthetic workloads: the moments they should have, and what a seed fixes."""

from collections.abc import Callable
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traffic.error import RequestError
from traffic.request import RequestTable
from traffic.seed import generator
from traffic.source.arrival import arrivals
from traffic.source.length import Constant, Length, Lognormal, Normal
from traffic.source.profile import BASE, Profile, profile
from traffic.source.workload import synthesise, words

MANY = 20_000
SIGMAS = 5


def same(a: RequestTable, b: RequestTable) -> bool:
    other = b.columns()
    return all(np.array_equal(column, other[name]) for name, column in a.columns().items())


@pytest.mark.parametrize(
    ("length", "mean", "std"),
    [
        (BASE.input, 550.0, 150.0),
        (BASE.output, 150.0, 20.0),
        (Lognormal(2048, 1974), 2048.0, 1974.0),
    ],
)
def test_drawn_lengths_have_the_stated_mean_and_spread(
    length: Length, mean: float, std: float
) -> None:
    drawn = length.draw(MANY, generator(7, "test"))
    assert drawn.min() >= 1
    assert abs(drawn.mean() - mean) < SIGMAS * std / sqrt(MANY)
    # The standard error of a sample deviation is std * sqrt((kurtosis - 1) / 4n).
    kurtosis = 3.0 if isinstance(length, Normal) else 60.0
    assert abs(drawn.std() - std) < SIGMAS * std * sqrt((kurtosis - 1) / (4 * MANY))


def test_a_truncated_normal_has_no_spike_at_one_token() -> None:
    drawn = Normal(10, 10).draw(MANY, generator(3, "test"))
    ones, threes = np.count_nonzero(drawn == 1), np.count_nonzero(drawn == 3)
    assert drawn.min() == 1
    assert ones < 1.2 * threes


def test_a_truncated_normal_has_the_textbook_mean() -> None:
    # mu + sigma * phi(a) / (1 - Phi(a)) with a = (0.5 - mu) / sigma = -0.95; phi = .25406,
    # Phi = .17106 (any normal table).
    drawn = Normal(10, 10).draw(MANY, generator(4, "test"))
    assert abs(drawn.mean() - (10 + 10 * 0.25406 / (1 - 0.17106))) < SIGMAS * 10 / sqrt(MANY)


def test_constant_lengths_are_constant_and_may_be_zero() -> None:
    assert Constant(0).draw(3, generator(0, "test")).tolist() == [0, 0, 0]


def test_deterministic_arrivals_are_evenly_spaced() -> None:
    at = arrivals("deterministic", 3, 4, generator(0, "test"))
    assert at.tolist() == [333333333333, 666666666667, 1000000000000, 1333333333333]


@pytest.mark.parametrize(("process", "cv"), [("poisson", 1.0), ("gamma", 0.5), ("gamma", 3.0)])
def test_gaps_have_the_stated_rate_and_variation(process: str, cv: float) -> None:
    at = arrivals(process, 400, MANY, generator(11, "test"), cv=cv)
    gaps = np.diff(at, prepend=0) / 1e12
    assert gaps.min() >= 0
    assert abs(gaps.mean() - 1 / 400) < SIGMAS * cv / 400 / sqrt(MANY)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.1)


def test_poisson_counts_vary_as_much_as_their_mean() -> None:
    at = arrivals("poisson", 100, MANY, generator(5, "test"))
    counts = np.bincount(at // 10**12)[:-1]
    # Index of dispersion 1, standard error sqrt(2 / windows).
    assert abs(counts.var() / counts.mean() - 1) < SIGMAS * sqrt(2 / len(counts))


def test_the_same_seed_gives_the_same_table_and_another_seed_another() -> None:
    first = synthesise(count=50, rate_per_s=400, seed=1)
    assert same(first, synthesise(count=50, rate_per_s=400, seed=1))
    other = synthesise(count=50, rate_per_s=400, seed=2)
    assert not np.array_equal(first.arrival_ps, other.arrival_ps)
    assert not np.array_equal(first.input_tokens, other.input_tokens)


def test_lengths_do_not_depend_on_the_rate_nor_arrivals_on_the_lengths() -> None:
    first = synthesise(count=50, rate_per_s=400, seed=1)
    faster = synthesise(count=50, rate_per_s=800, seed=1)
    assert np.array_equal(first.input_tokens, faster.input_tokens)
    assert np.array_equal(first.output_tokens, faster.output_tokens)
    flat = Profile("flat", Constant(9), BASE.output, "test")
    other = synthesise(flat, count=50, rate_per_s=400, seed=1)
    assert np.array_equal(first.arrival_ps, other.arrival_ps)
    assert np.array_equal(first.output_tokens, other.output_tokens)


def test_twice_the_rate_halves_every_arrival() -> None:
    slow = synthesise(count=50, rate_per_s=400, seed=1).arrival_ps
    fast = synthesise(count=50, rate_per_s=800, seed=1).arrival_ps
    assert np.abs(slow - 2 * fast).max() <= 2 * 50


def test_inputs_outputs_and_gaps_are_uncorrelated() -> None:
    table = synthesise(count=MANY, rate_per_s=400, seed=3)
    gaps = np.diff(table.arrival_ps, prepend=0)
    found = np.corrcoef([gaps, table.input_tokens, table.output_tokens])
    assert np.abs(found - np.eye(3)).max() < SIGMAS / sqrt(MANY)


@given(st.integers(0, 2**40), st.integers(1, 200), st.floats(1e-2, 1e6), st.floats(0.05, 20))
def test_arrivals_never_decrease(seed: int, count: int, rate: float, cv: float) -> None:
    for process in ("poisson", "gamma", "deterministic"):
        at = arrivals(process, rate, count, generator(seed, "test"), cv=cv)
        assert len(at) == count
        assert at[0] >= 0
        assert bool((np.diff(at) >= 0).all())


def test_words_follow_from_tokens_by_the_stated_ratio() -> None:
    assert words(np.array([133.0]), 1.33).tolist() == pytest.approx([100.0])


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: synthesise(count=0, rate_per_s=1, seed=0), "count 0"),
        (lambda: synthesise(count=1, rate_per_s=0, seed=0), "arrival rate 0/s: must be above 0"),
        (lambda: synthesise(count=1, rate_per_s=-4, seed=0), "arrival rate -4/s"),
        (lambda: synthesise(count=1, rate_per_s=float("nan"), seed=0), "arrival rate nan/s"),
        (lambda: synthesise(count=9, rate_per_s=1e-9, seed=0), "raise the rate"),
        (lambda: synthesise(count=1, rate_per_s=1, seed=-1), "seed -1: negative"),
        (lambda: synthesise(count=1, rate_per_s=1, seed=0, process="on"), "'on': not known"),
        (lambda: synthesise(count=1, rate_per_s=1, seed=0, process="gamma", cv=0), "cv 0"),
        (lambda: profile("bas"), "profile 'bas': not known; write one of base"),
        (lambda: Normal(-5, 1), "mean length -5"),
        (lambda: Normal(5, -1), "spread of lengths -1"),
        (lambda: Normal(float("nan"), 1), "mean length nan"),
        (lambda: Constant(-1), "length -1 tokens"),
        (lambda: words(np.array([1.0]), 0), "tokens_per_word 0"),
    ],
)
def test_an_impossible_workload_is_refused(make: Callable[[], object], told: str) -> None:
    with pytest.raises(RequestError, match=told):
        make()
