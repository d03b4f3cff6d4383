"""The lines of a trace file, read as a stream under limits.

Plain or gzip (told by content, not by name), UTF-8 with or without a byte-order mark, LF or CRLF.
A line, the whole text (after decompression) and the number of rows are bounded, so that a hostile
file ends in one clear error and not in a full memory. The file is read in blocks of whole lines of
some megabytes; a format takes a block at once where it can, and line by line where not.
"""

import gzip
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from topo.intake import Intake
from topo.unit import size_text
from traffic.error import TraceError

_GZIP: Final = b"\x1f\x8b"
_BOM: Final = b"\xef\xbb\xbf"
_NEWLINE: Final = 10
_BLOCK_BYTES: Final = 2**22


@dataclass(frozen=True, slots=True)
class Limit:
    """Bounds of what is read: bytes of a line, bytes of the text, rows."""

    line_bytes: int = 2**20
    text_bytes: int = 2**32
    rows: int = 50_000_000


_TRACE: Final = Intake(
    TraceError, absent="give the path of a trace", other="give the path of a trace"
)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Whole lines: their bytes, and where each ends (its newline, or the end of the text)."""

    raw: bytes
    ends: NDArray[np.int64]

    def after(self, lines: int) -> "Block":
        """The same without its first lines."""
        if not lines:
            return self
        cut = int(self.ends[lines - 1]) + 1
        return Block(self.raw[cut:], self.ends[lines:] - cut)


class Text:
    """A trace's lines and where reading stands; `refuse` tells the place of a bad line.

    ``progress`` is called now and then with the share of the file that has been read.
    """

    def __init__(
        self, path: Path, limit: Limit, progress: Callable[[float], None] | None = None
    ) -> None:
        self.path = path
        self.limit = limit
        self.line = 0
        self._progress = progress
        self._source = self._read()
        self._block = Block(b"", np.zeros(0, np.int64))
        self._taken = 0  # lines of the block that have been read

    def lines(self) -> Iterator[str]:
        """Every line that is left, without its end; blank lines are left out."""
        while self._more():
            yield from self.rest()

    def blocks(self) -> Iterator[Block]:
        """What is left, block by block; `skip` or read the `rest` of one before the next."""
        while self._more():
            yield self._block.after(self._taken)

    def rest(self) -> Iterator[str]:
        """The lines that are left of the present block, as `lines` gives them."""
        block = self._block
        ends: list[int] = block.ends.tolist()
        start = ends[self._taken - 1] + 1 if self._taken else 0
        for end in ends[self._taken :]:
            raw = block.raw[start:end]
            start = end + 1
            self.skip(1)
            try:
                text = raw.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError:
                self.refuse("not UTF-8 text; give a CSV or JSONL trace, plain or gzip")
            if text.strip():
                yield text

    def skip(self, lines: int) -> None:
        """Count lines of the present block as read."""
        self.line += lines
        self._taken += lines

    def refuse(self, why: str) -> NoReturn:
        """Raise a `TraceError` at the present line."""
        raise TraceError(f"{self.path}:{self.line}: {why}")

    def _more(self) -> bool:
        """Have a block with lines to be read, unless the text is over."""
        while self._taken >= len(self._block.ends):
            found = next(self._source, None)
            if found is None:
                return False
            self._block, self._taken = found, 0
        return True

    def _read(self) -> Iterator[Block]:
        try:
            with _TRACE.opened(self.path) as raw:
                size = max(1, self.path.stat().st_size)
                packed = raw.read(2) == _GZIP
                raw.seek(0)
                with gzip.open(raw) if packed else raw as stream:
                    for block in self._bounded(stream):
                        yield block
                        if self._progress is not None:
                            self._progress(min(1.0, raw.tell() / size))
        except (EOFError, zlib.error, gzip.BadGzipFile):
            self.refuse("broken gzip data; fetch the file again")
        except OSError as error:
            raise TraceError(f"{self.path}: {error.strerror}; give a readable file") from None

    def _bounded(self, stream: "BinaryIO | gzip.GzipFile") -> Iterator[Block]:
        """Blocks of whole lines; one that breaks a limit is refused when those before are read."""
        left, total = b"", 0
        while more := stream.read(_BLOCK_BYTES):
            if not total and not left:
                more = more.removeprefix(_BOM)
            raw = left + more
            whole = raw.rfind(b"\n") + 1
            yield from self._within(raw[:whole], total)
            total, left = total + whole, raw[whole:]
            if len(left) > self.limit.line_bytes:
                self._long()
        if left:
            yield from self._within(left, total)

    def _within(self, raw: bytes, before: int) -> Iterator[Block]:
        """Whole lines behind ``before`` bytes of the text, up to the first that is too many."""
        if not raw:
            return
        ends = np.flatnonzero(np.frombuffer(raw, np.uint8) == _NEWLINE)
        if not raw.endswith(b"\n"):
            ends = np.append(ends, len(raw))
        long = np.diff(ends, prepend=-1) > self.limit.line_bytes
        late = np.minimum(ends + 1, len(raw)) > self.limit.text_bytes - before
        wrong = long | late
        if not wrong.any():
            yield Block(raw, ends)
            return
        first = int(np.argmax(wrong))
        if first:
            yield Block(raw[: int(ends[first - 1]) + 1], ends[:first])
        if long[first]:
            self._long()
        self.line += 1
        self.refuse(f"text above {size_text(self.limit.text_bytes)}; cut the trace")

    def _long(self) -> NoReturn:
        self.line += 1
        self.refuse(
            f"line above {size_text(self.limit.line_bytes)}; is this a trace, one request a line?"
        )
