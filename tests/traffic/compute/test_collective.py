"""Collectives on the critical path: so many messages a step, each its latency, exactly."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from topo.fabric import Fabric, Switch
from topo.route import equal_cost
from traffic.compute.collective import Collective, Spanned, collective
from traffic.compute.gpu import gpu
from traffic.emulator import COMPLETION, Advance, Table, Telemetry
from traffic.error import ComputeError
from traffic.instance import Deployment, Pool
from traffic.model import model
from traffic.policy.registry import policy
from traffic.request import RequestTable, request_table
from traffic.serving.run import serve

US = 10**6
MS = 10**9
S = 10**12
LLAMA = model("Llama-3.1-70B")  # 80 layers
H100 = gpu("H100-SXM")
EXTRA = 20 * US


class Instantly:
    """An emulator that delivers every flow when it is released."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int]] = []

    def submit(self, flows: NDArray[np.void]) -> None:
        self._rows += [(int(r["release_ps"]), int(r["flow"]), int(r["handoff"])) for r in flows]
        self._rows.sort()

    def advance(self, until_ps: int) -> Advance:
        now = min([until_ps, *(at for at, _, _ in self._rows[:1])])
        done = [(flow, handoff, at) for at, flow, handoff in self._rows if at == now]
        self._rows = self._rows[len(done) :]
        return Advance(now, np.array(done, COMPLETION))

    def observe(self) -> Table:
        return {}

    def telemetry(self) -> Telemetry:
        return Telemetry({}, {})


def waits(latency_ps: int, per_layer: int = 2) -> Collective:
    """Two servers of four ranks each, over 400 Gbit/s."""
    return Collective(80 * per_layer * 2, latency_ps, (8192 * 2 // 8, 1), 400 * 10**9)


def served(requests: RequestTable, prefill: Collective | None, decode: Collective | None) -> Table:
    pool = Pool((tuple(range(8)),), LLAMA, H100, 8, collectives=(prefill,))
    other = Pool((tuple(range(8, 16)),), LLAMA, H100, 8, collectives=(decode,))
    hops = np.full((1, 1), 4, np.int32)
    chosen = policy("least_loaded", hops, seed=1)
    return serve(requests, Deployment(pool, other), chosen, Instantly(), hops=hops).requests


def took(table: Table, start: str, end: str) -> list[int]:
    return [int(b) - int(a) for a, b in zip(table[start], table[end], strict=True)]


@pytest.mark.parametrize("per_layer", [1, 2, 5])
def test_k_messages_a_layer_times_layers_times_latency_are_added_exactly(per_layer: int) -> None:
    lone = request_table(arrival_ps=[0], input_tokens=[550], output_tokens=[150])
    base, late = (
        served(lone, *[waits(latency, per_layer)] * 2) for latency in (5 * US, 5 * US + EXTRA)
    )
    each = 80 * per_layer * 2 * EXTRA
    assert took(late, "prefill_start_ps", "prefill_end_ps") == [
        took(base, "prefill_start_ps", "prefill_end_ps")[0] + each
    ]
    assert took(late, "decode_start_ps", "finish_ps") == [
        took(base, "decode_start_ps", "finish_ps")[0] + 150 * each
    ]


def test_twenty_microseconds_more_a_message_cost_a_request_a_second_at_80_layers() -> None:
    lone = request_table(arrival_ps=[0], input_tokens=[550], output_tokens=[150])
    base, late = (served(lone, *[waits(latency)] * 2) for latency in (0, EXTRA))
    more = took(late, "arrival_ps", "finish_ps")[0] - took(base, "arrival_ps", "finish_ps")[0]
    assert more == 151 * 320 * EXTRA  # 48,320 messages, 966 ms


def test_a_batch_waits_for_the_messages_of_its_steps_once() -> None:
    count = 6
    together = request_table(
        arrival_ps=[0] * count, input_tokens=[100] * count, output_tokens=[40] * count
    )
    base, late = (served(together, None, waits(latency)) for latency in (0, EXTRA))
    steps = 80 * 4
    more = int(late["finish_ps"].max()) - int(base["finish_ps"].max())
    # Some join while others decode: more steps than one request has, but not six times as many.
    assert 40 * steps * EXTRA <= more < 2 * 40 * steps * EXTRA


def test_latency_compounds_in_the_queue_beyond_the_messages_themselves() -> None:
    # M/D/1: at 60 % of a server's time, 30 % more service is 78 %, and 3.07 times the wait.
    count = 20_000
    bare = served(
        request_table(arrival_ps=[0], input_tokens=[550], output_tokens=[0]), waits(0), None
    )
    service = took(bare, "prefill_start_ps", "prefill_end_ps")[0]
    extra = round(0.3 * service / 320)
    gaps = np.random.default_rng(3).exponential(service / 0.6, count)
    requests = request_table(
        arrival_ps=np.cumsum(gaps).astype(np.int64),
        input_tokens=np.full(count, 550),
        output_tokens=np.zeros(count, int),
    )
    found = []
    for latency in (0, extra):
        table = served(requests, waits(latency), None)
        found.append(float(np.mean(took(table, "arrival_ps", "prefill_start_ps"))))
    expected = [service * k * rho / (2 * (1 - rho)) for k, rho in ((1, 0.6), (1.3, 0.78))]
    assert found[0] == pytest.approx(expected[0], rel=0.1)
    assert found[1] == pytest.approx(expected[1], rel=0.15)


@given(
    st.integers(0, 64),
    st.integers(0, 10**6),
    st.integers(1, 50),
    st.lists(st.tuples(st.integers(0, 500), st.integers(1, 500)), max_size=3),
)
def test_every_step_adds_the_messages_of_its_own_tokens(
    batch: int, read: int, steps: int, chunks: list[tuple[int, int]]
) -> None:
    inner = Pool((tuple(range(8)),), LLAMA, H100, 8).step_time
    one = waits(3 * US)
    spanned = Spanned(inner, one)
    if batch:
        assert spanned.steps_ps(batch, 9, read, steps) == inner.steps_ps(
            batch, 9, read, steps
        ) + steps * one.step_ps(batch)
    if batch or chunks:
        tokens = batch + sum(more for _, more in chunks)
        assert spanned.mixed_ps(batch, 9, read, chunks) == inner.mixed_ps(
            batch, 9, read, chunks
        ) + one.step_ps(tokens)


def servers(count: int, each: int, far_ps: int = 0) -> tuple[Fabric, list[int]]:
    """Servers of GPUs on one switch, the cables of the last one longer by ``far_ps``."""
    fabric = Fabric("servers")
    switch = fabric.add_switch("s", tier=1, switch=Switch(latency_ps=600_000))
    ranks = []
    for server in range(count):
        for i in range(each):
            host = fabric.add_host(f"h{server}.{i}", server=server)
            late = far_ps if server == count - 1 else 0
            fabric.connect(host, switch, rate_bps=400 * 10**9, delay_ps=50_000 + late)
            ranks.append(host)
    return fabric, ranks


@pytest.mark.parametrize("count", [2, 3, 4])
def test_over_s_servers_a_layer_waits_for_twice_two_times_s_minus_one_messages(count: int) -> None:
    fabric, ranks = servers(count, 4)
    found = collective(LLAMA, fabric, equal_cost(fabric), ranks)
    assert found is not None
    assert found.messages == 80 * 2 * 2 * (count - 1)
    assert found.latency_ps == 2 * 50_000 + 600_000
    assert found.rate_bps == 400 * 10**9
    size = LLAMA.hidden * 2 * 256 // (4 * count)
    send = -(-LLAMA.hidden * 2 * 256 // (4 * count)) * 20
    assert found.step_ps(256) == found.messages * (found.latency_ps + send)
    assert send >= size * 20


def test_the_slowest_neighbours_on_the_ring_and_the_software_decide_the_latency() -> None:
    fabric, ranks = servers(3, 2, far_ps=MS)
    found = collective(LLAMA, fabric, equal_cost(fabric), ranks, per_layer=4, extra_ps=EXTRA)
    assert found is not None
    assert found.messages == 80 * 4 * 4
    assert found.latency_ps == 2 * 50_000 + MS + 600_000 + EXTRA
    assert found.waiting_ps == found.messages * found.latency_ps


def test_an_instance_inside_one_server_waits_for_nothing() -> None:
    fabric, ranks = servers(2, 4)
    assert collective(LLAMA, fabric, equal_cost(fabric), ranks[:4]) is None
    pool = Pool((tuple(ranks[:4]),), LLAMA, H100, 4, collectives=(None,))
    assert pool.time_of(0) is pool.step_time


def test_collectives_that_cannot_be_are_refused() -> None:
    fabric, ranks = servers(2, 1)
    with pytest.raises(ComputeError, match="collective: 0 a layer with 2us each"):
        collective(LLAMA, fabric, equal_cost(fabric), ranks, per_layer=0, extra_ps=2 * US)
    with pytest.raises(ComputeError, match="2 collectives for 1 instances"):
        replace(Pool((tuple(range(8)),), LLAMA, H100, 8), collectives=(None, None))
