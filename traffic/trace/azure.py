"""The Azure LLM inference traces: CSV of TIMESTAMP, ContextTokens, GeneratedTokens.

The traces of 2023 (one hour) and of 2024 (a week) have the same columns. Timestamps are UTC with up
to 12 fractional digits (7 in 2023; at most 6 and a +00:00 in 2024); they are read as whole
picoseconds, without floats. The format has no prefix information. Source:
github.com/Azure/AzurePublicDataset (AzureLLMInferenceDataset2023.md and ...2024.md), CC-BY 4.0;
Patel et al., "Splitwise", ISCA 2024; Stojkovic et al., "DynamoLLM", arXiv 2408.00741.
"""

import re
from datetime import date
from functools import lru_cache
from typing import Final

from topo.unit import PS_PER_S
from traffic.trace.block import Cells, since
from traffic.trace.column import TOKEN_DIGITS, cells_in, header, read_rows, tokens
from traffic.trace.record import Columns, Format, Record
from traffic.trace.text import Text

_COLUMNS: Final = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_MINUTE: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2})[ T](\d{2}):(\d{2})", re.ASCII)
_SECOND: Final = re.compile(r":(\d{2})(?:\.(\d{1,12}))?(?:\+00:?00|Z)?", re.ASCII)
_MINUTE_CHARACTERS: Final = 16
_NO_TIME: Final = 2**40


def recognises(first: str) -> bool:
    """Whether the header names at least one of the format's columns."""
    return any(column in cells_in(first) for column in _COLUMNS)


def read(text: Text, first: str, until_ps: int) -> Record:
    """The rows, times from the first; stops when `Record.reaches` ``until_ps``."""
    columns = header(text, first, _COLUMNS)
    at, tokens_in, tokens_out = (columns.index(column) for column in _COLUMNS)
    record = Record()
    start = -1

    def one(row: list[str]) -> None:
        nonlocal start
        time = _time_ps(text, row[at])
        start = time if start < 0 else start
        record.add(
            text,
            time - start,
            tokens(text, "ContextTokens", row[tokens_in]),
            tokens(text, "GeneratedTokens", row[tokens_out]),
        )

    def many(cells: Cells) -> Columns | None:
        nonlocal start
        time = cells.instant(at)
        given = cells.whole(tokens_in, TOKEN_DIGITS)
        made = cells.whole(tokens_out, TOKEN_DIGITS)
        if time is None or given is None or made is None:
            return None
        zero = int(time[0][0]) * PS_PER_S + int(time[1][0]) if start < 0 else start
        arrival = since(time, zero)
        if arrival is None:
            return None
        start = zero
        return {"arrival_ps": arrival, "input_tokens": given, "output_tokens": made}

    read_rows(text, record, columns, until_ps, one=one, many=many)
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
