"""What decode memory held: integrals by hand and by request, and the time that it was short."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traffic.instance import Deployment
from traffic.model import model
from traffic.record.occupancy import COLUMNS, Occupancy, table
from traffic.request import RequestTable, request_table
from traffic.serving.batch import Batch
from traffic.serving.member import Sequence as Member
from traffic.serving.mode import Serving
from traffic.serving.run import Outcome

LLAMA = model("Llama-3.1-8B")
TOKEN = LLAMA.kv_bytes(1)
MS = 10**9
SWAP = {"preemption": "swap", "swap_bps": TOKEN * 8 * 10**12}
"""A token is copied in a picosecond."""


class Even:
    """Every step takes 100 ps, with a prompt 170."""

    def prefill_ps(self, tokens: int) -> int:
        return 50

    def steps_ps(self, batch: int, context: int, read: int, steps: int) -> int:
        return 100 * steps

    def mixed_ps(
        self, batch: int, context: int, read: int, chunks: Sequence[tuple[int, int]]
    ) -> int:
        return 170


def batch(tokens: int, **rules: object) -> Batch:
    kept = {"reserve": "prompt", "chunk_tokens": 16} | rules
    made = Serving(**kept)  # type: ignore[arg-type]
    return Batch(LLAMA, Even(), 4, capacity_bytes=tokens * TOKEN, rules=made)


def told(occupancy: Occupancy, window: int) -> dict[str, int]:
    found = table([occupancy], window)
    return {name: int(found[name][0]) for name in COLUMNS}


def asked(*rows: tuple[int, int, int]) -> RequestTable:
    """Arrival in ms, input and output tokens."""
    at, tokens, output = zip(*rows, strict=True)
    return request_table(
        arrival_ps=[ms * MS for ms in at], input_tokens=tokens, output_tokens=output
    )


def test_what_is_held_counts_for_as_long_as_it_is_held() -> None:
    one = Occupancy(100)
    one.change(10, 0, 30)  # nothing for 10, 30 for 10
    one.change(20, 30, 80)
    one.change(25, 90, 20)  # grown from 80 to 90 in 5
    one.end(30, 20)
    found = told(one, 50)
    assert found["kv_mean_bytes"] == (30 * 10 + 85 * 5 + 20 * 5) // 50
    assert found["kv_peak_bytes"] == 90
    assert found["window_ps"] == 50


def test_it_is_short_while_anybody_waits_and_no_longer() -> None:
    one = Occupancy(100)
    for at, lacking in ((3, False), (5, True), (6, True), (9, False), (20, True)):
        one.lack(at, lacking=lacking)
    one.end(22, 0)
    one.lack(40, lacking=False)
    assert one.short_ps == 4 + 2


@pytest.mark.parametrize("swap", [False, True])
def test_two_caches_that_grow_until_the_later_one_has_to_go(swap: bool) -> None:
    """Both hold 9 tokens from 0, 9 + 9 and 10 + 10 in steps from 5 to 205; then one is evicted."""
    held = batch(20, **(SWAP if swap else {}))
    for _ in (0, 1):
        assert held.reserve(8, 14, 0) == (True, None)
    assert held.reserve(8, 14, 0) == (False, None)
    assert held.offer(Member(0, 8, 6), 5) == 5
    held.offer(Member(1, 8, 6), 5)
    held.turn(5)
    assert held.steps_to_go == 2
    held.forgo(100)  # who had been refused has given up
    assert held.turn(205).evicted == [1]
    out = 10 if swap else 0  # the copy of 10 tokens, in which the other holds its next token
    assert held.boundary_ps(held.steps_to_go) == 605 + out
    last = held.turn(605 + out)
    assert last.left == [0]
    if swap:  # copied back, and then its 4 steps
        assert last.joined == [1]
        end = 605 + out + out + 400
        area = 18 * 5 + 19 * 200 + 12.5 * (400 + out) + 12.5 * (400 + out)
    else:  # 11 tokens while 10 are computed, the third new one with them; then its 3 steps
        assert last.began == [1]
        held.turn(605 + 170)
        end = 605 + 170 + 300
        area = 18 * 5 + 19 * 200 + 12.5 * 400 + 11 * 170 + 13 * 300
    assert held.boundary_ps(held.steps_to_go) == end
    assert held.turn(end).left == [1]
    found = told(held.end(end), end)
    assert found["kv_mean_bytes"] == int(area * TOKEN) // end
    assert found["kv_peak_bytes"] == found["kv_capacity_bytes"] == 20 * TOKEN
    assert found["kv_short_ps"] == 100 + 400 + out
    assert found["evictions"] == 1


def test_a_prompt_that_waits_for_a_place_and_not_for_memory_is_not_short() -> None:
    held = batch(34)
    for request in range(4):
        held.offer_prompt(Member(request, 4, 3), 0)
    held.offer_prompt(Member(4, 12, 3), 0)  # more than is left, but all four places are taken
    held.turn(0)
    held.turn(170)
    assert len(held) == 4
    held.turn(370)
    assert held.end(370).short_ps == 0


def test_a_prompt_that_finds_no_memory_is_short_from_its_arrival_to_its_start() -> None:
    held = batch(20, reserve="whole")
    held.offer_prompt(Member(0, 10, 5), 0)
    held.turn(0)
    assert held.turn(170).prefilled == [0]
    assert held.offer_prompt(Member(1, 10, 5), 230) is None
    assert held.turn(570).began == [1]
    assert held.end(600).short_ps == 340
    assert held.occupancy.peak_bytes == 15 * TOKEN


def test_all_who_have_to_go_at_one_boundary_are_counted() -> None:
    held = batch(27)  # 21 + 2 + 2 + 2 tokens in the first step, 31 in the second, 25 without two
    for request, tokens in enumerate((20, 1, 1, 1)):
        assert held.reserve(tokens, tokens + 9, 0) == (True, None)
        held.offer(Member(request, tokens, 9), 0)
    held.turn(0)
    assert held.turn(100).evicted == [3, 2]
    assert held.end(100).evictions == 2


@pytest.mark.parametrize("reserve", ["whole", "prompt"])
def test_a_reservation_that_is_given_back_was_held_until_then(reserve: str) -> None:
    held = batch(100, reserve=reserve)
    assert held.reserve(8, 20, 0) == (True, None)
    assert held.reserve(30, 40, 0) == (True, None)
    held.cancel(30, 40, 10)
    found = told(held.end(40), 40)
    first, second = (20, 40) if reserve == "whole" else (9, 31)
    assert found["kv_mean_bytes"] == (first * 40 + second * 10) * TOKEN // 40
    assert found["kv_peak_bytes"] == (first + second) * TOKEN


def by_request(outcome: Outcome, instance: int) -> int:
    """Bytes x time that whole sequences held on an instance, from its table of requests."""
    table = {name: column.astype(np.int64) for name, column in outcome.requests.items()}
    mine = table["decode"] == instance
    need = (table["input_tokens"] + table["output_tokens"]) * TOKEN
    held = table["finish_ps"] - table["admitted_ps"]
    return sum(a * b for a, b in zip(need[mine].tolist(), held[mine].tolist(), strict=True))


def test_whole_sequences_hold_their_memory_from_admission_to_the_last_token(
    pools: Callable[..., Deployment], run: Callable[..., Outcome]
) -> None:
    requests = asked((3, 300, 60), (3, 300, 90), (4, 200, 50), (6, 100, 40), (90, 300, 20))
    outcome = run(requests, pools(2, 2, memory=500 * TOKEN))
    for instance in (0, 1):
        mean = int(outcome.memory["kv_mean_bytes"][instance])
        window = int(outcome.memory["window_ps"][instance])
        assert window == outcome.end_ps - 3 * MS
        assert mean == by_request(outcome, instance) // window > 0


def test_memory_is_short_from_the_end_of_a_prefill_to_the_admission(
    pools: Callable[..., Deployment], run: Callable[..., Outcome]
) -> None:
    outcome = run(asked((0, 300, 60), (0, 300, 60)), pools(2, 1, memory=500 * TOKEN))
    table = outcome.requests
    waited = int(table["admitted_ps"][1]) - int(table["prefill_end_ps"][1])
    assert int(outcome.memory["kv_short_ps"][0]) == waited > 0
    assert int(outcome.memory["kv_peak_bytes"][0]) == 360 * TOKEN


def test_a_run_that_is_cut_counts_what_is_held_until_its_end(
    pools: Callable[..., Deployment], run: Callable[..., Outcome]
) -> None:
    whole = run(asked((0, 300, 60)), pools())
    start, finish = (int(whole.requests[name][0]) for name in ("admitted_ps", "finish_ps"))
    until = (start + finish) // 2
    cut = run(asked((0, 300, 60)), pools(), until_ps=until)
    assert int(cut.memory["kv_mean_bytes"][0]) == 360 * TOKEN * (until - start) // until


WAYS = [
    Serving(mode, 64, reserve, preemption, swap)
    for mode in ("disaggregated", "colocated")
    for reserve, preemption, swap in (
        ("whole", "recompute", 0),
        ("prompt", "recompute", 0),
        ("prompt", "swap", 10**12),
    )
]


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 400), st.integers(1, 300)),
        min_size=1,
        max_size=20,
    ),
    rules=st.sampled_from(WAYS),
    room=st.integers(0, 700),
)
def test_no_instance_holds_more_than_it_has_and_every_eviction_is_some_requests(
    pools: Callable[..., Deployment],
    run: Callable[..., Outcome],
    rows: list[tuple[int, int, int]],
    rules: Serving,
    room: int,
) -> None:
    memory = (max(i + o for _, i, o in rows) + room) * TOKEN
    deployment = pools(1, 2, memory=memory, max_batch=8)
    outcome = run(asked(*sorted(rows)), deployment, rules=rules)
    found = {name: column.astype(np.int64) for name, column in outcome.memory.items()}
    assert len(found["evictions"]) == len(outcome.steps)
    assert (found["kv_mean_bytes"] <= found["kv_peak_bytes"]).all()
    assert (found["kv_peak_bytes"] <= found["kv_capacity_bytes"]).all()
    assert ((found["kv_short_ps"] >= 0) & (found["kv_short_ps"] <= found["window_ps"])).all()
    assert found["evictions"].sum() == outcome.requests["preemptions"].astype(np.int64).sum()
    if rules.mode == "disaggregated" and not rules.grows:
        first = int(outcome.requests["arrival_ps"].min())
        window = outcome.end_ps - first
        means = [by_request(outcome, one) // window for one in (0, 1)]
        assert found["kv_mean_bytes"].tolist() == means
