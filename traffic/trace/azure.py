"""The Azure LLM inference traces: CSV of TIMESTAMP, ContextTokens, GeneratedTokens.

The traces of 2023 (one hour) and of 2024 (a week) have the same columns. Timestamps are UTC with up
to 12 fractional digits (7 in 2023; at most 6 and a +00:00 in 2024); they are read as whole
picoseconds, without floats. The format has no prefix information. Source:
github.com/Azure/AzurePublicDataset (AzureLLMInferenceDataset2023.md and ...2024.md), CC-BY 4.0;
Patel et al., "Splitwise", ISCA 2024; Stojkovic et al., "DynamoLLM", arXiv 2408.00741.
"""

import re
from collections.abc import Iterator
from datetime import date
from functools import lru_cache
from typing import Final

from topo.unit import PS_PER_S
from traffic.trace.column import cells, header, rows, tokens
from traffic.trace.record import Format, Record
from traffic.trace.text import Text

_COLUMNS: Final = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_MINUTE: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2})[ T](\d{2}):(\d{2})", re.ASCII)
_SECOND: Final = re.compile(r":(\d{2})(?:\.(\d{1,12}))?(?:\+00:?00|Z)?", re.ASCII)
_MINUTE_CHARACTERS: Final = 16
_NO_TIME: Final = 2**40


def recognises(first: str) -> bool:
    """Whether the header names at least one of the format's columns."""
    return any(column in cells(first) for column in _COLUMNS)


def read(text: Text, lines: Iterator[str], until_ps: int) -> Record:
    """The rows, times from the first; stops when `Record.reaches` ``until_ps``."""
    columns = header(text, next(lines), _COLUMNS)
    places = [columns.index(column) for column in _COLUMNS]
    record = Record()
    start = -1
    for row in rows(text, lines, columns):
        at, tokens_in, tokens_out = (row[place] for place in places)
        time = _time_ps(text, at)
        start = time if start < 0 else start
        record.add(
            text,
            time - start,
            tokens(text, "ContextTokens", tokens_in),
            tokens(text, "GeneratedTokens", tokens_out),
        )
        if record.reaches(until_ps):
            break
    return record


def _time_ps(text: Text, cell: str) -> int:
    found = _SECOND.fullmatch(cell, _MINUTE_CHARACTERS)
    minute = _minute(cell[:_MINUTE_CHARACTERS]) if found else None
    if found is None or minute is None:
        text.refuse(f"TIMESTAMP {cell[:40]!r}; write it as 2023-11-16 18:17:03.9799600")
    if minute < 0:
        text.refuse(f"TIMESTAMP {cell[:40]!r} is no date; write it as 2023-11-16 18:17:03.9799600")
    second, fraction = found.groups("")
    if minute == _NO_TIME or int(second) > 59:
        text.refuse(f"TIMESTAMP {cell[:40]!r} is no time of day; write 00:00:00 to 23:59:59")
    return (minute * 60 + int(second)) * PS_PER_S + int(fraction.ljust(12, "0"))


@lru_cache(maxsize=64)
def _minute(cell: str) -> int | None:
    """Minutes since year 1, kept since many rows share one; -1 for no date, None for no shape."""
    found = _MINUTE.fullmatch(cell)
    if found is None:
        return None
    year, month, day, hour, minute = (int(part) for part in found.groups())
    try:
        days = date(year, month, day).toordinal()
    except ValueError:
        return -1
    if hour > 23 or minute > 59:
        return _NO_TIME
    return (days * 24 + hour) * 60 + minute


AZURE: Final = Format(
    name="azure",
    shape="CSV with the columns " + ",".join(_COLUMNS),
    source="github.com/Azure/AzurePublicDataset, CC-BY 4.0; Patel et al., Splitwise, ISCA 2024",
    recognises=recognises,
    read=read,
)
