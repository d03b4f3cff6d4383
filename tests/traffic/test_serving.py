"""The serving loop: queues by the formula, budgets that add up, and no request lost."""

from dataclasses import replace
from heapq import heappop, heappush
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from numpy.typing import NDArray

from topo.error import KvfabricError
from topo.fabric import Fabric, Role, Switch
from traffic.emulator import COMPLETION, Advance, Table, Telemetry
from traffic.gpu import gpu
from traffic.instance import Deployment, Pool, instances
from traffic.model import model
from traffic.policy.choice import NoSettings, Policy, Request, View
from traffic.policy.registry import POLICIES, policy
from traffic.release import MOMENTS
from traffic.replay import replay
from traffic.request import RequestTable, request_table
from traffic.serving import Outcome, serve

US = 10**6
MS = 10**9
S = 10**12
DELAY = 20 * US
LLAMA = model("Llama-3.1-8B")
H100 = gpu("H100-SXM")


class Wire:
    """An emulator in which every flow takes the same time, whatever else is under way."""

    def __init__(self, duration_ps: int = 5 * US) -> None:
        self._duration = duration_ps
        self._under_way: list[tuple[int, int, int]] = []
        self.now = 0

    def submit(self, flows: NDArray[np.void]) -> None:
        for row in flows:
            assert row["release_ps"] >= self.now
            finish = int(row["release_ps"]) + self._duration
            heappush(self._under_way, (finish, int(row["flow"]), int(row["handoff"])))

    def advance(self, until_ps: int) -> Advance:
        assert until_ps >= self.now
        done: list[tuple[int, int, int]] = []
        self.now = min([until_ps, *(f for f, _, _ in self._under_way[:1])])
        while self._under_way and self._under_way[0][0] == self.now:
            finish, flow, handoff = heappop(self._under_way)
            done.append((flow, handoff, finish))
        return Advance(self.now, np.array(done, COMPLETION))

    def observe(self) -> Table:
        return {}

    def telemetry(self) -> Telemetry:
        return Telemetry({}, {})


class Watched:
    """A policy that passes every question on and keeps the view."""

    name: ClassVar[str] = "watched"
    sees_network: ClassVar[bool] = False
    settings: ClassVar[type[Struct]] = NoSettings

    def __init__(self, inner: Policy) -> None:
        self._inner = inner
        self.view: View | None = None

    def prefill(self, request: Request, view: View) -> int:
        self.view = view
        return self._inner.prefill(request, view)

    def decode(self, request: Request, prefill: int, view: View) -> int:
        return self._inner.decode(request, prefill, view)

    def pairs(self, hops: NDArray[np.int32]) -> NDArray[np.bool_]:
        return self._inner.pairs(hops)


class Hole(Wire):
    """An emulator that delivers nothing."""

    def submit(self, flows: NDArray[np.void]) -> None:
        pass


def pools(prefill: int, decode: int, *, max_batch: int = 256, memory: int = 0) -> Deployment:
    """Llama-3.1-8B on one-GPU instances; ``memory`` bytes of KV cache when given."""
    small = H100
    if memory:
        small = replace(H100, memory_bytes=LLAMA.weight_bytes + memory)
    return Deployment(
        Pool(tuple((i,) for i in range(prefill)), LLAMA, H100),
        Pool(
            tuple((prefill + i,) for i in range(decode)),
            LLAMA,
            small,
            max_batch=max_batch,
            reserve=0.0 if memory else 0.1,
        ),
    )


def run(
    requests: RequestTable,
    deployment: Deployment,
    name: str = "least_loaded",
    *,
    wire: Wire | None = None,
    until_ps: int | None = None,
    seed: int = 0,
) -> Outcome:
    shape = (len(deployment.prefill.instances), len(deployment.decode.instances))
    hops = np.full(shape, 4, np.int32)
    chosen = policy(name, hops, seed=seed)
    return serve(
        requests, deployment, chosen, wire or Wire(), hops=hops, until_ps=until_ps, seed=seed
    )


def one(input_tokens: int, output_tokens: int, arrival_ps: int = 0) -> RequestTable:
    return request_table(
        arrival_ps=[arrival_ps], input_tokens=[input_tokens], output_tokens=[output_tokens]
    )


def row(outcome: Outcome, request: int = 0) -> dict[str, int]:
    return {name: int(column[request]) for name, column in outcome.requests.items()}


@pytest.mark.parametrize("rho", [0.5, 0.8])
def test_the_prefill_queue_waits_as_long_as_the_formula_of_m_d_1_says(rho: float) -> None:
    deployment = pools(1, 1)
    service = deployment.prefill.prefill_cost.ps(500)
    count, parts = 60_000, 20
    gaps = np.random.default_rng(11).exponential(service / rho, count)
    arrival = np.cumsum(gaps).astype(np.int64)
    requests = request_table(
        arrival_ps=arrival, input_tokens=np.full(count, 500), output_tokens=np.zeros(count, int)
    )
    table = run(requests, deployment).requests
    start_ps = table["prefill_start_ps"].astype(np.int64)
    wait = (start_ps - arrival) / service
    free = 0
    for at, start in zip(arrival.tolist(), start_ps.tolist(), strict=True):
        assert start == max(at, free)  # Lindley's recursion, to the picosecond
        free = start + service
    means = wait.reshape(parts, -1).mean(axis=1)
    error = means.std(ddof=1) / np.sqrt(parts)
    expected = rho / (2 * (1 - rho))
    assert error < 0.05 * expected
    assert abs(wait.mean() - expected) < 3 * error


def test_a_lone_request_passes_every_stage_at_its_time() -> None:
    deployment = pools(2, 2)
    outcome = run(one(550, 150, arrival_ps=123), deployment, wire=Wire(7 * US))
    got = row(outcome)
    prefill, decode = deployment.prefill.prefill_cost, deployment.decode.decode_cost
    assert got["prefill_start_ps"] == 123
    assert got["prefill_end_ps"] == 123 + prefill.ps(550)
    assert got["handoff_release_ps"] == got["prefill_end_ps"] + DELAY
    assert got["kv_ready_ps"] == got["handoff_release_ps"] + 7 * US
    assert got["decode_start_ps"] == got["kv_ready_ps"] + DELAY
    first = decode.step_ps(1, LLAMA.kv_bytes(550))
    assert got["first_token_ps"] == got["decode_start_ps"] + first
    read = LLAMA.kv_bytes_sum(550, 150)
    assert got["finish_ps"] == (
        got["decode_start_ps"] + 150 * decode.base_ps(1) + decode.kv_ps(read)
    )
    assert got["kv_bytes"] == LLAMA.kv_bytes(550) == int(outcome.flows["bytes"].sum())
    assert got["status"] == 0
    assert outcome.end_ps == got["finish_ps"]


def test_a_request_without_output_ends_with_its_prefill() -> None:
    outcome = run(one(100, 0), pools(1, 1))
    got = row(outcome)
    assert got["finish_ps"] == got["prefill_end_ps"] > 0
    assert got["status"] == 0
    for name in ("decode", *MOMENTS, "kv_ready_ps", "decode_start_ps"):
        assert got[name] == -1
    assert got["first_token_ps"] == -1
    assert not len(outcome.flows)
    assert "1 request(s) have no output" in outcome.notes[0]


def test_a_request_with_one_token_of_output_takes_one_decode_step() -> None:
    got = row(run(one(100, 1), pools(1, 1)))
    assert got["first_token_ps"] == got["finish_ps"] > got["decode_start_ps"] > 0


def test_a_request_larger_than_any_memory_is_rejected_at_arrival_and_told() -> None:
    requests = request_table(arrival_ps=[0, 5], input_tokens=[900, 100], output_tokens=[200, 100])
    outcome = run(requests, pools(1, 1, memory=LLAMA.kv_bytes(1000)))
    assert outcome.requests["status"].tolist() == [2, 0]
    rejected = row(outcome)
    assert rejected["prefill"] == rejected["prefill_start_ps"] == rejected["finish_ps"] == -1
    assert "1 request(s) were rejected" in outcome.notes[0]


def test_a_handoff_waits_until_memory_for_the_whole_sequence_is_free() -> None:
    count = 6
    requests = request_table(
        arrival_ps=[0] * count, input_tokens=[400] * count, output_tokens=[100] * count
    )
    table = run(requests, pools(count, 1, memory=int(2.5 * LLAMA.kv_bytes(500)))).requests
    release = np.sort(table["handoff_release_ps"].astype(np.int64))
    finish = np.sort(table["finish_ps"].astype(np.int64))
    assert (release[:2] == release[0]).all()
    assert release[2:].tolist() == (finish[: count - 2] + DELAY).tolist()


def test_overload_loses_no_request_and_the_cut_leaves_the_rest_in_flight() -> None:
    count = 400
    deployment = pools(2, 1, max_batch=4)
    gap = deployment.prefill.prefill_cost.ps(500) // 6  # three times what two instances can do
    requests = request_table(
        arrival_ps=np.arange(count) * gap,
        input_tokens=np.full(count, 500),
        output_tokens=np.full(count, 20),
    )
    whole = run(requests, deployment)
    assert (whole.requests["status"] == 0).all()
    until = int(whole.end_ps * 0.4)
    table = run(requests, deployment, until_ps=until).requests
    done = table["finish_ps"].astype(np.int64) >= 0
    assert 0 < done.sum() < count
    assert (table["status"] == np.where(done, 0, 1)).all()
    for name, column in table.items():
        if name.endswith("_ps") and name != "arrival_ps":
            assert int(np.max(column.astype(np.int64))) <= until
            early = whole.requests[name].astype(np.int64) <= until
            assert column[early].tolist() == whole.requests[name][early].tolist(), name


def test_a_cut_between_decision_and_effect_shows_neither_the_release_nor_the_token() -> None:
    whole = row(run(one(100, 10), pools(1, 1)))
    decided = row(run(one(100, 10), pools(1, 1), until_ps=whole["prefill_end_ps"] + 1))
    assert decided["prefill_end_ps"] == whole["prefill_end_ps"]
    assert decided["handoff_release_ps"] == -1
    begun = row(run(one(100, 10), pools(1, 1), until_ps=whole["first_token_ps"] - 1))
    assert begun["decode_start_ps"] == whole["decode_start_ps"]
    assert begun["first_token_ps"] == -1


def test_the_seed_decides_the_entropy_of_the_flows() -> None:
    first, second = (run(one(100, 10), pools(1, 1), seed=seed).flows for seed in (1, 2))
    assert first["entropy"] != second["entropy"]


def test_a_network_that_delivers_nothing_ends_the_run_with_requests_in_flight() -> None:
    outcome = run(one(100, 10), pools(1, 1), wire=Hole())
    assert row(outcome)["status"] == 1
    assert row(outcome)["kv_ready_ps"] == -1
    assert row(outcome)["handoff_release_ps"] > 0


REQUESTS = st.lists(
    st.tuples(st.integers(0, 50 * MS), st.integers(1, 2000), st.integers(0, 40)),
    min_size=1,
    max_size=30,
)


@settings(max_examples=40, deadline=None)
@given(
    rows=REQUESTS,
    name=st.sampled_from(sorted(POLICIES)),
    wire=st.integers(1, 30 * MS),
    prefill=st.integers(1, 3),
    decode=st.integers(1, 3),
    max_batch=st.integers(1, 4),
)
def test_the_four_budgets_add_up_to_the_picosecond_and_stages_never_run_backwards(
    rows: list[tuple[int, int, int]],
    name: str,
    wire: int,
    prefill: int,
    decode: int,
    max_batch: int,
) -> None:
    rows.sort()
    arrival, tokens, output = (list(column) for column in zip(*rows, strict=True))
    requests = request_table(arrival_ps=arrival, input_tokens=tokens, output_tokens=output)
    memory = LLAMA.kv_bytes(2500)
    deployment = pools(prefill, decode, max_batch=max_batch, memory=memory)
    table = run(requests, deployment, name, wire=Wire(wire)).requests
    stages = [name for name in table if name.endswith("_ps")]
    for i in range(len(rows)):
        got = {name: int(column[i]) for name, column in table.items()}
        assert got["status"] == 0
        assert got["prefill_start_ps"] >= got["arrival_ps"]
        if not got["output_tokens"]:
            continue
        times = [got[name] for name in stages]
        assert times == sorted(times), stages
        queueing = (got["prefill_start_ps"] - got["arrival_ps"]) + (
            got["decode_start_ps"] - got["kv_ready_ps"]
        )
        busy = got["prefill_end_ps"] - got["prefill_start_ps"]
        handoff = got["kv_ready_ps"] - got["prefill_end_ps"]
        decoding = got["finish_ps"] - got["decode_start_ps"]
        assert queueing + busy + handoff + decoding == got["finish_ps"] - got["arrival_ps"]
        assert got["handoff_release_ps"] >= got["prefill_end_ps"] + DELAY
        assert got["decode_start_ps"] >= got["kv_ready_ps"] + DELAY
    for instance in range(decode):
        mine = table["decode"] == instance
        starts, ends = table["decode_start_ps"][mine], table["finish_ps"][mine]
        held = table["handoff_release_ps"][mine] - DELAY
        need = [
            LLAMA.kv_bytes(int(i + o))
            for i, o in zip(table["input_tokens"][mine], table["output_tokens"][mine], strict=True)
        ]
        for at in starts.tolist():
            assert ((starts <= at) & (ends > at)).sum() <= max_batch
        for at in held.tolist():
            assert sum(n for n, h, e in zip(need, held, ends, strict=True) if h <= at < e) <= memory


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_the_same_seed_gives_the_same_bytes_and_shared_load_returns_to_zero(name: str) -> None:
    rng = np.random.default_rng(5)
    requests = request_table(
        arrival_ps=np.cumsum(rng.exponential(MS, 200)).astype(np.int64),
        input_tokens=rng.integers(1, 1000, 200),
        output_tokens=rng.integers(0, 50, 200),
    )
    deployment = pools(4, 4)
    hops = np.full((4, 4), 4, np.int32)

    first, again = (Watched(policy(name, hops, seed=9)) for _ in range(2))
    one = serve(requests, deployment, first, Wire(), hops=hops, seed=9)
    two = serve(requests, deployment, again, Wire(), hops=hops, seed=9)
    assert one.flows.tobytes() == two.flows.tobytes()
    for column in one.requests:
        assert one.requests[column].tobytes() == two.requests[column].tobytes()
    assert first.view is not None
    for field in ("prefill_requests", "prefill_tokens", "decode_requests", "decode_bytes"):
        assert not getattr(first.view, field).any(), field


def test_a_blind_policy_is_refused_where_it_may_pick_a_pair_without_a_path() -> None:
    deployment = pools(2, 2)
    hops = np.array([[2, -1], [-1, 2]], np.int32)
    message = "random may pick prefill 0 -> decode 1, .* static_groups with groups: 2"
    with pytest.raises(KvfabricError, match=message):
        serve(one(5, 5), deployment, policy("random", hops), Wire(), hops=hops)
    outcome = serve(one(5, 5), deployment, policy("topology_aware", hops), Wire(), hops=hops)
    got = row(outcome)
    assert got["prefill"] == got["decode"]


def test_what_cannot_be_served_is_refused_in_one_line() -> None:
    deployment = pools(2, 2)
    hops = np.full((2, 2), 2, np.int32)
    chosen = policy("random", hops)
    with pytest.raises(KvfabricError, match="control delay 0 ps"):
        serve(one(5, 5), deployment, chosen, Wire(), hops=hops, control_delay_ps=0)
    with pytest.raises(KvfabricError, match=r"hops \(1, 2\): must be prefill x decode"):
        serve(one(5, 5), deployment, chosen, Wire(), hops=hops[:1])
    with pytest.raises(KvfabricError, match="host 0: in both pools"):
        Deployment(deployment.prefill, deployment.prefill)
    with pytest.raises(KvfabricError, match="can only be read by the model that wrote it"):
        Deployment(deployment.prefill, Pool(((9,),), model("Qwen3-8B"), H100))


def test_what_is_left_over_in_racks_is_grouped_in_host_order() -> None:
    fabric = Fabric("interleaved")
    for i, rack in enumerate((0, 1, 1, 1, 0, 0)):
        fabric.add_host(f"h{i}", rack=rack, role=Role.DECODE)
    assert instances(fabric, Role.DECODE, 2) == ((0, 4), (1, 2), (3, 5))


def test_progress_counts_up_to_all_requests() -> None:
    count = 1000
    told: list[tuple[int, int]] = []
    requests = request_table(
        arrival_ps=np.arange(count) * MS,
        input_tokens=np.full(count, 10),
        output_tokens=np.full(count, 2),
    )
    hops = np.full((1, 1), 2, np.int32)
    serve(
        requests,
        pools(1, 1),
        policy("random", hops),
        Wire(),
        hops=hops,
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == sorted(told)
    assert told[-1] == (count, count)
    assert 10 < len(told) <= 201


def test_replay_repeats_the_finish_of_every_flow() -> None:
    requests = request_table(
        arrival_ps=np.arange(20) * MS, input_tokens=[100] * 20, output_tokens=[5] * 20
    )
    outcome = run(requests, pools(2, 2))
    ready = outcome.requests["kv_ready_ps"][outcome.flows["handoff"]]
    assert replay(outcome.flows, Wire()).tolist() == ready.tolist()
    assert replay(outcome.flows, Hole()).tolist() == [-1] * 20


def test_instances_keep_together_what_stands_together() -> None:
    fabric = Fabric("two racks")
    switch = Switch()
    for rack in (0, 1):
        leaf = fabric.add_switch(f"leaf{rack}", tier=1, switch=switch, rack=rack)
        for i in range(3):
            host = fabric.add_host(f"h{rack}.{i}", rack=rack, role=Role.PREFILL)
            fabric.connect(host, leaf, rate_bps=10**9)
    assert instances(fabric, Role.PREFILL, 1) == ((1,), (2,), (3,), (5,), (6,), (7,))
    assert instances(fabric, Role.PREFILL, 2) == ((1, 2), (3, 7), (5, 6))
    with pytest.raises(KvfabricError, match="tp 8: more tensor parallelism than the 6 prefill"):
        instances(fabric, Role.PREFILL, 8)
    with pytest.raises(KvfabricError, match="0 decode GPU"):
        instances(fabric, Role.DECODE, 1)
