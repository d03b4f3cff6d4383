"""The cells of a CSV trace: a header that names columns, and one request a line.

Columns may stand in any order and others beside them. Cells are not quoted text with commas inside:
traces hold numbers and short names.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from traffic.trace.text import Text

_COUNT: Final = re.compile(r"-?\d{1,12}", re.ASCII)
_DECIMAL: Final = re.compile(r"(\d{1,19})(?:\.(\d{1,30}))?", re.ASCII)


def cells(line: str) -> list[str]:
    """The cells of a line without blanks and quotes around them."""
    return [cell.strip().strip('"') for cell in line.split(",")]


def header(text: Text, line: str, needed: Sequence[str]) -> list[str]:
    """The columns by name; refuses a header without one of the ``needed``."""
    found = cells(line)
    for column in needed:
        if column not in found:
            text.refuse(f"column {column} is missing; the header needs {','.join(needed)}")
    return found


def rows(text: Text, lines: Iterator[str], columns: Sequence[str]) -> Iterator[list[str]]:
    """The cells of every line; refuses a line with more or fewer than the header has."""
    for line in lines:
        row = cells(line)
        if len(row) != len(columns):
            text.refuse(f"{len(row)} cells under {len(columns)} columns; write one a column")
        yield row


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
