"""The Azure LLM inference traces: CSV of TIMESTAMP, ContextTokens, GeneratedTokens.

Timestamps are UTC with up to 12 fractional digits (the 2023 files carry 7); they are read as whole
picoseconds, without floats. Columns may stand in any order and others beside them. The format has
no prefix information. Source: github.com/Azure/AzurePublicDataset, CC-BY 4.0; Patel et al.,
"Splitwise", ISCA 2024.
"""

import re
from collections.abc import Iterator
from datetime import date
from typing import Final

from topo.unit import PS_PER_S
from traffic.trace.record import Format, Record
from traffic.trace.text import Text

_COLUMNS: Final = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_TIME: Final = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[ T](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,12}))?(?:\+00:?00|Z)?",
    re.ASCII,
)
_COUNT: Final = re.compile(r"-?\d{1,12}", re.ASCII)


def _cells(line: str) -> list[str]:
    return [cell.strip().strip('"') for cell in line.split(",")]


def recognises(first: str) -> bool:
    """Whether the header names at least one of the format's columns."""
    return any(column in _cells(first) for column in _COLUMNS)


def read(text: Text, lines: Iterator[str], until_ps: int) -> Record:
    """The rows, times from the first; stops when `Record.reaches` ``until_ps``."""
    header = _cells(next(lines))
    for column in _COLUMNS:
        if column not in header:
            text.refuse(f"column {column} is missing; the header needs {','.join(_COLUMNS)}")
    places = [header.index(column) for column in _COLUMNS]
    record = Record()
    start = -1
    for line in lines:
        cells = _cells(line)
        if len(cells) != len(header):
            text.refuse(f"{len(cells)} cells under {len(header)} columns; write one a column")
        at, tokens_in, tokens_out = (cells[place] for place in places)
        time = _time_ps(text, at)
        start = time if start < 0 else start
        record.add(
            text,
            time - start,
            _count(text, "ContextTokens", tokens_in),
            _count(text, "GeneratedTokens", tokens_out),
        )
        if record.reaches(until_ps):
            break
    return record


def _time_ps(text: Text, cell: str) -> int:
    found = _TIME.fullmatch(cell)
    if found is None:
        text.refuse(f"TIMESTAMP {cell[:40]!r}; write it as 2023-11-16 18:17:03.9799600")
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    try:
        days = date(year, month, day).toordinal()
    except ValueError:
        text.refuse(f"TIMESTAMP {cell[:40]!r} is no date; write it as 2023-11-16 18:17:03.9799600")
    if hour > 23 or minute > 59 or second > 59:
        text.refuse(f"TIMESTAMP {cell[:40]!r} is no time of day; write 00:00:00 to 23:59:59")
    whole = ((days * 24 + hour) * 60 + minute) * 60 + second
    return whole * PS_PER_S + int((found[7] or "").ljust(12, "0"))


def _count(text: Text, column: str, cell: str) -> int:
    if _COUNT.fullmatch(cell) is None:
        text.refuse(f"{column} {cell[:40]!r} is no whole number of tokens; write e.g. 550")
    return int(cell)


AZURE: Final = Format(
    name="azure",
    shape="CSV with the columns " + ",".join(_COLUMNS),
    source="github.com/Azure/AzurePublicDataset, CC-BY 4.0; Patel et al., Splitwise, ISCA 2024",
    recognises=recognises,
    read=read,
)
