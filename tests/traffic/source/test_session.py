"""Agentic sessions: how contexts grow, what repeats, and that the stream has no beginning."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traffic.error import RequestError
from traffic.request import RequestTable
from traffic.source.length import Constant
from traffic.source.session import Agent, sessions

SECOND = 10**12
PLAIN = Agent(
    turns=2,
    calls=3,
    first=Constant(1000),
    message=Constant(50),
    tool=Constant(200),
    output=Constant(100),
    retry=0.0,
    shared=512,
    context=10**7,
    block_tokens=256,
)


def by_session(table: RequestTable) -> list[np.ndarray[tuple[int], np.dtype[np.intp]]]:
    return [np.flatnonzero(table.session == number) for number in np.unique(table.session)]


def test_a_context_grows_by_the_answer_and_by_what_comes_after_it() -> None:
    table = sessions(PLAIN, count=5000, rate_per_s=50, seed=1)
    steps = [np.diff(table.input_tokens[rows]) for rows in by_session(table)]
    grown = np.concatenate(steps)
    # The answer of 100, and a tool's 200 or the user's 50.
    assert set(grown.tolist()) == {300, 150}
    # Of a session's 5 later calls on average, 1 opens its second turn.
    assert abs(np.mean(grown == 150) - 1 / 5) < 5 * sqrt(0.2 * 0.8 / len(grown)) * 2


def test_the_mean_context_is_that_of_geometric_sessions() -> None:
    # Turns of mean 2 with calls of mean 3 make a geometric number of mean 6, of which a call sees
    # on average 6 - 1 before it, each adding 100 and (4 x 200 + 1 x 50) / 5.
    table = sessions(PLAIN, count=100_000, rate_per_s=500, seed=2)
    assert table.input_tokens.mean() == pytest.approx(1000 + 5 * (100 + 170), rel=0.05)


def test_an_answer_and_a_pause_lie_between_two_calls() -> None:
    agent = replace(PLAIN, think_ps=0, run_ps=0, wait_ps=SECOND, token_ps=SECOND // 100)
    table = sessions(agent, count=3000, rate_per_s=50, seed=3)
    gaps = np.concatenate([np.diff(table.arrival_ps[rows]) for rows in by_session(table)])
    # 1 s, and 100 tokens of 10 ms; a start is rounded to the microsecond or so.
    assert np.abs(gaps - 2 * SECOND).max() < 10**6


def test_pauses_are_the_tools_run_or_the_users_thought() -> None:
    agent = replace(PLAIN, wait_ps=0, token_ps=0, think_ps=9 * SECOND, run_ps=SECOND)
    table = sessions(agent, count=20_000, rate_per_s=50, seed=4)
    seen: dict[int, list[int]] = {300: [], 150: []}
    for rows in by_session(table):
        grown, gaps = np.diff(table.input_tokens[rows]), np.diff(table.arrival_ps[rows])
        for step, gap in zip(grown.tolist(), gaps.tolist(), strict=True):
            seen[step].append(gap)
    assert np.mean(seen[300]) / SECOND == pytest.approx(1, rel=0.05)
    assert np.mean(seen[150]) / SECOND == pytest.approx(9, rel=0.1)


def test_a_failed_attempt_is_sent_again_unchanged_after_its_delay() -> None:
    agent = replace(PLAIN, retry=0.25, retry_after_ps=7 * SECOND)
    table = sessions(agent, count=20_000, rate_per_s=50, seed=5)
    again = 0
    for rows in by_session(table):
        same = np.flatnonzero(np.diff(table.input_tokens[rows]) == 0)
        gaps = np.diff(table.arrival_ps[rows])[same]
        again += len(gaps)
        if len(gaps):
            assert np.abs(gaps - 7 * SECOND).max() < 10**6
    # Of attempts, p + p^2 + p^3 over 1 + p + p^2 + p^3 are repetitions.
    share = (0.25 + 0.25**2 + 0.25**3) / (1 + 0.25 + 0.25**2 + 0.25**3)
    assert again / len(table) == pytest.approx(share, rel=0.06)


def test_the_stream_has_the_asked_rate_from_its_first_second_on() -> None:
    table = sessions(Agent(), count=60_000, rate_per_s=200, seed=6)
    at = table.arrival_ps / SECOND
    thirds = np.array([np.count_nonzero((at >= t) & (at < t + 50)) for t in (0, 100, 200)])
    assert thirds == pytest.approx(np.full(3, 200 * 50), rel=0.06)
    early, late = table.input_tokens[at < 50].mean(), table.input_tokens[at >= 200].mean()
    assert early == pytest.approx(late, rel=0.1)


def test_without_a_limit_the_mean_input_is_that_of_the_published_agents() -> None:
    endless = replace(Agent(), context=10**8)
    table = sessions(endless, count=100_000, rate_per_s=500, seed=7)
    # 631.4e9 prompt and 4.91e9 completion tokens in 9.3e6 calls.
    assert table.input_tokens.mean() == pytest.approx(631.4e9 / 9.3e6, rel=0.1)
    assert table.output_tokens.mean() == pytest.approx(4.91e9 / 9.3e6, rel=0.05)


def test_no_request_but_a_first_exceeds_the_context() -> None:
    table = sessions(replace(Agent(), context=30_000, retry=0.0), count=5000, rate_per_s=50, seed=8)
    total = table.input_tokens.astype(np.int64) + table.output_tokens
    for rows in by_session(table):
        assert (total[rows[1:]] <= 30_000).all()


def test_blocks_repeat_as_far_as_contexts_do() -> None:
    agent = replace(PLAIN, retry=0.2)
    table = sessions(agent, count=400, rate_per_s=50, seed=9)
    prefix = table.prefix
    assert prefix is not None
    assert prefix.block_tokens == 256
    for rows in by_session(table):
        for one, other in pairwise(rows):
            mine, next_ = prefix.of(int(one)), prefix.of(int(other))
            assert len(mine) == -(-int(table.input_tokens[one]) // 256)
            if table.input_tokens[one] == table.input_tokens[other]:
                assert np.array_equal(mine, next_)
            else:
                full = int(table.input_tokens[one]) // 256
                assert np.array_equal(mine[:full], next_[:full])
                assert len(mine) == full or mine[full] != next_[full]
    one, other = (prefix.of(int(rows[0])) for rows in by_session(table)[:2])
    # Two blocks of 256 tokens are the shared head of 512; nothing beyond them is shared.
    assert one[:2].tolist() == other[:2].tolist() == [0, 1]
    assert not set(one[2:].tolist()) & set(other[2:].tolist())


def test_a_first_prompt_shorter_than_the_shared_head_shares_only_itself() -> None:
    agent = replace(PLAIN, shared=10**6)
    table = sessions(agent, count=200, rate_per_s=50, seed=10)
    prefix = table.prefix
    assert prefix is not None
    one, other = (prefix.of(int(rows[-1])) for rows in by_session(table)[:2])
    # First prompts of 1000 tokens: three blocks of 256.
    assert one[:3].tolist() == other[:3].tolist() == [0, 1, 2]
    assert not set(one[3:].tolist()) & set(other[3:].tolist())


def test_a_seed_fixes_the_sessions_and_another_gives_others() -> None:
    one, same, other = (sessions(Agent(), count=300, rate_per_s=9, seed=s) for s in (1, 1, 2))
    assert np.array_equal(one.arrival_ps, same.arrival_ps)
    assert np.array_equal(one.input_tokens, same.input_tokens)
    assert not np.array_equal(one.arrival_ps, other.arrival_ps)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 300),
    st.floats(0.1, 5000),
    st.integers(0, 2**32),
    st.floats(1, 6),
    st.floats(1, 6),
    st.floats(0, 0.5),
)
def test_sessions_are_numbered_as_they_appear_and_never_shrink(
    count: int, rate: float, seed: int, turns: float, calls: float, retry: float
) -> None:
    agent = Agent(turns=turns, calls=calls, retry=retry)
    table = sessions(agent, count=count, rate_per_s=rate, seed=seed)
    assert len(table) == count
    _, first = np.unique(table.session, return_index=True)
    assert bool((np.diff(first) > 0).all())
    assert int(table.session.max()) == len(first) - 1
    for rows in by_session(table):
        assert bool((np.diff(table.input_tokens[rows]) >= 0).all())


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Agent(turns=0.5), r"sessions\.turns 0\.5: a mean of 1 to 1000"),
        (lambda: Agent(calls=float("nan")), r"sessions\.calls nan"),
        (lambda: Agent(retry=0.6), r"sessions\.retry 0\.6: write 0% to 50%"),
        (lambda: Agent(think_ps=-1), r"sessions\.think -1ps: negative"),
        (lambda: Agent(shared=-1), r"sessions\.shared -1: negative"),
        (lambda: Agent(context=1), r"sessions\.context 1"),
        (lambda: Agent(block_tokens=0), r"sessions\.block_tokens 0"),
        (lambda: sessions(Agent(), count=0, rate_per_s=1, seed=1), "count 0"),
        (lambda: sessions(Agent(), count=1, rate_per_s=0, seed=1), "arrival rate 0/s"),
        (lambda: sessions(Agent(), count=9, rate_per_s=1e-5, seed=1), "raise the rate"),
        (
            lambda: sessions(Agent(turns=100, calls=100), count=1, rate_per_s=1, seed=1),
            "calls in 4096 sessions; at most 10000000: write fewer",
        ),
    ],
)
def test_impossible_sessions_are_refused(make: Callable[[], Any], told: str) -> None:
    with pytest.raises(RequestError, match=told) as refused:
        make()
    assert "\n" not in str(refused.value)
