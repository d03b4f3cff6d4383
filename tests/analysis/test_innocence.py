"""How much of what stood behind stops was innocent: over cells, by port, and not told."""

from collections.abc import Callable
from dataclasses import replace
from math import isnan

import numpy as np
import pytest
from msgspec import structs

from analysis.innocence import held, innocent_share, told
from analysis.measure import MEASURES
from analysis.record import Cell, StudyManifest
from analysis.summary import Sample
from analysis.witness import Witness

Rows = Callable[..., Cell]


def stood(make_rows: Rows, *rows: tuple[int, int, int]) -> Cell:
    """A cell with (port, paused bytes, innocent bytes) at three ports, s0:0 to s0:2."""
    port, paused, innocent = (
        np.array([row[place] for row in rows], np.int64) for place in range(3)
    )
    totals = {"paused_bytes": int(paused.sum()), "innocent_bytes": int(innocent.sum())}
    cell = make_rows([], ports=[{"port": place} for place in range(3)], totals=totals)
    table = {"port": port, "priority": np.full(len(port), 3)}
    table |= {"paused_bytes": paused, "innocent_bytes": innocent}
    return replace(cell, observed={"innocence": table})


def test_the_share_is_of_the_bytes_of_all_cells_and_not_the_mean_of_shares(
    make_rows: Rows,
) -> None:
    one, two = stood(make_rows, (0, 100, 50)), stood(make_rows, (0, 900, 50))
    assert innocent_share(one) == 0.5
    assert innocent_share(one, two) == 0.1


def test_the_port_is_named_where_most_innocent_bytes_stood_over_all_cells(
    make_rows: Rows,
) -> None:
    one, two = stood(make_rows, (0, 100, 30), (1, 100, 40)), stood(make_rows, (0, 200, 30))
    assert told([Witness(cell, None) for cell in (one, two)]) == "25 %, most at s0:0"


def test_what_was_not_recorded_or_never_stood_has_no_share(
    make_rows: Rows, make_question: Callable[..., StudyManifest]
) -> None:
    old, idle = make_rows([], totals={"events": 9}), stood(make_rows)
    incast = stood(make_rows, (2, 100, 0))
    assert isnan(innocent_share(old))
    assert isnan(innocent_share(idle))
    assert isnan(innocent_share(incast, old))
    assert innocent_share(incast) == 0
    texts = [told([Witness(cell, None)]) for cell in (old, idle, incast)]
    assert texts == ["not recorded", "nothing stood", "0 %"]
    sample = Sample("f", "p", (old,), (), (), None)
    assert MEASURES["innocent_pause"].estimate(sample, make_question()) is None


def test_one_port_tells_what_stood_there_over_its_priorities(make_rows: Rows) -> None:
    witness = Witness(stood(make_rows, (1, 100, 10), (1, 300, 90), (2, 50, 50)), None)
    assert held(witness, 1) == "25 % of what stood at s0:1 was innocent"
    assert held(witness, 0) == ""
    assert held(Witness(make_rows([], totals={}), None), 1) == ""


def test_the_mean_over_seeds_has_an_interval(
    make_rows: Rows, make_question: Callable[..., StudyManifest]
) -> None:
    def seed(number: int, innocent: int) -> Cell:
        cell = stood(make_rows, (0, 100, innocent))
        return replace(cell, manifest=structs.replace(cell.manifest, seed=number))

    sample = Sample("f", "p", (seed(1, 40), seed(2, 60)), (), (), None)
    found = MEASURES["innocent_pause"].estimate(sample, make_question())
    assert found is not None
    assert found.value == pytest.approx(0.5)
    assert found.low < 0.4 < 0.6 < found.high
