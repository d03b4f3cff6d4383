"""The queue that waited most in each alternative, over time, with the pauses at its port.

How much waits is bytes times time, from the samples of the packet engine (``series`` of
`analysis.observed`): of all seeds the port with most of it. That a port stood stopped, or that its
queue had others stopped, is from ``stops``, the first 2^17 of a cell.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from analysis.summary import Sample
from analysis.witness import Ints, Witness, seen

_MOST: Final = 0.95


@dataclass(frozen=True)
class Queue:
    """A port of a cell, and the bytes that waited there: of the samples in (since, until], their
    mean and most. Spans without bytes are left out."""

    witness: Witness
    port: int
    since: Ints
    until: Ints
    mean: Ints
    most: Ints

    @property
    def name(self) -> str:
        """The port, and where it leads."""
        return self.witness.name(self.port)

    def busiest(self) -> tuple[int, int]:
        """The least span of time with `_MOST` of what waited, and with the peak."""
        area = np.cumsum(1.0 * self.mean * (self.until - self.since))
        before = np.concatenate(([0.0], area[:-1]))
        last = np.searchsorted(area, before + _MOST * area[-1])
        enough = last < len(area)
        ends = self.until[last[enough]]
        best = int(np.argmin(ends - self.since[enough]))
        peak = int(self.most.argmax())
        return (
            min(int(self.since[best]), int(self.since[peak])),
            max(int(ends[best]), int(self.until[peak])),
        )

    @cached_property
    def stopped(self) -> tuple[Ints, Ints]:
        """When the port's peer had it stopped: from, until, in order of time."""
        return self._stops("port")

    @cached_property
    def stops(self) -> tuple[Ints, Ints]:
        """When others stood stopped because of this queue: from, until, in order of time."""
        return self._stops("cause_port")

    def _stops(self, column: str) -> tuple[Ints, Ints]:
        table = self.witness.table("stops")
        mine = np.flatnonzero(table[column] == self.port)
        mine = mine[np.argsort(table["from_ps"][mine], kind="stable")]
        since, until = table["from_ps"][mine], table["until_ps"][mine]
        end = max(self.witness.cell.manifest.duration_ps, int(since.max(initial=0)))
        return since, np.where(until < 0, end, until)

    @cached_property
    def marks(self) -> tuple[int, int] | None:
        """Kmin and Kmax of the port, bytes; None where it does not mark, or the cell is older."""
        table = self.witness.table("marking")
        (mine,) = np.nonzero(table["port"] == self.port)
        if not len(mine):
            return None
        return int(table["kmin_bytes"][mine[0]]), int(table["kmax_bytes"][mine[0]])


def longest(samples: Iterable[Sample], place: Path | None) -> list[tuple[Sample, Queue]]:
    """The queue that waited most in each of these alternatives; none of those where none did."""
    found = ((sample, _longest(sample, place)) for sample in samples)
    return [(sample, queue) for sample, queue in found if queue is not None]


def _longest(sample: Sample, place: Path | None) -> Queue | None:
    best: tuple[float, Queue] | None = None
    for witness in (each for cell in sample.cells if (each := seen(cell, place))):
        table = witness.table("series")
        waited = np.bincount(table["port"], 1.0 * table["mean_bytes"] * table["span_ps"])
        if len(waited) and waited.max() > (best[0] if best else 0):
            port = int(waited.argmax())
            best = float(waited.max()), _queue(witness, port)
    return best[1] if best else None


def _queue(witness: Witness, port: int) -> Queue:
    table = witness.table("series")
    mine = np.flatnonzero(table["port"] == port)
    mine = mine[np.argsort(table["from_ps"][mine], kind="stable")]
    since = table["from_ps"][mine]
    until = since + table["span_ps"][mine]
    return Queue(witness, port, since, until, table["mean_bytes"][mine], table["max_bytes"][mine])


def covered(spans: tuple[Ints, Ints]) -> int:
    """How long at least one of some spans, in order of their beginnings, lasts, ps.

    >>> covered((np.array([0, 5, 30]), np.array([10, 8, 40])))
    20
    """
    since, until = spans
    if not len(since):
        return 0
    reached = np.concatenate(([since[0]], np.maximum.accumulate(until)[:-1]))
    return int((until - np.maximum(since, reached)).clip(0).sum())
