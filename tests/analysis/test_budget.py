"""The budgets of a request: by hand, and as a law."""

from collections.abc import Callable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from analysis.budget import PARTS, budgets
from analysis.record import Cell, CellManifest

LIFE = {
    "arrival_ps": 100,
    "prefill_start_ps": 130,
    "prefill_end_ps": 200,
    "handoff_release_ps": 205,
    "kv_ready_ps": 250,
    "decode_start_ps": 260,
    "first_token_ps": 280,
    "finish_ps": 400,
    "output_tokens": 7,
}


def test_the_budgets_of_one_request_by_hand(make_rows: Callable[..., Cell]) -> None:
    found = budgets(make_rows([LIFE]))
    assert {name: int(found.part(name)[0]) for name in PARTS} == {
        "queueing": 30 + 10,
        "prefill": 70,
        "handoff": 50,
        "decode": 140,
    }
    assert found.end_to_end[0] == 300
    assert found.ttft[0] == 180
    assert found.tpot[0] == 20.0


def test_a_request_without_decode_has_its_whole_time_in_queue_and_prefill(
    make_rows: Callable[..., Cell],
) -> None:
    life = {"arrival_ps": 5, "prefill_start_ps": 9, "prefill_end_ps": 20, "finish_ps": 20}
    found = budgets(make_rows([life]))
    assert [int(found.part(name)[0]) for name in PARTS] == [4, 11, 0, 0]
    assert found.ttft[0] == 15
    assert np.isnan(found.tpot[0])


def test_one_output_token_has_no_time_per_output_token(make_rows: Callable[..., Cell]) -> None:
    found = budgets(make_rows([LIFE | {"output_tokens": 1, "finish_ps": 280}]))
    assert np.isnan(found.tpot[0])


def test_unfinished_and_rejected_requests_have_no_budgets(make_rows: Callable[..., Cell]) -> None:
    cell = make_rows([LIFE, LIFE | {"finish_ps": -1, "status": 1}, LIFE | {"status": 2}])
    assert budgets(cell).request.tolist() == [0]


def test_warm_up_leaves_out_the_first_arrivals_whatever_their_row(
    make_rows: Callable[..., Cell],
) -> None:
    late = {name: value + 1000 for name, value in LIFE.items() if name.endswith("_ps")}
    cell = make_rows([late, LIFE, late], warmup_requests=2)
    assert budgets(cell).request.tolist() == [2]


@given(st.lists(st.lists(st.integers(0, 10**13), min_size=8, max_size=8), min_size=1, max_size=9))
def test_the_four_budgets_add_up_to_the_end_to_end_time_to_the_picosecond(
    steps: list[list[int]],
) -> None:
    from_rows = _rows_of(steps)
    found = budgets(from_rows)
    total = sum(found.part(name) for name in PARTS)
    assert np.array_equal(total, found.end_to_end)
    assert all((found.part(name) >= 0).all() for name in PARTS)


def _rows_of(steps: list[list[int]]) -> Cell:
    names = [name for name in LIFE if name.endswith("_ps")]
    times = np.cumsum(np.array(steps, np.int64), axis=1)
    columns = {name: times[:, place] for place, name in enumerate(names)}
    count = len(steps)
    other = ("input_tokens", "output_tokens", "kv_bytes", "prefill", "decode", "status")
    columns |= {name: np.zeros(count, np.int64) for name in other}
    columns["request"] = np.arange(count)
    manifest = CellManifest(
        cell="c", fabric="f", policy="p", seed=1, scenario_sha256="", version="", emulator="packet"
    )
    return Cell(manifest, columns)
