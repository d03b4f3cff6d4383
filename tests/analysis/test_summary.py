"""Summaries by hand: shares, gaps, pauses and the quantile that all alternatives share."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from analysis.interval import Estimate
from analysis.record import Cell, Study, StudyManifest, read_study
from analysis.summary import (
    IMPOSSIBLE,
    MET,
    MISSED,
    MISSING,
    UNDECIDED,
    Summary,
    common_quantile,
    decided,
    samples,
    summaries,
)

MS = 10**9
Rows = Callable[..., Cell]
Ask = Callable[..., StudyManifest]


def lasting(times: list[int], first: int = 0) -> tuple[list[dict[str, int]], list[dict[str, int]]]:
    """Requests with one-flow hand-offs of these ms, and the flows, estimated at 1 and 2 ms."""
    requests, flows = [], []
    for place, time in enumerate(times):
        start = (first + place) * MS
        end = start + time * MS
        requests.append(
            {"arrival_ps": start, "prefill_start_ps": start, "prefill_end_ps": start}
            | {"handoff_release_ps": start, "kv_ready_ps": end, "decode_start_ps": end}
            | {"first_token_ps": end, "finish_ps": end, "output_tokens": 1}
        )
        flows.append(
            {"flow": place, "handoff": place, "bytes": 100, "release_ps": start}
            | {"finish_ps": end, "ideal_ps": MS // 2, "packets": 10, "marked": 1}
            | {"bandwidth_ps": MS, "maxmin_ps": 2 * MS, "resent_bytes": 3, "timeouts": 1}
        )
    return requests, flows


def only(study: Study) -> Summary:
    (row,) = summaries(study)
    return row


def test_the_numbers_of_twenty_hand_offs_by_hand(make_rows: Rows, make_question: Ask) -> None:
    requests, flows = lasting(list(range(1, 21)))
    row = only(Study(make_question(), (make_rows(requests, flows),), 0))
    assert (row.n, row.seeds, row.q) == (20, 1, 0.5)
    assert row.median == 10 * MS
    assert row.tail == Estimate(10 * MS, 6 * MS, 15 * MS)
    assert row.over is not None
    assert row.over.value == 15 / 20
    assert row.verdict == MISSED
    assert row.slowdown_median == 20.0
    assert row.bandwidth is not None
    assert row.maxmin is not None
    assert (row.bandwidth.tail_ps, row.bandwidth.ratio) == (MS, 10.0)
    assert (row.bandwidth.median_ratio, row.bandwidth.most_ratio) == (10.0, 20.0)
    assert row.maxmin.ratio == 5.0
    assert row.marked == 0.1
    assert row.resent == 0.03
    assert row.timeouts == 20
    assert row.parts == (0.0, 0.0, 10.5 * MS, 0.0)


def test_pause_fractions_are_over_the_window_and_keep_hosts_apart(
    make_rows: Rows, make_question: Ask
) -> None:
    requests, flows = lasting([10])
    ports = [
        {"tier": 0, "paused_ps": 9 * MS},
        {"tier": 1, "paused_ps": 4 * MS, "busy_ps": 5 * MS},
        {"tier": 2, "paused_ps": 0, "busy_ps": MS, "drops": 2},
    ]
    cell = make_rows(requests, flows, ports, duration_ps=1000 * MS)
    row = only(Study(make_question(), (cell,), 0))
    assert row.pause_max == 0.4
    assert row.pause_mean == pytest.approx(0.2)
    assert row.host_pause == 0.9
    assert row.utilisation_max == 0.5
    assert row.drops == 2


def test_hand_offs_that_never_end_stay_in_the_tail(make_rows: Rows, make_question: Ask) -> None:
    requests, flows = lasting([1] * 8)
    requests += [{"prefill_end_ps": 9 * MS, "arrival_ps": 9 * MS, "status": 1}] * 12
    row = only(Study(make_question(), (make_rows(requests, flows),), 0))
    assert row.tail is not None
    assert row.tail.value == np.inf
    assert (row.n, row.not_finished) == (20, 12)
    assert row.over is not None
    assert row.over.value == 0.6


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.0, 0.05, MET),
        (0.0, 0.0501, UNDECIDED),
        (0.05, 0.2, UNDECIDED),
        (0.0501, 0.2, MISSED),
        (0.0, 0.01, MET),
        (1.0, 1.0, MISSED),
    ],
)
def test_the_verdict_is_where_the_interval_lies(low: float, high: float, verdict: str) -> None:
    assert decided(Estimate((low + high) / 2, low, high), 0.05) == verdict


def test_nothing_to_count_decides_nothing() -> None:
    assert decided(None, 0.05) == UNDECIDED


def test_all_alternatives_are_read_at_the_quantile_of_the_smallest(
    make_rows: Rows, make_question: Ask
) -> None:
    cells = []
    for fabric, count in (("a", 120), ("b", 90), ("c", 30)):
        requests, flows = lasting([1] * count)
        cell = make_rows(requests, flows)
        object.__setattr__(cell, "manifest", _named(cell, fabric))
        cells.append(cell)
    study = Study(make_question(fabrics=["a", "b", "c"]), tuple(cells), 0)
    assert common_quantile(samples(study)) == 0.5
    rows = summaries(Study(make_question(fabrics=["a", "c"]), (cells[0], cells[2]), 0))
    assert [row.q for row in rows] == [0.9, None], "30 of 120 neither hold back nor get a tail"
    assert rows[1].tail is None


def test_what_did_not_run_says_so(first_look: Path) -> None:
    rows = {(row.fabric, row.policy): row for row in summaries(read_study(first_look))}
    assert len(rows) == 20
    row = rows["full mesh", "static_groups"]
    assert (row.verdict, row.reason) == (IMPOSSIBLE, "no groups in a mesh")


def test_an_alternative_without_cells_is_missing(make_question: Ask) -> None:
    assert only(Study(make_question(), (), 1)).verdict == MISSING


def test_an_empty_cell_is_undecided(make_rows: Rows, make_question: Ask) -> None:
    row = only(Study(make_question(), (make_rows([]),), 0))
    assert (row.verdict, row.n, row.q) == (UNDECIDED, 0, None)


def _named(cell: Cell, fabric: str) -> object:
    return msgspec.structs.replace(cell.manifest, fabric=fabric)
