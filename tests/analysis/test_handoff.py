"""Hand-offs by hand: what counts as due, as over budget, and what the estimates say."""

from collections.abc import Callable

import numpy as np
import pytest

from analysis.handoff import handoffs, window_ps
from analysis.record import Cell, StudyManifest

Rows = Callable[..., Cell]
Ask = Callable[..., StudyManifest]

DONE = {"prefill_end_ps": 100, "handoff_release_ps": 110, "kv_ready_ps": 160, "finish_ps": 900}


def test_a_hand_off_lasts_from_the_end_of_prefill_to_kv_ready(
    make_rows: Rows, make_question: Ask
) -> None:
    found = handoffs(make_rows([DONE]), make_question(budget_ps=60))
    assert found.duration.tolist() == [60.0]
    assert found.transfer.tolist() == [50.0]
    assert found.over.tolist() == [False], "exactly the budget is inside the budget"


def test_one_picosecond_above_the_budget_is_over(make_rows: Rows, make_question: Ask) -> None:
    assert handoffs(make_rows([DONE]), make_question(budget_ps=59)).over.tolist() == [True]


def test_a_hand_off_that_never_ends_is_over_any_budget_and_counted(
    make_rows: Rows, make_question: Ask
) -> None:
    sent = {"prefill_end_ps": 100, "handoff_release_ps": 110, "status": 1}
    held = {"prefill_end_ps": 100, "status": 1}
    found = handoffs(make_rows([sent, held]), make_question(budget_ps=10**18))
    assert found.duration.tolist() == [np.inf, np.inf]
    assert found.over.tolist() == [True, True]
    assert found.not_finished == 2


def test_requests_without_a_hand_off_are_counted_apart(make_rows: Rows, make_question: Ask) -> None:
    found = handoffs(
        make_rows(
            [
                {"prefill_end_ps": 5, "finish_ps": 5},
                {"prefill_end_ps": 5, "kv_ready_ps": 5, "finish_ps": 9},
                {"status": 2},
                {"status": 1},
                DONE,
            ]
        ),
        make_question(),
    )
    assert (len(found.request), found.local, found.rejected, found.not_due) == (1, 2, 1, 1)


def test_without_a_budget_a_hand_off_may_take_what_the_ttft_leaves(
    make_rows: Rows, make_question: Ask
) -> None:
    # 40 queued and prefilling until 100, 10 more waiting to decode: 200 - 60 - 10 = 130 are left
    row = DONE | {"arrival_ps": 40, "prefill_start_ps": 60, "decode_start_ps": 170}
    inside = handoffs(make_rows([row]), make_question(budget_ps=None, ttft_ps=130))
    beyond = handoffs(make_rows([row]), make_question(budget_ps=None, ttft_ps=129))
    assert (inside.over.tolist(), beyond.over.tolist()) == ([False], [True])


def test_an_estimate_runs_from_the_first_release_to_the_last_estimated_end(
    make_rows: Rows, make_question: Ask
) -> None:
    flows = [
        {"handoff": 1, "release_ps": 110, "bandwidth_ps": 30, "maxmin_ps": 35},
        {"handoff": 1, "release_ps": 120, "bandwidth_ps": 30, "maxmin_ps": -1},
        {"handoff": 0, "release_ps": 10, "bandwidth_ps": 7, "maxmin_ps": 8},
        {"handoff": 9, "release_ps": 0, "bandwidth_ps": 999, "maxmin_ps": 999},
    ]
    found = handoffs(make_rows([DONE, DONE], flows), make_question())
    assert found.bandwidth.tolist() == [7.0, 40.0]
    assert found.maxmin[0] == 8.0
    assert np.isnan(found.maxmin[1])


def test_slowdown_is_completion_time_over_ideal_of_finished_flows(
    make_rows: Rows, make_question: Ask
) -> None:
    flows = [
        {"handoff": 0, "release_ps": 100, "finish_ps": 160, "ideal_ps": 40},
        {"handoff": 0, "release_ps": 100, "finish_ps": -1, "ideal_ps": 40},
    ]
    assert handoffs(make_rows([DONE], flows), make_question()).slowdown.tolist() == [1.5]


def test_flows_of_warm_up_requests_are_left_out(make_rows: Rows, make_question: Ask) -> None:
    flows = [
        {"handoff": 0, "packets": 10, "marked": 10, "resent_bytes": 5},
        {"handoff": 1, "packets": 10, "marked": 1, "resent_bytes": 0},
    ]
    first, second = DONE | {"arrival_ps": 0}, DONE | {"arrival_ps": 1}
    found = handoffs(make_rows([first, second], flows, warmup_requests=1), make_question())
    assert (found.packets, found.marked, found.resent_bytes) == (10, 1, 0)


@pytest.mark.parametrize(("finish", "window"), [(160, 150), (-1, 990)])
def test_the_window_runs_to_the_last_byte_or_to_the_end_of_the_run(
    make_rows: Rows, finish: int, window: int
) -> None:
    flows = [{"release_ps": 10, "finish_ps": 40}, {"release_ps": 20, "finish_ps": finish}]
    assert window_ps(make_rows([DONE], flows, duration_ps=1000)) == window
