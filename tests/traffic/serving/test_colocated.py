"""Colocated instances: chunks share steps with decoding, as in a loop that makes single steps."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from traffic.compute.step import StepTime
from traffic.emulator import Emulator
from traffic.instance import Deployment
from traffic.model import model
from traffic.policy.registry import policy
from traffic.request import RequestTable, request_table
from traffic.serving.batch import Batch
from traffic.serving.member import Sequence as Member
from traffic.serving.mode import Serving
from traffic.serving.run import Outcome, serve

LLAMA = model("Llama-3.1-8B")
TOKEN = LLAMA.kv_bytes(1)
MS = 10**9

Asked = tuple[int, int, int]
"""Arrival, input tokens, output tokens."""


def in_segments(
    times: StepTime, asked: list[Asked], most: int, rules: Serving, tokens: int
) -> list[list[int]]:
    """What a `Batch` makes of it: start, first token, finish and evictions of every request."""
    batch = Batch(LLAMA, times, most, capacity_bytes=tokens * TOKEN, rules=rules)
    told = [[-1, -1, -1, 0] for _ in asked]
    boundary, place = -1, 0
    while place < len(asked) or boundary >= 0:
        if place < len(asked) and (boundary < 0 or asked[place][0] < boundary):
            at, prompt, output = asked[place]
            planned = batch.offer_prompt(Member(place, prompt, output), at)
            boundary = boundary if planned is None else planned
            place += 1
            continue
        turn = batch.turn(boundary)
        for request in turn.began:
            told[request][0] = boundary if told[request][0] < 0 else told[request][0]
        for request in turn.prefilled:
            told[request][1] = boundary if told[request][1] < 0 else told[request][1]
        for request in turn.left:
            told[request][2] = boundary
        for request in turn.evicted:
            told[request][3] += 1
        boundary = batch.boundary_ps(batch.steps_to_go) if batch.working else -1
    return told


def step_by_step(
    times: StepTime, asked: list[Asked], most: int, rules: Serving, tokens: int
) -> list[list[int]]:
    """The same rules, one step at a time, with memory counted in tokens."""
    told = [[-1, -1, -1, 0] for _ in asked]
    need = {r: (i, o) for r, (_, i, o) in enumerate(asked)}  # context to have, tokens to come
    waiting: list[int] = []
    swapped: list[int] = []
    done: dict[int, int] = {}  # prompts under way
    running: list[int] = []
    now = place = 0

    def held() -> int:
        if not rules.grows:
            return sum(sum(need[r]) for r in (*done, *running))
        return sum(need[r][0] + 1 for r in (*done, *running))

    def wants(r: int) -> int:
        return need[r][0] + 1 if rules.grows else sum(need[r])

    while place < len(asked) or waiting or swapped or done or running:
        if not (waiting or swapped or done or running):
            now = max(now, asked[place][0])
            waiting.append(place)  # wakes the instance; what comes at the same instant is late
            place += 1
        while place < len(asked) and asked[place][0] < now:
            waiting.append(place)
            place += 1
        pause = 0
        while rules.grows and running and held() > tokens:
            victim = max((*done, *running))
            told[victim][3] += 1
            if victim in done:
                del done[victim]
                waiting.insert(0, victim)
                continue
            running.remove(victim)
            if rules.preemption == "swap":
                pause += -(-need[victim][0] * TOKEN * 8 * 10**12 // rules.swap_bps)
                swapped.insert(0, victim)
            else:
                waiting.insert(0, victim)
        while swapped and len(running) + len(done) < most and held() + wants(swapped[0]) <= tokens:
            running.append(swapped.pop(0))
            pause += -(-need[running[-1]][0] * TOKEN * 8 * 10**12 // rules.swap_bps)
        budget = rules.chunk_tokens - len(running)
        chunks: dict[int, int] = {}
        for r, made in done.items():
            more = min(budget, need[r][0] - made)
            if more:
                chunks[r], budget = more, budget - more
        while budget and waiting and not swapped:
            r = waiting[0]
            if len(running) + len(done) >= most or held() + wants(r) > tokens:
                break
            waiting.pop(0)
            done[r], chunks[r] = 0, min(budget, need[r][0])
            budget -= chunks[r]
            told[r][0] = now if told[r][0] < 0 else told[r][0]
        context = sum(need[r][0] for r in running)
        now += pause
        if chunks:
            parts = [(done[r], more) for r, more in chunks.items()]
            now += times.mixed_ps(len(running), context, 0, parts)
        else:
            now += times.steps_ps(len(running), context, 0, 1)
        for r in [*running, *(r for r, more in chunks.items() if done[r] + more == need[r][0])]:
            told[r][1] = now if told[r][1] < 0 else told[r][1]
            need[r] = (need[r][0] + 1, need[r][1] - 1)
            if r in done:
                del done[r], chunks[r]
                running.append(r)
            if need[r][1] <= 0:
                running.remove(r)
                told[r][2] = now
        for r, more in chunks.items():
            done[r] += more
    return told


RULES = [
    {"chunk_tokens": 8},
    {"chunk_tokens": 64},
    {"chunk_tokens": 16, "reserve": "prompt"},
    {"chunk_tokens": 16, "reserve": "prompt", "preemption": "swap", "swap_bps": 10**21},
]


@example([(37, 16, 3), (367, 1, 0)], 2, {"chunk_tokens": 64}, 1)  # comes as a step ends
@settings(max_examples=150, deadline=None)
@given(
    asked=st.lists(
        st.tuples(st.integers(0, 5000), st.integers(1, 40), st.integers(0, 30)),
        min_size=1,
        max_size=12,
    ),
    most=st.integers(1, 5),
    keys=st.sampled_from(RULES),
    room=st.integers(0, 60),
)
def test_segments_equal_a_loop_over_steps_with_chunks_growth_eviction_and_swap(
    times: StepTime, asked: list[Asked], most: int, keys: dict[str, Any], room: int
) -> None:
    asked.sort()
    rules = Serving("colocated", **keys)
    tokens = max(i + max(o, 1) for _, i, o in asked) + room
    told = in_segments(times, asked, most, rules, tokens)
    assert told == step_by_step(times, asked, most, rules, tokens)
    assert all(finish >= 0 for _, _, finish, _ in told)


def one(tokens: int, output: int, at: int = 7) -> RequestTable:
    return request_table(arrival_ps=[at], input_tokens=[tokens], output_tokens=[output])


@pytest.mark.parametrize("chunk", [128, 300, 2048])
def test_a_lone_request_takes_its_chunks_and_one_decode_step_less_than_tokens(
    pools: Callable[..., Deployment],
    run: Callable[..., Outcome],
    row: Callable[..., dict[str, int]],
    chunk: int,
) -> None:
    deployment = pools(max_batch=8)
    outcome = run(one(700, 50), deployment, rules=Serving("colocated", chunk_tokens=chunk))
    got = row(outcome)
    time, cost = deployment.prefill.step_time, deployment.prefill.decode_cost
    parts = [(done, min(chunk, 700 - done)) for done in range(0, 700, chunk)]
    took = sum(time.mixed_ps(0, 0, 0, [part]) for part in parts)
    assert (took == deployment.prefill.prefill_cost.ps(700)) == (len(parts) == 1)
    assert got["prefill_start_ps"] == 7
    assert got["first_token_ps"] == got["prefill_end_ps"] == 7 + took
    decode = 49 * cost.base_ps(1) + cost.kv_ps(LLAMA.kv_bytes_sum(701, 49))
    assert got["finish_ps"] == 7 + took + decode
    assert got["prompt_steps"] == len(parts)
    assert got["prefill"] == got["decode"]
    assert got["handoff_release_ps"] == -1
    assert not len(outcome.flows)


def test_prompts_of_a_whole_chunk_queue_as_the_formula_of_m_d_1_says(
    pools: Callable[..., Deployment], wire: Callable[..., Emulator]
) -> None:
    deployment = pools(max_batch=8)
    service = deployment.prefill.prefill_cost.ps(500)
    rho, count, parts = 0.7, 30_000, 20
    gaps = np.random.default_rng(11).exponential(service / rho, count)
    requests = request_table(
        arrival_ps=np.cumsum(gaps).astype(np.int64),
        input_tokens=np.full(count, 500),
        output_tokens=np.zeros(count, int),
    )
    # A policy for one instance: the other one gets nothing.
    rules = Serving("colocated", chunk_tokens=500)
    hops = np.zeros((1, 1), np.int32)
    table = serve(
        requests, deployment, policy("random", hops), wire(), hops=hops, rules=rules
    ).requests
    start = table["prefill_start_ps"].astype(np.int64)
    free = 0
    for at, began in zip(requests.arrival_ps.tolist(), start.tolist(), strict=True):
        assert began == max(at, free)
        free = began + service
    wait = (start - requests.arrival_ps) / service
    means = wait.reshape(parts, -1).mean(axis=1)
    error = means.std(ddof=1) / np.sqrt(parts)
    expected = rho / (2 * (1 - rho))
    assert error < 0.05 * expected
    assert abs(wait.mean() - expected) < 3 * error
