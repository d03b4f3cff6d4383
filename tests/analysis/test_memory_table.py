"""Occupancy, time short and evictions, from totals that can be divided by hand."""

from collections.abc import Callable
from math import isnan

import pytest

from analysis.measure import MEASURES
from analysis.memory import evictions, held, memory, peak, short, short_most
from analysis.record import Cell, StudyManifest
from analysis.summary import Sample

GIB = 2**30
Rows = Callable[..., Cell]
Ask = Callable[..., StudyManifest]

TOTALS = {
    "hbm.instances": 2,
    "hbm.capacity_bytes": 20 * GIB,  # 10 each
    "hbm.mean_bytes": 5 * GIB,
    "hbm.peak_ppm": 900_000,
    "hbm.window_ps": 100,
    "hbm.short_ps": 30,  # 5 of one, 25 of the other
    "hbm.short_most_ps": 25,
    "hbm.evictions": 7,
    "hbm.evictions_most": 6,
}


def sample(*cells: Cell) -> Sample:
    return Sample("f", "p", cells, (), (), None)


def test_shares_are_of_all_memory_and_of_the_time_of_all_instances(make_rows: Rows) -> None:
    cell = make_rows([], totals=TOTALS)
    assert held(cell) == 0.25
    assert peak(cell) == 0.9
    assert short(cell) == pytest.approx(0.15)
    assert short_most(cell) == 0.25
    assert evictions(cell) == 7


def test_a_row_has_means_of_shares_and_sums_of_evictions(
    make_rows: Rows, make_question: Ask
) -> None:
    more = TOTALS | {"hbm.mean_bytes": 15 * GIB, "hbm.evictions": 5, "hbm.evictions_most": 3}
    found = sample(make_rows([], totals=TOTALS), make_rows([], totals=more))
    (row,) = memory([found]).rows
    assert row == ("f", "p", "10.7 GB", "50 %", "90 %", "15 %", "25 %", "12", "6")
    twelve = MEASURES["evictions"].estimate(sample(make_rows([], totals=TOTALS)), make_question())
    assert twelve is not None
    assert twelve.value == 7


def test_results_that_do_not_tell_have_no_row_and_no_number(
    make_rows: Rows, make_question: Ask
) -> None:
    cell = make_rows([], totals={})
    assert memory([sample(cell)]).rows == ()
    assert all(isnan(each(cell)) for each in (held, peak, short, short_most, evictions))
    assert MEASURES["evictions"].estimate(sample(cell), make_question()) is None
