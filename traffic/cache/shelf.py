"""One tier's blocks, and who leaves first when there are too many.

`Recent`: the least recently used. `Frequent`: the lowest rank, which is the number of uses plus the
rank of the last that had to leave at the time of the use; so that blocks once used often age
(LFU with dynamic ageing: Arlitt, Cherkasova, Dilley, Friedrich and Jin, Performance Evaluation
Review 27(4), 2000). That is GreedyDual-Size-Frequency (Cherkasova, HPL-98-69R1, 1998) for blocks
of one size and one cost. Of equal ranks the one that came first leaves.

Blocks of a prompt are added from the last to the first. Its root then never leaves before what
hangs on it: it is used at least as often, and later.
"""

from collections import OrderedDict
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

NEVER: Final = 2**62
"""Later than anything, in picoseconds."""


class Shelf(Protocol):
    """Blocks of one tier in one place."""

    def add(self, block: int, uses: int) -> None:
        """Put a block there that is not, or use it again; ``uses`` in all."""
        ...

    def drop(self, block: int) -> None:
        """Take a block out that is there."""
        ...

    def pop(self) -> int:
        """Take out the one that leaves first."""
        ...


class Recent:
    """Least recently used.

    >>> shelf = Recent()
    >>> for block in (1, 2, 1):
    ...     shelf.add(block, 1)
    >>> shelf.pop(), shelf.pop()
    (2, 1)
    """

    def __init__(self) -> None:
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def add(self, block: int, uses: int) -> None:  # noqa: ARG002 -- of no matter here
        """The most recently used from now on."""
        self._blocks[block] = None
        self._blocks.move_to_end(block)

    def drop(self, block: int) -> None:
        """Take a block out."""
        del self._blocks[block]

    def pop(self) -> int:
        """The least recently used."""
        return self._blocks.popitem(last=False)[0]


class Frequent:
    """Least frequently used, with ageing.

    >>> shelf = Frequent()
    >>> shelf.add(1, 5)
    >>> shelf.add(2, 1)
    >>> shelf.pop()
    2
    """

    def __init__(self) -> None:
        self._place: dict[int, tuple[int, int]] = {}  # block -> (rank, number of its adding)
        self._heap: list[tuple[int, int, int]] = []  # with places that are no longer true
        self._clock = 0
        self._added = 0

    def add(self, block: int, uses: int) -> None:
        """Give the block a new rank."""
        self._added += 1
        rank = self._clock + uses
        self._place[block] = (rank, self._added)
        heappush(self._heap, (rank, self._added, block))
        if len(self._heap) > 64 + 4 * len(self._place):
            self._heap = [(*place, block) for block, place in self._place.items()]
            heapify(self._heap)

    def drop(self, block: int) -> None:
        """Take a block out."""
        del self._place[block]

    def pop(self) -> int:
        """The lowest rank, which the clock then shows."""
        while True:
            rank, number, block = heappop(self._heap)
            if self._place.get(block) == (rank, number):
                del self._place[block]
                self._clock = rank
                return block


class Lifetime:
    """When blocks were last used, so that those unused for ``lifetime_ps`` can be told.

    >>> age = Lifetime(10)
    >>> age.use(1, 0)
    >>> age.use(2, 5)
    >>> age.use(1, 7)
    >>> age.ended(15), age.ended(15), age.next_ps
    ([2], [], 17)
    """

    def __init__(self, lifetime_ps: int) -> None:
        self._lifetime = lifetime_ps
        self._used: OrderedDict[int, int] = OrderedDict()

    def use(self, block: int, now_ps: int) -> None:
        """The block is used now; time never goes back."""
        self._used[block] = now_ps
        self._used.move_to_end(block)

    def forget(self, block: int) -> None:
        """The block is gone."""
        self._used.pop(block, None)

    @property
    def next_ps(self) -> int:
        """When the next lifetime is over."""
        return next(iter(self._used.values())) + self._lifetime if self._used else NEVER

    def ended(self, now_ps: int) -> list[int]:
        """The blocks whose lifetime is over by now; they are forgotten."""
        found: list[int] = []
        used = self._used
        while used:
            block = next(iter(used))
            if used[block] + self._lifetime > now_ps:
                break
            del used[block]
            found.append(block)
        return found


def shelf(eviction: str) -> Shelf:
    """An empty shelf by the name of its rule, ``lru`` or ``cost``."""
    return Recent() if eviction == "lru" else Frequent()
