"""What a hand-off waits for beside its bytes: each delay adds exactly itself, where it says."""

from heapq import heappop, heappush
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from traffic.cache.block import BlockCache, missing_tokens
from traffic.compute.gpu import gpu
from traffic.emulator import COMPLETION, Advance, Table, Telemetry
from traffic.error import ComputeError, HandoffError
from traffic.handoff.copier import Copier, Lane
from traffic.handoff.flow import Handoff
from traffic.handoff.layer import all_layers, chunks
from traffic.handoff.orchestration import Dispatcher, Orchestration
from traffic.instance import Deployment, Pool
from traffic.model import model
from traffic.record.book import MOMENTS, Book
from traffic.release import Releases
from traffic.request import Prefix

US = 10**6
MS = 10**9
DELAY = 20 * US
WIRE = 5 * US
LLAMA = model("Llama-3.1-8B")
DEEPSEEK = model("DeepSeek-V3")
H200 = gpu("H200-SXM")


class Line:
    """An emulator in which every flow takes the same time."""

    def __init__(self) -> None:
        self._under_way: list[tuple[int, int, int]] = []

    def submit(self, flows: NDArray[np.void]) -> None:
        for row in flows:
            finish = int(row["release_ps"]) + WIRE
            heappush(self._under_way, (finish, int(row["flow"]), int(row["handoff"])))

    def advance(self, until_ps: int) -> Advance:
        done = [heappop(self._under_way)] if self._under_way else []
        now = done[0][0] if done else until_ps
        while self._under_way and self._under_way[0][0] == now:
            done.append(heappop(self._under_way))
        return Advance(now, np.array([(flow, h, at) for at, flow, h in done], COMPLETION))

    def observe(self) -> Table:
        return {}

    def telemetry(self) -> Telemetry:
        return Telemetry({}, {})


def deployment(
    *,
    tp: tuple[int, int] = (1, 1),
    dp: tuple[int, int] = (1, 1),
    decode: int = 1,
    kind: str = "Llama-3.1-8B",
    servers: dict[int, int] | None = None,
    **how: Any,
) -> Deployment:
    p, d = tp
    pools = (
        Pool((tuple(range(p)),), model(kind), H200, p, dp=dp[0]),
        Pool(
            tuple(tuple(range(100 + i * d, 100 + i * d + d)) for i in range(decode)),
            model(kind),
            H200,
            d,
            dp=dp[1],
        ),
    )
    return Deployment(*pools, Handoff(**how), servers or {})


class Run:
    """Hand-offs decided at given times, with every moment that came of them."""

    def __init__(self, made: Deployment, prefix: Prefix | None = None) -> None:
        self.line = Line()
        self.book = Book(self.line, 64)
        self.releases = Releases(made, self.book, seed=1, delay_ps=DELAY, prefix=prefix)
        self.made = made
        self.ready: dict[int, int] = {}

    def send(self, request: int, now: int, *, decode: int = 0, tokens: int = 550) -> None:
        how, kind = self.made.handoff, self.made.prefill.model
        parts = [(now + DELAY, all_layers(kind))]
        if how.layer_wise:
            parts = [
                (now + DELAY + at, chunk.layers)
                for at, chunk in enumerate(chunks(kind, how.layers_per_chunk))
            ]
        if how.pull:
            parts = [(now + 2 * DELAY + 3 * US, all_layers(kind))]
        self.releases.send(request, tokens, (0, decode), parts, now)

    def go(self) -> "Run":
        while self.releases.under_way:
            for request, at in self.releases.ready(self.line.advance(10**15).completions):
                self.ready[request] = at
        return self

    def moments(self, request: int = 0) -> dict[str, int]:
        return {name: int(self.book.moments[name][request]) for name in MOMENTS}


def lone(now: int = 7, **how: Any) -> tuple[Run, dict[str, int]]:
    run = Run(deployment(**how))
    run.send(0, now)
    run.go()
    return run, run.moments()


def test_without_orchestration_a_hand_off_is_its_transfer_and_a_control_delay() -> None:
    run, at = lone()
    assert list(at.values()) == [7, 7 + DELAY, 7 + DELAY, 7 + DELAY + WIRE, 7 + DELAY + WIRE]
    assert run.ready == {0: at["arrived_ps"]}


def test_a_dispatch_puts_the_release_off_by_itself() -> None:
    _, at = lone(orchestration=Orchestration(dispatch_ps=32 * MS))
    assert at["admitted_ps"] == 7
    assert at["handoff_release_ps"] == 7 + 32 * MS + DELAY


def test_the_report_of_197_ms_with_a_transfer_of_29_can_be_told_part_by_part() -> None:
    # vllm-project/vllm#51919: 197 ms in all, 29 of them transfer, 58 the first decode step;
    # vllm-project/router#207: 32 ms of dispatch. What is left, 78 ms, waits for step boundaries.
    how = Orchestration(dispatch_ps=32 * MS, align=True)
    run = Run(deployment(orchestration=how))
    run.releases.boundary = lambda _, at: -(-at // (110 * MS)) * 110 * MS
    run.send(0, 0)
    run.go()
    at = run.moments()
    waited = at["handoff_release_ps"] - at["admitted_ps"]
    assert waited == 110 * MS + DELAY
    assert waited - 32 * MS - DELAY == 78 * MS
    assert 197 - 29 - 58 - 32 == 78


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 100), min_size=1, max_size=30), st.integers(1, 4))
def test_routers_dispatch_first_come_first_served_and_none_idles_while_one_waits(
    arrivals: list[int], routers: int
) -> None:
    how = Orchestration(dispatch_ps=10, routers=routers)
    router = Dispatcher(how)
    free = [0] * routers
    for now in sorted(arrivals):
        free.sort()
        free[0] = max(free[0], now) + 10
        assert router.dispatched((0, 0), now) == free[0]


def test_a_pair_shakes_hands_once_and_whoever_comes_meanwhile_waits_for_it() -> None:
    run = Run(deployment(decode=2, orchestration=Orchestration(handshake_ps=2000 * MS)))
    for request, now in enumerate((0, MS, 3000 * MS)):
        run.send(request, now)
    run.send(3, 3000 * MS, decode=1)
    run.go()
    release = [run.moments(r)["handoff_release_ps"] - DELAY for r in range(4)]
    assert release == [2000 * MS, 2000 * MS, 3000 * MS, 5000 * MS]


def test_a_transfer_is_posted_at_a_step_boundary_of_its_decode_instance() -> None:
    run = Run(deployment(decode=2, orchestration=Orchestration(align=True)))
    asked = []

    def boundary(instance: int, at: int) -> int:
        asked.append((instance, at))
        return at + 3 * MS

    run.releases.boundary = boundary
    run.send(0, 5, decode=1)
    run.go()
    assert asked == [(1, 5)]
    assert run.moments()["handoff_release_ps"] == 5 + 3 * MS + DELAY


def test_metadata_goes_before_a_pushed_transfer_and_a_notification_after_it() -> None:
    run, at = lone(now=0, orchestration=Orchestration(message_bytes=1024))
    asked, moved, told = run.book.table()
    assert (asked["source"], asked["destination"], asked["bytes"]) == (100, 0, 1024)
    assert (told["source"], told["destination"], told["bytes"]) == (0, 100, 1024)
    assert asked["handoff"] == told["handoff"] == -1
    assert moved["handoff"] == 0
    step = DELAY + WIRE
    assert asked["release_ps"] == DELAY
    assert moved["release_ps"] == at["handoff_release_ps"] == step + DELAY
    assert told["release_ps"] == at["arrived_ps"] + DELAY == 2 * step + DELAY
    assert run.ready == {0: 3 * step}


def test_nobody_waits_for_the_notification_of_a_reader() -> None:
    run, at = lone(now=0, direction="pull", orchestration=Orchestration(message_bytes=512))
    asked, moved, told = run.book.table()
    assert (asked["source"], asked["destination"]) == (0, 100)
    assert (told["source"], told["destination"]) == (100, 0)
    assert moved["release_ps"] == DELAY + WIRE + 2 * DELAY + 3 * US
    assert run.ready == {0: at["arrived_ps"]}
    assert told["release_ps"] == at["arrived_ps"] + DELAY
    assert not run.releases.under_way


def test_every_pair_of_ranks_exchanges_messages() -> None:
    run, _ = lone(tp=(2, 4), orchestration=Orchestration(message_bytes=64))
    rows = run.book.table()
    asked = rows[:4]
    assert asked["destination"].tolist() == [0, 0, 1, 1]
    assert asked["source"].tolist() == [100, 101, 102, 103]
    assert len(rows) == 12
    assert rows["flow"].tolist() == list(range(12))


def test_gpus_of_a_server_share_its_copies_and_those_of_different_servers_do_not() -> None:
    rate = 8 * 10**12  # 1 ps a byte
    size = LLAMA.kv_bytes(550)
    together, apart = {0: 0, 1: 0}, {0: 0, 1: 1}
    for servers, share in ((together, size), (apart, size // 2)):
        run, at = lone(now=0, tp=(2, 1), servers=servers, staging="host", copy_bps=rate)
        assert at["handoff_release_ps"] == DELAY + share
        assert at["scattered_ps"] == at["arrived_ps"] + size  # one receiver takes it all
        assert run.ready == {0: at["scattered_ps"]}


def test_hand_offs_wait_for_the_copies_of_one_another() -> None:
    rate = 8 * 10**12
    size = LLAMA.kv_bytes(550)
    for staging in ("host", "gpu"):
        run = Run(deployment(staging=staging, copy_bps=rate))
        for request in range(3):
            run.send(request, 0)
        run.go()
        released = [run.moments(r)["handoff_release_ps"] for r in range(3)]
        assert released == [DELAY + size * (r + 1) for r in range(3)]
        arrived = released[0] + WIRE
        assert [run.ready[r] for r in range(3)] == [arrived + size * (r + 1) for r in range(3)]


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(1, 30)), min_size=1, max_size=40))
def test_a_lane_does_one_copy_at_a_time_and_fills_its_gaps(asked: list[tuple[int, int]]) -> None:
    lane = Lane()
    spans = [(end - took, end, at) for at, took in asked for end in [lane.book(at, took, 0)]]
    busy = sorted((start, end) for start, end, _ in spans)
    assert all(one[1] <= other[0] for one, other in pairwise(busy))
    assert all(start >= at for start, _, at in spans)
    assert max(end for _, end in busy) <= max(at for at, _ in asked) + sum(t for _, t in asked)


def test_a_copy_that_is_over_holds_nobody_up() -> None:
    copier = Copier(8 * 10**12, {})
    assert copier.copied([5], [100], 0, 0) == {5: 100}
    assert copier.copied([5], [100], 50, 50) == {5: 200}
    assert copier.copied([5], [100], 900, 900) == {5: 1000}


@pytest.mark.parametrize("kind", ["DeepSeek-V3", "Llama-3.1-8B"])
def test_data_parallel_ranks_take_requests_in_turn_and_only_the_owner_receives(kind: str) -> None:
    made = deployment(kind=kind, tp=(8, 8), dp=(1, 4))
    run = Run(made)
    for request in range(5):
        run.send(request, 0)
    run.go()
    rows = run.book.table()
    size = made.prefill.kv_bytes(550)
    for request in range(5):
        mine = rows[rows["handoff"] == request]
        owner = 2 * (request % 4)
        assert set(mine["destination"].tolist()) == {100 + owner, 101 + owner}
        # The latent goes whole to each of the two ranks of the owner; heads are shared out.
        copies = 2 if kind == "DeepSeek-V3" else 1
        assert int(mine["bytes"].sum()) == copies * size


def test_data_parallel_attention_keeps_one_latent_a_group_and_so_more_of_them() -> None:
    one = deployment(kind="DeepSeek-V3", tp=(8, 8)).decode.kv_capacity_bytes
    four = deployment(kind="DeepSeek-V3", tp=(8, 8), dp=(1, 4)).decode.kv_capacity_bytes
    assert four == 4 * one
    plain = deployment(kind="Llama-3.1-8B", tp=(8, 8)).decode.kv_capacity_bytes
    assert deployment(kind="Llama-3.1-8B", tp=(8, 8), dp=(1, 4)).decode.kv_capacity_bytes == plain
    costs = [
        deployment(kind="DeepSeek-V3", tp=(8, 8), dp=(1, n)).decode.decode_cost for n in (1, 4)
    ]
    assert costs[0].base_ps(8) == costs[1].base_ps(8)
    assert costs[0].kv_scaled > costs[1].kv_scaled  # fewer bytes of latent a rank
    with pytest.raises(ComputeError, match="dp 3: 8 ranks do not divide"):
        deployment(tp=(8, 8), dp=(1, 3))


def shared(count: int, blocks: list[list[int]], tokens: int = 512) -> Prefix:
    flat = [block for row in blocks for block in row]
    first = np.cumsum([0, *(len(row) for row in blocks)]).astype(np.int64)
    first = np.append(first, np.full(count + 1 - len(first), first[-1])).astype(np.int64)
    return Prefix(first, np.array(flat, np.int64), tokens)


def test_only_blocks_that_the_destination_does_not_hold_are_moved() -> None:
    # Three prompts of 1,100 tokens that share their first two blocks of 512.
    prefix = shared(64, [[1, 2, 3], [1, 2, 4], [1, 2, 5]])
    run = Run(deployment(decode=2, cache_bytes=10**12), prefix)
    for request, decode in enumerate((0, 0, 1)):
        run.send(request, request * 1000 * MS, decode=decode, tokens=1100)
        run.go()
    moved = run.book.table()["bytes"].tolist()
    assert moved == [LLAMA.kv_bytes(1100), LLAMA.kv_bytes(1100 - 1024), LLAMA.kv_bytes(1100)]


def test_a_prompt_that_is_held_whole_still_moves_its_last_block() -> None:
    prefix = shared(64, [[1, 2], [1, 2]])
    run = Run(deployment(cache_bytes=10**12), prefix)
    for request in range(2):
        run.send(request, request * 1000 * MS, tokens=1024)
        run.go()
    assert run.book.table()["bytes"].tolist() == [LLAMA.kv_bytes(1024), LLAMA.kv_bytes(512)]


def test_a_full_cache_forgets_the_least_recently_used_and_tails_before_heads() -> None:
    cache = BlockCache(3)
    cache.keep([1, 2, 3])
    cache.keep([1, 7])
    assert [cache.held([1, 2, 3]), cache.held([1, 7])] == [2, 2]
    cache.keep([8, 9])
    assert cache.held([1, 2]) == 1


@given(st.integers(1, 10**6), st.integers(0, 3000), st.integers(1, 2048))
def test_missing_tokens_are_at_least_the_last_and_at_most_all(
    tokens: int, held: int, block: int
) -> None:
    missing = missing_tokens(tokens, held, block)
    assert 1 <= missing <= tokens
    assert (tokens - missing) % block == 0


WAYS: list[dict[str, Any]] = [
    {},
    {"when": "layer_wise", "layers_per_chunk": 11},
    {"direction": "pull"},
    {"staging": "host", "copy_bps": 10**13},
    {"when": "layer_wise", "layers_per_chunk": 7, "staging": "gpu", "copy_bps": 10**13},
]


@settings(max_examples=60, deadline=None)
@given(
    how=st.sampled_from(WAYS),
    orchestration=st.builds(
        Orchestration,
        dispatch_ps=st.integers(1, 5 * MS),
        routers=st.integers(0, 2),
        handshake_ps=st.integers(0, 5 * MS),
        message_bytes=st.sampled_from([0, 256]),
    ),
    tp=st.sampled_from([(1, 1), (2, 4), (4, 2)]),
    times=st.lists(st.integers(0, 20 * MS), min_size=1, max_size=12),
)
def test_moments_never_run_backwards_and_every_byte_is_sent_once_in_every_way(
    how: dict[str, Any], orchestration: Orchestration, tp: tuple[int, int], times: list[int]
) -> None:
    run = Run(deployment(tp=tp, orchestration=orchestration, servers={0: 0, 1: 0}, **how))
    pending = sorted(times)
    for request, now in enumerate(pending):
        run.send(request, now)
    run.go()
    rows = run.book.table()
    for request in range(len(pending)):
        order = list(run.moments(request).values())
        assert order == sorted(order)
        assert order[0] >= 0
        assert run.ready[request] >= order[-1]
        mine = rows[rows["handoff"] == request]
        assert int(mine["bytes"].sum()) == LLAMA.kv_bytes(550)
    assert rows["flow"].tolist() == list(range(len(rows)))


def test_delays_that_cannot_be_are_refused() -> None:
    with pytest.raises(HandoffError, match=r"orchestration\.dispatch .*negative"):
        Orchestration(dispatch_ps=-1)
    with pytest.raises(HandoffError, match="routers 3: without a dispatch time"):
        Orchestration(routers=3)
    with pytest.raises(HandoffError, match="messages of -1B"):
        Orchestration(message_bytes=-1)
    with pytest.raises(HandoffError, match=r"handoff\.cache -1B"):
        Handoff(cache_bytes=-1)
