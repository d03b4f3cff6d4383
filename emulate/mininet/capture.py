"""Capture an interface of any namespace: every frame, in and out, with the kernel's nanoseconds.

A raw packet socket sees what arrives and what leaves (packet(7)); the kernel's time of each comes
as a control message of two integers. What the kernel lost because nobody fetched it in time is
counted and told, in the file as well.
"""

import errno
import select
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

from emulate.mininet.error import EmulationError
from emulate.mininet.namespace import inside
from traffic.wire.pcapng import Captured, CaptureWriter

_ALL: Final = 0x0003
_PACKET: Final = 263
_STATISTICS: Final = 6
_OUTGOING: Final = 4
_TIMESTAMP: Final = 35  # SO_TIMESTAMPNS, and SCM_TIMESTAMPNS
_FORCED_BUFFER: Final = 33
_BUFFER: Final = 64 * 2**20
_MOST_FRAME: Final = 2**16


@dataclass(frozen=True, slots=True)
class Caught:
    """What a capture came to: frames written, frames that the kernel lost, and why it ended.

    gone: the interface was removed meanwhile, as when a run ends.
    """

    frames: int
    lost: int
    gone: bool = False


class Tap:
    """An open capture of one interface; to be used as a context.

    namespace: its file, None for the present one. label: what the capture calls the interface,
    such as a port's name. Raises `EmulationError` where there is no such interface, or no leave.
    """

    def __init__(
        self, interface: str, *, namespace: str | Path | None = None, label: str = ""
    ) -> None:
        self.label = label or interface
        with inside(namespace):
            try:
                self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            except PermissionError:
                raise EmulationError(
                    f"capture of {interface}: raw sockets need root; run it with `sudo -E`"
                ) from None
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, _TIMESTAMP, 1)
            try:
                self._socket.setsockopt(socket.SOL_SOCKET, _FORCED_BUFFER, _BUFFER)
            except PermissionError:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
            try:
                self._socket.bind((interface, _ALL))
            except OSError as error:
                where = "here" if namespace is None else f"in namespace {namespace}"
                raise EmulationError(
                    f"interface {interface!r} {where}: {error.strerror}; `ip link` shows those "
                    "that there are"
                ) from None
        except BaseException:
            self._socket.close()
            raise

    def frames(self, most: int, wait_s: float) -> list[Captured]:
        """The next frames, at most so many; none when none comes in that time."""
        found: list[Captured] = []
        wait = wait_s
        while len(found) < most and select.select([self._socket], [], [], wait)[0]:
            wait = 0.0
            try:
                frame, controls, flags, sender = self._socket.recvmsg(_MOST_FRAME, 64)
            except OSError as error:
                # Told once when the interface goes down; frames come again when it is up again.
                if error.errno not in (errno.ENETDOWN, errno.ENODEV, errno.ENXIO):
                    raise
                continue
            seconds, part = next(
                (
                    struct.unpack("qq", data[:16])
                    for level, kind, data in controls
                    if level == socket.SOL_SOCKET and kind == _TIMESTAMP
                ),
                divmod(time.time_ns(), 10**9),
            )
            length = len(frame) if not flags & socket.MSG_TRUNC else _MOST_FRAME + 1
            found.append(
                Captured(seconds * 10**9 + part, frame, length, outgoing=sender[2] == _OUTGOING)
            )
        return found

    def gone(self) -> bool:
        """Is the interface removed? One that is down only may come up again: packet(7)."""
        return not self._socket.getsockname()[0]

    def lost(self) -> int:
        """Frames that the kernel has lost since the last call."""
        return int(struct.unpack("II", self._socket.getsockopt(_PACKET, _STATISTICS, 8))[1])

    def __enter__(self) -> "Tap":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()


def capture(
    tap: Tap,
    file: Path,
    *,
    count: int | None = None,
    duration_s: float | None = None,
    comment: str = "",
    watch: Callable[[int], None] = lambda _: None,
) -> Caught:
    """Write what a tap sees until so many frames, so long, Ctrl-C, or the interface's end.

    The file is whole then. ``watch`` is called with the frames so far.
    """
    frames = lost = 0
    gone = False
    ends = None if duration_s is None else time.monotonic() + duration_s
    with CaptureWriter(file, [tap.label], comment=comment) as writer:
        try:
            while (count is None or frames < count) and (ends is None or time.monotonic() < ends):
                left = 0.2 if ends is None else min(0.2, max(0.0, ends - time.monotonic()))
                for one in tap.frames(1024 if count is None else count - frames, left):
                    writer.write(one)
                    frames += 1
                watch(frames)
                lost += tap.lost()
                if gone:
                    break
                # Once more then: what came before the end may still be queued.
                gone = tap.gone()
        except KeyboardInterrupt:
            pass
        finally:
            writer.lost(0, time.time_ns(), frames + lost, lost)
    return Caught(frames, lost, gone)
