"""From a trace file to the requests of a run: which format, which window, how fast.

The format is told from the first line, never from the file's name. A window [from, to) cuts the
trace's own time; its start becomes the start of the run; ``scale_rate`` then divides all times and
``scale_length`` multiplies all lengths.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from topo.unit import show_duration
from traffic.error import TraceError
from traffic.request import RequestTable
from traffic.trace.azure import AZURE
from traffic.trace.bailian import BAILIAN
from traffic.trace.burstgpt import BURSTGPT
from traffic.trace.mooncake import MOONCAKE
from traffic.trace.record import MOST_TOKENS, Format, Record
from traffic.trace.table import TABLE
from traffic.trace.text import Limit, Text
from traffic.trace.tick import inside_tick, tick

FORMATS: Final = (AZURE, BURSTGPT, TABLE, BAILIAN, MOONCAKE)
"""Every trace format, in the order in which they are tried."""

_FOR_EVER: Final = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests taken from a trace file, and what was done to them as plain sentences."""

    requests: RequestTable
    format: str
    source: str
    notes: list[str]


def trace(
    path: Path,
    *,
    window_ps: tuple[int, int] | None = None,
    scale_rate: float = 1.0,
    scale_length: float = 1.0,
    count: int | None = None,
    jitter: bool = True,
    seed: int = 0,
    limit: Limit | None = None,
    progress: Callable[[float], None] | None = None,
) -> Trace:
    """The requests of a trace file.

    ``window_ps``: [from, to) since the trace's start. ``scale_rate``: 2 plays it twice as fast.
    ``scale_length``: 2 doubles inputs and outputs (rounded, inputs at least 1); prefix blocks are
    then left out, since they no longer stand for the tokens. ``count``: at most so many, the first
    ones of the window. ``jitter``: spread arrivals that sit on coarse ticks uniformly inside their
    tick, by ``seed``. ``limit``: bounds on the file. Anything wrong with the file is one
    `TraceError` with its file and line; rows far behind the window are not read. ``progress`` is
    called now and then with the share of the file that has been read.
    """
    start_ps, end_ps = window_ps or (0, _FOR_EVER)
    if not 0 <= start_ps < end_ps:
        raise TraceError(
            f"{path}: window {show_duration(start_ps)} to {show_duration(end_ps)} is empty; "
            "write from and to with 0s <= from < to"
        )
    if not isfinite(scale_rate) or not 1e-3 <= scale_rate <= 1e3:
        raise TraceError(f"{path}: scale_rate {scale_rate:g}: write 0.001 to 1000, e.g. 2")
    if not isfinite(scale_length) or not 1e-3 <= scale_length <= 1e3:
        raise TraceError(f"{path}: scale_length {scale_length:g}: write 0.001 to 1000, e.g. 2")
    if count is not None and count < 1:
        raise TraceError(f"{path}: count {count}: write at least 1")
    read = _SHELF.parsed(_File.at(path), end_ps, limit or Limit(), progress)
    found, table, exact = read.format, read.table, read.exact
    last_ps = int(table.arrival_ps[-1])
    notes: list[str] = []
    arrival = table.arrival_ps
    tick_ps = 0 if exact else tick(arrival)
    if tick_ps:
        arrival, told = inside_tick(arrival, tick_ps, seed if jitter else None)
        notes.append(told)
    # Arrivals never decrease, spread or not.
    first, after = np.searchsorted(arrival, (start_ps, end_ps)).tolist()
    if first == after:
        raise TraceError(
            f"{path}: no request between {show_duration(start_ps)} and {show_duration(end_ps)}; "
            f"the rows read end at {show_duration(last_ps)}"
        )
    if window_ps is not None:
        notes.append(
            f"Window {show_duration(start_ps)} to {show_duration(end_ps)} of the trace: "
            f"{after - first:,} requests."
        )
    if count is not None and after - first > count:
        notes.append(f"The first {count:,} of {after - first:,} requests.")
        after = first + count
    moved = arrival[first:after]
    if start_ps:
        moved = moved - start_ps
    if scale_rate != 1:
        moved = np.rint(moved / scale_rate).astype(np.int64)
        notes.append(f"Played {scale_rate:g} times as fast as recorded.")
    taken = table.between(first, after, moved)
    if scale_length != 1:
        taken = _longer(taken, scale_length, path)
        notes.append(f"Lengths times {scale_length:g}, without prefix blocks.")
    return Trace(taken, found.name, found.source, notes)


class _File(NamedTuple):
    """A file as it stands: size and time of its last change tell whether it is still the same."""

    path: Path
    size: int
    changed_ns: int

    @classmethod
    def at(cls, path: Path) -> "_File":
        """The file at a path; one that is not there has no size."""
        try:
            seen = path.stat()
        except OSError:
            return cls(path, -1, 0)
        return cls(path, seen.st_size, seen.st_mtime_ns)


@dataclass(frozen=True, slots=True, eq=False)
class _Parsed:
    """A trace file as read; ``exact`` stamps are to the picosecond."""

    format: Format
    table: RequestTable
    exact: bool


class Shelf:
    """The trace files that were read last, so that seeds and alternatives share one reading.

    A file that has changed is read again. A shelf can be handed to another process, which then
    reads nothing anew (`shelf`, `take_over`).
    """

    def __init__(self) -> None:
        self._parsed: dict[tuple[_File, int, Limit], _Parsed] = {}

    def parsed(
        self,
        file: _File,
        end_ps: int,
        limit: Limit,
        progress: Callable[[float], None] | None = None,
    ) -> _Parsed:
        """The file as read up to ``end_ps``."""
        key = (file, end_ps, limit)
        if key not in self._parsed:
            found, record = _read(Text(file.path, limit, progress), end_ps)
            while len(self._parsed) >= _MOST_SHELVED:
                del self._parsed[next(iter(self._parsed))]
            self._parsed[key] = _Parsed(found, record.table(), record.exact)
        return self._parsed[key]

    def add(self, other: "Shelf") -> None:
        """Hold what another shelf holds as well."""
        self._parsed |= other._parsed


_MOST_SHELVED: Final = 2
_SHELF: Final = Shelf()


def shelf() -> Shelf:
    """The shelf of this process."""
    return _SHELF


def take_over(other: Shelf) -> None:
    """Let this process have what another has read."""
    _SHELF.add(other)


def _longer(table: RequestTable, by: float, path: Path) -> RequestTable:
    """The same requests with longer or shorter texts."""
    inputs = np.maximum(np.rint(table.input_tokens.astype(np.float64) * by), 1)
    outputs = np.rint(table.output_tokens.astype(np.float64) * by)
    most = max(inputs.max(), outputs.max())
    if most > MOST_TOKENS:
        raise TraceError(
            f"{path}: scale_length {by:g}: makes {most:g} tokens of one request; "
            f"at most {MOST_TOKENS}: write less"
        )
    return replace(
        table,
        input_tokens=inputs.astype(np.int32),
        output_tokens=outputs.astype(np.int32),
        prefix=None,
    )


def _read(text: Text, end_ps: int) -> tuple[Format, Record]:
    first = next(text.lines(), None)
    if first is None:
        raise TraceError(f"{text.path}: empty; give a trace with at least one request")
    for form in FORMATS:
        if form.recognises(first):
            record = form.read(text, first, end_ps)
            if not record.arrival_ps:
                raise TraceError(f"{text.path}: no requests; give a trace with at least one")
            return form, record
    known = "; or ".join(form.shape for form in FORMATS)
    return text.refuse(f"not a known trace format; give {known}")
