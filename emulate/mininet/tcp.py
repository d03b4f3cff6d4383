"""Plain kernel TCP: the same flows by real sockets between the hosts' kernels.

Each flow has a connection of its own, which stands before its release, so that no handshake counts,
and begins with slow start; it finishes when its last byte is read. A token bucket of two frames at
each host stands for the NIC's rate; the switch process forwards, queues and drops in its lossy
class. The kernel's timers are those of the real clock: a least retransmission timeout of 200 ms is
20 us of a fabric that runs 10,000 times slower, where in the fabric itself it would be 200 ms.
"""

import contextlib
import select
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
from emulate.mininet.kernel import lead_ps
from emulate.mininet.namespace import inside
from emulate.mininet.network import Network
from emulate.mininet.program import call
from emulate.mininet.stream import Exchange, Stream
from topo.unit import PS_PER_S

_FRAMING: Final = 24  # bytes of preamble, FCS and gap, which the kernel does not count
_NAP_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class TcpOutcome:
    """When each flow finished, in virtual picoseconds (-1: not), and bytes sent again."""

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
    with (
        shaped(network, dilation, mtu),
        contextlib.closing(Exchange(network, control, mtu, None)) as exchange,
    ):
        return _Replay(flows, exchange, dilation, until_ps, watch or (lambda _: None)).run()


class _Replay:
    """Flows by release: waiting, then ready, with a connection that is opened, then running."""

    def __init__(
        self,
        flows: NDArray[np.void],
        exchange: Exchange,
        dilation: int,
        until_ps: int,
        watch: Callable[[int], None],
    ) -> None:
        self._flows = flows
        self._waiting = np.argsort(flows["release_ps"], kind="stable").tolist()[::-1]
        self._exchange = exchange
        self._dilation = dilation
        self._lead = lead_ps(dilation)
        self._until = until_ps
        self._watch = watch
        self._start = time.monotonic_ns()
        self._skipped = 0
        self._ready: dict[int, Stream] = {}
        self._running: dict[int, Stream] = {}
        self._by_end: dict[int, Stream] = {}
        self._poll = select.poll()
        self._into = bytearray(2**18)
        self.finish = np.full(len(flows), -1, np.int64)
        self.resent = np.zeros(len(flows), np.int64)

    def _now(self) -> int:
        return (time.monotonic_ns() - self._start) * 1000 // self._dilation + self._skipped

    def _release_ps(self, row: int) -> int:
        return int(self._flows[row]["release_ps"])

    def run(self) -> TcpOutcome:
        """Until everything is over."""
        for number in self._exchange.listeners:
            self._poll.register(number, select.POLLIN)
        try:
            while (self._waiting or self._ready or self._running) and self._now() < self._until:
                self._connect()
                self._begin()
                self._turn()
                self._watch(self._now() - self._skipped)
        finally:
            for stream in [*self._ready.values(), *self._running.values()]:
                stream.close()
        return TcpOutcome(self.finish, self.resent)

    def _connect(self) -> None:
        """Connect what is released soon, so that no handshake counts; skip where nothing moves."""
        if self._waiting and not self._ready and not self._running:
            at = self._release_ps(self._waiting[-1]) - self._lead
            self._skipped += max(0, at - self._now())
        until = self._now() + self._lead
        while self._waiting and self._release_ps(self._waiting[-1]) <= until:
            row = self._waiting.pop()
            flow = self._flows[row]
            self._ready[row] = self._exchange.open(
                row, int(flow["source"]), int(flow["destination"]), int(flow["bytes"]), 0
            )

    def _begin(self) -> None:
        for row, stream in list(self._ready.items()):
            if stream.receiver is None or self._release_ps(row) > self._now():
                continue
            self._running[row] = self._ready.pop(row)
            stream.begin()
            self._by_end[stream.sender.fileno()] = stream
            self._poll.register(stream.sender, select.POLLOUT)

    def _turn(self) -> None:
        """One look at all sockets, for which it waits as long as nothing else is due."""
        due = [self._release_ps(row) for row, one in self._ready.items() if one.receiver]
        wait = min([_NAP_S, *(max(0, at - self._now()) * self._dilation / PS_PER_S for at in due)])
        for number, _ in self._poll.poll(wait * 1000):
            if number in self._exchange.listeners:
                for stream in self._exchange.accept(number):
                    assert stream.receiver is not None
                    self._by_end[stream.receiver.fileno()] = stream
                    self._poll.register(stream.receiver, select.POLLIN)
                continue
            stream = self._by_end[number]
            if number == stream.sender.fileno():
                stream.send()
                if not stream.unsent:
                    self._poll.modify(number, 0)
            else:
                stream.receive(self._into)
                if not stream.missing:
                    self._end(stream)

    def _end(self, stream: Stream) -> None:
        self.finish[stream.row] = self._now()
        self.resent[stream.row] = stream.told()[2]
        del self._running[stream.row]
        for end in (stream.sender, stream.receiver):
            assert end is not None
            del self._by_end[end.fileno()]
            self._poll.unregister(end)
        stream.close()
