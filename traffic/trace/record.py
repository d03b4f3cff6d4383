"""What every trace reader gives: the recorded requests, before any window or change of rate."""

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from topo.unit import PS_PER_S
from traffic.request import NO_SESSION, Prefix, RequestTable
from traffic.trace.text import Text

MOST_TOKENS: Final = 2**31 - 1
"""The largest length that a trace may state."""

LATEST_PS: Final = 2**62
"""The latest arrival, some 4e6 s after the start."""

_SAMPLE: Final = 10_000


Columns = Mapping[str, NDArray[np.int64]]
"""``arrival_ps``, ``input_tokens``, ``output_tokens`` and any other columns of many requests."""


class Record:
    """Recorded requests as growing columns, in file order: 16 bytes a request, and what it has.

    ``arrival_ps`` counts from the first row, or from the start of the run where the format says so.
    ``blocks`` holds the numbers of prefix blocks, ``block_count`` how many a row has; both stay
    empty for formats without, and ``block_tokens`` is then 0. ``session``, ``tenant`` and
    ``priority`` hold one number a row, or stay empty. ``exact``: arrivals are meant to the
    picosecond and are never spread inside ticks. Columns have the types of `RequestTable`'s.
    """

    def __init__(self, *, block_tokens: int = 0, exact: bool = False) -> None:
        self.block_tokens = block_tokens
        self.exact = exact
        self.arrival_ps = array("q")
        self.input_tokens = array("i")
        self.output_tokens = array("i")
        self.session = array("q")
        self.tenant = array("i")
        self.priority = array("B")
        self.blocks = array("q")
        self.block_count = array("i")

    def add(self, text: Text, at_ps: int, tokens_in: int, tokens_out: int) -> None:
        """Append one request; refuses rows beyond the limit, back in time, or without a length."""
        if len(self.arrival_ps) >= text.limit.rows:
            text.refuse(f"more than {text.limit.rows:,} rows; cut the trace")
        if at_ps < 0:
            text.refuse("the timestamp is before the first row's; sort the rows by time")
        if self.arrival_ps and at_ps < self.arrival_ps[-1]:
            back_s = (self.arrival_ps[-1] - at_ps) / PS_PER_S
            text.refuse(f"the timestamp is {back_s:g} s before the row above it; sort by time")
        if at_ps > LATEST_PS:
            text.refuse("the timestamp is beyond 4e6 s after the start; cut the trace")
        if not 1 <= tokens_in <= MOST_TOKENS:
            text.refuse(f"input of {tokens_in} tokens; must be 1 to {MOST_TOKENS}")
        if not 0 <= tokens_out <= MOST_TOKENS:
            text.refuse(f"output of {tokens_out} tokens; must be 0 to {MOST_TOKENS}")
        self.arrival_ps.append(at_ps)
        self.input_tokens.append(tokens_in)
        self.output_tokens.append(tokens_out)

    def add_prefix(self, blocks: Sequence[int]) -> None:
        """The prefix blocks of the request that was added last."""
        self.blocks.extend(blocks)
        self.block_count.append(len(blocks))

    def extend(self, text: Text, found: Columns, until_ps: int) -> int:
        """Append many requests at once, up to the one with which `reaches` is true; how many.

        0, with nothing appended, when any of them is one that `add` would refuse.
        """
        at = found["arrival_ps"]
        held = len(self.arrival_ps)
        least = self.arrival_ps[-1] if held else 0
        if int(at[0]) < least or int(at[-1]) > LATEST_PS or bool(np.any(at[1:] < at[:-1])):
            return 0
        for name, low in (("input_tokens", 1), ("output_tokens", 0)):
            if int(found[name].min()) < low or int(found[name].max()) > MOST_TOKENS:
                return 0
        if held + len(at) > text.limit.rows:
            return 0
        behind = max(int(np.searchsorted(at, until_ps, "right")) + 1, _SAMPLE - held)
        count = min(len(at), behind)
        for name, values in found.items():
            column: array[int] = getattr(self, name)
            column.frombytes(values[:count].astype(column.typecode).tobytes())
        return count

    def reaches(self, until_ps: int) -> bool:
        """Whether rows up to ``until_ps`` are in, and enough of them to tell a tick from chance."""
        return len(self.arrival_ps) >= _SAMPLE and self.arrival_ps[-1] > until_ps

    def table(self) -> RequestTable:
        """The requests as a table, whose columns are views of these."""
        count = len(self.arrival_ps)
        prefix = None
        if self.blocks:
            first = np.zeros(count + 1, np.int64)
            np.cumsum(np.frombuffer(self.block_count, np.int32), out=first[1:])
            prefix = Prefix(first, np.frombuffer(self.blocks, np.int64), self.block_tokens)
        return RequestTable(
            arrival_ps=np.frombuffer(self.arrival_ps, np.int64),
            input_tokens=np.frombuffer(self.input_tokens, np.int32),
            output_tokens=np.frombuffer(self.output_tokens, np.int32),
            session=_or(self.session, np.dtype(np.int64), NO_SESSION, count),
            tenant=_or(self.tenant, np.dtype(np.int32), 0, count),
            priority=_or(self.priority, np.dtype(np.uint8), 0, count),
            prefix=prefix,
        )


def _or(column: "array[int]", kind: np.dtype[np.generic], empty: int, count: int) -> NDArray[Any]:
    """A column, or the same value for everyone, held once."""
    if column:
        return np.frombuffer(column, kind)
    return np.broadcast_to(np.array(empty, kind), (count,))


@dataclass(frozen=True, slots=True)
class Format:
    """A trace format: its name, how its first line looks, and its reader.

    ``recognises`` sees the first line that is not blank. ``read`` gets the text, that line, which
    has been taken from it, and a time after which it may stop.
    """

    name: str
    shape: str
    source: str
    recognises: Callable[[str], bool]
    read: Callable[[Text, str, int], Record]
