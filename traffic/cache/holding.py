"""Who holds which prefix blocks: an index from a block to the set of its instances.

A set is the bits of one whole number, so that following a prompt's blocks costs one intersection
each whatever the number of instances, and only instances that drop out on the way are looked at
singly: blocks plus instances, not their product.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

_FEW: Final = 8
"""Up to so many instances are taken out of a set bit by bit: faster than unpacking all of it."""


class Holding:
    """The blocks of ``instances`` instances.

    >>> holding = Holding(3)
    >>> for instance, block in ((0, 7), (2, 7), (2, 8)):
    ...     holding.add(block, instance)
    >>> holding.matched([7, 8, 9]).tolist()
    [1, 0, 2]
    """

    def __init__(self, instances: int) -> None:
        self._instances = instances
        self._all = (1 << instances) - 1
        self._bytes = -(-instances // 8)
        self._bit = [1 << instance for instance in range(instances)]
        self._holders: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def add(self, block: int, instance: int) -> None:
        """The instance holds the block."""
        self._holders[block] = self._holders.get(block, 0) | self._bit[instance]

    def remove(self, block: int, instance: int) -> None:
        """The instance, which held the block, does no more."""
        left = self._holders[block] & ~self._bit[instance]
        if left:
            self._holders[block] = left
        else:
            del self._holders[block]

    def matched(self, blocks: Sequence[int]) -> NDArray[np.int64]:
        """By instance: how many of the first blocks it holds."""
        found = np.zeros(self._instances, np.int64)
        holders, bits = self._holders, self._bit
        still, place = self._all, 0
        single: list[int] = []  # instances that drop out few at a time, and where
        values: list[int] = []
        for place, block in enumerate(blocks):
            held = still & holders.get(block, 0)
            if held == still:
                continue
            if place:
                left = still ^ held
                if left.bit_count() > _FEW:
                    found[self._mask(left)] = place
                else:
                    while left:
                        instance = left.bit_length() - 1
                        single.append(instance)
                        values.append(place)
                        left ^= bits[instance]
            still = held
            if not held:
                break
        if still and blocks:
            found[self._mask(still)] = place + 1
        if single:
            found[single] = values
        return found

    def _mask(self, members: int) -> NDArray[np.bool_]:
        raw = np.frombuffer(members.to_bytes(self._bytes, "little"), np.uint8)
        return np.unpackbits(raw, bitorder="little", count=self._instances).view(np.bool_)


class Held:
    """Keeps `traffic.policy.view.PrefixView`: what prefill and decode instances and the pool hold.

    A side without an index holds nothing; ``counts`` has the instances of both pools, ``pool``
    tells how many of the first blocks the remote pool holds.
    """

    def __init__(
        self,
        counts: tuple[int, int],
        prefill: Holding | None,
        decode: Holding | None,
        pool: Callable[[Sequence[int]], int] | None,
    ) -> None:
        self._prefill = Holding(counts[0]) if prefill is None else prefill
        self._decode = Holding(counts[1]) if decode is None else decode
        self._pool = pool

    def matched(self, blocks: Sequence[int]) -> NDArray[np.int64]:
        """By prefill instance: how many of the first blocks it holds, in any tier of its own."""
        return self._prefill.matched(blocks)

    def matched_decode(self, blocks: Sequence[int]) -> NDArray[np.int64]:
        """By decode instance: how many of the first blocks it holds."""
        return self._decode.matched(blocks)

    def best(self, blocks: Sequence[int]) -> int:
        """How many of the first blocks the remote pool holds."""
        return self._pool(blocks) if self._pool is not None else 0
