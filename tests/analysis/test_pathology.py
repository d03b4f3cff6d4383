"""Pause chains, trees and full queues, in cases worked out by hand."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.chain import Chains, chains
from analysis.charge import apportioned
from analysis.pathology import Tree, queue_quantile, trees

END = 1_000


def of(*stops: tuple[int, int, int, int]) -> Chains:
    """Chains of (port, from, until, cause) of priority 3."""
    port, since, until, cause = (np.array(column, np.int64) for column in zip(*stops, strict=True))
    table = {"port": port, "from_ps": since, "until_ps": until, "cause_port": cause}
    return chains(table | {"priority": np.full(len(port), 3)}, END)


def test_a_stop_whose_cause_is_free_is_its_own_chain() -> None:
    found = of((1, 10, 20, 9))
    assert (found.root.tolist(), found.depth.tolist()) == ([9], [1])


def test_a_chain_of_three_leads_to_the_port_that_was_not_stopped() -> None:
    found = of((8, 10, 90, 9), (7, 20, 80, 8), (6, 30, 70, 7))
    assert (found.root.tolist(), found.depth.tolist()) == ([9, 9, 9], [1, 2, 3])


def test_a_cause_that_had_been_let_go_is_a_root() -> None:
    found = of((8, 10, 15, 9), (7, 20, 80, 8))
    assert (found.root.tolist(), found.depth.tolist()) == ([9, 8], [1, 1])


def test_a_stop_of_another_priority_is_no_link_of_the_chain() -> None:
    table = {"port": [8, 7], "priority": [3, 4], "from_ps": [10, 20], "until_ps": [90, 80]}
    found = chains({n: np.array(v) for n, v in (table | {"cause_port": [9, 8]}).items()}, END)
    assert found.root.tolist() == [9, 8]


def test_a_circle_of_stops_ends_at_the_one_that_began_it() -> None:
    found = of((1, 10, -1, 2), (3, 20, -1, 1), (2, 30, -1, 3))
    assert found.root.tolist() == [2, 2, 2]
    assert found.until.tolist() == [END, END, END]


def test_the_time_of_a_pause_goes_to_the_roots_that_held_it() -> None:
    found = of((1, 10, 20, 9), (1, 30, 60, 8))
    assert found.roots(1, 15, 40) == {9: 5, 8: 10}
    assert found.roots(2, 0, END) == {}


def test_a_tree_has_the_ports_that_stand_at_one_time_and_not_those_one_after_the_other() -> None:
    found = of((1, 10, 20, 9), (2, 20, 30, 9), (2, 25, 40, 9), (3, 35, 50, 9), (4, 60, 70, 5))
    assert trees(found) == [Tree(9, 2, 1, 4), Tree(5, 1, 1, 1)]


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(0, 12), st.integers(10, 13)),
        min_size=1,
        max_size=25,
    )
)
def test_the_size_of_a_tree_is_the_most_ports_counted_at_any_instant(
    rows: list[tuple[int, int, int, int]],
) -> None:
    found = of(*((port, at, at + length, root) for port, at, length, root in rows))
    for tree in trees(found):
        mine = [row for row in rows if row[3] == tree.root]
        most = max(
            len({port for port, at, length, _ in mine if at <= now < at + length})
            for now in range(45)
        )
        assert (tree.size, tree.stops, tree.depth) == (most, len(mine), 1)


def test_the_trees_of_many_stops_are_counted_in_well_under_a_second() -> None:
    rng = np.random.default_rng(3)
    since = np.sort(rng.integers(0, 10**13, 1 << 17))
    until = since + rng.integers(1, 10**8, len(since))
    port, root = rng.integers(0, 400, (2, len(since)))
    begun = time.process_time()
    found = trees(Chains(port, since, until, root, np.ones(len(since), np.int64)))
    assert sum(tree.stops for tree in found) == len(since)
    assert time.process_time() - begun < 0.5


def test_a_queue_without_samples_is_empty() -> None:
    none = np.empty(0, np.int64)
    assert queue_quantile({"port": none, "least_bytes": none, "samples": none}, 3) == 0


@given(st.integers(0, 10**15), st.lists(st.integers(1, 10**12), min_size=1, max_size=9))
def test_what_is_apportioned_adds_up_and_is_as_the_weights(total: int, weights: list[int]) -> None:
    parts = apportioned(total, weights)
    assert sum(parts) == total
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part * sum(weights) - total * weight) <= sum(weights)


@given(st.data())
def test_every_root_was_free_when_the_first_stop_of_its_chain_was_made(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    since = sorted(data.draw(st.lists(st.integers(0, 50), min_size=count, max_size=count)))
    busy: dict[int, int] = {}
    rows = []
    for at in since:
        port, cause = data.draw(st.tuples(st.integers(0, 5), st.integers(0, 5)))
        start = max(at, busy.get(port, 0))
        busy[port] = start + data.draw(st.integers(1, 30))
        rows.append((port, start, busy[port], cause))
    found = of(*sorted(rows, key=lambda row: row[1]))
    assert (found.depth >= 1).all()
    assert (found.depth <= count).all()
    alone = found.depth == 1
    causes = [row[3] for row in sorted(rows, key=lambda row: row[1])]
    assert found.root[alone].tolist() == [c for c, one in zip(causes, alone, strict=True) if one]


def test_a_histogram_is_read_at_the_upper_end_of_its_bin() -> None:
    table = {"port": [4] * 3, "least_bytes": [0, 512, 1024], "samples": [900, 98, 2]}
    row = {name: np.array(values) for name, values in table.items()}
    assert queue_quantile(row, 4, 0.5) == 0
    assert queue_quantile(row, 4, 0.99) == 1024
    assert queue_quantile(row, 4) == pytest.approx(2048)


def test_a_chain_as_long_as_the_table_is_followed_to_its_root() -> None:
    count = 5_000
    stops = [(row + 1, 10 * row, 10**6, row) for row in range(count)]
    found = of(*stops)
    assert found.root.tolist() == [0] * count
    assert found.depth.tolist() == list(range(1, count + 1))
