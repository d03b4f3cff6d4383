"""A run that did not serve its load says so beside any budget that it kept."""

from collections.abc import Callable

import pytest

from analysis.backlog import told, waiting
from analysis.handoff import handoffs
from analysis.record import Cell, Study, StudyManifest
from analysis.summary import MET, Summary

MS = 10**9
Ask = Callable[..., StudyManifest]
Rows = Callable[..., Cell]


def overloaded(make_rows: Rows, rho: float, count: int = 1000) -> Cell:
    """One prefill instance with prompts of 1 ms, asked for ``rho`` times what it can do."""
    lives: list[dict[str, int]] = []
    free = 0
    for number in range(count):
        arrival = round(number * MS / rho)
        start = max(free, arrival)
        free = start + MS
        lives.append({"arrival_ps": arrival, "prefill_start_ps": start, "prefill_end_ps": free})
    return make_rows(lives)


@pytest.mark.parametrize("rho", [1.25, 2.0, 40.0])
def test_the_share_that_waits_at_the_last_arrival_is_one_less_the_inverse_of_the_load(
    rho: float, make_rows: Rows
) -> None:
    assert waiting(overloaded(make_rows, rho)) == pytest.approx(1 - 1 / rho, abs=0.002)


def test_overload_is_told_with_its_share_and_the_alternative(
    make_rows: Rows, make_question: Ask
) -> None:
    study = Study(make_question(), (overloaded(make_rows, 2.0),), 0)
    (line,) = told(study, [Summary("f", "p", MET)])
    assert "fell behind the arrivals in 1 alternative" in line
    assert "50 % of the requests still waited for it (f with p)" in line


def test_a_prefill_that_keeps_up_and_a_short_burst_are_not_called_overload(
    make_rows: Rows, make_question: Ask
) -> None:
    calm, burst = overloaded(make_rows, 0.9), overloaded(make_rows, 40.0, count=9)
    assert told(Study(make_question(), (calm, burst), 0), [Summary("f", "p", MET)]) == []
    unlucky = overloaded(make_rows, 1.5)
    assert told(Study(make_question(), (calm, unlucky), 0), [Summary("f", "p", MET)]) == []


def test_rejected_requests_wait_for_nothing(make_rows: Rows) -> None:
    assert waiting(make_rows([{"status": 2}] * 50)) == 0


def test_requests_that_the_limit_cut_off_before_their_hand_off_are_told(
    make_rows: Rows, make_question: Ask
) -> None:
    served = {"prefill_start_ps": 0, "prefill_end_ps": 1, "handoff_release_ps": 2, "kv_ready_ps": 3}
    cell = make_rows([served, {"status": 1}, {"status": 1}])
    found = handoffs(cell, make_question())
    assert found.not_due == 2
    (line,) = told(Study(make_question(), (cell,), 0), [Summary("f", "p", MET, not_due=2)])
    assert line.startswith("2 requests had not ended their prefill when the run stopped")
