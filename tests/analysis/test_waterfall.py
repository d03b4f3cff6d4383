"""Effective bandwidth step by step, by hand."""

from collections.abc import Callable

import numpy as np
import pytest

from analysis.handoff import handoffs
from analysis.record import Cell, StudyManifest
from analysis.summary import Sample
from analysis.waterfall import STEPS, bandwidths, waterfall
from traffic.emulator import Table

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


def lone(*rows: tuple[int, int]) -> Table:
    """What headers and descriptors add to each flow, in ns."""
    headers, descriptors = np.array(rows, np.int64).reshape(-1, 2).T * 1000
    return {
        "flow": np.arange(len(rows)), "headers_ps": headers, "descriptors_ps": descriptors,
    }  # fmt: skip


def test_two_hand_offs_by_hand(make_rows: Rows, make_question: Ask) -> None:
    # 800 kbit each, nominal over 8 + 8 us: headers add 0.5 each, the way 0.5 and 1, descriptors 1
    # and 0.5, sharing 0 and 10, congestion 6 and 4; the second copies for 3, the rest is waiting.
    copied = {"arrived_ps": 27 * US, "scattered_ps": 30 * US, "handoff_release_ps": 3 * US}
    first = life(20, 16) | {"dispatched_ps": 4 * US}
    rows = [first, life(30, 24) | copied | {"dispatched_ps": 3 * US}]
    cell = make_rows(rows, [flow(0, 8, 10, 10), flow(1, 8, 10, 20)])
    part = handoffs(cell, make_question())
    found = waterfall([cell], [part], [lone((500, 1000), (500, 500))])
    assert found is not None
    assert found.handoffs == 2
    spent = [16, 17, 18.5, 20, 30, 40, 43, 50]
    assert [rate / 1e9 for rate in found.rates_bps] == pytest.approx([1600 / us for us in spent])
    assert len(found.rates_bps) == len(STEPS)


def test_results_without_lone_times_tell_the_other_steps(
    make_rows: Rows, make_question: Ask
) -> None:
    cell = make_rows([life(20, 16)], [flow(0, 8, 10, 10)])
    part = handoffs(cell, make_question())
    found = waterfall([cell], [part], [None])
    assert found is not None
    assert np.isnan(found.rates_bps[1:3]).all()
    (row,) = bandwidths([Sample("f", "p", (cell,), (part,), (), None)]).rows
    assert row[2:6] == ("100 Gbps", "n/a", "n/a", "80 Gbps (80 %)")


def test_flows_side_by_side_last_as_long_as_the_longest(
    make_rows: Rows, make_question: Ask
) -> None:
    cell = make_rows([life(20, 20)], [flow(0, 8, 10, 10), flow(0, 8, 16, 12)])
    found = waterfall([cell], [handoffs(cell, make_question())], [lone((0, 0), (1000, 8000))])
    assert found is not None
    wanted = [200, 1600 / 9, 160, 100, 1600 / 12, 80, 80, 80]
    assert [rate / 1e9 for rate in found.rates_bps] == pytest.approx(wanted)


def test_what_has_no_estimate_or_did_not_end_is_left_out(
    make_rows: Rows, make_question: Ask
) -> None:
    rows = [life(20, 20), life(20, 20) | {"kv_ready_ps": -1}]
    flows = [flow(0, 8, 10, 10) | {"maxmin_ps": -1}, flow(1, 8, 10, 10)]
    cell = make_rows(rows, flows)
    assert waterfall([cell], [handoffs(cell, make_question())], [None]) is None
