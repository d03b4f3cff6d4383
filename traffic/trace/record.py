"""What every trace reader gives: the recorded requests, before any window or change of rate."""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from topo.unit import PS_PER_S
from traffic.trace.text import Text

MOST_TOKENS: Final = 2**31 - 1
"""The largest length that a trace may state."""

_SAMPLE: Final = 10_000


def _numbers() -> "array[int]":
    """Eight bytes a number, a quarter of a list's: public traces have tens of millions of rows."""
    return array("q")


@dataclass(slots=True)
class Record:
    """Recorded requests as growing columns, in file order.

    ``arrival_ps`` counts from the first row, or from the start of the run where the format says so.
    ``prefix`` holds one list of block numbers a row, or stays empty for formats without;
    ``block_tokens`` is then 0. ``session``, ``tenant`` and ``priority`` hold one number a row, or
    stay empty. ``exact``: arrivals are meant to the picosecond and are never spread inside ticks.
    """

    block_tokens: int = 0
    exact: bool = False
    arrival_ps: "array[int]" = field(default_factory=_numbers)
    input_tokens: "array[int]" = field(default_factory=_numbers)
    output_tokens: "array[int]" = field(default_factory=_numbers)
    prefix: list[list[int]] = field(default_factory=list)
    session: "array[int]" = field(default_factory=_numbers)
    tenant: "array[int]" = field(default_factory=_numbers)
    priority: "array[int]" = field(default_factory=_numbers)

    def add(self, text: Text, at_ps: int, tokens_in: int, tokens_out: int) -> None:
        """Append one request; refuses rows beyond the limit, back in time, or without a length."""
        if len(self.arrival_ps) >= text.limit.rows:
            text.refuse(f"more than {text.limit.rows:,} rows; cut the trace")
        if at_ps < 0:
            text.refuse("the timestamp is before the first row's; sort the rows by time")
        if self.arrival_ps and at_ps < self.arrival_ps[-1]:
            back_s = (self.arrival_ps[-1] - at_ps) / PS_PER_S
            text.refuse(f"the timestamp is {back_s:g} s before the row above it; sort by time")
        if at_ps > 2**62:
            text.refuse("the timestamp is beyond 4e6 s after the start; cut the trace")
        if not 1 <= tokens_in <= MOST_TOKENS:
            text.refuse(f"input of {tokens_in} tokens; must be 1 to {MOST_TOKENS}")
        if not 0 <= tokens_out <= MOST_TOKENS:
            text.refuse(f"output of {tokens_out} tokens; must be 0 to {MOST_TOKENS}")
        self.arrival_ps.append(at_ps)
        self.input_tokens.append(tokens_in)
        self.output_tokens.append(tokens_out)

    def reaches(self, until_ps: int) -> bool:
        """Whether rows up to ``until_ps`` are in, and enough of them to tell a tick from chance."""
        return len(self.arrival_ps) >= _SAMPLE and self.arrival_ps[-1] > until_ps


@dataclass(frozen=True, slots=True)
class Format:
    """A trace format: its name, how its first line looks, and its reader.

    ``recognises`` sees the first line that is not blank. ``read`` gets the text, its lines
    (starting with that first one) and a time after which it may stop.
    """

    name: str
    shape: str
    source: str
    recognises: Callable[[str], bool]
    read: Callable[[Text, Iterator[str], int], Record]
