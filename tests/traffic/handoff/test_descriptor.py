"""Descriptors: counted by the engine's layout, and bandwidth against block size as measured."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulate.discipline import Discipline
from emulate.packet import PacketEmulator
from emulate.transport import Transport
from topo.fabric import Fabric, Switch
from topo.route import equal_cost
from traffic.error import HandoffError
from traffic.handoff.descriptor import (
    block_descriptors,
    effective_bandwidth,
    fit,
    row_descriptors,
    runs,
)
from traffic.handoff.flow import Handoff, flows
from traffic.handoff.layer import all_layers, chunks
from traffic.model import Model, model, models
from traffic.replay import replay

GB = 1e9

# GB/s by descriptor size. uccl-project/uccl#677: NIXL, 1,000 descriptors a batch.
UCCL = {4096: 3.8, 8192: 5.9, 16384: 9.6, 32768: 11.5, 65536: 12.05}
# LMCache/LMCache#4161, 256 descriptors, one rail: three stacks on the same wire.
DIRECT = {1024: 3.779, 4096: 7.983, 16384: 10.8, 65536: 11.861, 262144: 12.157}
NIXL_UCCL = {1024: 3.671, 4096: 7.868, 16384: 10.7, 65536: 11.832, 262144: 12.147}
NIXL_UCX = {1024: 0.715, 4096: 4.688, 16384: 11.667, 65536: 12.091, 262144: 12.217}


def misses(
    points: dict[int, float], small: int, large: int, *, overlapped: bool
) -> dict[int, float]:
    """Relative error of the law through two points at all others."""
    issue, rate = fit(
        (small, points[small] * GB), (large, points[large] * GB), overlapped=overlapped
    )
    return {
        block: effective_bandwidth(block, issue, rate, overlapped=overlapped) / (found * GB) - 1
        for block, found in points.items()
        if block not in (small, large)
    }


@pytest.mark.parametrize(
    ("points", "small", "within"),
    [(UCCL, 4096, 0.15), (DIRECT, 1024, 0.03), (NIXL_UCCL, 1024, 0.03)],
    ids=["uccl#677", "LMCache#4161 direct", "LMCache#4161 NIXL over UCCL"],
)
def test_the_serial_law_through_two_points_predicts_the_others(
    points: dict[int, float], small: int, within: float
) -> None:
    errors = misses(points, small, max(points), overlapped=False)
    assert len(errors) == 3
    assert max(map(abs, errors.values())) < within


def test_the_overlapped_law_predicts_what_ucx_reaches_from_4_kib_on() -> None:
    points = {block: found for block, found in NIXL_UCX.items() if block >= 4096}
    errors = misses(points, 4096, 262144, overlapped=True)
    assert set(errors) == {16384, 65536}
    assert max(map(abs, errors.values())) < 0.15


def test_no_law_in_which_more_bytes_take_no_less_time_can_give_the_1_kib_point_of_ucx() -> None:
    # Four times the bytes bring 6.6 times the bandwidth: a descriptor of 1 KiB takes longer than
    # one of 4 KiB. Within 15 % of both, the smaller would still have to take a fifth longer, so no
    # issue cost, floor or overlap, whatever its parameters, gives the two of them.
    each_ns = {block: block / found for block, found in NIXL_UCX.items()}
    least_at_1_kib, most_at_4_kib = each_ns[1024] / 1.15, each_ns[4096] / 0.85
    assert least_at_1_kib > 1.2 * most_at_4_kib
    for overlapped in (True, False):
        assert misses(NIXL_UCX, 4096, 262144, overlapped=overlapped)[1024] > 0.5
        assert misses(NIXL_UCX, 1024, 262144, overlapped=overlapped)[4096] < -0.3


def test_all_other_pairs_of_reported_points_leave_room_for_such_a_law() -> None:
    for points in (UCCL, DIRECT, NIXL_UCCL, {b: f for b, f in NIXL_UCX.items() if b > 1024}):
        sizes = sorted(points)
        for small, large in pairwise(sizes):
            assert small / points[small] / 1.15 < large / points[large] / 0.85


def test_each_law_misses_where_the_other_holds() -> None:
    assert max(misses(UCCL, 4096, 65536, overlapped=True).values()) > 0.2
    assert max(misses(DIRECT, 1024, 262144, overlapped=True).values()) > 0.4
    assert misses(NIXL_UCX, 4096, 262144, overlapped=False)[16384] < -0.2


@given(st.floats(1, 1e9), st.floats(1, 1e8), st.floats(1e6, 1e13))
def test_overlap_gains_at_most_a_factor_of_two_and_never_beats_the_wire(
    block: float, issue: float, rate: float
) -> None:
    serial = effective_bandwidth(block, issue, rate, overlapped=False)
    overlapped = effective_bandwidth(block, issue, rate)
    assert serial <= overlapped * (1 + 1e-9)
    assert overlapped <= min(rate, 2 * serial) * (1 + 1e-9)


@pytest.mark.parametrize("overlapped", [True, False])
def test_a_fit_gives_back_what_made_its_points(overlapped: bool) -> None:
    points = [
        (block, effective_bandwidth(block, 500_000, 12.5e9, overlapped=overlapped))
        for block in (1024, 2**20)
    ]
    issue, rate = fit(points[0], points[1], overlapped=overlapped)
    assert issue == pytest.approx(500_000, rel=1e-9)
    assert rate == pytest.approx(12.5e9, rel=1e-9)


@pytest.mark.parametrize("overlapped", [True, False])
def test_the_packet_engine_overlaps_and_keeps_the_serial_law_with_the_wire_time_added(
    overlapped: bool,
) -> None:
    fabric = Fabric("pair")
    switch = fabric.add_switch("s", tier=1, switch=Switch())
    hosts = [fabric.add_host(f"h{i}") for i in (0, 1)]
    for host in hosts:
        fabric.connect(host, switch, rate_bps=100 * 10**9)
    for block in (1024, 4096, 8192, 16384, 65536):
        wire = 12.5e9 * block / (block + 82 * -(-block // 4096))
        issue = 1_000_000 if overlapped else 1_000_000 + round(block / wire * 1e12)
        transport = Transport(control="none", issue_ps=issue)
        rows = flows(
            Handoff(block_bytes=block),
            model("Llama-3.1-8B"),
            kv_bytes=2**23,
            source=hosts[:1],
            destination=hosts[1:],
            request=0,
            handoff_id=0,
            first_flow=0,
            release_ps=0,
            seed=0,
        )
        emulator = PacketEmulator(fabric, equal_cost(fabric), Discipline(), transport, seed=0)
        (finish,) = replay(rows, emulator).tolist()
        expected = effective_bandwidth(block, 1_000_000, wire, overlapped=overlapped)
        # The first issue, one stored frame and the cables come on top of the long transfer.
        assert 2**23 / finish * 1e12 == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("name", "tokens", "block", "count"),
    [
        ("Llama-3.1-8B", 1000, 16, 32 * 2 * 63),
        ("Qwen3-32B", 5000, 64, 64 * 2 * 79),
        ("DeepSeek-V3", 1000, 64, 61 * 16),
        ("gpt-oss-120b", 550, 16, 18 * 2 * 35 + 18 * 2 * 8),  # the window holds 128 tokens
    ],
)
def test_descriptors_are_regions_times_blocks(
    name: str, tokens: int, block: int, count: int
) -> None:
    found = model(name)
    assert block_descriptors(found, all_layers(found), tokens, block) == count


def test_five_thousand_tokens_in_blocks_of_16_take_tens_of_thousands_of_descriptors() -> None:
    # vllm-project/vllm#50913: some 5,000 tokens, "tens of thousands" of about 8 KB; its mean of
    # 1,785 descriptors at block 64 is reached with most borders merged.
    found = model("Qwen3-32B")
    assert 20_000 < block_descriptors(found, all_layers(found), 5000, 16) < 60_000


def test_some_thirty_thousand_requests_for_a_sliced_prompt_become_some_tens_when_staged() -> None:
    # sgl-project/sglang#19890: about 30,000 a request without staging, about 1000 times fewer with.
    found = model("Llama-3.1-8B")
    rows = row_descriptors(found, all_layers(found), 500)
    assert rows == 32_000
    assert rows / all_layers(found).total == 1000


@given(st.integers(1, 10**6), st.integers(1, 4096), st.floats(0, 1))
def test_merging_leaves_between_one_descriptor_and_one_a_block(
    tokens: int, block: int, merged: float
) -> None:
    blocks = -(-tokens // block)
    assert runs(tokens, block) == blocks
    assert runs(tokens, block, 1) == 1
    assert 1 <= runs(tokens, block, merged) <= blocks
    borders = blocks - runs(tokens, block, merged)
    assert borders == pytest.approx(merged * (blocks - 1), abs=1.5)


@given(st.sampled_from(list(models().values())), st.integers(1, 200), st.integers(1, 50_000))
def test_chunks_of_layers_hold_the_whole_cache_once(found: Model, size: int, tokens: int) -> None:
    cut = chunks(found, size)
    assert sum(chunk.layers.kv_bytes(found, tokens) for chunk in cut) == found.kv_bytes(tokens)
    assert sum(block_descriptors(found, chunk.layers, tokens, 16) for chunk in cut) == (
        block_descriptors(found, all_layers(found), tokens, 16)
    )
    done = [chunk.done for chunk in cut]
    assert done == sorted(done)
    assert done[-1] == all_layers(found).total
    assert all(chunk.layers.total == size for chunk in cut[:-1])


def test_blocks_of_no_tokens_and_laws_without_a_rate_are_refused() -> None:
    with pytest.raises(HandoffError, match="550 tokens in blocks of 0: write at least 1"):
        runs(550, 0)
    with pytest.raises(HandoffError, match="0 B a descriptor"):
        effective_bandwidth(0, 1, 1)
    with pytest.raises(HandoffError, match="the larger one faster"):
        fit((4096, 2e9), (8192, 1e9), overlapped=True)
    with pytest.raises(HandoffError, match="no issue cost and wire rate give both"):
        fit((4096, 1e9), (8192, 8e9), overlapped=False)
    with pytest.raises(HandoffError, match="layers_per_chunk 0: write at least 1"):
        chunks(model("Llama-3.1-8B"), 0)
    with pytest.raises(HandoffError, match="hand-off of 0 tokens"):
        flows(
            Handoff(block_tokens=16),
            model("Llama-3.1-8B"),
            kv_bytes=10,
            source=[0],
            destination=[1],
            request=0,
            handoff_id=0,
            first_flow=0,
            release_ps=0,
            seed=0,
        )
