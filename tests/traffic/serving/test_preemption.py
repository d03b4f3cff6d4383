"""When decode memory runs out: who has to go, what it costs, and that nobody is lost."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topo.error import KvfabricError
from traffic.compute.step import StepTime
from traffic.emulator import Emulator
from traffic.instance import Deployment
from traffic.model import model
from traffic.request import request_table
from traffic.serving.batch import Batch
from traffic.serving.member import Sequence as Member
from traffic.serving.mode import Serving
from traffic.serving.run import Outcome

LLAMA = model("Llama-3.1-8B")
TOKEN = LLAMA.kv_bytes(1)
MS = 10**9
RECOMPUTE = Serving(reserve="prompt", chunk_tokens=16)
SWAP = Serving(reserve="prompt", chunk_tokens=16, preemption="swap", swap_bps=10**19)

Asked = tuple[int, int, int]
"""Arrival, input tokens, output tokens."""


def copied(tokens: int) -> int:
    return -(-tokens * TOKEN * 8 * 10**12 // SWAP.swap_bps)


def in_segments(
    times: StepTime, asked: list[Asked], most: int, rules: Serving, tokens: int, flight: int
) -> list[list[int]]:
    """What a `Batch` makes of caches that arrive ``flight`` after their memory was reserved."""
    batch = Batch(LLAMA, times, most, capacity_bytes=tokens * TOKEN, rules=rules)
    told = [[-1, -1, 0] for _ in asked]
    events = [(at, 3, r, 0) for r, (at, _, _) in enumerate(asked)]
    events.sort()
    line: list[int] = []
    plan = 0

    def step(at: int | None) -> None:
        nonlocal plan
        if at is not None:
            plan += 1
            heappush(events, (at, 2, 0, plan))

    def admit(now: int) -> None:
        while line:
            _, prompt, output = asked[line[0]]
            fits, boundary = batch.reserve(prompt, prompt + output, now)
            step(boundary)
            if not fits:
                return
            heappush(events, (now + flight, 1, line.pop(0), 0))

    while events:
        now, kind, request, planned = heappop(events)
        if kind == 3:
            line.append(request)
            if len(line) == 1:
                admit(now)
        elif kind == 1:
            step(batch.offer(Member(request, *asked[request][1:]), now))
        elif planned == plan:
            turn = batch.turn(now)
            if batch.working:
                step(batch.boundary_ps(batch.steps_to_go))
            for r in (*turn.joined, *turn.began):
                told[r][0] = now if told[r][0] < 0 else told[r][0]
            for r in turn.left:
                told[r][1] = now
            for r in turn.evicted:
                told[r][2] += 1
            admit(now)
    return told


def step_by_step(
    times: StepTime, asked: list[Asked], most: int, rules: Serving, tokens: int, flight: int
) -> list[list[int]]:
    """The same, one step at a time, with memory counted in tokens."""
    told = [[-1, -1, 0] for _ in asked]
    need = {r: (i, o) for r, (_, i, o) in enumerate(asked)}
    line: list[int] = []
    flying: list[tuple[int, int]] = []
    ready: list[int] = []
    again: list[int] = []
    swapped: list[int] = []
    done: dict[int, int] = {}
    running: list[int] = []
    place, end = 0, -1  # of the step under way

    def held() -> int:
        mine = (*(r for _, r in flying), *ready, *done, *running)
        return sum(need[r][0] + 1 for r in mine)

    def admit(now: int) -> None:
        while line and not again and not swapped and held() + need[line[0]][0] + 1 <= tokens:
            heappush(flying, (now + flight, line.pop(0)))

    def boundary(now: int) -> int:
        pause = 0
        while running and held() > tokens:
            victim = max((*done, *running, *ready))
            told[victim][2] += 1
            if victim in done:
                del done[victim]
                again.insert(0, victim)
                continue
            (running if victim in running else ready).remove(victim)
            if rules.preemption == "swap":
                pause += copied(need[victim][0])
                swapped.insert(0, victim)
            else:
                again.insert(0, victim)
        while ready and len(running) + len(done) < most:
            running.append(ready.pop(0))
            told[running[-1]][0] = now if told[running[-1]][0] < 0 else told[running[-1]][0]
        while swapped and len(running) + len(done) < most:
            if held() + need[swapped[0]][0] + 1 > tokens:
                break
            running.append(swapped.pop(0))
            pause += copied(need[running[-1]][0])
            told[running[-1]][0] = now if told[running[-1]][0] < 0 else told[running[-1]][0]
        budget = rules.chunk_tokens - len(running)
        chunks.clear()
        for r, made in done.items():
            chunks[r] = min(budget, need[r][0] - made)
            budget -= chunks[r]
        while budget and again and not swapped and len(running) + len(done) < most:
            if held() + need[again[0]][0] + 1 > tokens:
                break
            r = again.pop(0)
            done[r], chunks[r] = 0, min(budget, need[r][0])
            told[r][0] = now if told[r][0] < 0 else told[r][0]
            budget -= chunks[r]
        context = sum(need[r][0] for r in running)
        if any(chunks.values()):
            parts = [(done[r], more) for r, more in chunks.items() if more]
            return now + pause + times.mixed_ps(len(running), context, 0, parts)
        if running:
            return now + pause + times.steps_ps(len(running), context, 0, 1)
        return -1

    chunks: dict[int, int] = {}
    while place < len(asked) or flying or end >= 0:
        due = [t for t in (flying[0][0] if flying else -1, end) if t >= 0]
        if place < len(asked) and (not due or asked[place][0] < min(due)):
            line.append(place)
            place += 1
            if len(line) == 1:
                admit(asked[place - 1][0])
            continue
        now = min(due)
        while flying and flying[0][0] == now:
            ready.append(heappop(flying)[1])
        if end >= 0 and end != now:
            continue
        if end == now:
            for r in [*running, *(r for r, m in chunks.items() if m and done[r] + m == need[r][0])]:
                need[r] = (need[r][0] + 1, need[r][1] - 1)
                if r in done:
                    del done[r], chunks[r]
                    running.append(r)
                if need[r][1] <= 0:
                    running.remove(r)
                    told[r][1] = now
            for r, more in chunks.items():
                done[r] += more
        end = boundary(now)
        admit(now)
    return told


@settings(max_examples=150, deadline=None)
@given(
    asked=st.lists(
        st.tuples(st.integers(0, 6000), st.integers(1, 40), st.integers(1, 40)),
        min_size=1,
        max_size=12,
    ),
    most=st.integers(1, 6),
    rules=st.sampled_from([RECOMPUTE, SWAP]),
    room=st.integers(0, 80),
    flight=st.integers(1, 400),
)
def test_growing_memory_equals_a_loop_over_steps_with_eviction_and_return(
    times: StepTime, asked: list[Asked], most: int, rules: Serving, room: int, flight: int
) -> None:
    asked.sort()
    tokens = max(i + o for _, i, o in asked) + room
    told = in_segments(times, asked, most, rules, tokens, flight)
    assert told == step_by_step(times, asked, most, rules, tokens, flight)
    assert all(finish >= 0 for _, finish, _ in told)


def test_the_later_of_two_is_dropped_when_both_have_grown_full_and_computed_again(
    times: StepTime,
) -> None:
    # 20 tokens of memory: two caches of 8 have room for 2 more each; then the later one goes.
    asked = [(0, 8, 6), (0, 8, 6)]
    told = in_segments(times, asked, 4, RECOMPUTE, 20, 5)
    start = 5
    steps = [100 + 2 + 16 + 2 * i for i in range(2)] + [100 + 1 + 10 + i for i in range(4)]
    first_done = start + sum(steps)
    again = times.mixed_ps(0, 0, 0, [(0, 10)])  # prompt and two tokens, and with them the third
    rest = [100 + 1 + 11 + i for i in range(3)]
    assert told == [[start, first_done, 0], [start, first_done + again + sum(rest), 1]]


def test_a_swapped_cache_costs_its_copy_out_and_in_and_no_computing(times: StepTime) -> None:
    asked = [(0, 8, 6), (0, 8, 6)]
    told = in_segments(times, asked, 4, SWAP, 20, 5)
    steps = [118, 120, 111, 112, 113, 114]
    first_done = 5 + sum(steps) + copied(10)
    rest = [100 + 1 + 10 + i for i in range(4)]
    assert told == [[5, first_done, 0], [5, first_done + copied(10) + sum(rest), 1]]


def test_memory_for_whole_sequences_never_preempts_and_growing_memory_admits_more(
    pools: Callable[..., Deployment], run: Callable[..., Outcome]
) -> None:
    count = 40
    requests = request_table(
        arrival_ps=np.arange(count) * MS,
        input_tokens=np.full(count, 300),
        output_tokens=np.full(count, 300),
    )
    whole, grown = (
        run(requests, pools(4, 1, memory=2400 * TOKEN), rules=rules)
        for rules in (Serving(), Serving(reserve="prompt"))
    )
    assert not whole.requests["preemptions"].any()
    assert grown.requests["preemptions"].sum() > 0
    most = [
        max(
            int(((t["decode_start_ps"] <= at) & (t["finish_ps"] > at)).sum())
            for at in t["decode_start_ps"].tolist()
        )
        for t in (whole.requests, grown.requests)
    ]
    assert most[0] == 4
    assert most[1] > 4
    assert "request(s) were preempted" in grown.notes[0]


WAYS = [
    Serving(mode, 64, reserve, preemption, swap, order)
    for mode in ("disaggregated", "colocated")
    for reserve, preemption, swap in (
        ("whole", "recompute", 0),
        ("prompt", "recompute", 0),
        ("prompt", "swap", 10**12),
    )
    for order in ("arrival", "priority")
]


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 30 * MS), st.integers(1, 400), st.integers(0, 300), st.integers(0, 7)
        ),
        min_size=1,
        max_size=25,
    ),
    rules=st.sampled_from(WAYS),
    sizes=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    max_batch=st.integers(1, 8),
    room=st.integers(0, 700),
)
def test_overload_loses_nobody_and_budgets_add_up_in_every_way_of_serving(
    pools: Callable[..., Deployment],
    run: Callable[..., Outcome],
    rows: list[tuple[int, int, int, int]],
    rules: Serving,
    sizes: tuple[int, int],
    max_batch: int,
    room: int,
) -> None:
    rows.sort()
    arrival, tokens, output, priority = (list(column) for column in zip(*rows, strict=True))
    requests = request_table(
        arrival_ps=arrival, input_tokens=tokens, output_tokens=output, priority=priority
    )
    memory = (max(i + max(o, 1) for _, i, o, _ in rows) + room) * TOKEN
    deployment = pools(*sizes, memory=memory, max_batch=max_batch)
    table = run(requests, deployment, rules=rules).requests
    assert (table["status"] == 0).all()
    stages = [name for name in table if name.endswith("_ps")]
    for place in range(len(rows)):
        got = {name: int(column[place]) for name, column in table.items()}
        times = [got[name] for name in stages if got[name] >= 0]
        assert times == sorted(times), got
        if not got["output_tokens"]:
            assert got["finish_ps"] == got["prefill_end_ps"]
            continue
        parts = [
            got["prefill_start_ps"] - got["arrival_ps"],
            got["prefill_end_ps"] - got["prefill_start_ps"],
            got["kv_ready_ps"] - got["prefill_end_ps"],
            got["decode_start_ps"] - got["kv_ready_ps"],
            got["finish_ps"] - got["decode_start_ps"],
        ]
        assert min(parts) >= 0
        assert sum(parts) == got["finish_ps"] - got["arrival_ps"]
        assert (got["handoff_release_ps"] < 0) == (rules.mode == "colocated")


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"mode": "both"}, "serving.mode 'both': not modelled; write disaggregated or colocated"),
        ({"preemption": "swap"}, "swap rate of 0bps: only swap copies, and needs a rate"),
        ({"reserve": "prompt", "swap_bps": 5}, "only swap copies"),
        ({"preemption": "swap", "swap_bps": 5}, "never runs out; write reserve: prompt"),
        ({"chunk_tokens": 0}, "serving.chunk 0: write tokens, e.g. 2048"),
    ],
)
def test_rules_that_contradict_themselves_are_refused(keys: dict[str, Any], told: str) -> None:
    with pytest.raises(KvfabricError, match=told):
        Serving(**keys)


def test_a_run_that_is_cut_shows_nothing_beyond_its_end_in_colocated_mode(
    pools: Callable[..., Deployment],
    run: Callable[..., Outcome],
    wire: Callable[..., Emulator],
) -> None:
    requests = request_table(
        arrival_ps=np.arange(50) * 20 * MS,
        input_tokens=np.full(50, 300),
        output_tokens=np.full(50, 20),
    )
    rules = Serving("colocated", chunk_tokens=512)
    whole = run(requests, pools(1, 1), rules=rules)
    until = whole.end_ps // 2
    cut = run(requests, pools(1, 1), rules=rules, until_ps=until, emulator=wire())
    done = cut.requests["finish_ps"] >= 0
    assert 0 < done.sum() < 50
    assert (cut.requests["status"] == np.where(done, 0, 1)).all()
    for name, column in cut.requests.items():
        if name.endswith("_ps") and name != "arrival_ps":
            assert int(column.max()) <= until
            early = whole.requests[name] <= until
            assert column[early].tolist() == whole.requests[name][early].tolist(), name
