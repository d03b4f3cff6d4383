"""The KV memory that one instance holds, over time: mean, peak, and time without room.

Held is what is reserved: of whole sequences from admission to the last token, or, where memory
grows, of caches under way and prompts, and of every member its context and the token of the step
that is under way. Growth between two events of the batch counts as even, which is exact where steps
are equally long. Memory is *short* while somebody waits for it: a hand-off whose memory was asked
for and refused, or a prompt or evicted cache that is next, has a place in the batch and no room.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from traffic.emulator import Table

COLUMNS: Final = (
    *("kv_capacity_bytes", "kv_mean_bytes", "kv_peak_bytes"),
    *("kv_short_ps", "evictions", "window_ps"),
)
"""One row an instance, int64: its KV memory, the time-weighted mean and the peak of what it held,
how long somebody waited for memory there, how often a sequence had to leave, over which time."""


class Occupancy:
    """Counts of one instance; times never decrease from call to call."""

    __slots__ = (
        *("capacity_bytes", "peak_bytes", "short_ps", "evictions"),
        *("_held", "_since", "_twice", "_lacking"),
    )

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.peak_bytes = 0
        self.short_ps = 0
        self.evictions = 0
        self._held = 0  # from the last event on
        self._since = 0  # the last event
        self._twice = 0  # twice the integral, so that halves stay whole
        self._lacking = -1  # since when somebody waits

    def change(self, now_ps: int, before: int, after: int) -> None:
        """Bytes held just before now, and from now on."""
        self._twice += (self._held + before) * (now_ps - self._since)
        self._since = now_ps
        self._held = after
        if before > self.peak_bytes:
            self.peak_bytes = before

    def lack(self, now_ps: int, *, lacking: bool) -> None:
        """Whether somebody waits for memory from now on."""
        if lacking != (self._lacking >= 0):
            if lacking:
                self._lacking = now_ps
            else:
                self.short_ps += now_ps - self._lacking
                self._lacking = -1

    def end(self, now_ps: int, held: int) -> None:
        """The instance died, or the run ended: nothing is held, and nobody waits, after that."""
        self.change(now_ps, held, 0)
        self.lack(now_ps, lacking=False)

    def mean_bytes(self, window_ps: int) -> int:
        """The mean over a time that all of it was held in, rounded down."""
        return self._twice // (2 * window_ps) if window_ps > 0 else 0


def table(found: Sequence[Occupancy], window_ps: int) -> Table:
    """`COLUMNS` of instances that ended, over the time of the run."""
    rows = [
        (
            *(one.capacity_bytes, one.mean_bytes(window_ps), one.peak_bytes),
            *(one.short_ps, one.evictions, window_ps),
        )
        for one in found
    ]
    columns = np.array(rows, np.int64).reshape(-1, len(COLUMNS)).T
    return dict(zip(COLUMNS, columns, strict=True))
