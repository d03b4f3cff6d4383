"""Counters of a namespace's queue disciplines, read over netlink.

What ``tc -s qdisc show`` prints, without starting a program for each look: RTM_GETQDISC answers
with one message a queue discipline, and in it struct tc_stats (linux/rtnetlink.h,
linux/pkt_sched.h).
"""

import socket
import struct
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from emulate.mininet.error import EmulationError
from emulate.mininet.namespace import inside

_GET_QDISC: Final = 38
_NEW_QDISC: Final = 36
_REQUEST_DUMP: Final = 0x301
_DONE: Final = 3
_ERROR: Final = 2
_STATS: Final = 3
_HEAD: Final = struct.Struct("=IHHII")
_MESSAGE: Final = struct.Struct("=BxxxiIII")
_COUNTED: Final = struct.Struct("=QIIIIIII")


@dataclass(frozen=True, slots=True)
class Counted:
    """What one queue discipline has counted: sent, dropped, and waiting now."""

    bytes: int
    packets: int
    drops: int
    backlog_bytes: int


class Backlog:
    """The root queue disciplines of a namespace, by interface number; to be used as a context."""

    def __init__(self, namespace: str) -> None:
        with inside(namespace):
            self._channel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
            self.index = {name: number for number, name in socket.if_nameindex()}
        self._channel.bind((0, 0))

    def __enter__(self) -> "Backlog":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    def read(self, handle: int = 0x10000) -> dict[int, Counted]:
        """The disciplines with that handle (1: by default), by interface number.

        A root counts what waits in all of its children too.
        """
        self._channel.send(
            _HEAD.pack(36, _GET_QDISC, _REQUEST_DUMP, 1, 0) + _MESSAGE.pack(*[0] * 5)
        )
        found: dict[int, Counted] = {}
        while True:
            data = self._channel.recv(1 << 16)
            at = 0
            while at < len(data):
                size, kind, *_ = _HEAD.unpack_from(data, at)
                if kind == _DONE:
                    return found
                if kind == _ERROR:
                    raise EmulationError("netlink: the kernel refuses to tell its queues")
                if kind == _NEW_QDISC:
                    _, interface, own, _, _ = _MESSAGE.unpack_from(data, at + 16)
                    if own == handle:
                        found[interface] = _counted(data, at + 36, at + size)
                at += (size + 3) & ~3


def _counted(data: bytes, at: int, end: int) -> Counted:
    while at < end:
        size, kind = struct.unpack_from("=HH", data, at)
        if kind == _STATS:
            values = _COUNTED.unpack_from(data, at + 4)
            return Counted(values[0], values[1], values[2], values[7])
        at += (size + 3) & ~3
    raise EmulationError("netlink: a queue without counters; use another kernel (docs/vm.md)")
