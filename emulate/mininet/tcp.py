"""Plain kernel TCP: the same flows by real sockets between the hosts' kernels.

Each flow has a connection of its own, which stands before its release, so that no handshake counts,
and begins with slow start; it finishes when its last byte is read. A token bucket of two frames at
each host stands for the NIC's rate; the switch process forwards, queues and drops in its lossy
class. The kernel's timers are those of the real clock: a least retransmission timeout of 200 ms is
20 us of a fabric that runs 10,000 times slower, where in the fabric itself it would be 200 ms.
"""

import contextlib
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
from emulate.mininet.exchange import Exchange
from emulate.mininet.kernel import lead_ps
from emulate.mininet.namespace import inside
from emulate.mininet.network import Network
from emulate.mininet.program import call
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
    with shaped(network, dilation, mtu):
        run = _Replay(flows, dilation, until_ps, watch or (lambda _: None))
        with contextlib.closing(Exchange(network, control, mtu, clock=run.now)) as exchange:
            return run.over(exchange)


class _Replay:
    """The flows that are not yet opened, in order of release, and what became of the others."""

    def __init__(
        self, flows: NDArray[np.void], dilation: int, until_ps: int, watch: Callable[[int], None]
    ) -> None:
        self._flows = flows
        self._waiting = np.argsort(flows["release_ps"], kind="stable").tolist()[::-1]
        self._dilation = dilation
        self._lead = lead_ps(dilation)
        self._until = until_ps
        self._watch = watch
        self._start = time.monotonic_ns()
        self._skipped = 0

    def now(self) -> int:
        """Virtual time."""
        return (time.monotonic_ns() - self._start) * 1000 // self._dilation + self._skipped

    def _release_ps(self, row: int) -> int:
        return int(self._flows[row]["release_ps"])

    def over(self, exchange: Exchange) -> TcpOutcome:
        """Put all flows over the exchange."""
        finish = np.full(len(self._flows), -1, np.int64)
        resent = np.zeros(len(self._flows), np.int64)
        while (self._waiting or exchange.ready or exchange.running) and self.now() < self._until:
            self._open(exchange)
            due = []
            for row, stream in list(exchange.ready.items()):
                if stream.receiver is not None and self._release_ps(row) <= self.now():
                    exchange.begin(row)
                elif stream.receiver is not None:
                    due.append(self._release_ps(row) - self.now())
            wait_s = min((at * self._dilation / PS_PER_S for at in due), default=_NAP_S)
            for stream, at in exchange.look(min(max(wait_s, 0), _NAP_S)).ended:
                finish[stream.row] = at
                resent[stream.row] = stream.told()[2]
                exchange.end(stream)
            self._watch(self.now() - self._skipped)
        return TcpOutcome(finish, resent)

    def _open(self, exchange: Exchange) -> None:
        """Connect what is released soon, so that no handshake counts; skip where nothing moves."""
        if self._waiting and not exchange.ready and not exchange.running:
            at = self._release_ps(self._waiting[-1]) - self._lead
            self._skipped += max(0, at - self.now())
        until = self.now() + self._lead
        while self._waiting and self._release_ps(self._waiting[-1]) <= until:
            row = self._waiting.pop()
            flow = self._flows[row]
            ends = (int(flow["source"]), int(flow["destination"]))
            exchange.open(row, *ends, int(flow["bytes"]), priority=0)
