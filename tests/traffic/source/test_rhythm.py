"""Arrivals in bursts and days, lengths with shapes and dependence: closed forms first."""

from collections.abc import Callable
from math import pi, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traffic.error import RequestError
from traffic.request import request_table
from traffic.seed import generator
from traffic.source.arrival import arrivals
from traffic.source.length import Gamma, Lognormal, Normal
from traffic.source.modulation import Modulation
from traffic.source.profile import PROFILES, Profile, Rows, profile
from traffic.source.workload import synthesise

MANY = 200_000
SECOND = 10**12
SIGMAS = 5


@pytest.mark.parametrize(
    ("burst_s", "lull_s", "cv2"),
    [
        # 1 + 2 r b l^2 / (b + l)^2 with r = rate (b + l) / b, rate 10/s.
        (1.0, 1.0, 1 + 2 * 20 * 1 / 4),
        (0.5, 1.5, 1 + 2 * 40 * 0.5 * 2.25 / 4),
        (2.0, 0.0, 1.0),
    ],
)
def test_bursts_have_the_rate_and_the_variation_of_an_interrupted_poisson_process(
    burst_s: float, lull_s: float, cv2: float
) -> None:
    shape = Modulation(burst_ps=int(burst_s * SECOND), lull_ps=int(lull_s * SECOND))
    at = arrivals("on_off", 10, MANY, generator(1, "test"), modulation=shape)
    gaps = np.diff(at) / SECOND
    assert gaps.min() >= 0
    # Gaps are renewal, so that their mean strays by cv / sqrt(n).
    assert abs(gaps.mean() * 10 - 1) < SIGMAS * sqrt(cv2 / MANY)
    assert (gaps.std() / gaps.mean()) ** 2 == pytest.approx(cv2, rel=0.05)


def test_a_run_starts_inside_a_lull_as_often_as_lulls_fill_the_time() -> None:
    shape = Modulation(burst_ps=SECOND, lull_ps=3 * SECOND)
    firsts = np.array(
        [
            arrivals("on_off", 2500, 1, generator(seed, "test"), modulation=shape)[0]
            for seed in range(2000)
        ]
    )
    # Inside a burst requests come every 0.1 ms; 3/4 of the starts wait for a lull of 3 s to end.
    waited = np.mean(firsts > 10 * SECOND // 1000)
    assert abs(waited - 0.75 * np.exp(-0.01 / 3)) < SIGMAS * sqrt(0.75 * 0.25 / 2000)


def test_a_day_has_its_peak_after_a_quarter_and_its_trough_after_three() -> None:
    shape = Modulation(period_ps=1000 * SECOND, swing=0.8)
    at = arrivals("diurnal", 100, MANY, generator(2, "test"), modulation=shape) / SECOND
    counts = np.bincount((at % 1000 // 250).astype(int))
    # Two days hold the mean; a quarter day of the sine holds 1/4 +- swing / 2 pi of a day.
    days = len(at) / 100 / 1000
    assert days == 2
    expected = 100_000 * np.array([1, 1, -1, -1]) * 0.8 / (2 * pi) + 25_000
    assert np.abs(counts / days - expected).max() < SIGMAS * sqrt(expected.max() * days) / days


def test_a_day_without_swing_is_a_poisson_process() -> None:
    flat = Modulation(period_ps=SECOND, swing=0)
    at = arrivals("diurnal", 100, 500, generator(3, "test"), modulation=flat)
    assert np.abs(at - arrivals("poisson", 100, 500, generator(3, "test"))).max() < 500


@given(
    st.sampled_from(["on_off", "diurnal"]),
    st.integers(0, 2**32),
    st.integers(1, 100),
    st.floats(1, 1e5),
    st.integers(10**9, 10**15),
    st.integers(0, 10**15),
    st.floats(0, 1),
)
def test_modulated_arrivals_never_decrease(
    process: str, seed: int, count: int, rate: float, one: int, other: int, swing: float
) -> None:
    shape = Modulation(burst_ps=one, lull_ps=other, period_ps=one, swing=swing)
    at = arrivals(process, rate, count, generator(seed, "test"), modulation=shape)
    assert len(at) == count
    assert at[0] >= 0
    assert bool((np.diff(at) >= 0).all())


def test_gamma_lengths_have_the_stated_mean_and_spread() -> None:
    drawn = Gamma(1000, 500).draw(MANY, generator(4, "test"))
    assert drawn.min() >= 1
    assert abs(drawn.mean() - 1000) < SIGMAS * 500 / sqrt(MANY)
    assert drawn.std() == pytest.approx(500, rel=0.02)
    # A gamma of shape 4 has skewness 1; a lognormal of the same moments has 1.625.
    assert np.mean(((drawn - 1000) / 500.0) ** 3) == pytest.approx(1, abs=0.1)


@given(st.floats(-1, 1), st.integers(0, 2**32))
def test_correlation_leaves_both_margins_and_the_inputs_as_they_are(
    correlation: float, seed: int
) -> None:
    free = Profile("x", Lognormal(500, 300), Gamma(90, 40), "test")
    tied = Profile("x", Lognormal(500, 300), Gamma(90, 40), "test", correlation)
    one, other = free.draw(60, seed), tied.draw(60, seed)
    assert np.array_equal(one[0], other[0])
    assert np.array_equal(np.sort(one[1]), np.sort(other[1]))


def ranks(values: np.ndarray[tuple[int], np.dtype[np.int32]]) -> np.ndarray[tuple[int], np.dtype]:
    return np.argsort(np.argsort(values, kind="stable"), kind="stable")


@pytest.mark.parametrize("correlation", [-0.9, -0.3, 0.0, 0.5, 0.8])
def test_ranks_correlate_as_stated(correlation: float) -> None:
    tied = Profile("x", Lognormal(50_000, 30_000), Lognormal(20_000, 9000), "test", correlation)
    inputs, outputs = tied.draw(20_000, 5)
    found = np.corrcoef(ranks(inputs), ranks(outputs))[0, 1]
    assert abs(found - correlation) < SIGMAS / sqrt(20_000)


@pytest.mark.parametrize(("correlation", "ordered"), [(1.0, 1), (-1.0, -1)])
def test_full_correlation_sorts_outputs_with_or_against_inputs(
    correlation: float, ordered: int
) -> None:
    tied = Profile("x", Normal(550, 150), Normal(150, 20), "test", correlation)
    inputs, outputs = tied.draw(500, 6)
    assert bool((np.diff(outputs[np.argsort(inputs, kind="stable")]) * ordered >= 0).all())


def test_recorded_rows_are_drawn_whole_and_evenly() -> None:
    table = request_table(arrival_ps=[0, 1, 2], input_tokens=[10, 20, 30], output_tokens=[1, 2, 3])
    inputs, outputs = Rows("three", table, "test").draw(30_000, 7)
    assert np.array_equal(inputs, outputs * 10)
    counts = np.bincount(outputs)[1:]
    assert np.abs(counts - 10_000).max() < SIGMAS * sqrt(30_000 * 2 / 9)


def test_the_four_corners_are_short_or_long_in_and_out() -> None:
    assert list(PROFILES) == ["base", "short_short", "short_long", "long_short", "long_long"]
    for name in list(PROFILES)[1:]:
        means = dict(zip(("short", "long"), (128, 2048), strict=True))
        wanted = [means[part] for part in name.split("_")]
        drawn = profile(name).draw(20_000, 8)
        for tokens, mean in zip(drawn, wanted, strict=True):
            assert abs(tokens.mean() - mean) < SIGMAS * mean / 4 / sqrt(20_000)
            assert tokens.std() == pytest.approx(mean / 4, rel=0.03)


def test_the_base_workload_of_a_seed_stays_what_it_was() -> None:
    # Results that were published with the base profile depend on these draws.
    table = synthesise(count=4, rate_per_s=1000, seed=1)
    assert table.input_tokens.tolist() == BASE_INPUT
    assert table.output_tokens.tolist() == BASE_OUTPUT
    assert table.arrival_ps.tolist() == BASE_ARRIVAL


BASE_INPUT = [595, 696, 504, 302]
BASE_OUTPUT = [137, 171, 143, 111]
BASE_ARRIVAL = [103217287, 162831702, 226916354, 1734919547]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Modulation(burst_ps=0), "burst 0 s: must be above 0"),
        (lambda: Modulation(lull_ps=-1), "lull -1 ps: negative"),
        (lambda: Modulation(period_ps=0), "period 0 s: must be above 0"),
        (lambda: Modulation(swing=1.01), "swing 1.01: the rate would fall below 0"),
        (lambda: Modulation(swing=float("nan")), "swing nan"),
        (lambda: Gamma(5, 0), r"gamma length 5 \+- 0 tokens: hardly any spread"),
        (lambda: Gamma(1, 2), r"gamma length 1 \+- 2 tokens: less than half lies above 0"),
        (lambda: Gamma(10**5, 10**8), "less than half lies above 0"),
        (lambda: Lognormal(1, 2), r"lognormal length 1 \+- 2 tokens: less than half lies above 0"),
        (lambda: Profile("x", Normal(9, 1), Normal(9, 1), "", 1.5), "correlation 1.5: write -1"),
        (lambda: Profile("x", Normal(9, 1), Normal(9, 1), "", float("nan")), "correlation nan"),
        (
            lambda: arrivals("on_off", 1, 9, generator(0, "t"), modulation=Modulation(1, 10**20)),
            r"lull .* s: the last of 9 requests would come beyond 4e6 s",
        ),
        (
            lambda: arrivals(
                "on_off", 1, 10**5, generator(0, "t"), modulation=Modulation(10**6, 10**6)
            ),
            "more than 10000000 bursts; write longer bursts",
        ),
    ],
)
def test_an_impossible_rhythm_is_refused(make: Callable[[], object], told: str) -> None:
    with pytest.raises(RequestError, match=told) as refused:
        make()
    assert "\n" not in str(refused.value)


def test_the_rate_of_a_day_follows_its_sine() -> None:
    shape = Modulation(period_ps=200 * SECOND, swing=0.5)
    at = arrivals("diurnal", 1000, MANY, generator(9, "test"), modulation=shape) / SECOND
    found = np.bincount(at.astype(int), minlength=200)[:199]
    expected = 1000 * (1 + 0.5 * np.sin(2 * pi * (np.arange(199) + 0.5) / 200))
    assert np.abs((found - expected) / np.sqrt(expected)).max() < SIGMAS
