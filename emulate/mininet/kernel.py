"""The kernel emulator: flows as real TCP over Linux routers and their queues, in dilated time.

It keeps the protocol of `traffic.emulator` as the other emulators do. One thread serves all
sockets; the kernel does the rest. Time in which no flow is under way is skipped. The kernel's
own timers know nothing of the dilation: a least retransmission timeout of 200 ms, or a delayed ACK
of 40 ms, is so much less of the fabric's time, the larger the dilation is.

Queues are looked at now and then (`emulate.mininet.counter`): a peak between is not seen.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

import numpy as np
from numpy.typing import NDArray

from emulate.mininet.child import schedule_delay
from emulate.mininet.counter import Counters
from emulate.mininet.error import EmulationError
from emulate.mininet.exchange import Exchange
from emulate.mininet.ledger import busy_time, flow_rows, port_rows, wire_bytes
from emulate.mininet.machine import between, reading
from emulate.mininet.plane import Plane
from emulate.mininet.realtime import RealTime
from emulate.mininet.stream import Stream
from topo.unit import PS_PER_S, PS_PER_US
from traffic.emulator import COMPLETION, Advance, Table, Telemetry

_NAP_S: Final = 0.25
_BLOCKED_NS: Final = 1_000_000
"""A look at the sockets that took longer has waited for them."""

LEAD_PS: Final = 10 * PS_PER_US
_LEAD_NS: Final = 200_000_000
"""A connection is opened so long before its flow's release: for its packets, and for this program.
"""


def lead_ps(dilation: int) -> int:
    """How long before its release a flow's connection is opened, in the fabric's time."""
    return LEAD_PS + _LEAD_NS * 1000 // dilation


@dataclass(slots=True)
class Kept:
    """How well the loop kept time, for the guard.

    late: flows whose connection did not stand at their release. notices: completions told later
    than the window. error: of each flow, how late it began and how late its end may have been seen,
    as a share of its duration. overran: the run took far too long.
    """

    late: int
    notices: int
    error: list[float]
    elapsed_ns: int = 0
    waited_ns: int = 0
    stolen: float = 0.0
    softnet_drops: int = 0
    outside_drops: int = 0
    overran: bool = False


class KernelEmulator(RealTime):
    """Moves flows as TCP connections over a kernel plane; to be used as a context.

    control: the congestion control of all senders, e.g. ``dctcp``; it alone asks for ECN.
    window_ps: how much later than it happened a completion may be told. tick_ns: real time between
    two looks at the queues. watch: called now and then with the time that was not skipped. most_s:
    real seconds after which the run stops by itself and is invalid. Refuses flows as the packet
    emulator does, and pinned paths.
    """

    def __init__(
        self,
        plane: Plane,
        control: str,
        *,
        window_ps: int = 20 * PS_PER_US,
        tick_ns: int = 50_000_000,
        watch: Callable[[int], None] | None = None,
        most_s: float | None = None,
    ) -> None:
        super().__init__(most_s)
        self.plane = plane
        self.dilation = plane.dilation
        self._window = window_ps
        self._tick_ns = tick_ns
        self._lead = lead_ps(plane.dilation)
        self._watch = watch or (lambda _now: None)
        self._twin = plane.setup.twin()
        self._flows: list[NDArray[np.void]] = []
        self._waiting: list[tuple[int, int]] = []
        self._due: list[tuple[int, int]] = []
        self._finish: dict[int, int] = {}
        self._told: dict[int, tuple[int, int, int]] = {}
        self._start_ns = 0
        self._skipped = 0
        self._looked_ns = 0
        self._polled_ns = 0
        self.kept = Kept(0, 0, [])
        self.samples: list[tuple[int, int, int]] = []
        """Looks at the queues: (time in ps, port, bytes), those without bytes left out."""
        self._queues = Counters(plane)
        self._before = (self._queues.now(), self._queues.tally())
        self._pictured = (0, np.zeros(len(plane.network.ports), np.int64))
        self._exchange = Exchange(
            plane.network,
            control,
            plane.setup.transport.mtu,
            signal=plane.signal_priority,
            clock=lambda: self.clock_ps,
        )
        self._found: Telemetry | None = None

    def close(self) -> None:
        """Close the connections and what looks at the queues."""
        self._exchange.close()
        self._queues.close()

    @property
    def clock_ps(self) -> int:
        """What virtual time it is, 0 before it began."""
        if not self._start_ns:
            return 0
        return self._elapsed_ns() * 1000 // self.dilation + self._skipped

    def _elapsed_ns(self) -> int:
        return time.monotonic_ns() - self._start_ns

    def submit(self, flows: NDArray[np.void]) -> None:
        """Hand over `FLOW` rows: all of them, or none if one is refused."""
        self._refuse_more(self._found is not None)
        pinned = flows[flows["path"] >= 0]
        if len(pinned):
            raise EmulationError(
                f"flow {int(pinned['flow'][0])}: path {int(pinned['path'][0])} is pinned, and the "
                "kernel hashes; use --dataplane softswitch"
            )
        self._twin.submit(flows)
        for row in flows:
            self._flows.append(row)
            heappush(self._waiting, (int(row["release_ps"]), len(self._flows) - 1))

    def _begin(self) -> None:
        self._start_ns = self._polled_ns = time.monotonic_ns()
        self._machine = reading()
        self._scheduled = schedule_delay()

    def advance(self, until_ps: int) -> Advance:
        """Wait for the first completion at most at ``until_ps``, or until that instant is over."""
        self._refuse_past(until_ps, self.kept.notices)
        if not self._start_ns:
            self._begin()
        while True:
            if self._due and self._due[0][0] <= until_ps:
                return self._completed()
            over = self.stopped_ps is not None or self.clock_ps >= until_ps
            if over:
                self._now_ps = until_ps
                return Advance(until_ps, np.zeros(0, COMPLETION))
            if self._overruns(self._elapsed_ns() / 1e9):
                continue
            self._release()
            self._skip(until_ps)
            self._turn(until_ps)
            self._watch(self.clock_ps - self._skipped)

    def _completed(self) -> Advance:
        first = self._due[0][0]
        found = []
        while self._due and self._due[0][0] == first:
            finish, row = heappop(self._due)
            if self.clock_ps - finish > self._window:
                self.kept.notices += 1
            flow = self._flows[row]
            found.append((int(flow["flow"]), int(flow["handoff"]), finish))
        self._now_ps = max(self._now_ps, first)
        return Advance(self._now_ps, np.array(sorted(found), COMPLETION))

    def _release(self) -> None:
        """Open connections of what comes, and begin what is due."""
        now = self.clock_ps
        while self._waiting and self._waiting[0][0] <= now + self._lead:
            _, row = heappop(self._waiting)
            flow = self._flows[row]
            self._exchange.open(
                row,
                int(flow["source"]),
                int(flow["destination"]),
                int(flow["bytes"]),
                int(flow["priority"]),
            )
        for row, stream in list(self._exchange.ready.items()):
            release = int(self._flows[row]["release_ps"])
            # One whose handshake is not over is counted as late when it is.
            if release <= now and stream.receiver is not None:
                self._exchange.begin(row).late_ps = now - release

    def _skip(self, until_ps: int) -> None:
        """Jump to the next release, less the lead, where nothing is under way."""
        if self._exchange.running or self._exchange.ready:
            return
        following = self._waiting[0][0] - self._lead if self._waiting else until_ps
        self._skipped += max(0, min(until_ps, following) - self.clock_ps)

    def _turn(self, until_ps: int) -> None:
        """One look at all sockets, for which it waits as long as nothing else is due."""
        at = until_ps
        if self._waiting:
            at = min(at, self._waiting[0][0] - self._lead)
        for row, stream in self._exchange.ready.items():
            if stream.receiver is not None:
                at = min(at, int(self._flows[row]["release_ps"]))
        wait = min(_NAP_S, max(0.0, (at - self.clock_ps) * self.dilation / PS_PER_S))
        if self._exchange.running:
            wait = min(wait, self._tick_ns / 1e9)
        look = self._exchange.look(wait)
        # What is there at once may have come at any time since the last look.
        blocked = look.woke_ns - look.asked_ns > _BLOCKED_NS
        since = look.woke_ns if blocked else self._polled_ns
        self._polled_ns = look.woke_ns
        took = (time.monotonic_ns() - since) * 1000 // self.dilation
        now = self.clock_ps
        self.kept.late += sum(
            now > int(self._flows[stream.row]["release_ps"]) for stream in look.accepted
        )
        for stream, finish in look.ended:
            self._end(stream, finish, took)
        if self._exchange.running and time.monotonic_ns() - self._looked_ns >= self._tick_ns:
            self._look()

    def _end(self, stream: Stream, finish: int, took: int) -> None:
        flow = self._flows[stream.row]
        self._finish[stream.row] = finish
        self._told[stream.row] = stream.told()
        duration = max(finish - int(flow["release_ps"]), 1)
        self.kept.error.append((took + stream.late_ps) / duration)
        heappush(self._due, (finish, stream.row))
        self._exchange.end(stream)

    def _look(self) -> None:
        now = self.clock_ps
        for port, counted in self._queues.now().items():
            if counted.backlog_bytes:
                self.samples.append((now, port, counted.backlog_bytes))
        self._looked_ns = time.monotonic_ns()

    def observe(self) -> Table:
        """Link state as the kernel has it now: ``port queued_bytes paused utilisation``."""
        ports = len(self.plane.network.ports)
        queued = np.zeros(ports, np.int64)
        for port, counted in self._queues.now().items():
            queued[port] = counted.backlog_bytes
        busy = self.busy_ps()
        before, earlier = self._pictured
        now = self.clock_ps
        self._pictured = (now, busy)
        return {
            "port": np.arange(ports, dtype=np.int32),
            "queued_bytes": queued,
            "paused": np.zeros(ports, np.uint8),
            "utilisation": np.clip((busy - earlier) / max(now - before, 1), 0.0, 1.0),
        }

    def busy_ps(self) -> NDArray[np.int64]:
        """The time that every port has spent sending since the emulator was made, by port."""
        wire = wire_bytes(self._before[0], self._queues.now())
        return busy_time(wire, self.plane.network.fabric.ports.rate_bps)

    def telemetry(self) -> Telemetry:
        """The tables of the run, which ends with this call."""
        if self._found is None:
            if not self._start_ns:
                self._begin()
            self._found = self._closed()
        return self._found

    def _closed(self) -> Telemetry:
        kept, (before, earlier) = self.kept, self._before
        kept.elapsed_ns, kept.overran = self._elapsed_ns(), self.overran
        kept.waited_ns = schedule_delay()[1] - self._scheduled[1]
        kept.stolen, kept.softnet_drops = between(self._machine, reading())
        after, tally = self._queues.now(), self._queues.tally()
        kept.outside_drops = tally.outside - earlier.outside
        numbers = [int(flow["flow"]) for flow in self._flows]
        flows = flow_rows(self._twin.telemetry().flows, numbers, self._finish, self._told)
        wire = wire_bytes(before, after)
        ports = port_rows(
            wire,
            np.array([after[p].packets - before[p].packets for p in sorted(before)], np.int64),
            busy_time(wire, self.plane.network.fabric.ports.rate_bps),
            tally.marked - earlier.marked,
            tally.drops - earlier.drops,
            self.samples,
        )
        totals = {
            "dilation": self.dilation,
            "drops_buffer": int((tally.drops - earlier.drops).sum()),
            "bytes_sent": int(np.asarray(flows["bytes"]).sum()),
            "bytes_delivered": sum(int(self._flows[row]["bytes"]) for row in self._finish),
        }
        return Telemetry(flows, ports, totals)
