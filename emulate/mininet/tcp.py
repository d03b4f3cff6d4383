"""Plain kernel TCP: the same flows by real sockets between the hosts' kernels.

Each flow has a connection of its own, which stands before its release, so that no handshake counts,
and begins with slow start; it finishes when its last byte is read. A token bucket of two frames at
each host stands for the NIC's rate; the switch process forwards, queues and drops in its lossy
class. The kernel's timers are those of the real clock: a least retransmission timeout of 200 ms is
20 us of a fabric that runs 10,000 times slower, where in the fabric itself it would be 200 ms.
"""

import contextlib
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from emulate.ideal import FRAME_OVERHEAD
from emulate.mininet.doctor import available_congestion
from emulate.mininet.error import EmulationError
from emulate.mininet.namespace import inside
from emulate.mininet.network import Network
from emulate.mininet.program import call

PORT: Final = 5201
_CHUNK: Final = 2**16
_FRAMING: Final = 24  # bytes of preamble, FCS and gap, which the kernel does not count
_TOTAL_RETRANS: Final = 100  # of struct tcp_info, linux/tcp.h
_CONGESTION: Final = 13
_NAP_S: Final = 0.05
_PATIENCE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class TcpOutcome:
    """When each flow finished, in virtual picoseconds (-1: not), and segments sent again."""

    finish_ps: NDArray[np.int64]
    resent: NDArray[np.int64]


def refuse_control(control: str) -> None:
    """Raise `EmulationError` for a congestion control that this kernel has not."""
    known = available_congestion()
    if control not in known:
        raise EmulationError(
            f"tcp {control!r}: this kernel has {', '.join(known)}; write one of them, or load "
            f"tcp_{control}"
        )


@contextmanager
def shaped(network: Network, dilation: int, mtu: int) -> Iterator[None]:
    """The hosts' NICs as token buckets of two frames at the dilated rate, while the body runs."""
    ports = network.fabric.ports
    own = [
        port
        for port in network.ports
        if network.nodes[port.node].kind == "host" and port.port == int(ports.first[port.node])
    ]
    burst = 2 * (mtu + FRAME_OVERHEAD + 40)
    for port in own:
        rate = max(1, int(ports.rate_bps[port.port]) // dilation)
        with inside(network.namespace(port.node)):
            call(
                *("tc", "qdisc", "replace", "dev", port.interface, "root", "tbf"),
                *("rate", f"{rate}bit", "burst", str(burst), "limit", str(1000 * burst)),
                *("overhead", str(_FRAMING)),
            )
    try:
        yield
    finally:
        for port in own:
            with contextlib.suppress(EmulationError), inside(network.namespace(port.node)):
                call("tc", "qdisc", "delete", "dev", port.interface, "root")


def tcp_replay(
    flows: NDArray[np.void],
    network: Network,
    *,
    control: str,
    dilation: int,
    mtu: int,
    until_ps: int,
    watch: Callable[[int], None] | None = None,
) -> TcpOutcome:
    """Replay `FLOW` rows open loop by kernel TCP; a switch process must forward meanwhile.

    Ends when all have finished or at ``until_ps``. Gaps in which no flow is under way are skipped.
    """
    refuse_control(control)
    order = np.argsort(flows["release_ps"], kind="stable")
    with shaped(network, dilation, mtu), _Wires(network, control, mtu) as wires:
        return _Replay(flows, order, wires, dilation, until_ps, watch or (lambda _: None)).run()


class _Wires:
    """Listening and connecting sockets in the hosts' namespaces."""

    def __init__(self, network: Network, control: str, mtu: int) -> None:
        self._network = network
        self._control = control.encode()
        self._mtu = mtu
        self._listeners: dict[int, socket.socket] = {}
        for host in network.fabric.hosts:
            with inside(network.namespace(host.index)):
                listener = socket.create_server(("", PORT), backlog=1024)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, mtu)
            self._listeners[host.index] = listener

    def connect(self, source: int, destination: int) -> tuple[socket.socket, socket.socket]:
        """A connection that stands: the sending and the receiving end."""
        with inside(self._network.namespace(source)):
            sender = socket.socket()
        sender.setsockopt(socket.IPPROTO_TCP, _CONGESTION, self._control)
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, self._mtu)
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sender.settimeout(_PATIENCE_S)
        try:
            sender.connect((self._network.nodes[destination].ip, PORT))
        except TimeoutError:
            raise EmulationError(
                f"no connection from {self._network.nodes[source].name} to "
                f"{self._network.nodes[destination].name} within {_PATIENCE_S:g} s; is the machine "
                "busy?"
            ) from None
        receiver, _ = self._listeners[destination].accept()
        sender.setblocking(False)
        receiver.setblocking(False)
        return sender, receiver

    def __enter__(self) -> "_Wires":
        return self

    def __exit__(self, *_: object) -> None:
        for listener in self._listeners.values():
            listener.close()


@dataclass(slots=True)
class _Open:
    """A connection under way: what is left to send and to come."""

    row: int
    sender: socket.socket
    receiver: socket.socket
    unsent: int
    missing: int


class _Replay:
    def __init__(
        self,
        flows: NDArray[np.void],
        order: NDArray[np.int64],
        wires: _Wires,
        dilation: int,
        until_ps: int,
        watch: Callable[[int], None],
    ) -> None:
        self._flows = flows
        self._waiting = order.tolist()[::-1]
        self._wires = wires
        self._dilation = dilation
        self._until = until_ps
        self._watch = watch
        self._start = time.monotonic_ns()
        self._skipped = 0
        self._ready: dict[int, tuple[socket.socket, socket.socket]] = {}
        self._open: dict[int, _Open] = {}
        self._poll = select.poll()
        self._zeros = bytes(_CHUNK)
        self.finish = np.full(len(flows), -1, np.int64)
        self.resent = np.zeros(len(flows), np.int64)

    def _now(self) -> int:
        return (time.monotonic_ns() - self._start) * 1000 // self._dilation + self._skipped

    def run(self) -> TcpOutcome:
        """Until everything is over."""
        try:
            while (self._waiting or self._open) and self._now() < self._until:
                self._release()
                self._turn()
                self._watch(self._now() - self._skipped)
        finally:
            for pair in self._ready.values():
                for end in pair:
                    end.close()
            for one in self._open.values():
                one.sender.close()
                one.receiver.close()
        return TcpOutcome(self.finish, self.resent)

    def _release(self) -> None:
        """Open what is due; connections of the next flow stand before."""
        if not self._waiting:
            return
        at = int(self._flows[self._waiting[-1]]["release_ps"])
        batch = [r for r in self._waiting[-64:] if self._flows[r]["release_ps"] == at]
        for row in batch:
            if row not in self._ready:
                flow = self._flows[row]
                self._ready[row] = self._wires.connect(
                    int(flow["source"]), int(flow["destination"])
                )
        if not self._open:
            self._skipped += max(0, at - self._now())
        if self._now() < at:
            return
        for row in batch:
            self._waiting.remove(row)
            sender, receiver = self._ready.pop(row)
            size = int(self._flows[row]["bytes"])
            one = _Open(row, sender, receiver, size, size)
            for end, events in ((sender, select.POLLOUT), (receiver, select.POLLIN)):
                self._open[end.fileno()] = one
                self._poll.register(end, events)

    def _turn(self) -> None:
        wait = _NAP_S
        if self._waiting:
            at = int(self._flows[self._waiting[-1]]["release_ps"])
            wait = min(wait, max(0, at - self._now()) * self._dilation / 1e12)
        for number, _ in self._poll.poll(wait * 1000):
            one = self._open.get(number)
            if one is None:
                continue
            if number == one.sender.fileno():
                self._send(one)
            else:
                self._receive(one)

    def _send(self, one: _Open) -> None:
        with contextlib.suppress(BlockingIOError):
            while one.unsent:
                one.unsent -= one.sender.send(self._zeros[: min(one.unsent, _CHUNK)])
        if not one.unsent:
            self._poll.modify(one.sender, 0)

    def _receive(self, one: _Open) -> None:
        with contextlib.suppress(BlockingIOError):
            while one.missing:
                one.missing -= len(one.receiver.recv(_CHUNK))
        if one.missing:
            return
        self.finish[one.row] = self._now()
        info = one.sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TOTAL_RETRANS + 4)
        self.resent[one.row] = struct.unpack_from("I", info, _TOTAL_RETRANS)[0]
        for end in (one.sender, one.receiver):
            del self._open[end.fileno()]
            self._poll.unregister(end)
            end.close()
