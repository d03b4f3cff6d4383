"""Requests around an outage, by hand: which phase each is in, and what the table says of it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analysis.failure import failures, phases, short
from analysis.record import (
    FINISHED,
    IN_FLIGHT,
    Cell,
    StudyManifest,
    cell_directory,
    read_study,
    write_cell,
    write_study,
)
from analysis.result import result
from traffic.emulator import Table
from traffic.record.ledger import FAILED

MS = 10**9
Rows = Callable[..., Cell]


def request(arrival: int, first: int = -1, status: int = FINISHED) -> Mapping[str, int]:
    """A request by its arrival and first token in ms; it finishes 1 s later."""
    if first < 0:
        return {"arrival_ps": arrival * MS, "status": status}
    return {
        "arrival_ps": arrival * MS,
        "first_token_ps": first * MS,
        "finish_ps": (first + 1000) * MS,
        "output_tokens": 2,
        "status": status,
    }


def toll(count: int, **columns: list[int]) -> Table:
    plain = {"attempts": 1, "failed_ps": -1}
    names = ("attempts", "reason", "failed_ps", "wasted_prefill_ps", "wasted_flows", "wasted_bytes")
    found: Table = {"request": np.arange(count)}
    for name in names:
        found[name] = np.array(columns.get(name, [plain.get(name, 0)] * count), np.int64)
    return found


def spells(*rows: tuple[int, int]) -> Table:
    """Outages from a time until the router used the instance again, in ms; -1 for never."""
    count = len(rows)
    found: Table = {name: np.zeros(count, np.int64) for name in ("kind", "side", "instance")}
    found["from_ps"] = np.array([start * MS for start, _ in rows], np.int64)
    for name in ("served_ps", "unseen_ps", "seen_ps"):
        found[name] = np.array([-1 if end < 0 else end * MS for _, end in rows], np.int64)
    return found


def test_a_request_is_in_the_phase_in_which_it_waited_for_its_first_token(make_rows: Rows) -> None:
    cell = make_rows(
        [
            request(0, 99),  # its answer goes on into the outage
            request(0, 100),
            request(150, 160),
            request(199, 300),
            request(200, 210),
            request(120, status=FAILED),
            request(0, status=IN_FLIGHT),
            request(300, status=IN_FLIGHT),
        ]
    )
    failed = [-1] * 8
    failed[5] = 180 * MS
    found = phases(cell, toll(8, failed_ps=failed), spells((100, 200)))
    assert found.phase.tolist() == [0, 1, 1, 1, 2, 1, 1, 2]
    assert found.ttft[[0, 3]].tolist() == [99 * MS, 101 * MS]
    assert np.isinf(found.ttft[5:]).all()


@pytest.mark.parametrize(
    ("outages", "phase"),
    [
        (spells((100, -1)), [0, 1, 1]),
        (spells((100, 200), (400, 500)), [0, 2, 1]),
        (spells(), [0, 0, 0]),
    ],
)
def test_an_outage_without_end_lasts_and_between_two_it_is_after(
    outages: Table, phase: list[int], make_rows: Rows
) -> None:
    cell = make_rows([request(0, 50), request(300, 350), request(450, 460)])
    assert phases(cell, toll(3), outages).phase.tolist() == phase


def test_the_first_requests_are_left_out_as_warm_up(make_rows: Rows) -> None:
    cell = make_rows([request(0, 50), request(300, 350)], warmup_requests=1)
    found = phases(cell, toll(2, attempts=[7, 2]), spells((100, 200)))
    assert found.attempts.tolist() == [2]


def test_the_table_tells_tails_losses_and_waste_of_every_phase(
    make_rows: Rows, make_question: Callable[..., StudyManifest], tmp_path: Path
) -> None:
    rows = [request(i, i + 10) for i in range(80)]
    rows += [request(200 + i, 200 + i + 30) for i in range(20)]
    rows += [request(230, status=FAILED)] * 2
    count = len(rows)
    attempts, wasted, failed = [1] * count, [0] * count, [-1] * count
    attempts[80:] = [2] * 22
    wasted[90] = 5 * MS
    failed[100:] = [240 * MS] * 2
    made = make_rows(rows)
    cell = replace(
        made,
        observed={
            "toll": toll(count, attempts=attempts, wasted_prefill_ps=wasted, failed_ps=failed),
            "spells": spells((150, 400)),
        },
    )
    write_study(tmp_path, make_question())
    write_cell(cell_directory(tmp_path, cell.manifest.cell), cell)
    told = failures(result(read_study(tmp_path), tmp_path))
    columns, tables = short(told)
    (phase_rows,) = tables.values()
    named = [dict(zip(columns, row, strict=True)) for row in phase_rows]
    assert [row["requests"] for row in named] == ["80", "22", "0"]
    assert [row["failed"] for row in named[:2]] == ["0", "2"]
    assert [row["attempts"] for row in named[:2]] == ["1.00", "2.00"]
    assert [row["TTFT P50"] for row in named[:2]] == ["10 ms", "30 ms"]
    assert named[1]["prefill wasted"] == "5 ms"


def test_a_study_without_failures_has_no_such_table(first_look: Path) -> None:
    assert not failures(result(read_study(first_look), first_look)).rows
