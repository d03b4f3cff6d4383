"""Effective bandwidth step by step, by hand."""

from collections.abc import Callable

import pytest

from analysis.handoff import handoffs
from analysis.record import Cell, StudyManifest
from analysis.waterfall import STEPS, waterfall

US = 10**6
Rows = Callable[..., Cell]
Ask = Callable[..., StudyManifest]


def life(took: int, transfer: int) -> dict[str, int]:
    """A hand-off by its time and that of its transfer, which comes last, in us."""
    return {
        "prefill_end_ps": 0,
        "handoff_release_ps": (took - transfer) * US,
        "kv_ready_ps": took * US,
    }


def flow(handoff: int, bandwidth: int, ideal: int, maxmin: int, **more: int) -> dict[str, int]:
    return {
        "handoff": handoff, "bytes": 100_000, "bandwidth_ps": bandwidth * US,
        "ideal_ps": ideal * US, "maxmin_ps": maxmin * US, "release_ps": 0,
    } | more  # fmt: skip


def test_two_hand_offs_by_hand(make_rows: Rows, make_question: Ask) -> None:
    # 800 kbit each: over 8 + 8, 10 + 10, 10 + 20, 16 + 24 and 20 + 30 us
    cell = make_rows([life(20, 16), life(30, 24)], [flow(0, 8, 10, 10), flow(1, 8, 10, 20)])
    found = waterfall([handoffs(cell, make_question())])
    assert found is not None
    assert found.handoffs == 2
    assert [rate / 1e9 for rate in found.rates_bps] == pytest.approx([100, 80, 1600 / 30, 40, 32])
    assert len(found.rates_bps) == len(STEPS)


def test_flows_side_by_side_last_as_long_as_the_longest(
    make_rows: Rows, make_question: Ask
) -> None:
    cell = make_rows([life(20, 20)], [flow(0, 8, 10, 10), flow(0, 8, 16, 12)])
    found = waterfall([handoffs(cell, make_question())])
    assert found is not None
    assert [rate / 1e9 for rate in found.rates_bps] == pytest.approx([200, 100, 1600 / 12, 80, 80])


def test_what_has_no_estimate_or_did_not_end_is_left_out(
    make_rows: Rows, make_question: Ask
) -> None:
    rows = [life(20, 20), life(20, 20) | {"kv_ready_ps": -1}]
    flows = [flow(0, 8, 10, 10) | {"maxmin_ps": -1}, flow(1, 8, 10, 10)]
    assert waterfall([handoffs(make_rows(rows, flows), make_question())]) is None
