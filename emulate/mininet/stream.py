"""One flow as one TCP connection between two hosts' kernels.

The connection is opened as soon as the flow is known, in the class of signals, so that it stands at
the release; then its DSCP becomes the flow's, and it begins with slow start. Nothing blocks. What
the kernel knows of it is read from struct tcp_info (linux/tcp.h) when the last byte is read.
"""

import contextlib
import socket
import struct
from dataclasses import dataclass
from typing import Final

from emulate.mininet.error import EmulationError

_CHUNK: Final = 2**18
_ZEROS: Final = memoryview(bytes(_CHUNK))
_INFO: Final = 224
_DATA_SEGMENTS_OUT: Final = 156
_DELIVERED_MARKED: Final = 196
_BYTES_AGAIN: Final = 208


@dataclass(slots=True)
class Stream:
    """A connection: ``unsent`` bytes are not yet with the sender's kernel, ``missing`` not read.

    receiver: None until the handshake is over. begun: the release is over, bytes may go. late_ps:
    by how much they went later than released.
    """

    row: int
    priority: int
    sender: socket.socket
    unsent: int
    missing: int
    receiver: socket.socket | None = None
    begun: bool = False
    late_ps: int = 0

    def begin(self) -> None:
        """Let its bytes go, in the flow's class."""
        self.begun = True
        self._settle_class()

    def accepted(self, receiver: socket.socket) -> None:
        """The handshake is over."""
        self.receiver = receiver
        receiver.setblocking(False)
        self._settle_class()

    def _settle_class(self) -> None:
        for end in (self.sender, self.receiver):
            if end is not None and self.begun:
                end.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, self.priority << 2)

    def send(self) -> None:
        """Hand over what the kernel takes."""
        with contextlib.suppress(BlockingIOError):
            while self.unsent:
                self.unsent -= self.sender.send(_ZEROS[: min(self.unsent, _CHUNK)])

    def receive(self, into: bytearray) -> None:
        """Read what is there."""
        assert self.receiver is not None
        with contextlib.suppress(BlockingIOError):
            while self.missing:
                got = self.receiver.recv_into(into)
                if not got:
                    raise EmulationError("a connection ended before its flow; is memory short?")
                self.missing -= got

    def told(self) -> tuple[int, int, int]:
        """Segments with data that were sent, those acknowledged with a mark, bytes sent again."""
        info = self.sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO)
        segments, marked = (
            struct.unpack_from("=I", info, at)[0] for at in (_DATA_SEGMENTS_OUT, _DELIVERED_MARKED)
        )
        return segments, marked, struct.unpack_from("=Q", info, _BYTES_AGAIN)[0]

    def close(self) -> None:
        """Close both ends."""
        self.sender.close()
        if self.receiver is not None:
            self.receiver.close()
