"""The table of tensor-parallel reshardings, flow by flow, and the laws behind it."""

from collections import Counter
from dataclasses import replace
from itertools import product
from math import gcd

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topo.fabric import Fabric, Role, Switch
from topo.route import equal_cost
from traffic.compute.gpu import gpu
from traffic.handoff.flow import Handoff, flows
from traffic.handoff.reshard import Move, check_pair, moves, rank_pairs
from traffic.instance import Deployment, Pool, latencies, links
from traffic.model import Model, model, models

LLAMA = model("Llama-3.1-70B")  # 8 KV heads
DEEPSEEK = model("DeepSeek-V3")  # MLA
S = 8_000_000


def told(found: list[Move]) -> list[tuple[int, int, int]]:
    return [(move.source, move.destination, move.bytes) for move in found]


def test_equal_degrees_pair_rank_to_rank_with_the_same_share() -> None:
    assert told(moves(LLAMA, S, 4, 4)) == [(i, i, S // 4) for i in range(4)]


def test_more_decode_ranks_read_their_slice_and_fan_out_of_a_prefill_rank() -> None:
    found = moves(LLAMA, S, 2, 8)
    assert told(found) == [(r // 4, r, S // 8) for r in range(8)]
    assert all(move.sliced for move in found)


def test_more_prefill_ranks_fall_in_on_a_decode_rank() -> None:
    found = moves(LLAMA, S, 8, 2)
    assert told(found) == [(i, i // 4, S // 8) for i in range(8)]
    assert all(move.sliced for move in found)


def test_decode_ranks_beyond_the_kv_heads_each_need_a_whole_head() -> None:
    assert told(moves(LLAMA, S, 4, 16)) == [(r // 4, r, S // 8) for r in range(16)]
    assert told(moves(LLAMA, S, 16, 16)) == [(r, r, S // 8) for r in range(16)]
    found = moves(LLAMA, S, 8, 32)
    assert told(found) == [(r // 4, r, S // 8) for r in range(32)]
    assert not any(move.sliced for move in found)  # a head is a head on both sides


def test_prefill_ranks_beyond_the_kv_heads_send_each_head_once() -> None:
    found = moves(LLAMA, S, 32, 8, seed=3, request=5)
    assert [move.destination for move in found] == list(range(8))
    assert [move.source // 4 for move in found] == list(range(8))
    assert {move.bytes for move in found} == {S // 8}
    assert sum(move.bytes for move in moves(LLAMA, S, 32, 1)) == S
    assert [move.bytes for move in moves(LLAMA, S, 32, 16)] == [S // 8] * 16


def test_every_mla_decode_rank_gets_the_whole_latent_from_one_of_its_candidates() -> None:
    assert told(moves(DEEPSEEK, S, 4, 4)) == [(i, i, S) for i in range(4)]
    assert told(moves(DEEPSEEK, S, 2, 8)) == [(r // 4, r, S) for r in range(8)]
    found = moves(DEEPSEEK, S, 16, 4, seed=1, request=9)
    assert [(move.destination, move.bytes) for move in found] == [(r, S) for r in range(4)]
    assert [move.source // 4 for move in found] == [0, 1, 2, 3]
    assert not any(move.sliced for move in found)


def test_the_mla_source_is_drawn_evenly_and_by_seed_and_request_alone() -> None:
    drawn = Counter(moves(DEEPSEEK, S, 4, 1, seed=1, request=r)[0].source for r in range(4000))
    # Chi-square of 3 degrees of freedom lies below 21.1 but for 1 in 10,000.
    assert sum((count - 1000) ** 2 / 1000 for count in drawn.values()) < 21.1
    assert set(drawn) == {0, 1, 2, 3}
    assert moves(DEEPSEEK, S, 16, 4, seed=1, request=9) == moves(
        DEEPSEEK, S, 16, 4, seed=1, request=9
    )
    other = [moves(DEEPSEEK, S, 16, 4, seed=2, request=r) for r in range(8)]
    assert other != [moves(DEEPSEEK, S, 16, 4, seed=1, request=r) for r in range(8)]


PAIRS = [
    (found, p, d)
    for found in models().values()
    for p, d in product(found.tensor_parallel, repeat=2)
]
TWELVE = replace(LLAMA, name="twelve heads", q_heads=24, kv_heads=12, useful_tp=12)
PAIRS += [(TWELVE, p, d) for p, d in product(TWELVE.tensor_parallel, repeat=2)]


@settings(max_examples=300)
@given(case=st.sampled_from(PAIRS), tokens=st.integers(1, 200_000), request=st.integers(0, 10**6))
def test_every_decode_rank_receives_exactly_what_it_holds(
    case: tuple[Model, int, int], tokens: int, request: int
) -> None:
    found, p, d = case
    size = found.kv_bytes(tokens)
    table = moves(found, size, p, d, seed=7, request=request)
    received = [0] * d
    for move in table:
        received[move.destination] += move.bytes
        assert (move.source, move.destination) in rank_pairs(p, d)
    assert received == list(found.rank_bytes(size, d))
    # No byte reaches a rank twice: the sources of one rank hold different parts.
    copies = p // found.shards(p)
    parts = [(move.destination, move.source // copies) for move in table]
    assert len(set(parts)) == len(parts)
    assert all(move.bytes <= found.rank_bytes(size, p)[move.source] for move in table)


def test_heads_cut_four_ways_and_six_ways_meet_in_eight_overlaps() -> None:
    # 12 heads: prefill rank i holds heads 3 i .. 3 i + 2, decode rank r heads 2 r and 2 r + 1.
    head = 1_000_000
    found = moves(TWELVE, 12 * head, 4, 6)
    assert told(found) == [
        (0, 0, 2 * head),
        (0, 1, head),
        (1, 1, head),
        (1, 2, 2 * head),
        (2, 3, 2 * head),
        (2, 4, head),
        (3, 4, head),
        (3, 5, 2 * head),
    ]
    assert all(move.sliced for move in found)
    assert told(moves(TWELVE, 12 * head, 6, 4))[:3] == [
        (0, 0, 2 * head),
        (1, 0, head),
        (1, 1, head),
    ]


def test_copied_heads_on_16_and_24_ranks_move_whole_to_every_decode_rank() -> None:
    # Rank i of 16 holds head i // 2, rank r of 24 head r // 3: always one flow of a whole head.
    coder = model("Qwen3-Coder-480B-A35B")
    found = moves(coder, S, 16, 24, seed=1, request=2)
    assert [move.destination for move in found] == list(range(24))
    assert [move.source // 2 for move in found] == [r // 3 for r in range(24)]
    assert {move.bytes for move in found} == {S // 8}
    assert not any(move.sliced for move in found)


@given(p=st.integers(1, 64), d=st.integers(1, 64))
def test_so_many_pairs_of_ranks_overlap_as_p_and_d_less_their_common_divisor(
    p: int, d: int
) -> None:
    assert len(rank_pairs(p, d)) == p + d - gcd(p, d)
    assert len(set(rank_pairs(p, d))) == p + d - gcd(p, d)


@given(case=st.sampled_from(PAIRS), size=st.integers(1, 10**9))
def test_a_division_with_a_remainder_still_conserves_every_byte(
    case: tuple[Model, int, int], size: int
) -> None:
    found, p, d = case
    total = sum(move.bytes for move in moves(found, size, p, d))
    if p <= d:
        assert total == size * (d // found.shards(d))
    elif d <= found.shards(d):
        assert total == size


def test_no_byte_falls_between_the_edges_of_six_and_of_four_ranks() -> None:
    # 12 pieces of 27 bytes: 3 of 3 and 9 of 2; six ranks hold 2 pieces each, four hold 3.
    twelve = replace(LLAMA, kv_heads=12, q_heads=24, useful_tp=12)
    assert told(moves(twelve, 27, 6, 4)) == [
        *((0, 0, 6), (1, 0, 3)),
        *((1, 1, 2), (2, 1, 4)),
        *((3, 2, 4), (4, 2, 2)),
        *((4, 3, 2), (5, 3, 4)),
    ]


def test_flows_of_unequal_degrees_join_the_right_hosts_with_an_entropy_for_each() -> None:
    rows = flows(
        Handoff(layout="hnd"),
        LLAMA,
        kv_bytes=LLAMA.kv_bytes(100),
        source=[5, 6, 7, 8],
        destination=[20, 21],
        request=3,
        handoff_id=3,
        first_flow=11,
        release_ps=4,
        seed=1,
    )
    assert rows["source"].tolist() == [5, 6, 7, 8]
    assert rows["destination"].tolist() == [20, 20, 21, 21]
    assert rows["bytes"].tolist() == [LLAMA.kv_bytes(100) // 4] * 4
    assert rows["flow"].tolist() == [11, 12, 13, 14]
    assert len(set(rows["entropy"].tolist())) == 4
    assert rows["write"].all()


def test_the_farthest_pair_of_ranks_counts_and_an_island_cuts_the_pair_of_instances() -> None:
    fabric = Fabric("two leaves and a spine")
    shape = Switch(latency_ps=600_000)
    spine = fabric.add_switch("spine", tier=2, switch=shape)
    hosts = []
    for rack in (0, 1):
        leaf = fabric.add_switch(f"leaf{rack}", tier=1, switch=shape, rack=rack)
        fabric.connect(leaf, spine, rate_bps=400 * 10**9)
        for i in range(3):
            role = Role.PREFILL if rack == 0 else Role.DECODE
            hosts.append(fabric.add_host(f"h{rack}.{i}", rack=rack, role=role))
            fabric.connect(hosts[-1], leaf, rate_bps=400 * 10**9)
    a, b, c, d, e, f = hosts
    routes = equal_cost(fabric)
    assert links(routes, ((a,),), ((b, d),)).tolist() == [[4]]
    assert links(routes, ((a, d),), ((b,),)).tolist() == [[4]]
    assert links(routes, ((a,), (e,)), ((b, c), (d, f))).tolist() == [[2, 4], [4, 2]]
    near, far = latencies(fabric, routes, ((a,),), ((b, c), (d, f)))[0].tolist()
    frame = 98 * 20  # 98 bytes at 400 Gbit/s are 20 ps a byte
    delays = fabric.ports.delay_ps
    assert len(set(delays.tolist())) == 1
    assert near == 2 * (frame + int(delays[0])) + 600_000
    assert far == 4 * (frame + int(delays[0])) + 3 * 600_000


def test_a_deployment_takes_every_pair_of_degrees_that_the_table_has() -> None:
    card = gpu("H200-SXM")
    for p, d in ((4, 8), (8, 4), (16, 8), (4, 16)):
        one = Pool((tuple(range(p)),), LLAMA, card, p)
        other = Pool((tuple(range(100, 100 + d)),), LLAMA, card, d)
        assert Deployment(one, other).decode.tp == d
        check_pair(LLAMA, p, d)


@pytest.mark.parametrize(("p", "d"), [(2, 8), (8, 2), (8, 16), (16, 4)])
def test_a_slice_takes_a_descriptor_a_token_and_region_unless_staged_or_head_first(
    p: int, d: int
) -> None:
    def count(how: Handoff) -> list[int]:
        rows = flows(
            how,
            LLAMA,
            kv_bytes=LLAMA.kv_bytes(1000),
            source=range(p),
            destination=range(100, 100 + d),
            request=0,
            handoff_id=0,
            first_flow=0,
            release_ps=0,
            seed=0,
            tokens=1000,
        )
        return [int(count) for count in np.unique(rows["descriptors"])]

    sliced = LLAMA.shards(p) != LLAMA.shards(d)
    blocks = 80 * 2 * 63  # layers x K and V x blocks of 16 tokens
    assert count(Handoff(block_tokens=16)) == [80 * 2 * 1000 if sliced else blocks]
    assert count(Handoff(block_tokens=16, layout="hnd")) == [blocks]
    assert count(Handoff(block_tokens=16, staging="gpu", copy_bps=10**12)) == [80]
