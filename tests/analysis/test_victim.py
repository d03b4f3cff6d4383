"""Victims by hand: who congests, who is exposed, and how much slower that makes it."""

from collections.abc import Mapping
from math import isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.victim import congesting, victims
from traffic.emulator import Table

CROSSES = np.ones(4, bool)


def table(rows: list[Mapping[str, int]]) -> Table:
    """Flows released at 0; each row gives took, ideal and maxmin."""
    return {
        "release_ps": np.zeros(len(rows), np.int64),
        "finish_ps": np.array([row["took"] for row in rows], np.int64),
        "ideal_ps": np.array([row.get("ideal", 1000) for row in rows], np.int64),
        "maxmin_ps": np.array([row.get("maxmin", 1000) for row in rows], np.int64),
    }


def test_a_flow_that_max_min_slows_congests_and_one_within_a_hundredth_does_not() -> None:
    flows = table([{"took": 1, "maxmin": m} for m in (1000, 1010, 1011, 2000, -1)])
    assert congesting(flows).tolist() == [False, False, True, True, False]


def test_four_flows_by_hand() -> None:
    # one congests; of the three exposed, one takes twice its time alone
    flows = table([{"took": 4000, "maxmin": 4000}, {"took": 2000}, {"took": 1100}, {"took": 1000}])
    found = victims(flows, np.array([-1, 1000, 1000, 1000]), CROSSES)
    assert (found.flows, found.congesting, found.exposed, found.victims) == (4, 1, 3, 1)
    assert (found.median, found.most) == (1.1, 2.0)
    assert found.q is None
    assert isnan(found.tail)


def test_who_crosses_no_paused_port_is_not_exposed() -> None:
    flows = table([{"took": 2000}] * 4)
    found = victims(flows, np.full(4, 1000), np.array([True, False, False, True]))
    assert (found.exposed, found.victims) == (2, 2)
    assert victims(flows, np.full(4, 1000), ~CROSSES).exposed == 0


def test_what_did_not_finish_in_either_run_is_left_out() -> None:
    flows = table([{"took": -1}, {"took": 2000}, {"took": 2000}, {"took": 2000}])
    found = victims(flows, np.array([1000, -1, 1000, 1000]), CROSSES)
    assert (found.flows, found.exposed) == (3, 2)


def test_twenty_exposed_carry_a_median() -> None:
    flows = table([{"took": 1000 * k} for k in range(1, 21)])
    found = victims(flows, np.full(20, 1000), np.ones(20, bool))
    assert (found.q, found.tail, found.most) == (0.5, 10.0, 20.0)


@given(st.lists(st.tuples(st.integers(1, 9000), st.integers(900, 3000)), min_size=1, max_size=20))
def test_a_run_against_itself_has_no_victims(rows: list[tuple[int, int]]) -> None:
    flows = table([{"took": took, "maxmin": maxmin} for took, maxmin in rows])
    found = victims(flows, flows["finish_ps"].astype(np.int64), np.ones(len(rows), bool))
    assert found.victims == 0
    assert found.exposed + found.congesting == len(rows)
    assert isnan(found.most) or found.most == pytest.approx(1.0)
