"""The Qwen-Bailian traces: JSON lines of chat_id, parent_chat_id, timestamp, lengths, hash_ids.

Timestamps are seconds from the start of the trace. A conversation is a chain of chats, each naming
the one before it (-1 for the first); its number here is that of its first chat, or of the oldest
one that is named when the chain began before the trace. ``hash_ids`` are numbers of 16-token
blocks; the published files give every block of the input, the last one padded. Source:
github.com/alibaba-edu/qwen-bailian-usagetraces-anon, Apache-2.0; Wang et al., "KVCache Cache in
the Wild", USENIX ATC 2025, arXiv 2506.02634.
"""

from itertools import chain
from typing import Annotated, Final

import msgspec

from topo.unit import PS_PER_S
from traffic.trace.record import Format, Record
from traffic.trace.text import Text

BLOCK_TOKENS: Final = 16
"""Tokens a prefix block."""

_Number = Annotated[int, msgspec.Meta(ge=-1, le=2**62)]
_Block = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Row(msgspec.Struct):
    chat_id: _Number
    timestamp: Annotated[float, msgspec.Meta(ge=0, le=1e12)]
    input_length: int
    output_length: int
    parent_chat_id: _Number = -1
    hash_ids: list[_Block] | None = None


_decode: Final = msgspec.json.Decoder(_Row).decode
_EXAMPLE: Final = (
    '{"chat_id": 2, "parent_chat_id": 1, "timestamp": 61.114, '
    '"input_length": 521, "output_length": 132}'
)


def recognises(first: str) -> bool:
    """Whether the first line opens a JSON object that names a chat."""
    return first.lstrip().startswith("{") and '"chat_id"' in first


def read(text: Text, first: str, until_ps: int) -> Record:
    """The rows, times from the first; stops when `Record.reaches` ``until_ps``."""
    record = Record(block_tokens=BLOCK_TOKENS)
    root: dict[int, int] = {}
    start = -1
    for line in chain((first,), text.lines()):
        try:
            row = _decode(line)
        except (msgspec.MsgspecError, RecursionError) as error:
            told = "nested too deep" if isinstance(error, RecursionError) else str(error)
            text.refuse(f"{told}; write one request a line: {_EXAMPLE}")
        time = round(row.timestamp * PS_PER_S)
        start = time if start < 0 else start
        record.add(text, time - start, row.input_length, row.output_length)
        blocks = row.hash_ids or []
        most = -(-row.input_length // BLOCK_TOKENS)
        if len(blocks) > most:
            text.refuse(
                f"{len(blocks)} hash_ids for {row.input_length} input tokens; "
                f"give at most {most}, one a {BLOCK_TOKENS}-token block"
            )
        record.add_prefix(blocks)
        parent = row.parent_chat_id
        root[row.chat_id] = row.chat_id if parent < 0 else root.get(parent, parent)
        record.session.append(root[row.chat_id])
        if record.reaches(until_ps):
            break
    return record


BAILIAN: Final = Format(
    name="bailian",
    shape="JSON lines with chat_id, timestamp, input_length, output_length",
    source=(
        "github.com/alibaba-edu/qwen-bailian-usagetraces-anon, Apache-2.0; "
        "Wang et al., KVCache Cache in the Wild, USENIX ATC 2025"
    ),
    recognises=recognises,
    read=read,
)
