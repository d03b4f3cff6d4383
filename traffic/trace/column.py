"""The cells of a CSV trace: a header that names columns, and one request a line.

Columns may stand in any order and others beside them. Cells are not quoted text with commas inside:
traces hold numbers and short names.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from traffic.trace.block import Cells, cells_of
from traffic.trace.record import Columns, Record
from traffic.trace.text import Text

TOKEN_DIGITS: Final = 12
"""The most digits of a number of tokens."""

_COUNT: Final = re.compile(rf"-?\d{{1,{TOKEN_DIGITS}}}", re.ASCII)
_DECIMAL: Final = re.compile(r"(\d{1,19})(?:\.(\d{1,30}))?", re.ASCII)


def cells_in(line: str) -> list[str]:
    """The cells of a line without blanks and quotes around them."""
    return [cell.strip().strip('"') for cell in line.split(",")]


def header(text: Text, line: str, needed: Sequence[str]) -> list[str]:
    """The columns by name; refuses a header without one of the ``needed``."""
    found = cells_in(line)
    for column in needed:
        if column not in found:
            text.refuse(f"column {column} is missing; the header needs {','.join(needed)}")
    return found


def read_rows(
    text: Text,
    record: Record,
    columns: Sequence[str],
    until_ps: int,
    *,
    one: Callable[[list[str]], None],
    many: Callable[[Cells], Columns | None],
) -> None:
    """Read rows into a record until it `Record.reaches` ``until_ps``.

    ``many`` gives the columns of a whole block of plain rows, or None; ``one`` adds the cells of
    one row, or refuses it. Both must take the same row as the same request.
    """
    for block in text.blocks():
        cells = cells_of(block, len(columns))
        found = many(cells) if cells is not None else None
        taken = record.extend(text, found, until_ps) if found is not None else 0
        text.skip(taken)
        if taken:
            if record.reaches(until_ps):
                return
            continue
        for line in text.rest():
            row = cells_in(line)
            if len(row) != len(columns):
                text.refuse(f"{len(row)} cells under {len(columns)} columns; write one a column")
            one(row)
            if record.reaches(until_ps):
                return


def tokens(text: Text, column: str, cell: str) -> int:
    """A whole number of tokens, possibly negative; the record refuses what is out of range."""
    if _COUNT.fullmatch(cell) is None:
        text.refuse(f"{column} {cell[:40]!r} is no whole number of tokens; write e.g. 550")
    return int(cell)


def scaled(text: Text, column: str, cell: str, digits: int, example: str) -> int:
    """A decimal number times 10 ** digits, exactly; refuses a number that is finer than that."""
    found = _DECIMAL.fullmatch(cell)
    if found is None:
        text.refuse(f"{column} {cell[:40]!r} is no number of at least 0; write e.g. {example}")
    fraction = (found[2] or "").rstrip("0")
    if len(fraction) > digits:
        text.refuse(f"{column} {cell[:40]!r} is finer than a picosecond; round it")
    return int(found[1] + fraction.ljust(digits, "0"))
