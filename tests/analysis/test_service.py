"""Objectives, goodput and density of requests that can be added up by hand."""

from collections.abc import Callable, Mapping
from math import isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.record import IN_FLIGHT, REJECTED, Cell, StudyManifest
from analysis.service import attained, attainment, density, goodput_per_s, offered_per_s

MS = 10**9
Rows = Callable[..., Cell]
Ask = Callable[..., StudyManifest]


def request(arrival: int, ttft: int, tpot: int, output: int = 11, **more: int) -> Mapping[str, int]:
    """A request by its arrival, TTFT and TPOT in ms."""
    first = (arrival + ttft) * MS
    return {
        "arrival_ps": arrival * MS,
        "first_token_ps": first,
        "finish_ps": first + tpot * (output - 1) * MS,
        "output_tokens": output,
    } | more


def test_a_request_must_meet_both_objectives_at_most_equal(
    make_rows: Rows, make_question: Ask
) -> None:
    cell = make_rows(
        [request(0, 100, 10), request(0, 101, 10), request(0, 100, 11), request(0, 50, 5)]
    )
    ask = make_question(ttft_ps=100 * MS, tpot_ps=10 * MS)
    assert attained(cell, ask).tolist() == [True, False, False, True]
    assert attainment(cell, ask) == 0.5


def test_what_is_rejected_or_unfinished_meets_nothing(make_rows: Rows, make_question: Ask) -> None:
    cell = make_rows(
        [
            request(0, 1, 1),
            {"arrival_ps": 0, "status": REJECTED},
            request(0, 1, 1) | {"finish_ps": -1, "status": IN_FLIGHT},
        ]
    )
    assert attainment(cell, make_question(ttft_ps=100 * MS)) == pytest.approx(1 / 3)


def test_without_output_the_time_to_the_end_of_prefill_counts(
    make_rows: Rows, make_question: Ask
) -> None:
    done = {"arrival_ps": 0, "finish_ps": 90 * MS, "output_tokens": 0}
    late = done | {"finish_ps": 101 * MS}
    cell = make_rows([done, late])
    assert attained(cell, make_question(ttft_ps=100 * MS, tpot_ps=MS)).tolist() == [True, False]


def test_one_token_has_no_tpot_to_miss(make_rows: Rows, make_question: Ask) -> None:
    cell = make_rows([request(0, 10, 999, output=1)])
    assert attainment(cell, make_question(ttft_ps=100 * MS, tpot_ps=MS)) == 1.0


def test_without_objectives_there_is_no_attainment(make_rows: Rows, make_question: Ask) -> None:
    cell = make_rows([request(0, 1, 1)])
    assert isnan(attainment(cell, make_question()))
    assert isnan(goodput_per_s(cell, make_question()))
    assert isnan(density(cell, make_question()))


def test_goodput_is_the_offered_rate_times_the_attainment(
    make_rows: Rows, make_question: Ask
) -> None:
    # 5 arrivals in 40 ms: 4 gaps of 10 ms, 100 a second; four of five within the objective
    cell = make_rows([request(10 * place, 100 if place else 101, 1) for place in range(5)])
    ask = make_question(ttft_ps=100 * MS)
    assert offered_per_s(cell) == pytest.approx(100)
    assert goodput_per_s(cell, ask) == pytest.approx(80)


def test_density_counts_the_tokens_of_good_requests_over_all_gpus(
    make_rows: Rows, make_question: Ask
) -> None:
    # 4 x 11 tokens from the first arrival to the last end, 150 ms, on 64 GPUs
    cell = make_rows([request(10 * place, 100 if place else 101, 1) for place in range(5)])
    assert density(cell, make_question(ttft_ps=100 * MS)) == pytest.approx(44 / 0.15 / 64)


def test_warm_up_requests_are_left_out(make_rows: Rows, make_question: Ask) -> None:
    rows = [request(10 * place, 500 if place < 2 else 1, 1) for place in range(6)]
    cell = make_rows(rows, warmup_requests=2)
    assert attainment(cell, make_question(ttft_ps=100 * MS)) == 1.0
    assert len(attained(cell, make_question())) == 4


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 30)), min_size=1, max_size=12))
def test_looser_objectives_are_met_by_no_fewer(
    make_rows: Rows, make_question: Ask, times: list[tuple[int, int]]
) -> None:
    cell = make_rows([request(0, ttft, tpot) for ttft, tpot in times])
    tight = attained(cell, make_question(ttft_ps=80 * MS, tpot_ps=10 * MS))
    loose = attained(cell, make_question(ttft_ps=90 * MS, tpot_ps=12 * MS))
    assert bool(np.all(loose | ~tight))
