"""The BurstGPT traces: CSV of Timestamp, Request tokens, Response tokens, and more.

Timestamps are seconds from midnight of the trace's first day. The files of the first release have
six columns, those of release v2.0 also Session ID (empty for API calls) and Elapsed time. A
response of 0 tokens is a request that failed; it is kept and ends with its prefill, and the files
called without_fails leave such rows out. There are no prefix blocks. Source:
github.com/HPMLL/BurstGPT, CC-BY 4.0; Wang et al., "BurstGPT", arXiv 2401.17644.
"""

from typing import Final

from traffic.request import NO_SESSION
from traffic.trace.block import Cells
from traffic.trace.column import TOKEN_DIGITS, cells_in, header, read_rows, scaled, tokens
from traffic.trace.record import LATEST_PS, Columns, Format, Record
from traffic.trace.text import Text

_COLUMNS: Final = ("Timestamp", "Request tokens", "Response tokens")
_SESSION: Final = "Session ID"


def recognises(first: str) -> bool:
    """Whether the header names one of the two columns of lengths."""
    return any(column in cells_in(first) for column in _COLUMNS[1:])


def read(text: Text, first: str, until_ps: int) -> Record:
    """The rows, times from the first; stops when `Record.reaches` ``until_ps``.

    Sessions are numbered from 0 in the order in which they first appear.
    """
    columns = header(text, first, _COLUMNS)
    at, tokens_in, tokens_out = (columns.index(column) for column in _COLUMNS)
    session = columns.index(_SESSION) if _SESSION in columns else None
    record = Record()
    known: dict[str, int] = {}
    start = -1

    def one(row: list[str]) -> None:
        nonlocal start
        time = scaled(text, "Timestamp", row[at], 12, "19440110.0")
        start = time if start < 0 else start
        record.add(
            text,
            time - start,
            tokens(text, "Request tokens", row[tokens_in]),
            tokens(text, "Response tokens", row[tokens_out]),
        )
        if session is not None:
            name = row[session]
            record.session.append(known.setdefault(name, len(known)) if name else NO_SESSION)

    def many(cells: Cells) -> Columns | None:
        nonlocal start
        # Sessions are names, and a clock that began before the trace may be beyond 64 bits.
        if session is not None or start > LATEST_PS:
            return None
        time = cells.scaled(at, 12, LATEST_PS)
        given = cells.whole(tokens_in, TOKEN_DIGITS)
        made = cells.whole(tokens_out, TOKEN_DIGITS)
        if time is None or given is None or made is None:
            return None
        start = int(time[0]) if start < 0 else start
        return {"arrival_ps": time - start, "input_tokens": given, "output_tokens": made}

    read_rows(text, record, columns, until_ps, one=one, many=many)
    return record


BURSTGPT: Final = Format(
    name="burstgpt",
    shape="CSV with the columns " + ",".join(_COLUMNS),
    source="github.com/HPMLL/BurstGPT, CC-BY 4.0; Wang et al., BurstGPT, arXiv 2401.17644",
    recognises=recognises,
    read=read,
)
