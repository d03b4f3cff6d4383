"""Jain's index and path stability against closed forms."""

from collections.abc import Callable, Mapping
from math import isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.fairness import fairness, jain, path_stability
from analysis.record import Cell

Rows = Callable[..., Cell]


def flow(
    took: int, ideal: int = 10, pair: tuple[int, int] = (0, 1), **more: int
) -> Mapping[str, int]:
    return {
        "release_ps": 5, "finish_ps": 5 + took, "ideal_ps": ideal, "source": pair[0],
        "destination": pair[1],
    } | more  # fmt: skip


def test_equal_flows_are_fair_and_one_of_n_is_one_over_n() -> None:
    assert jain(np.ones(7)) == 1.0
    assert jain(np.array([1.0, 0, 0, 0, 0])) == pytest.approx(0.2)


def test_the_index_of_two_flows_by_hand(make_rows: Rows) -> None:
    # shares 1 and 1/2: 1.5^2 / (2 * 1.25) = 0.9
    found = fairness(make_rows([], [flow(10), flow(20)]))
    assert found.index == pytest.approx(0.9)
    assert found.least_over_most == 0.5
    assert isnan(found.maxmin)


def test_a_large_and_a_small_flow_at_full_rate_are_fair(make_rows: Rows) -> None:
    assert fairness(make_rows([], [flow(10, 10), flow(1000, 1000)])).index == 1.0


def test_max_min_beside_it_is_of_the_estimate(make_rows: Rows) -> None:
    flows = [flow(10, maxmin_ps=20), flow(20, maxmin_ps=20)]
    assert fairness(make_rows([], flows)).maxmin == 1.0


def test_flows_that_did_not_finish_have_no_share(make_rows: Rows) -> None:
    flows = [flow(10), flow(10) | {"finish_ps": -1}]
    assert fairness(make_rows([], flows)).index == 1.0
    assert isnan(fairness(make_rows([], flows[1:])).index)


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=20), st.floats(0.1, 10))
def test_the_index_lies_between_one_over_n_and_one_whatever_the_unit(
    shares: list[float], unit: float
) -> None:
    values = np.array(shares)
    assert 1 / len(values) - 1e-9 <= jain(values) <= 1 + 1e-9
    assert jain(values * unit) == pytest.approx(jain(values))


def test_a_pair_is_read_at_the_quantile_that_its_flows_carry(make_rows: Rows) -> None:
    # slowdowns 1 .. 100 on one pair; the median of a constant pair equals its tail
    flows = [flow(10 * k) for k in range(1, 101)] + [flow(30, pair=(2, 3)) for _ in range(1000)]
    first, second = path_stability([make_rows([], flows)])
    assert (first.source, first.destination, first.flows, first.q) == (0, 1, 100, 0.9)
    assert first.ratio == pytest.approx(90 / 50)
    assert (second.source, second.q, second.ratio) == (2, 0.99, 1.0)


def test_a_pair_of_few_flows_has_no_tail(make_rows: Rows) -> None:
    assert path_stability([make_rows([], [flow(10 * k) for k in range(1, 100)])]) == []
    assert path_stability([]) == []


def test_seeds_are_pooled_by_pair(make_rows: Rows) -> None:
    half = make_rows([], [flow(10 * k) for k in range(1, 51)])
    (found,) = path_stability([half, half])
    assert (found.flows, found.ratio) == (100, pytest.approx(45 / 25))
