"""The Mooncake traces: JSON lines of timestamp, input_length, output_length, hash_ids.

Timestamps are milliseconds. ``hash_ids`` are numbers of 512-token prefix blocks, of which the last
may be partial, so that a request has ceil(input_length / 512) of them; they may be left out.
Source: github.com/kvcache-ai/Mooncake FAST25-release, Apache-2.0; Qin et al., "Mooncake",
FAST 2025, appendix.
"""

from itertools import chain
from typing import Annotated, Final

import msgspec

from topo.unit import PS_PER_MS
from traffic.trace.record import Format, Record
from traffic.trace.text import Text

BLOCK_TOKENS: Final = 512
"""Tokens a prefix block."""

_Block = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Row(msgspec.Struct):
    timestamp: Annotated[float, msgspec.Meta(ge=0, le=1e15)]
    input_length: int
    output_length: int
    hash_ids: list[_Block] | None = None


_decode: Final = msgspec.json.Decoder(_Row).decode


def recognises(first: str) -> bool:
    """Whether the first line opens a JSON object."""
    return first.lstrip().startswith("{")


def read(text: Text, first: str, until_ps: int) -> Record:
    """The rows, times from the first; stops when `Record.reaches` ``until_ps``."""
    record = Record(block_tokens=BLOCK_TOKENS)
    start = -1
    for line in chain((first,), text.lines()):
        try:
            row = _decode(line)
        except (msgspec.MsgspecError, RecursionError) as error:
            text.refuse(f"{_reason(error)}; write one request a line: {_EXAMPLE}")
        stamp = row.timestamp
        time = int(stamp) * PS_PER_MS if stamp.is_integer() else round(stamp * PS_PER_MS)
        start = time if start < 0 else start
        record.add(text, time - start, row.input_length, row.output_length)
        blocks = row.hash_ids
        if blocks is not None and len(blocks) != -(-row.input_length // BLOCK_TOKENS):
            text.refuse(
                f"{len(blocks)} hash_ids for {row.input_length} input tokens; "
                f"give one a {BLOCK_TOKENS}-token block, the last one partial, or leave them out"
            )
        record.add_prefix(blocks or [])
        if record.reaches(until_ps):
            break
    return record


_EXAMPLE: Final = '{"timestamp": 0, "input_length": 550, "output_length": 150}'


def _reason(error: Exception) -> str:
    return "nested too deep" if isinstance(error, RecursionError) else str(error)


MOONCAKE: Final = Format(
    name="mooncake",
    shape="JSON lines with timestamp, input_length, output_length",
    source="github.com/kvcache-ai/Mooncake FAST25-release, Apache-2.0; Qin et al., FAST 2025",
    recognises=recognises,
    read=read,
)
