"""From a trace file to the requests of a run: which format, which window, how fast.

The format is told from the first line, never from the file's name. A window [from, to) cuts the
trace's own time; its start becomes the start of the run; ``scale_rate`` then divides all times.
"""

from dataclasses import dataclass
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Final

import numpy as np

from topo.unit import show_duration
from traffic.error import TraceError
from traffic.request import Prefix, RequestTable, request_table
from traffic.trace.azure import AZURE
from traffic.trace.mooncake import MOONCAKE
from traffic.trace.record import Format, Record
from traffic.trace.text import Limit, Text
from traffic.trace.tick import inside_tick, tick

FORMATS: Final = (AZURE, MOONCAKE)
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
    count: int | None = None,
    jitter: bool = True,
    seed: int = 0,
    limit: Limit | None = None,
) -> Trace:
    """The requests of a trace file.

    ``window_ps``: [from, to) since the trace's first row. ``scale_rate``: 2 plays it twice as
    fast. ``count``: at most so many, the first ones of the window. ``jitter``: spread arrivals
    that sit on coarse ticks uniformly inside their tick, by ``seed``. ``limit``: bounds on the
    file. Anything wrong with the file is one `TraceError` with its file and line; rows far
    behind the window are not read.
    """
    start_ps, end_ps = window_ps or (0, _FOR_EVER)
    if not 0 <= start_ps < end_ps:
        raise TraceError(
            f"{path}: window {show_duration(start_ps)} to {show_duration(end_ps)} is empty; "
            "write from and to with 0s <= from < to"
        )
    if not isfinite(scale_rate) or not 1e-3 <= scale_rate <= 1e3:
        raise TraceError(f"{path}: scale_rate {scale_rate:g}: write 0.001 to 1000, e.g. 2")
    if count is not None and count < 1:
        raise TraceError(f"{path}: count {count}: write at least 1")
    text = Text(path, limit or Limit())
    found, record = _read(text, end_ps)
    table = _table(record)
    last_ps = int(table.arrival_ps[-1])
    notes: list[str] = []
    arrival = table.arrival_ps
    tick_ps = tick(arrival)
    if tick_ps:
        arrival, told = inside_tick(arrival, tick_ps, seed if jitter else None)
        notes.append(told)
    rows = np.flatnonzero((arrival >= start_ps) & (arrival < end_ps))
    if not len(rows):
        raise TraceError(
            f"{path}: no request between {show_duration(start_ps)} and {show_duration(end_ps)}; "
            f"the rows read end at {show_duration(last_ps)}"
        )
    if window_ps is not None:
        notes.append(
            f"Window {show_duration(start_ps)} to {show_duration(end_ps)} of the trace: "
            f"{len(rows):,} requests."
        )
    if count is not None and len(rows) > count:
        notes.append(f"The first {count:,} of {len(rows):,} requests.")
        rows = rows[:count]
    since = arrival[rows] - start_ps
    if scale_rate != 1:
        since = np.rint(since / scale_rate).astype(np.int64)
        notes.append(f"Played {scale_rate:g} times as fast as recorded.")
    return Trace(table.take(rows, since), found.name, found.source, notes)


def _read(text: Text, end_ps: int) -> tuple[Format, Record]:
    lines = text.lines()
    first = next(lines, None)
    if first is None:
        raise TraceError(f"{text.path}: empty; give a trace with at least one request")
    for form in FORMATS:
        if form.recognises(first):
            record = form.read(text, chain((first,), lines), end_ps)
            if not record.arrival_ps:
                raise TraceError(f"{text.path}: no requests; give a trace with at least one")
            return form, record
    known = "; or ".join(form.shape for form in FORMATS)
    return text.refuse(f"not a known trace format; give {known}")


def _table(record: Record) -> RequestTable:
    prefix = None
    if any(record.prefix):
        first = np.zeros(len(record.prefix) + 1, np.int64)
        np.cumsum([len(blocks) for blocks in record.prefix], out=first[1:])
        flat = np.fromiter(chain.from_iterable(record.prefix), np.int64, int(first[-1]))
        prefix = Prefix(first, flat, record.block_tokens)
    return request_table(
        arrival_ps=np.array(record.arrival_ps, np.int64),
        input_tokens=np.array(record.input_tokens, np.int64),
        output_tokens=np.array(record.output_tokens, np.int64),
        prefix=prefix,
    )
