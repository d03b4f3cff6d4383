"""Prompts that stay on the decode side: which do, what they take, and what is kept of them."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from traffic.emulator import Emulator
from traffic.error import ServingError
from traffic.instance import Deployment
from traffic.policy.choice import (
    PolicyError,
    Request,
    View,
)
from traffic.policy.registry import policy
from traffic.request import Prefix, request_table
from traffic.serving.local import Local
from traffic.serving.mode import Serving
from traffic.serving.router import Service
from traffic.serving.run import serve_all

MS = 10**9
FLAT = np.full((2, 3), 4, np.int32)


@pytest.mark.parametrize(
    ("local", "tokens", "held", "queued", "promised", "stays"),
    [
        (Local(), 2047, 1, 0, 0.0, False),  # 1535 of 2047 tokens are left: 75 %
        (Local(), 2047, 2, 0, 0.0, True),  # 1023 of 2047
        (Local(), 8192, 12, 0, 0.0, False),  # 2048 tokens left: not fewer than 2048
        (Local(), 8191, 12, 0, 0.0, True),  # 2047 left
        (Local(ratio=1.0), 512, 1, 0, 0.0, True),  # all held: the last token is computed
        (Local("prefill_load", prefill_busy=4), 100, 0, 4 * 2048, 0.0, False),
        (Local("prefill_load", prefill_busy=4), 100, 0, 4 * 2048 + 1, 0.0, True),
        (Local("isl_or_load", prefill_busy=4), 2047, 2, 0, 0.0, True),
        (Local("isl_or_load", prefill_busy=4), 9000, 0, 9000, 0.0, True),
        (Local(decode_busy=0.9), 2047, 2, 0, 0.8, True),
        (Local(decode_busy=0.9), 2047, 2, 0, 0.81, False),
    ],
)
def test_what_stays_on_the_decode_side_follows_the_published_rules(
    local: Local, tokens: int, held: int, queued: int, promised: float, stays: bool
) -> None:
    class Held:
        def matched(self, blocks: object) -> NDArray[np.int64]:
            return np.zeros(2, np.int64)

        def matched_decode(self, blocks: object) -> NDArray[np.int64]:
            return np.array([0, 0, held])

        def best(self, blocks: object) -> int:
            return 0

    view = View.idle(FLAT, decode_capacity_bytes=1000)
    view.prefix = Held()
    view.prefill_tokens[1] = queued
    view.decode_bytes[2] = int(promised * 1000)
    request = Request(0, tokens, 9, 1, blocks=tuple(range(16)), block_tokens=512)
    assert local.holds(request, (1, 2), view, 100, 2048) is stays


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"when": "never"}, "local.when 'never': not known"),
        ({"ratio": 0.0}, "ratio 0.0"),
        ({"prefill_busy": 2.0}, "local.when isl_bounding with prefill_busy"),
        ({"when": "isl_or_load"}, "local.when isl_or_load without prefill_busy"),
        ({"decode_busy": -1.0}, "local.decode_busy -1.0"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        Local(**values)  # type: ignore[arg-type]


def test_a_prompt_that_stays_takes_no_prefill_instance_and_no_flow(
    pools: Callable[..., Deployment], wire: Callable[..., Emulator]
) -> None:
    deployment = pools(2, 3)
    table = request_table(arrival_ps=[0, 5 * MS], input_tokens=[1000, 4000], output_tokens=[3, 3])
    service = Service(
        deployment,
        policy("least_loaded", FLAT),
        FLAT,
        local=Local("prefill_load", prefill_busy=0.0),
    )
    outcome = serve_all(table, [service], wire(MS), control_delay_ps=20_000_000)
    assert outcome.requests["prefill"].min() >= 0  # nobody was busy at either arrival
    crowded = request_table(arrival_ps=[0, 0, 0, 0], input_tokens=[1000] * 4, output_tokens=[3] * 4)
    outcome = serve_all(crowded, [service], wire(MS), control_delay_ps=20_000_000)
    found = outcome.requests
    local = found["prefill"] < 0
    assert local.tolist() == [False, False, True, True]
    assert set(outcome.flows["handoff"].tolist()) == {0, 1}
    for name in ("kv_ready_ps", "decode_start_ps", "first_token_ps"):
        assert (found[name][local] == found["prefill_end_ps"][local]).all()
    assert (found["handoff_release_ps"][local] == -1).all()
    alone = deployment.decode.time_of(0).mixed_ps(0, 0, 0, [(0, 1000)])
    assert (found["prefill_end_ps"] - found["prefill_start_ps"])[local].tolist() == [alone] * 2
    assert (found["status"] == 0).all()


@pytest.mark.parametrize("name", ["round_robin", "vllm"])
def test_a_policy_is_asked_once_for_the_decode_instance_of_a_prompt_that_does_not_stay(
    name: str, pools: Callable[..., Deployment], wire: Callable[..., Emulator]
) -> None:
    count, flat = 12, np.full((2, 2), 4, np.int32)
    table = request_table(
        arrival_ps=[1000 * MS * i for i in range(count)],
        input_tokens=[1000] * count,
        output_tokens=[3] * count,
    )
    service = Service(pools(2, 2), policy(name, flat), flat, local=Local(tokens=1))
    found = serve_all(table, [service], wire(MS), control_delay_ps=20_000_000).requests
    assert found["prefill"].tolist() == [0, 1] * (count // 2)
    assert found["decode"].tolist() == [0, 1] * (count // 2)


def test_what_the_decode_side_holds_of_a_local_prompt_is_not_computed_and_what_it_computes_is_kept(
    pools: Callable[..., Deployment], wire: Callable[..., Emulator]
) -> None:
    # Three turns: 2 blocks, then 3, then 4, of 512 tokens, of which the last is not whole.
    deployment = pools(1, 1, cache_bytes=2**34)
    first = np.array([0, 2, 5, 9])
    blocks = np.array([1, 2, 1, 2, 3, 1, 2, 3, 4])
    table = request_table(
        arrival_ps=[0, 2000 * MS, 4000 * MS],
        input_tokens=[1024, 1500, 2000],
        output_tokens=[2, 2, 2],
        prefix=Prefix(first, blocks, 512),
    )
    one = np.array([[4]], np.int32)
    service = Service(deployment, policy("least_loaded", one), one, local=Local())
    outcome = serve_all(table, [service], wire(MS), control_delay_ps=20_000_000)
    found = outcome.requests
    # 1024 are new; then 476 of 1500 are left, then 464 of 2000: below 2048 and 70 %.
    assert found["prefill"].tolist() == [0, -1, -1]
    assert set(outcome.flows["handoff"].tolist()) == {0}
    took = (found["prefill_end_ps"] - found["prefill_start_ps"])[1:].tolist()
    times = deployment.decode.time_of(0)
    assert took == [times.mixed_ps(0, 0, 0, [(1024, 476)]), times.mixed_ps(0, 0, 0, [(1536, 464)])]


def test_local_prompts_need_room_in_a_step(
    pools: Callable[..., Deployment], wire: Callable[..., Emulator]
) -> None:
    table = request_table(arrival_ps=[0], input_tokens=[10], output_tokens=[1])
    service = Service(pools(2, 3, max_batch=64), policy("random", FLAT), FLAT, local=Local())
    with pytest.raises(ServingError, match="max_batch 64"):
        serve_all(table, [service], wire(MS), rules=Serving(chunk_tokens=64))
