"""A waiting line: first come first served, or by priority and first come within it.

Nobody in service is interrupted by who waits (a non-preemptive priority queue: Cobham, Operations
Research 2(1), 1954). One that was taken out of service goes back to the front of its priority, as
vLLM's scheduler prepends a preempted request to its waiting queue.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush


class Line:
    """Requests that wait, the next one first.

    ``priority`` is that of every request by its number, larger ones going first; None where
    priorities do not act.

    >>> line = Line([0, 5, 5])
    >>> for request in (0, 1, 2):
    ...     line.add(request)
    >>> line.take(), line.take(), line.take()
    (1, 2, 0)
    """

    def __init__(self, priority: Sequence[int] | None = None) -> None:
        self._priority = priority
        self._heap: list[tuple[int, int, int]] = []
        self._came = 0

    def __len__(self) -> int:
        return len(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, request: int) -> None:
        """Let a request wait behind the others of its priority."""
        self._came += 1
        heappush(self._heap, (self._rank(request), self._came, request))

    def put_back(self, request: int) -> None:
        """Let a request wait before the others of its priority."""
        self._came += 1
        heappush(self._heap, (self._rank(request), -self._came, request))

    def _rank(self, request: int) -> int:
        return 0 if self._priority is None else -self._priority[request]

    @property
    def first(self) -> int:
        """The request whose turn is next; the line must not be empty."""
        return self._heap[0][2]

    def take(self) -> int:
        """Remove and return the next."""
        return heappop(self._heap)[2]

    @property
    def requests(self) -> list[int]:
        """Who waits, in no order."""
        return [request for _, _, request in self._heap]

    def drop(self, request: int) -> None:
        """Remove one that waits."""
        self._heap = [entry for entry in self._heap if entry[2] != request]
        heapify(self._heap)
