"""All TCP connections of a run: opened before their flows' releases, let go, and read to their end.

One thread serves them all. A flow's connection is ready once it is opened, and running from when it
may send to when its last byte is read.
"""

import contextlib
import errno
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from emulate.mininet.error import EmulationError
from emulate.mininet.namespace import inside
from emulate.mininet.network import Network
from emulate.mininet.qdisc import segment_bytes
from emulate.mininet.stream import Stream

PORT: Final = 5201
_CONGESTION: Final = 13


@dataclass(slots=True)
class Look:
    """One look at all sockets: from when it waited, and when it woke up, by the monotonic clock.

    accepted: flows whose handshake is over. ended: those whose last byte was read, and when.
    """

    asked_ns: int
    woke_ns: int
    accepted: list[Stream] = field(default_factory=list)
    ended: list[tuple[Stream, int]] = field(default_factory=list)


class Exchange:
    """Listening sockets at all hosts, and connections between them with one congestion control.

    signal: the class of handshakes, None for the lowest. clock: tells when a flow ended.
    """

    def __init__(
        self,
        network: Network,
        control: str,
        mtu: int,
        *,
        signal: int | None = None,
        clock: Callable[[], int],
    ) -> None:
        self._network = network
        self._clock = clock
        self._options: list[tuple[int, int, int | bytes]] = [
            (socket.IPPROTO_TCP, _CONGESTION, control.encode()),
            (socket.IPPROTO_TCP, socket.TCP_MAXSEG, segment_bytes(mtu) + 12),
            (socket.IPPROTO_IP, socket.IP_TOS, (signal or 0) << 2),
        ]
        self.ready: dict[int, Stream] = {}
        """By the flow's row."""
        self.running: dict[int, Stream] = {}
        self._opening: dict[tuple[str, int], Stream] = {}
        self._listeners: dict[int, socket.socket] = {}
        self._by_end: dict[int, Stream] = {}
        self._poll = select.poll()
        self._into = bytearray(2**18)
        for host in network.fabric.hosts:
            with inside(network.namespace(host.index)):
                listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # DCTCP's receiver echoes marks in its own way, and listeners hand their control on.
            self._prepare(listener)
            listener.bind((network.nodes[host.index].ip, PORT))
            listener.listen(1024)
            self._listeners[listener.fileno()] = listener
            self._poll.register(listener, select.POLLIN)

    def _prepare(self, end: socket.socket) -> None:
        end.setblocking(False)
        for level, name, value in self._options:
            end.setsockopt(level, name, value)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def open(self, row: int, source: int, destination: int, size: int, priority: int) -> None:
        """Begin a connection for a flow, known by its row."""
        with inside(self._network.namespace(source)):
            sender = socket.socket()
        self._prepare(sender)
        sender.bind((self._network.nodes[source].ip, 0))
        code = sender.connect_ex((self._network.nodes[destination].ip, PORT))
        if code not in (0, errno.EINPROGRESS):
            raise EmulationError(
                f"no connection from {self._network.nodes[source].name} to "
                f"{self._network.nodes[destination].name}: {errno.errorcode[code]}"
            )
        stream = Stream(row, priority, sender, size, size)
        address = sender.getsockname()
        self._opening[address[0], address[1]] = self.ready[row] = stream

    def begin(self, row: int) -> Stream:
        """Let the bytes of a flow go, whose handshake is over."""
        stream = self.running[row] = self.ready.pop(row)
        stream.begin()
        self._by_end[stream.sender.fileno()] = stream
        self._poll.register(stream.sender, select.POLLOUT)
        return stream

    def look(self, wait_s: float) -> Look:
        """Serve what there is, for which it waits at most so long."""
        asked = time.monotonic_ns()
        there = self._poll.poll(wait_s * 1000)
        look = Look(asked, time.monotonic_ns())
        for number, _ in there:
            if number in self._listeners:
                look.accepted += self._accept(self._listeners[number])
                continue
            stream = self._by_end[number]
            if number == stream.sender.fileno():
                stream.send()
                if not stream.unsent:
                    self._poll.modify(number, 0)
            else:
                stream.receive(self._into)
                if not stream.missing:
                    look.ended.append((stream, self._clock()))
        return look

    def _accept(self, listener: socket.socket) -> list[Stream]:
        found = []
        with contextlib.suppress(BlockingIOError):
            while True:
                receiver, address = listener.accept()
                stream = self._opening.pop((address[0], address[1]))
                stream.accepted(receiver)
                self._by_end[receiver.fileno()] = stream
                self._poll.register(receiver, select.POLLIN)
                found.append(stream)
        return found

    def end(self, stream: Stream) -> None:
        """Close the connection of a flow whose last byte was read."""
        del self.running[stream.row]
        for end in (stream.sender, stream.receiver):
            assert end is not None
            del self._by_end[end.fileno()]
            self._poll.unregister(end)
        stream.close()

    def close(self) -> None:
        """Close everything."""
        for stream in [*self.ready.values(), *self.running.values()]:
            stream.close()
        for listener in self._listeners.values():
            listener.close()
