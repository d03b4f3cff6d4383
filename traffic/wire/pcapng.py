"""Captures as pcapng, written with whole nanoseconds, and read from pcapng and pcap.

Frames of Ethernet only. Written is one section with one interface description a link (times in
units of 1 ns, if_tsresol 9), enhanced packet blocks that say whether a frame came in or went out,
and at the end the frames that the kernel lost. Formats: draft-ietf-opsawg-pcapng and
draft-ietf-opsawg-pcap (IETF). Times are integers throughout; floating point loses nanoseconds.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Final

from topo.error import KvfabricError
from topo.intake import Intake
from topo.unit import size_text

ETHERNET: Final = 1
MOST_FRAME: Final = 2**18
"""Bytes of a frame that is read, at most."""

_SECTION: Final = 0x0A0D0D0A
_INTERFACE: Final = 1
_PACKET: Final = 6
_SIMPLE: Final = 3
_STATISTICS: Final = 5
_MAGIC: Final = 0x1A2B3C4D
_CLASSIC: Final = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}
_BILLION: Final = 10**9


class CaptureError(KvfabricError):
    """A capture that cannot be read or written."""


_CAPTURE: Final = Intake(
    CaptureError, absent="write the path of a capture", other="write the path of a capture"
)


@dataclass(frozen=True, slots=True)
class Captured:
    """A frame: when, in nanoseconds since 1970, its bytes, and how long it was on the wire."""

    at_ns: int
    frame: bytes
    length: int
    interface: int = 0
    outgoing: bool | None = None


class CaptureWriter:
    """Writes pcapng; to be used as a context. ``interfaces`` are told by name, e.g. port names."""

    def __init__(self, file: Path, interfaces: Sequence[str], *, comment: str = "") -> None:
        self._path = file
        try:
            self._file: IO[bytes] = file.open("wb")
        except OSError as error:
            raise CaptureError(f"{file}: {error.strerror}; write another file") from None
        options = _option(1, comment.encode()) + _option(4, b"kvfabric") + _END
        self._block(_SECTION, struct.pack("<IHHq", _MAGIC, 1, 0, -1) + options)
        for name in interfaces:
            options = _option(2, name.encode()) + _option(9, b"\x09") + _END
            self._block(_INTERFACE, struct.pack("<HHI", ETHERNET, 0, 0) + options)

    def write(self, one: Captured) -> None:
        """Add a frame."""
        high, low = one.at_ns >> 32, one.at_ns & 0xFFFFFFFF
        head = struct.pack("<IIIII", one.interface, high, low, len(one.frame), one.length)
        flags = b""
        if one.outgoing is not None:
            flags = _option(2, struct.pack("<I", 2 if one.outgoing else 1)) + _END
        self._block(_PACKET, head + _padded(one.frame) + flags)

    def lost(self, interface: int, at_ns: int, received: int, dropped: int) -> None:
        """Say how many frames an interface had by then, and how many the kernel lost of them."""
        options = _option(4, struct.pack("<Q", received)) + _option(5, struct.pack("<Q", dropped))
        times = struct.pack("<III", interface, at_ns >> 32, at_ns & 0xFFFFFFFF)
        self._block(_STATISTICS, times + options + _END)

    def _block(self, kind: int, body: bytes) -> None:
        size = struct.pack("<I", 12 + len(body))
        try:
            self._file.write(struct.pack("<I", kind) + size + body + size)
        except OSError as error:
            raise self._full(error) from None

    def _full(self, error: OSError) -> CaptureError:
        return CaptureError(f"{self._path}: {error.strerror}; the capture ends there, cut")

    def __enter__(self) -> "CaptureWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._file.close()
        except OSError as refusal:
            if kind is None:
                raise self._full(refusal) from None


def read_capture(file: Path) -> Iterator[Captured]:
    """The frames of a pcap or pcapng file, in its order.

    Raises `CaptureError` with the place of the first thing that is not as it must be.
    """
    with _CAPTURE.opened(file) as source:
        head = source.read(4)
        source.seek(0)
        if head == struct.pack("<I", _SECTION):
            yield from _Blocks(file, source).frames()
            return
        for order in "<>":
            scale = _CLASSIC.get(struct.unpack(f"{order}I", head)[0]) if len(head) == 4 else None
            if scale is not None:
                yield from _classic(file, source, order, scale)
                return
    raise CaptureError(f"{file}: neither pcap nor pcapng; write the path of a capture")


def _classic(file: Path, source: IO[bytes], order: str, scale: int) -> Iterator[Captured]:
    head = source.read(24)
    if len(head) < 24:
        raise CaptureError(f"{file}: ends inside its header; capture it again")
    _demand_ethernet(file, struct.unpack(f"{order}I", head[20:])[0] & 0xFFFF)
    number = 0
    while record := source.read(16):
        number += 1
        if len(record) < 16:
            raise _cut(file, number)
        seconds, part, size, length = struct.unpack(f"{order}IIII", record)
        if size > MOST_FRAME:
            raise CaptureError(
                f"{file}: frame {number} of {size_text(size)}: no frame is that long"
            )
        frame = source.read(size)
        if len(frame) < size:
            raise _cut(file, number)
        yield Captured(seconds * _BILLION + part * scale, frame, length)


class _Blocks:
    """Reads the blocks of a pcapng file."""

    def __init__(self, file: Path, source: IO[bytes]) -> None:
        self._file = file
        self._source = source
        self._order = "<"
        self._scale: list[tuple[int, int]] = []
        self._number = 0

    def frames(self) -> Iterator[Captured]:
        """Every frame, in the file's order."""
        while head := self._source.read(8):
            if len(head) < 8:
                raise _cut(self._file, self._number + 1)
            if head[:4] == struct.pack("<I", _SECTION):
                magic = self._source.read(4)
                self._order = "<" if magic == struct.pack("<I", _MAGIC) else ">"
                self._scale = []
                self._source.seek(-4, 1)
            kind, size = struct.unpack(f"{self._order}II", head)
            if size < 12 or size % 4 or size > 2 * MOST_FRAME:
                raise CaptureError(
                    f"{self._file}: a block of {size_text(size)} after frame {self._number}: the "
                    "file is damaged; capture it again"
                )
            body = self._source.read(size - 8)
            if len(body) < size - 8:
                raise _cut(self._file, self._number + 1)
            found = self._block(kind, body[:-4])
            if found is not None:
                yield found

    def _block(self, kind: int, body: bytes) -> Captured | None:
        try:
            if kind == _INTERFACE:
                self._interface(body)
            elif kind == _PACKET:
                return self._packet(body)
            elif kind == _SIMPLE:
                raise CaptureError(
                    f"{self._file}: simple packet blocks have no times; capture with enhanced ones"
                )
        except struct.error:
            raise CaptureError(
                f"{self._file}: block after frame {self._number} is too short: the file is damaged"
            ) from None
        return None

    def _interface(self, body: bytes) -> None:
        _demand_ethernet(self._file, struct.unpack(f"{self._order}H", body[:2])[0])
        resolution = 6
        rest = body[8:]
        while len(rest) >= 4:
            code, size = struct.unpack(f"{self._order}HH", rest[:4])
            if code == 9 and size >= 1:
                resolution = rest[4]
            rest = rest[4 + size + -size % 4 :]
        binary, power = resolution >> 7, resolution & 0x7F
        if power > (60 if binary else 18):
            raise CaptureError(f"{self._file}: times in units of 10^-{power} s: not read")
        self._scale.append((_BILLION, 2**power if binary else 10**power))

    def _packet(self, body: bytes) -> Captured:
        self._number += 1
        number, high, low, size, length = struct.unpack(f"{self._order}IIIII", body[:20])
        if number >= len(self._scale):
            raise CaptureError(
                f"{self._file}: frame {self._number} is of interface {number}, which is not told"
            )
        if size > len(body) - 20:
            raise _cut(self._file, self._number)
        times, by = self._scale[number]
        return Captured((high << 32 | low) * times // by, body[20 : 20 + size], length, number)


def _demand_ethernet(file: Path, link: int) -> None:
    if link != ETHERNET:
        raise CaptureError(f"{file}: link type {link}: only Ethernet (1) is read")


def _cut(file: Path, number: int) -> CaptureError:
    return CaptureError(f"{file}: ends inside frame {number}; it was cut off, capture it again")


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + _padded(value) if value else b""


_END: Final = bytes(4)
