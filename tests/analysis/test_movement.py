"""The P->D matrix, drift and byte-hops of hand-offs that can be added up by hand."""

from collections.abc import Callable
from math import isnan

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from analysis.movement import distances, movement
from analysis.record import IN_FLIGHT, Cell

Rows = Callable[..., Cell]


def cell(make: Rows, moves: list[tuple[int, int, int, int]], **more: object) -> Cell:
    """One hand-off a move: prefill and decode instance, bytes, links crossed; 10 tokens each."""
    requests = [
        {"arrival_ps": place, "prefill": p, "decode": d, "output_tokens": 10}
        for place, (p, d, _, _) in enumerate(moves)
    ]
    flows = [
        {"handoff": place, "bytes": size, "hops": hops}
        for place, (_, _, size, hops) in enumerate(moves)
    ]
    return make(requests, flows, **more)


def test_bytes_stand_in_their_pair_and_are_charged_by_the_links_they_cross(make_rows: Rows) -> None:
    made = cell(make_rows, [(0, 0, 100, 2), (0, 1, 50, 4), (1, 1, 30, 2), (0, 0, 1, 2)])
    found = movement([made], distances([made]))
    assert found.matrix.tolist() == [[101, 50], [0, 30]]
    assert (found.pairs, found.transfers, found.requests) == (3, 4, 4)
    assert found.payload_hops == 200 + 200 + 60 + 2
    assert found.hops_per_request == 462 / 4
    assert found.hops_per_token == 462 / 40


def test_drift_is_the_share_beyond_the_nearest_instances(make_rows: Rows) -> None:
    made = cell(make_rows, [(0, 0, 100, 2), (0, 1, 50, 4), (1, 1, 50, 2)])
    assert movement([made], distances([made])).drift == 0.25


def test_distances_come_from_every_cell_of_the_fabric(make_rows: Rows) -> None:
    far = cell(make_rows, [(0, 1, 50, 4)])
    near = cell(make_rows, [(0, 0, 100, 2), (0, 2, 1, 2)])
    assert movement([far], distances([far])).drift == 0.0
    assert movement([far], distances([far, near])).drift == 1.0
    assert movement([near], distances([far, near])).drift == 0.0


def test_bytes_sent_again_are_a_cause_of_their_own(make_rows: Rows) -> None:
    made = make_rows(
        [{"prefill": 0, "decode": 0, "output_tokens": 5}],
        [{"handoff": 0, "bytes": 10, "resent_bytes": 4, "hops": 3}],
    )
    found = movement([made], distances([made]))
    assert (found.payload_hops, found.resent_hops) == (30, 12)
    assert found.hops_per_token == 42 / 5


def test_a_hand_off_of_two_flows_is_one_request(make_rows: Rows) -> None:
    flows = [{"handoff": 0, "bytes": 10, "hops": 2}] * 2
    made = make_rows([{"prefill": 0, "decode": 1}], flows)
    found = movement([made], distances([made]))
    assert (found.requests, found.transfers, found.matrix.tolist()) == (1, 2, [[0, 20]])


def test_warm_up_and_unfinished_requests_give_no_useful_tokens(make_rows: Rows) -> None:
    made = cell(make_rows, [(0, 0, 100, 2)] * 3, warmup_requests=1)
    made.requests["status"][2] = IN_FLIGHT
    found = movement([made], distances([made]))
    assert (found.requests, found.tokens, int(found.matrix.sum())) == (2, 10, 200)


def test_nothing_moved_has_no_drift(make_rows: Rows) -> None:
    empty = make_rows([], totals={"prefill_instances": 2, "decode_instances": 3})
    found = movement([empty], distances([empty]))
    assert found.matrix.shape == (2, 3)
    assert isnan(found.drift)
    assert isnan(found.hops_per_token)


moves = st.tuples(
    st.integers(0, 3), st.integers(0, 3), st.integers(1, 1000), st.sampled_from([2, 4, 6])
)


@given(st.lists(moves, min_size=1, max_size=20))
def test_no_byte_is_lost_and_drift_is_a_share(
    make_rows: Rows, moves: list[tuple[int, int, int, int]]
) -> None:
    made = cell(make_rows, moves)
    found = movement([made], distances([made]))
    assert int(found.matrix.sum()) == sum(size for _, _, size, _ in moves)
    assert 0 <= found.drift <= 1
    assert found.pairs == len({(p, d) for p, d, _, _ in moves})
    assert np.array_equal(found.matrix > 0, distances([made]) >= 0)
