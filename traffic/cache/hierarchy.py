"""The prefix blocks of one prefill instance, in tiers.

A block lies in one tier. When a prompt is computed all its whole blocks are in the first one; what
has to leave there goes down, tier by tier, and out of the last. With `Worth` a block passes by the
tiers that it does not pay to move to.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from topo.unit import size_text
from traffic.cache.holding import Holding
from traffic.cache.shelf import NEVER, Lifetime, shelf
from traffic.cache.tier import CacheError, Caching
from traffic.cache.worth import Worth

_ONCE: Final = (0, 0, 1)
"""Depth, reach and uses of a block where nobody asks for them."""


class Left(NamedTuple):
    """A block that its instance holds no more, and what `Worth.admits` asks about it."""

    block: int
    depth: int
    reach: int
    uses: int


class Hierarchy:
    """``instance`` of a pool; ``holding`` is the pool's index, which it keeps true.

    >>> from traffic.cache.tier import Tier
    >>> rules = Caching((Tier("hbm", 2), Tier("dram", 1, 8)))
    >>> one = Hierarchy(rules, 1, Holding(1), 0)
    >>> one.keep([1, 2, 3], now_ps=0), one.where
    ([], {3: 1, 2: 0, 1: 0})
    >>> [left.block for left in one.keep([4], now_ps=1)], one.where
    ([3], {2: 1, 1: 0, 4: 0})
    """

    def __init__(
        self,
        rules: Caching,
        block_bytes: int,
        holding: Holding,
        instance: int,
        worth: Worth | None = None,
    ) -> None:
        self._tiers = rules.own
        for tier in self._tiers:
            if tier.size_bytes < block_bytes:
                raise CacheError(
                    f"cache tier {tier.kind}: {size_text(tier.size_bytes)} hold no block of "
                    f"{size_text(block_bytes)}; write more"
                )
        self._most = [tier.size_bytes // block_bytes for tier in self._tiers]
        self._count = [0] * len(self._tiers)
        self._shelves = [shelf(rules.eviction) for _ in self._tiers]
        self._holding = holding
        self._instance = instance
        self._worth = worth
        self._age = Lifetime(rules.lifetime_ps) if rules.lifetime_ps else None
        self._known: dict[int, tuple[int, int, int]] = {}  # depth, reach, uses, where they count
        self.where: dict[int, int] = {}
        """The number of its tier, by block."""
        self.moved_in = [0] * len(self._tiers)
        """Blocks that came down to each tier."""
        self.moved_out = [0] * len(self._tiers)
        """Blocks that had to leave each tier."""
        self.ended = 0
        """Blocks whose lifetime was over."""

    def held(self, tier: int) -> int:
        """Blocks in a tier."""
        return self._count[tier]

    def uses(self, block: int) -> int:
        """How often the block was used here since it came, where worth decides; else 1."""
        return self._known.get(block, _ONCE)[2]

    def keep(self, blocks: Sequence[int], now_ps: int) -> list[Left]:
        """A prompt of these whole blocks, root first, was computed here.

        Returns the blocks that are held no more.
        """
        gone: list[Left] = []
        if not self._shelves:
            return gone
        where, shelves, count, known = self.where, self._shelves, self._count, self._known
        top, last, uses = shelves[0], len(blocks) - 1, 1
        for depth in range(last, -1, -1):
            block = blocks[depth]
            at = where.get(block)
            if at != 0:
                count[0] += 1
                where[block] = 0
                if at is None:
                    self._holding.add(block, self._instance)
                else:
                    shelves[at].drop(block)
                    count[at] -= 1
            if self._worth is not None:
                _, reach, before = known.get(block, (0, 0, 0))
                uses = before + 1
                known[block] = (depth, max(reach, last), uses)
            top.add(block, uses)
            if self._age is not None:
                self._age.use(block, now_ps)
        while count[0] > self._most[0]:
            self._down(0, gone)
        return gone

    def _down(self, tier: int, gone: list[Left]) -> None:
        """The first to leave a full tier goes further down."""
        block = self._shelves[tier].pop()
        self._count[tier] -= 1
        self.moved_out[tier] += 1
        what = self._known.get(block, _ONCE)
        for place in range(tier + 1, len(self._shelves)):
            if self._worth is None or self._worth.admits(self._tiers[place], *what):
                self._shelves[place].add(block, what[2])
                self._count[place] += 1
                self.where[block] = place
                self.moved_in[place] += 1
                if self._count[place] > self._most[place]:
                    self._down(place, gone)
                return
        self._forget(block)
        if self._age is not None:
            self._age.forget(block)
        gone.append(Left(block, *what))

    def _forget(self, block: int) -> None:
        del self.where[block]
        self._known.pop(block, None)
        self._holding.remove(block, self._instance)

    def _drop(self, block: int) -> None:
        """Take a block out of its tier, and forget it."""
        tier = self.where[block]
        self._shelves[tier].drop(block)
        self._count[tier] -= 1
        self._forget(block)

    def expire(self, now_ps: int) -> int:
        """Forget what was not used for a lifetime; when the next lifetime is over."""
        if self._age is None:
            return NEVER
        for block in self._age.ended(now_ps):
            self._drop(block)
            self.ended += 1
        return self._age.next_ps

    def clear(self) -> None:
        """Everything is lost: the instance failed."""
        for block in list(self.where):
            if self._age is not None:
                self._age.forget(block)
            self._drop(block)
