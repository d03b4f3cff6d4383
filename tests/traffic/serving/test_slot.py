"""Decode slots as the servers of a queue: the waiting of M/M/c, in every mode."""

from collections.abc import Callable
from heapq import heappop, heappush
from math import factorial, sqrt

import numpy as np
import pytest

from traffic.compute.measured import Curve, Measurements
from traffic.emulator import Emulator
from traffic.instance import Deployment
from traffic.policy.registry import policy
from traffic.request import request_table
from traffic.serving.mode import Serving
from traffic.serving.run import Outcome, serve

STEP = 10**9
US = 10**6
TIMES = Measurements(Curve(((1, 1),)), {1: Curve(((1, STEP),))})
"""A prompt takes a picosecond and a step a millisecond, whoever takes part."""


def erlang_c(servers: int, load: float) -> float:
    """The share that waits in M/M/c with ``load`` erlangs."""
    last = load**servers / factorial(servers) / (1 - load / servers)
    return last / (sum(load**k / factorial(k) for k in range(servers)) + last)


def exact(arrival: list[int], service: list[int], servers: int) -> list[int]:
    """When each is served by the first free of equal servers (Kiefer and Wolfowitz, 1955)."""
    free = [0] * servers
    starts: list[int] = []
    for at, takes in zip(arrival, service, strict=True):
        starts.append(max(at, heappop(free)))
        heappush(free, starts[-1] + takes)
    return starts


@pytest.mark.parametrize(
    ("mode", "servers"), [("disaggregated", 1), ("disaggregated", 3), ("colocated", 1)]
)
def test_exponential_answers_wait_for_a_slot_as_in_m_m_c(
    pools: Callable[..., Deployment],
    wire: Callable[..., Emulator],
    mode: str,
    servers: int,
) -> None:
    count, parts, tokens, rho = 12_000, 20, 400, 0.6
    rng = np.random.default_rng(9)
    output = rng.geometric(1 / tokens, count)  # exponential but for its grain
    steps = output - (mode == "colocated")  # whose prompt makes the first token
    mean = tokens * STEP
    arrival = np.cumsum(rng.exponential(mean / servers / rho, count)).astype(np.int64)
    requests = request_table(
        arrival_ps=arrival, input_tokens=np.full(count, 8), output_tokens=output
    )
    deployment = pools(1, 1, max_batch=servers, measured=TIMES)
    rules, hops = Serving(mode, chunk_tokens=64), np.zeros((1, 1), np.int32)
    # A policy for one instance: of the two colocated ones the second gets nothing.
    chosen = policy("random", hops)
    table = serve(requests, deployment, chosen, wire(1), hops=hops, rules=rules).requests
    assert (table["status"] == 0).all()
    entered = "prefill_start_ps" if mode == "colocated" else "decode_start_ps"
    late = table[entered] - exact(arrival.tolist(), (steps * STEP).tolist(), servers)
    # Two control delays on the way, and then the next step, where one is under way.
    assert 0 <= late.min() <= late.max() <= STEP + 50 * US
    wait = (table[entered] - arrival) / mean
    error = wait.reshape(parts, -1).mean(axis=1).std(ddof=1) / sqrt(parts)
    expected = erlang_c(servers, servers * rho) / (servers * (1 - rho))
    assert error < 0.12 * expected
    assert abs(wait.mean() - expected) < 3 * error + 1 / tokens


def test_under_overload_slots_are_always_full_and_nobody_is_lost(
    pools: Callable[..., Deployment], run: Callable[..., Outcome]
) -> None:
    count, servers, tokens = 600, 4, 50
    requests = request_table(
        arrival_ps=np.arange(count) * (tokens * STEP // servers // 3),
        input_tokens=np.full(count, 8),
        output_tokens=np.full(count, tokens),
    )
    for mode, lanes in (("disaggregated", 1), ("colocated", 2)):
        deployment = pools(1, 1, max_batch=servers, measured=TIMES)
        whole = run(requests, deployment, "round_robin", rules=Serving(mode, chunk_tokens=64))
        assert (whole.requests["status"] == 0).all()
        # The last answer ends when all tokens are made, every slot working but for the start.
        made = count * tokens / servers / lanes * STEP
        assert made <= whole.end_ps < 1.05 * made
        half = run(
            requests,
            deployment,
            "round_robin",
            rules=Serving(mode, chunk_tokens=64),
            until_ps=whole.end_ps // 2,
        ).requests
        done = (half["finish_ps"] >= 0).sum()
        arrived = (half["arrival_ps"] <= whole.end_ps // 2).sum()
        assert (
            arrived == done + (half["status"][half["arrival_ps"] <= whole.end_ps // 2] == 1).sum()
        )
        assert abs(done - count / 2) < 0.05 * count
