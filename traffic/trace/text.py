"""The lines of a trace file, read as a stream under limits.

Plain or gzip (told by content, not by name), UTF-8 with or without a byte-order mark, LF or CRLF.
A line, the whole text (after decompression) and the number of rows are bounded, so that a hostile
file ends in one clear error and not in a full memory.
"""

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, NoReturn

from traffic.error import TraceError

_GZIP: Final = b"\x1f\x8b"
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Limit:
    """Bounds of what is read: bytes of a line, bytes of the text, rows."""

    line_bytes: int = 2**20
    text_bytes: int = 2**32
    rows: int = 50_000_000


@dataclass(slots=True)
class Text:
    """A trace's lines and where reading stands; `refuse` tells the place of a bad line."""

    path: Path
    limit: Limit
    line: int = 0

    def lines(self) -> Iterator[str]:
        """Every line without its end; blank lines are left out."""
        try:
            if not self.path.exists():
                raise TraceError(f"{self.path}: no such file; give the path of a trace")
            if not self.path.is_file():
                raise TraceError(f"{self.path}: not a file; give the path of a trace")
            with self.path.open("rb") as raw:
                packed = raw.read(2) == _GZIP
                raw.seek(0)
                if packed:
                    with gzip.open(raw) as unpacked:
                        yield from self._bounded(unpacked)
                else:
                    yield from self._bounded(raw)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            self.refuse("broken gzip data; fetch the file again")
        except OSError as error:
            raise TraceError(f"{self.path}: {error.strerror}; give a readable file") from None

    def _bounded(self, stream: "BinaryIO | gzip.GzipFile") -> Iterator[str]:
        most = self.limit.line_bytes
        total = 0
        while raw := stream.readline(most + 1):
            self.line += 1
            total += len(raw)
            if len(raw) > most:
                self.refuse(f"line above {most:,} bytes; is this a trace, one request a line?")
            if total > self.limit.text_bytes:
                self.refuse(f"text above {self.limit.text_bytes:,} bytes; cut the trace")
            if self.line == 1:
                raw = raw.removeprefix(_BOM)
            try:
                text = raw.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError:
                self.refuse("not UTF-8 text; give a CSV or JSONL trace, plain or gzip")
            if text.strip():
                yield text

    def refuse(self, why: str) -> NoReturn:
        """Raise a `TraceError` at the present line."""
        raise TraceError(f"{self.path}:{self.line}: {why}")
