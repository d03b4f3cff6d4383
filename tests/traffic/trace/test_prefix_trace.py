"""Prefix caches on the public Mooncake trace, and the blocks that sessions carry."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from traffic.cache.hierarchy import Hierarchy
from traffic.cache.holding import Holding
from traffic.cache.tier import Caching, Tier
from traffic.instance import Deployment
from traffic.load.summary import found_again
from traffic.model import model
from traffic.policy.registry import policy
from traffic.record.ledger import Ledger
from traffic.serving.run import Outcome, serve
from traffic.source.crowd import Users, Work
from traffic.source.session import Agent, played
from traffic.trace.registry import trace

ENDLESS = Tier("hbm", 10**18)
BLOCK = model("Llama-3.1-8B").kv_bytes(512)


def test_an_endless_cache_finds_37_percent_of_the_conversation_traces_blocks_again(
    mooncake_conversation: Path,
) -> None:
    requests = trace(mooncake_conversation).requests
    assert requests.prefix is not None
    every, whole = (Hierarchy(Caching((ENDLESS,)), BLOCK, Holding(1), instance=0) for _ in range(2))
    found = asked = tokens = 0
    for request in range(len(requests)):
        blocks = requests.prefix.of(request).tolist()
        found += next((i for i, b in enumerate(blocks) if b not in every.where), len(blocks))
        asked += len(blocks)
        every.keep(blocks, request)
        count = int(requests.input_tokens[request])
        usable = blocks[: (count - 1) // 512]
        tokens += 512 * next((i for i, b in enumerate(usable) if b not in whole.where), len(usable))
        whole.keep(blocks[: count // 512], request)
    assert (asked, found, len(every.where)) == (288_500, 105_710, 182_790)
    assert found / asked == pytest.approx(0.37, abs=0.005)
    assert found_again(requests.prefix) == found
    # Of tokens, when only whole blocks count and a last token is always computed.
    assert tokens / int(requests.input_tokens.sum()) == pytest.approx(0.3734, abs=1e-4)


def served(
    path: Path,
    pools: Callable[..., Deployment],
    wire: Callable[..., object],
    name: str,
    **more: float,
) -> Outcome:
    """The trace's first requests on 8 + 8 instances that keep all they compute."""
    deployment = replace(pools(8, 8), cache=Caching((ENDLESS,)))
    hops = np.full((8, 8), 4, np.int32)
    chosen = policy(name, hops, seed=1, settings=more)
    requests = trace(path, count=2000).requests
    return serve(requests, deployment, chosen, wire(), hops=hops)  # type: ignore[arg-type]


def test_prefix_aware_beats_random_in_hit_rate_and_loses_it_where_load_decides(
    mooncake_conversation: Path,
    pools: Callable[..., Deployment],
    wire: Callable[..., object],
) -> None:
    def rate(name: str, **more: float) -> float:
        sums = served(mooncake_conversation, pools, wire, name, **more).cached
        return sums["cached_tokens"] / sums["prompt_tokens"]

    blind, aware = rate("random"), rate("cache_aware")
    always = rate("cache_aware", balance_abs_threshold=0, balance_rel_threshold=1.0)
    assert aware > 2.5 * blind
    assert always < 1.5 * blind  # the least loaded takes every prompt, whoever knows it


def test_calls_of_a_session_in_a_closed_loop_extend_each_others_blocks() -> None:
    agent = Agent(shared=1024, retry=0.2)
    users = Users(4, 400, Work(played(agent, 3), 3), seed=3)
    ledger = Ledger(400)
    users.first()
    for request in range(400):
        users.enter(request % 4, ledger, request)
        users.after(request, request)
    assert users.prefix is not None
    assert users.prefix.block_tokens == 512
    of: dict[int, list[int]] = {}
    again = 0
    for request in range(400):
        blocks = users.prefix.of(request).tolist()
        tokens, session = ledger.input_tokens[request], ledger.session[request]
        assert len(blocks) == -(-tokens // 512)
        before = of.get(session)
        if before is not None:
            if before[-1] == blocks[-1]:
                assert before == blocks  # sent again
                again += 1
            else:
                assert blocks[: len(before) - 1] == before[:-1]
        of[session] = blocks
    assert again > 20
    heads = {tuple(blocks[:2]) for blocks in of.values() if len(blocks) > 3}
    rests = [block for blocks in of.values() for block in blocks[2:]]
    assert heads == {(0, 1)}
    assert len(set(rests)) == len(rests)
