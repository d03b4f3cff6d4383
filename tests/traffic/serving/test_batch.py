"""The closed form of a decode batch equals a loop that makes one token at a time."""

from heapq import heappop, heappush

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traffic.compute.gpu import gpu
from traffic.compute.roofline import DecodeCost, decode_step, prefill_cost
from traffic.compute.step import Roofline
from traffic.model import Model, model
from traffic.serving.batch import Batch
from traffic.serving.member import Sequence

SLIDING = model("gpt-oss-120b")  # half of its layers see 128 tokens only
FULL = model("Llama-3.1-8B")
H100 = gpu("H100-SXM")

Ready = tuple[int, int, int]
"""Time, input tokens, output tokens."""

Times = dict[int, tuple[int, int, int]]
"""By request: start, first token, finish."""


def in_closed_form(model: Model, cost: DecodeCost, most: int, arrivals: list[Ready]) -> Times:
    batch = Batch(model, Roofline(prefill_cost(model, H100, 1), cost, None), most)
    events: list[tuple[int, int, int]] = [(at, 0, r) for r, (at, _, _) in enumerate(arrivals)]
    events.sort()
    plan = 0
    start: dict[int, int] = {}
    first: dict[int, int] = {}
    times: Times = {}
    while events:
        now, kind, number = heappop(events)
        if kind == 0:
            boundary = batch.offer(Sequence(number, *arrivals[number][1:]), now)
            if boundary is not None:
                plan += 1
                heappush(events, (boundary, 1, plan))
        elif number == plan:
            turn = batch.turn(now)
            for request in turn.left:
                times[request] = (start[request], first[request], now)
            for request in turn.joined:
                start[request] = now
                first[request] = batch.boundary_ps(1)
            if len(batch):
                plan += 1
                heappush(events, (batch.boundary_ps(batch.steps_to_go), 1, plan))
    return times


def token_by_token(model: Model, cost: DecodeCost, most: int, arrivals: list[Ready]) -> Times:
    """One token at a time; the fraction of a picosecond is carried while the batch stays."""
    order = sorted(range(len(arrivals)), key=lambda r: (arrivals[r][0], r))
    made: dict[int, int] = {}
    start: dict[int, int] = {}
    first: dict[int, int] = {}
    times: Times = {}
    now = segment = steps = read = 0
    while order or made:
        if not made:
            now = max(now, arrivals[order[0]][0])
        changed = False
        while order and len(made) < most and arrivals[order[0]][0] <= now:
            request = order.pop(0)
            made[request], start[request], changed = 0, now, True
        if changed or steps == 0:
            segment, steps, read = now, 0, 0
        read += sum(model.kv_bytes(arrivals[r][1] + done) for r, done in made.items())
        steps += 1
        now = segment + steps * cost.base_ps(len(made)) + cost.kv_ps(read)
        for request in list(made):
            made[request] += 1
            if made[request] == 1:
                first[request] = now
            if made[request] == arrivals[request][2]:
                del made[request]
                times[request] = (start[request], first[request], now)
                steps = 0
    return times


@settings(max_examples=80, deadline=None)
@given(
    arrivals=st.lists(
        st.tuples(st.integers(0, 3 * 10**11), st.integers(1, 400), st.integers(1, 60)),
        min_size=1,
        max_size=12,
    ),
    most=st.integers(1, 5),
    sliding=st.booleans(),
)
def test_the_closed_form_equals_a_loop_over_tokens(
    arrivals: list[Ready], most: int, sliding: bool
) -> None:
    shape = SLIDING if sliding else FULL
    cost = decode_step(shape, H100, 1)
    assert in_closed_form(shape, cost, most, arrivals) == token_by_token(
        shape, cost, most, arrivals
    )


@pytest.mark.parametrize("shape", [SLIDING, FULL])
def test_a_lone_sequence_takes_its_steps_and_reads_its_growing_cache(shape: Model) -> None:
    cost = decode_step(shape, H100, 1)
    start, first, finish = in_closed_form(shape, cost, 8, [(7, 100, 50)])[0]
    assert start == 7
    assert first - start == cost.step_ps(1, shape.kv_bytes(100))
    read = sum(shape.kv_bytes(100 + made) for made in range(50))
    assert finish - start == 50 * cost.base_ps(1) + cost.kv_ps(read)


def test_a_sequence_that_is_ready_at_a_boundary_joins_there_and_not_a_step_later() -> None:
    cost = decode_step(FULL, H100, 1)
    boundary = cost.step_ps(1, FULL.kv_bytes(10))
    on_time = in_closed_form(FULL, cost, 8, [(0, 10, 5), (boundary, 10, 5)])
    late = in_closed_form(FULL, cost, 8, [(0, 10, 5), (boundary + 1, 10, 5)])
    assert on_time[1][0] == boundary
    assert late[1][0] > boundary


def test_a_full_batch_makes_the_next_sequence_wait_for_a_member_to_leave() -> None:
    cost = decode_step(FULL, H100, 1)
    times = in_closed_form(FULL, cost, 2, [(0, 10, 5), (0, 10, 9), (0, 10, 1)])
    assert times[2][0] == times[0][2]
    assert times[2][2] < times[1][2]


@pytest.mark.parametrize("final", [127, 128, 129])
def test_a_context_that_ends_at_the_sliding_window_leaves_the_right_sum_behind(final: int) -> None:
    cost = decode_step(SLIDING, H100, 1)
    arrivals = [(0, 100, final - 100), (0, 127, 60), (0, 128, 60), (0, 90, 5)]
    assert in_closed_form(SLIDING, cost, 8, arrivals) == token_by_token(SLIDING, cost, 8, arrivals)
