"""Prefix blocks in tiers: who leaves, where to, and what holds for any sequence of prompts."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traffic.cache.hierarchy import Hierarchy
from traffic.cache.holding import Held, Holding
from traffic.cache.shelf import Frequent
from traffic.cache.tier import CacheError, Caching, Tier
from traffic.cache.worth import Worth
from traffic.compute.step import Chunk

US = 10**6


class Flat:
    """A step time in which every token of a prompt takes a microsecond."""

    def prefill_ps(self, tokens: int) -> int:
        return tokens * US

    def steps_ps(self, batch: int, context: int, read: int, steps: int) -> int:
        return steps

    def mixed_ps(self, batch: int, context: int, read: int, chunks: Sequence[Chunk]) -> int:
        return sum(more for _, more in chunks) * US


class Steep(Flat):
    """One in which a prompt takes the square of its tokens: later blocks are worth more."""

    def prefill_ps(self, tokens: int) -> int:
        return tokens * tokens * US


def byte_ps(move_ps: int) -> int:
    """The rate, bit/s, at which one byte takes so long."""
    return 8 * 10**12 // move_ps


def hierarchy(
    *sizes: int,
    eviction: str = "lru",
    lifetime: int = 0,
    move_ps: int = 1,
    ttft: int = 0,
    time: type[Flat] = Flat,
) -> Hierarchy:
    """One instance with blocks of one token and one byte; its first tier is HBM."""
    tiers = tuple(
        Tier(kind, size, 0 if kind == "hbm" else byte_ps(move_ps))
        for kind, size in zip(("hbm", "dram", "ssd"), sizes, strict=False)
    )
    worth = Worth(time(), 1, 1, ttft) if eviction == "cost" else None
    rules = Caching(tiers, eviction=eviction, lifetime_ps=lifetime)
    return Hierarchy(rules, 1, Holding(1), 0, worth)


def test_the_least_recently_used_go_down_a_tier_and_out_and_tails_before_roots() -> None:
    one = hierarchy(2, 1)
    assert [left.block for left in one.keep([1, 2, 3, 4], 0)] == [4]
    assert one.where == {1: 0, 2: 0, 3: 1}
    assert [left.block for left in one.keep([1, 5], 1)] == [3]
    assert one.where == {1: 0, 5: 0, 2: 1}
    assert one.keep([1, 2], 2) == []  # 2 comes up again, and 5 goes down
    assert one.where == {1: 0, 2: 0, 5: 1}
    assert (one.moved_out, one.moved_in) == ([4, 2], [0, 4])


def test_rarely_used_blocks_leave_first_until_often_used_ones_have_aged() -> None:
    shelf = Frequent()
    shelf.add(1, 3)
    shelf.add(2, 1)
    assert shelf.pop() == 2  # the clock shows 1
    shelf.add(3, 1)
    shelf.add(4, 1)
    assert [shelf.pop(), shelf.pop()] == [3, 4]  # of rank 2, in the order of coming
    shelf.add(5, 1)
    assert [shelf.pop(), shelf.pop()] == [1, 5]  # 1 was used three times, and now ranks the same


def test_a_move_pays_when_the_chance_of_reuse_times_the_saving_exceeds_it() -> None:
    worth = Worth(Flat(), 1, 1)
    third = US // 3  # of what a block takes to compute: 1/2 (1 - m) > m below a third
    assert worth.admits(Tier("ssd", 9, byte_ps(third - 1000)), 0, 0, uses=1)
    assert not worth.admits(Tier("ssd", 9, byte_ps(third + 1000)), 0, 0, uses=1)
    assert worth.admits(Tier("ssd", 9, byte_ps(third + 1000)), 0, 0, uses=2)  # 2/3 (1 - m) > m


def test_a_root_is_worth_as_much_as_the_deepest_block_that_hangs_on_it() -> None:
    worth = Worth(Steep(), 1, 1)  # blocks take 1, 3, 5, .. us
    disk = Tier("ssd", 9, byte_ps(US))
    assert not worth.admits(disk, 0, 0, uses=1)
    assert not worth.admits(disk, 0, 1, uses=1)  # (3 - 1) / 2 = 1, which is no gain
    assert worth.admits(disk, 0, 2, uses=1)


def test_no_block_goes_where_its_prefix_could_not_be_loaded_within_the_objective() -> None:
    worth = Worth(Flat(), 1, 1, ttft_ps=10 * 1000)
    ssd = Tier("ssd", 9, byte_ps(1000))
    assert worth.admits(ssd, 9, 9, uses=1)
    assert not worth.admits(ssd, 10, 10, uses=1)
    one = hierarchy(1, 9, eviction="cost", move_ps=1000, ttft=2000)
    assert [left.block for left in one.keep([1, 2, 3], 0)] == [3]
    assert one.where == {1: 0, 2: 1}


def test_a_full_hbm_sends_a_newcomer_down_that_ranks_below_all_it_holds() -> None:
    one = hierarchy(1, 5, eviction="cost")
    for now in range(3):
        one.keep([1], now)
    one.keep([2], 3)
    assert one.where == {1: 0, 2: 1}
    lru = hierarchy(1, 5)
    lru.keep([1], 0)
    lru.keep([2], 1)
    assert lru.where == {1: 1, 2: 0}


def test_a_block_lives_for_its_lifetime_after_its_last_use_in_any_tier() -> None:
    one = hierarchy(1, 5, lifetime=100)
    one.keep([1, 2], 0)
    one.keep([3], 50)
    assert one.where == {3: 0, 1: 1, 2: 1}
    assert one.expire(99) == 100
    assert len(one.where) == 3
    assert one.expire(100) == 150
    assert one.where == {3: 0}
    assert (one.ended, one.held(0), one.held(1)) == (2, 1, 0)


PROMPTS = st.lists(
    st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=7), st.integers(0, 40)),
    min_size=1,
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(
    prompts=PROMPTS,
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    eviction=st.sampled_from(["lru", "cost"]),
    lifetime=st.sampled_from([0, 1, 60]),
    move_ps=st.sampled_from([1, US // 4, US // 2, 2 * US]),
    ttft=st.sampled_from([0, US]),
    time=st.sampled_from([Flat, Steep]),
)
def test_tiers_never_overflow_and_no_tail_is_held_without_its_root(
    prompts: list[tuple[list[int], int]],
    sizes: list[int],
    eviction: str,
    lifetime: int,
    move_ps: int,
    ttft: int,
    time: type[Flat],
) -> None:
    one = hierarchy(
        *sizes, eviction=eviction, lifetime=lifetime, move_ps=move_ps, ttft=ttft, time=time
    )
    number: dict[tuple[int, ...], int] = {}
    came, gone, now = 0, 0, 0
    for path, pause in prompts:
        now += pause
        one.expire(now)
        blocks = [number.setdefault(tuple(path[: i + 1]), len(number)) for i in range(len(path))]
        came += sum(block not in one.where for block in blocks)
        gone += len(one.keep(blocks, now))
        assert [one.held(tier) for tier in range(len(sizes))] == [
            list(one.where.values()).count(tier) for tier in range(len(sizes))
        ]
        assert all(one.held(tier) <= size for tier, size in enumerate(sizes))
        assert len(one.where) == came - gone - one.ended
        held = {tuple(key) for key, block in number.items() if block in one.where}
        assert all(key[:-1] in held for key in held if len(key) > 1)


@settings(max_examples=100, deadline=None)
@given(
    held=st.lists(st.sets(st.integers(0, 12)), min_size=1, max_size=40),
    blocks=st.lists(st.integers(0, 12), max_size=12, unique=True),
)
def test_the_index_tells_how_many_first_blocks_every_instance_holds(
    held: list[set[int]], blocks: list[int]
) -> None:
    index = Holding(len(held))
    for instance, mine in enumerate(held):
        for block in mine:
            index.add(block, instance)
    expected = [
        next((i for i, block in enumerate(blocks) if block not in mine), len(blocks))
        for mine in held
    ]
    assert index.matched(blocks).tolist() == expected
    for instance, mine in enumerate(held):
        for block in mine:
            index.remove(block, instance)
    assert not len(index)


def test_a_view_without_caches_or_pool_holds_nothing() -> None:
    view = Held((2, 3), None, None, None)
    assert view.matched([1]).tolist() == [0, 0]
    assert view.matched_decode([1]).tolist() == [0, 0, 0]
    assert view.best([1]) == 0
    assert np.array_equal(view.matched([]), [0, 0])


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: Tier("tape", 1), "cache tier tape: not known; write one of hbm, dram, ssd"),
        (lambda: Tier("dram", 1), "cache tier dram: needs the rate"),
        (lambda: Tier("hbm", 1, 1), "cache tier hbm: a hit there loads nothing"),
        (lambda: Tier("hbm", 0), "cache tier hbm: size 0B; write e.g. 100GB"),
        (lambda: Caching(()), "cache.tiers none: write at least one"),
        (
            lambda: Caching((Tier("dram", 1, 1), Tier("hbm", 1))),
            "cache.tiers dram, hbm: write at least one, each once, in the order hbm, dram",
        ),
        (lambda: Caching((Tier("remote", 1),)), "cache tier remote: lies on storage hosts"),
        (lambda: Caching((Tier("hbm", 1),), eviction="fifo"), "cache.eviction 'fifo'"),
        (lambda: Caching((Tier("hbm", 1),), lifetime_ps=-1), "cache.lifetime -1 ps"),
        (lambda: Caching((Tier("hbm", 1),), priority=8), "cache.priority 8: write 0 to 7"),
        (
            lambda: Hierarchy(Caching((Tier("hbm", 9),)), 10, Holding(1), 0),
            "cache tier hbm: 9B hold no block of 10B; write more",
        ),
    ],
)
def test_caches_that_cannot_be_are_refused_in_one_line(made: object, says: str) -> None:
    assert callable(made)
    with pytest.raises(CacheError) as caught:
        made()
    assert str(caught.value).startswith(says)
