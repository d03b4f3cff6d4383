"""Prefill time lost to cache misses: what some instance had computed, and was computed again."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from traffic.cache.lookup import prompt_ps
from traffic.cache.tier import Caching, Tier
from traffic.instance import Deployment
from traffic.model import model
from traffic.request import Prefix, RequestTable, request_table
from traffic.serving.run import Outcome

GAP = 10**12
TOKENS = 512
BLOCK = model("Llama-3.1-8B").kv_bytes(TOKENS)

Run = Callable[..., Outcome]


def asked(prompts: Sequence[Sequence[int]]) -> RequestTable:
    """Requests with these whole blocks and 88 tokens more, each after the last has ended."""
    first = list(accumulate((len(blocks) for blocks in prompts), initial=0))
    flat = [block for blocks in prompts for block in blocks]
    return request_table(
        arrival_ps=[i * GAP for i in range(len(prompts))],
        input_tokens=[len(blocks) * TOKENS + 88 for blocks in prompts],
        output_tokens=[2] * len(prompts),
        prefix=Prefix(np.array(first, np.int64), np.array(flat, np.int64), TOKENS),
    )


def kept(deployment: Deployment, blocks: int) -> Deployment:
    """Room for so many blocks in the HBM of every instance."""
    return replace(deployment, cache=Caching((Tier("hbm", blocks * BLOCK),)))


def test_what_had_to_leave_is_computed_again_and_its_prefill_is_lost(
    pools: Callable[..., Deployment], run: Run
) -> None:
    deployment = kept(pools(), 3)  # the second prompt drives out the first
    outcome = run(asked([[1, 2, 3], [4, 5, 6], [1, 2, 9]]), deployment)
    time, tokens = deployment.prefill.step_time, 3 * TOKENS + 88
    assert outcome.cached["cached_tokens"] == 0
    assert outcome.cached["again_tokens"] == 2 * TOKENS
    assert outcome.cached["again_ps"] == time.prefill_ps(tokens) - prompt_ps(
        time, tokens, 2 * TOKENS
    )


def test_what_lies_on_another_instance_is_lost_to_the_router(
    pools: Callable[..., Deployment], run: Run
) -> None:
    prompts = asked([[1, 2], [1, 2]])
    apart = run(prompts, kept(pools(2, 1), 100), "round_robin")
    assert apart.cached["again_tokens"] == 2 * TOKENS
    together = run(prompts, kept(pools(1, 1), 100))
    assert together.cached.get("again_tokens", 0) == 0
    assert together.cached["saved_ps"] == apart.cached["again_ps"] > 0


def test_what_nobody_had_computed_is_not_lost(pools: Callable[..., Deployment], run: Run) -> None:
    outcome = run(asked([[1, 2], [3, 4], [5, 2]]), kept(pools(), 1))
    assert outcome.cached.get("again_ps", 0) == 0  # 2 is known, and the block before it is not


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4), min_size=1, max_size=8))
def test_hits_and_what_is_computed_again_add_up_to_the_hits_of_a_cache_without_end(
    pools: Callable[..., Deployment], run: Run, tails: list[list[int]]
) -> None:
    # a block stands for all before it, as a hash of the prefix does
    prompts = [[hash(tuple(tail[: i + 1])) for i in range(len(tail))] for tail in tails]
    small, endless = (run(asked(prompts), kept(pools(), room)) for room in (2, 10_000))
    hits = small.cached["cached_tokens"] + small.cached.get("again_tokens", 0)
    assert hits == endless.cached["cached_tokens"]
    assert endless.cached.get("again_tokens", 0) == 0
