"""The plain request table: a CSV that anyone can write, and that any run can be replayed from.

| column | meaning |
|---|---|
| arrival_ps, arrival_ns, arrival_us, arrival_ms or arrival_s | since the start of the run, never decreasing; decimals down to the picosecond; needed |
| input_tokens | at least 1; needed |
| output_tokens | at least 0; needed |
| session | a whole number of at least 0; empty or -1: none |
| tenant | a whole number of at least 0 |
| priority | 0 to 7 |
| prefix_blocks_N | numbers of the N-token prefix blocks, in order, with blanks between |

What `text` writes is read back as the same table to the picosecond. Arrivals in picoseconds are
taken as they are; coarser ones that sit on ticks are spread as those of any trace.
"""  # noqa: E501

import re
from array import array
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from traffic.load.summary import pieces
from traffic.request import NO_SESSION, PRIORITIES, RequestTable
from traffic.trace.block import Cells
from traffic.trace.column import TOKEN_DIGITS, cells_in, header, read_rows, scaled, tokens
from traffic.trace.record import LATEST_PS, Columns, Format, Record
from traffic.trace.text import Text

_DIGITS: Final = {
    "arrival_ps": 0,
    "arrival_ns": 3,
    "arrival_us": 6,
    "arrival_ms": 9,
    "arrival_s": 12,
}
_LENGTHS: Final = ("input_tokens", "output_tokens")
_PREFIX: Final = re.compile(r"prefix_blocks_([1-9]\d{0,5})", re.ASCII)
_WHOLE: Final = re.compile(r"\d{1,19}", re.ASCII)
_RANGE: Final = {"session": 2**63 - 1, "tenant": 2**31 - 1, "priority": PRIORITIES - 1}
_EMPTY: Final = {"session": NO_SESSION, "tenant": 0, "priority": 0}


def recognises(first: str) -> bool:
    """Whether the header names a column of the table."""
    return any(name in (*_DIGITS, *_LENGTHS) for name in cells_in(first))


def read(text: Text, first: str, until_ps: int) -> Record:
    """The rows, times from the start of the run; stops when `Record.reaches` ``until_ps``."""
    columns = header(text, first, _LENGTHS)
    for name in columns:
        if columns.count(name) > 1:
            text.refuse(f"column {name[:40]!r} stands twice; keep one")
    arrival = [name for name in columns if name in _DIGITS]
    if len(arrival) != 1:
        text.refuse(
            f"{len(arrival)} columns of arrivals; the header needs one of {', '.join(_DIGITS)}"
        )
    at, tokens_in, tokens_out = (columns.index(name) for name in (arrival[0], *_LENGTHS))
    digits = _DIGITS[arrival[0]]
    record = Record(exact=digits == 0)
    optional = _optional(text, record, columns)

    def one(row: list[str]) -> None:
        time = scaled(text, arrival[0], row[at], digits, "1250")
        if time > LATEST_PS:
            text.refuse(
                f"{arrival[0]} {row[at][:40]!r} is beyond 4e6 s; count arrivals from the start of "
                "the run, not from a date"
            )
        record.add(
            text,
            time,
            tokens(text, "input_tokens", row[tokens_in]),
            tokens(text, "output_tokens", row[tokens_out]),
        )
        for place, add in optional:
            add(row[place])

    def many(cells: Cells) -> Columns | None:
        found = {"arrival_ps": cells.scaled(at, digits, LATEST_PS)}
        for name, place in zip(_LENGTHS, (tokens_in, tokens_out), strict=True):
            found[name] = cells.whole(place, TOKEN_DIGITS)
        for name in _RANGE:
            if name in columns:
                found[name] = _within(cells.whole(columns.index(name), 18), _RANGE[name])
        if record.block_tokens:
            return None
        plain = {name: values for name, values in found.items() if values is not None}
        return plain if len(plain) == len(found) else None

    read_rows(text, record, columns, until_ps, one=one, many=many)
    return record


def _within(values: NDArray[np.int64] | None, most: int) -> NDArray[np.int64] | None:
    return None if values is None or int(values.max()) > most else values


def _optional(
    text: Text, record: Record, columns: list[str]
) -> list[tuple[int, Callable[[str], None]]]:
    """The place of every optional column, and what takes its cells."""
    found: list[tuple[int, Callable[[str], None]]] = []
    for place, name in enumerate(columns):
        blocks = _PREFIX.fullmatch(name)
        if name in _RANGE:
            found.append((place, _number(text, record, name)))
        elif blocks is not None:
            if record.block_tokens:
                text.refuse("two columns of prefix blocks; keep one")
            record.block_tokens = int(blocks[1])
            found.append((place, _blocks(text, record)))
    return found


def _number(text: Text, record: Record, name: str) -> Callable[[str], None]:
    values: array[int] = getattr(record, name)
    most, empty = _RANGE[name], _EMPTY[name]

    def add(cell: str) -> None:
        if cell in ("", str(empty)):
            values.append(empty)
            return
        if _WHOLE.fullmatch(cell) is None or int(cell) > most:
            text.refuse(f"{name} {cell[:40]!r}; write a whole number from 0 to {most}, or nothing")
        values.append(int(cell))

    return add


def _blocks(text: Text, record: Record) -> Callable[[str], None]:
    def add(cell: str) -> None:
        numbers = cell.split()
        for number in numbers:
            if _WHOLE.fullmatch(number) is None or int(number) > 2**63 - 1:
                text.refuse(
                    f"prefix block {number[:40]!r}; write whole numbers with blanks between"
                )
        most = -(-record.input_tokens[-1] // record.block_tokens)
        if len(numbers) > most:
            text.refuse(
                f"{len(numbers)} prefix blocks for {record.input_tokens[-1]} input tokens; "
                f"give at most {most}, one for {record.block_tokens} tokens"
            )
        record.add_prefix([int(number) for number in numbers])

    return add


def text(table: RequestTable) -> Iterator[str]:
    """The table as lines of the plain CSV, arrivals in picoseconds.

    Columns that hold nothing but their default are left out.
    """
    shown = {name: column for name, column in table.columns().items() if name != "request"}
    for name, empty in _EMPTY.items():
        if bool(np.all(shown[name] == empty)):
            del shown[name]
    prefix = table.prefix
    names = list(shown) if prefix is None else [*shown, f"prefix_blocks_{prefix.block_tokens}"]
    yield ",".join(names) + "\n"
    for piece in pieces(len(table)):
        rows = zip(*(column[piece].tolist() for column in shown.values()), strict=True)
        for number, row in enumerate(rows, piece.start):
            line = ",".join(map(str, row))
            if prefix is not None:
                line += "," + " ".join(map(str, prefix.of(number).tolist()))
            yield line + "\n"


TABLE: Final = Format(
    name="table",
    shape="CSV with the columns arrival_ps (or _ns, _us, _ms, _s),input_tokens,output_tokens",
    source="a plain request table",
    recognises=recognises,
    read=read,
)
