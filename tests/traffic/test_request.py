"""The request table: what it refuses, and what stays together when rows are taken."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traffic.error import RequestError
from traffic.request import Prefix, RequestTable, request_table

GOOD: dict[str, Any] = {"arrival_ps": [0, 5], "input_tokens": [9, 8], "output_tokens": [1, 0]}


def prefixed(lists: list[list[int]]) -> RequestTable:
    first = np.cumsum([0] + [len(blocks) for blocks in lists]).astype(np.int64)
    blocks = np.array([b for one in lists for b in one], np.int64)
    count = len(lists)
    return request_table(
        arrival_ps=range(count),
        input_tokens=[len(blocks) + 1 for blocks in lists],
        output_tokens=[1] * count,
        prefix=Prefix(first, blocks, 512),
    )


def test_left_out_columns_are_no_session_first_tenant_lowest_priority() -> None:
    table = request_table(**GOOD)
    assert table.session.tolist() == [-1, -1]
    assert table.tenant.tolist() == [0, 0]
    assert table.priority.tolist() == [0, 0]
    assert {name: column.dtype.name for name, column in table.columns().items()} == {
        "request": "int64",
        "arrival_ps": "int64",
        "input_tokens": "int32",
        "output_tokens": "int32",
        "session": "int64",
        "tenant": "int32",
        "priority": "uint8",
    }


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"arrival_ps": [5, 4]}, "row 1: arrival_ps 4: is before the row above it"),
        ({"arrival_ps": [-1, 4]}, "row 0: arrival_ps -1"),
        ({"input_tokens": [0, 4]}, "row 0: input_tokens 0: write at least 1"),
        ({"output_tokens": [4, -3]}, "row 1: output_tokens -3: write at least 0"),
        ({"input_tokens": [1, 2**31]}, "row 1: input_tokens 2147483648: must fit int32"),
        ({"input_tokens": [1.5, 2]}, "input_tokens is not whole numbers"),
        ({"arrival_ps": [0.0, float("nan")]}, "arrival_ps is not whole numbers"),
        ({"arrival_ps": [0.0, float("inf")]}, "arrival_ps is not whole numbers"),
        ({"input_tokens": ["a", "b"]}, "input_tokens is not whole numbers"),
        ({"input_tokens": [1]}, "column input_tokens has 1 rows, arrival_ps has 2"),
        ({"input_tokens": [[1, 2]]}, "has 2 dimensions"),
        ({"priority": [0, 8]}, "row 1: priority 8: write 0 to 7"),
        ({"priority": [0, 300]}, "row 1: priority 300: must fit uint8"),
        ({"prefix": Prefix(np.array([0, 1]), np.array([7]), 512)}, "prefix offsets do not span"),
        ({"prefix": Prefix(np.array([0, 1, 1]), np.array([7]), 0)}, "block of 0 tokens"),
    ],
)
def test_a_bad_column_is_refused_in_one_line(change: dict[str, Any], told: str) -> None:
    with pytest.raises(RequestError, match=told) as refused:
        request_table(**{**GOOD, **change})
    assert "\n" not in str(refused.value)


def test_columns_cannot_be_written_to() -> None:
    table = request_table(**GOOD)
    with pytest.raises(ValueError, match="read-only"):
        table.arrival_ps[0] = 3


def test_the_callers_own_array_stays_writable() -> None:
    mine = np.array([0, 5], np.int64)
    request_table(**{**GOOD, "arrival_ps": mine})
    mine[0] = 1


def test_an_empty_table_is_a_table() -> None:
    table = request_table(arrival_ps=[], input_tokens=[], output_tokens=[])
    assert (len(table), table.span_ps) == (0, 0)


@given(
    st.lists(st.lists(st.integers(0, 99), max_size=4), min_size=1, max_size=6).flatmap(
        lambda lists: st.tuples(
            st.just(lists),
            st.lists(
                st.tuples(st.integers(0, len(lists) - 1), st.integers(0, 50)),
                min_size=1,
                max_size=6,
            ),
        )
    )
)
def test_taken_rows_keep_their_prefix_and_lengths(
    case: tuple[list[list[int]], list[tuple[int, int]]],
) -> None:
    lists, picks = case
    rows = np.array([row for row, _ in picks], np.int64)
    arrival = np.array([at for _, at in picks], np.int64)
    taken = prefixed(lists).take(rows, arrival)
    expected = [row for row, _ in sorted(picks, key=lambda pick: pick[1])]
    assert taken.prefix is not None
    assert [taken.prefix.of(i).tolist() for i in range(len(taken))] == [lists[r] for r in expected]
    assert taken.input_tokens.tolist() == [len(lists[r]) + 1 for r in expected]
    assert taken.request.tolist() == list(range(len(picks)))
