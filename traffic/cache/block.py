"""What a decode instance still holds of earlier prompts, by the hashes of their prefix blocks.

Blocks that lie at the destination already do not move: of the two ways to charge a hand-off,
``full_prompt`` and ``destination_missing`` (ai-dynamo/dynamo docs/dynosim/modeling.md), this is the
second. As in vLLM, only whole blocks are found again, and never the last token of a prompt.
"""

from collections import OrderedDict
from collections.abc import Sequence

from traffic.cache.holding import Holding


class BlockCache:
    """Prefix blocks of one instance, at most ``blocks`` of them, the least recently used leaving.

    >>> cache = BlockCache(3)
    >>> cache.keep([1, 2])
    >>> cache.held([1, 2, 9]), cache.held([2])
    (2, 1)
    >>> cache.keep([1, 5, 6])  # 2 was used after 1, but 1 is used again
    >>> cache.held([2]), cache.held([1, 5])
    (0, 2)

    ``holding`` is told what ``instance`` holds.
    """

    def __init__(self, blocks: int, holding: Holding | None = None, instance: int = 0) -> None:
        self._most = blocks
        self._holding = holding
        self._instance = instance
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def held(self, blocks: Sequence[int]) -> int:
        """How many of the first blocks are there; they count as used."""
        found = next(
            (i for i, block in enumerate(blocks) if block not in self._blocks), len(blocks)
        )
        self.keep(blocks[:found])
        return found

    def keep(self, blocks: Sequence[int]) -> None:
        """Hold these blocks, the first as the most recently used: a prefix outlives its tail."""
        for block in reversed(blocks):
            if self._holding is not None and block not in self._blocks:
                self._holding.add(block, self._instance)
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._most:
            gone = self._blocks.popitem(last=False)[0]
            if self._holding is not None:
                self._holding.remove(gone, self._instance)

    def clear(self) -> None:
        """Everything is lost: the instance failed."""
        if self._holding is not None:
            for block in self._blocks:
                self._holding.remove(block, self._instance)
        self._blocks.clear()


def missing_tokens(tokens: int, held_blocks: int, block_tokens: int) -> int:
    """Tokens of a prompt that move when so many of its first blocks are held.

    >>> missing_tokens(1000, 1, 512), missing_tokens(1024, 2, 512)
    (488, 512)
    """
    whole = min(held_blocks, (tokens - 1) // block_tokens)
    return tokens - whole * block_tokens
