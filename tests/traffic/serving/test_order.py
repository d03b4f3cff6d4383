"""Who goes first: priorities in the lines, in memory and on the network."""

from collections.abc import Callable
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traffic.error import HandoffError
from traffic.handoff.flow import Handoff
from traffic.instance import Deployment
from traffic.model import model
from traffic.request import request_table
from traffic.serving.line import Line
from traffic.serving.mode import Serving
from traffic.serving.run import Outcome

LLAMA = model("Llama-3.1-8B")
MS = 10**9
BY_PRIORITY = Serving(order="priority")


def test_two_priorities_wait_as_long_as_the_formula_of_cobham_says(
    pools: Callable[..., Deployment], run: Callable[..., Outcome]
) -> None:
    deployment = pools(1, 1)
    service = deployment.prefill.prefill_cost.ps(500)
    count, parts, urgent, rho = 60_000, 20, 0.4, 0.8
    rng = np.random.default_rng(4)
    arrival = np.cumsum(rng.exponential(service / rho, count)).astype(np.int64)
    priority = np.where(rng.random(count) < urgent, 5, 0)
    requests = request_table(
        arrival_ps=arrival,
        input_tokens=np.full(count, 500),
        output_tokens=np.zeros(count, int),
        priority=priority,
    )
    table = run(requests, deployment, rules=BY_PRIORITY).requests
    wait = (table["prefill_start_ps"] - arrival) / service
    residual = rho / 2  # of the prompt in service, seen by an arrival
    first = residual / (1 - rho * urgent)
    expected = {5: first, 0: first / (1 - rho)}
    for level, mean in expected.items():
        mine = priority == level
        blocks = [part.mean() for part in np.array_split(wait[mine], parts)]
        error = np.std(blocks, ddof=1) / sqrt(parts)
        assert error < 0.08 * mean
        assert abs(wait[mine].mean() - mean) < 3 * error
    # What the urgent gain the others lose: the mean over both is that of first come, first served.
    plain = run(requests, deployment).requests
    gained = float((plain["prefill_start_ps"] - arrival).mean()) / service
    assert abs(wait.mean() - gained) < 1e-3 * gained


def test_priorities_do_nothing_unless_they_are_asked_to_act(
    pools: Callable[..., Deployment], run: Callable[..., Outcome]
) -> None:
    made = [
        request_table(
            arrival_ps=np.arange(60) * MS,
            input_tokens=np.full(60, 400),
            output_tokens=np.full(60, 5),
            priority=priority,
        )
        for priority in (np.zeros(60, int), np.arange(60) % 8)
    ]
    plain, mixed = (run(requests, pools()) for requests in made)
    assert plain.requests["finish_ps"].tolist() == mixed.requests["finish_ps"].tolist()
    ordered = run(made[1], pools(), rules=BY_PRIORITY).requests
    assert ordered["finish_ps"].tolist() != mixed.requests["finish_ps"].tolist()
    assert (np.diff(mixed.requests["prefill_start_ps"]) > 0).all()


def test_the_urgent_get_decode_memory_first_and_lose_it_last(
    pools: Callable[..., Deployment], run: Callable[..., Outcome]
) -> None:
    count = 24
    priority = np.where(np.arange(count) % 3 == 2, 7, 0)
    requests = request_table(
        arrival_ps=np.arange(count),
        input_tokens=np.full(count, 300),
        output_tokens=np.full(count, 200),
        priority=priority,
    )
    rules = Serving(reserve="prompt", order="priority")
    table = run(requests, pools(count, 1, memory=LLAMA.kv_bytes(2000)), rules=rules).requests
    assert table["preemptions"].sum() > 0
    assert table["preemptions"][priority == 7].sum() < table["preemptions"][priority == 0].sum()
    held = table["admitted_ps"]
    assert held[priority == 7].mean() < held[priority == 0].mean()


def test_a_class_on_the_network_follows_from_the_priority_of_the_request(
    pools: Callable[..., Deployment], run: Callable[..., Outcome]
) -> None:
    requests = request_table(
        arrival_ps=np.arange(8), input_tokens=[100] * 8, output_tokens=[2] * 8, priority=range(8)
    )
    classes = (3, 3, 3, 3, 3, 4, 4, 5)
    flows = run(requests, pools(classes=classes)).flows
    of_request = np.zeros(8, int)
    of_request[flows["handoff"]] = flows["priority"]
    assert of_request.tolist() == list(classes)
    plain = run(requests, pools()).flows
    assert set(plain["priority"].tolist()) == {3}


@pytest.mark.parametrize("classes", [(3,), (3,) * 7 + (8,), (-1,) * 8])
def test_classes_that_are_not_eight_of_the_eight_are_refused(classes: tuple[int, ...]) -> None:
    with pytest.raises(HandoffError, match="write eight classes of 0 to 7"):
        Handoff(classes=classes)


@given(st.lists(st.integers(0, 7), min_size=1, max_size=20), st.data())
def test_a_line_gives_the_larger_priority_and_then_the_earlier_and_puts_back_in_front(
    priority: list[int], data: st.DataObject
) -> None:
    line = Line(priority)
    for request in range(len(priority)):
        line.add(request)
    back = data.draw(st.integers(0, len(priority) - 1))
    taken = [line.take() for _ in range(back)]
    for request in reversed(taken):
        line.put_back(request)
    expected = sorted(range(len(priority)), key=lambda r: (-priority[r], r))
    assert [line.take() for _ in range(len(line))] == expected


def test_one_that_is_dropped_from_a_line_is_not_served() -> None:
    line = Line()
    for request in (4, 2, 9):
        line.add(request)
    line.drop(2)
    assert sorted(line.requests) == [4, 9]
    assert (line.first, line.take(), line.take(), len(line)) == (4, 4, 9, 0)
