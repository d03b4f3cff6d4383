"""The BurstGPT traces: CSV of Timestamp, Request tokens, Response tokens, and more.

Timestamps are seconds from midnight of the trace's first day. The files of the first release have
six columns, those of release v2.0 also Session ID (empty for API calls) and Elapsed time. A
response of 0 tokens is a request that failed; it is kept and ends with its prefill, and the files
called without_fails leave such rows out. There are no prefix blocks. Source:
github.com/HPMLL/BurstGPT, CC-BY 4.0; Wang et al., "BurstGPT", arXiv 2401.17644.
"""

from collections.abc import Iterator
from typing import Final

from traffic.request import NO_SESSION
from traffic.trace.column import cells, header, rows, scaled, tokens
from traffic.trace.record import Format, Record
from traffic.trace.text import Text

_COLUMNS: Final = ("Timestamp", "Request tokens", "Response tokens")
_SESSION: Final = "Session ID"


def recognises(first: str) -> bool:
    """Whether the header names one of the two columns of lengths."""
    return any(column in cells(first) for column in _COLUMNS[1:])


def read(text: Text, lines: Iterator[str], until_ps: int) -> Record:
    """The rows, times from the first; stops when `Record.reaches` ``until_ps``.

    Sessions are numbered from 0 in the order in which they first appear.
    """
    columns = header(text, next(lines), _COLUMNS)
    places = [columns.index(column) for column in _COLUMNS]
    session = columns.index(_SESSION) if _SESSION in columns else None
    record = Record()
    known: dict[str, int] = {}
    start = -1
    for row in rows(text, lines, columns):
        at, tokens_in, tokens_out = (row[place] for place in places)
        time = scaled(text, "Timestamp", at, 12, "19440110.0")
        start = time if start < 0 else start
        record.add(
            text,
            time - start,
            tokens(text, "Request tokens", tokens_in),
            tokens(text, "Response tokens", tokens_out),
        )
        if session is not None:
            name = row[session]
            record.session.append(known.setdefault(name, len(known)) if name else NO_SESSION)
        if record.reaches(until_ps):
            break
    return record


BURSTGPT: Final = Format(
    name="burstgpt",
    shape="CSV with the columns " + ",".join(_COLUMNS),
    source="github.com/HPMLL/BurstGPT, CC-BY 4.0; Wang et al., BurstGPT, arXiv 2401.17644",
    recognises=recognises,
    read=read,
)
