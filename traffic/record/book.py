"""The book of a run's flows and hand-offs: numbers, rows and moments, over all services."""

from array import array
from typing import Final

import numpy as np
from numpy.typing import NDArray

from traffic.emulator import FLOW, Emulator

MOMENTS: Final = (
    "admitted_ps",
    "dispatched_ps",
    "handoff_release_ps",
    "arrived_ps",
    "scattered_ps",
)
"""The moments of a hand-off, in order, each -1 where not reached: decode memory is reserved; the
first chunk may be sent; its first flow is released; the last byte has arrived; the cache lies in
its place."""


class Book:
    """Everything that one emulator was given; ``count`` requests at most hand over."""

    def __init__(self, emulator: Emulator, count: int) -> None:
        self._emulator = emulator
        self._rows: list[bytes] = []
        self.flows = 0
        """Flows numbered so far; the next one gets this number."""
        self.moment = {name: array("q", [-1]) * count for name in MOMENTS}
        """`MOMENTS` by request."""

    @property
    def moments(self) -> dict[str, NDArray[np.int64]]:
        """`MOMENTS` by request; some may lie beyond the present time."""
        return {name: np.array(column, np.int64) for name, column in self.moment.items()}

    def submit(self, table: NDArray[np.void]) -> None:
        """Hand `FLOW` rows over, numbered on from ``flows``."""
        self.flows += len(table)
        self._rows.append(table.tobytes())
        self._emulator.submit(table)

    def table(self) -> NDArray[np.void]:
        """All submitted `FLOW` rows, in flow order."""
        return np.frombuffer(b"".join(self._rows), FLOW)
