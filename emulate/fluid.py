"""The fluid emulator: flows as liquid that shares every port max-min fairly.

Event-driven at flow arrivals and departures; between two events every rate is constant. A flow
fills its whole path at once, so the fluid has no queues, no pauses, no marks and no losses, and
says so: those columns are 0. What a packet network adds to a lone flow is kept as a constant: a
flow finishes when its last drop has gone plus the path's base latency (propagation, switch
latency, one frame stored and forwarded on every later hop), so that a lone flow takes exactly its
ideal time. Payload is inflated by the frames' overhead unless an ``efficiency`` is given.

Times that are reported are integer picoseconds; volumes inside are bits in floating point.
"""

from heapq import heappop, heappush
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emulate import _engine
from emulate.ideal import fluid_ps, frames, ideal_ps, wire_bytes
from emulate.path import Pathfinder
from emulate.share import max_min
from topo.error import KvfabricError
from topo.fabric import Fabric, Kind
from topo.route import Routes
from topo.unit import PS_PER_S, PS_PER_US, duration_text, size_text
from traffic.emulator import COMPLETION, FLOW, Advance, Table, Telemetry, refuse_past

OBSERVATION_TICK_PS: Final = 10 * PS_PER_US
"""Link state is latched at multiples of this, so that no policy sees the present."""

_NEVER: Final = 1 << 62
_COLUMNS: Final = {
    "wire": np.int64,  # bytes on the wire
    "left": np.float64,  # bits still to send at `since`
    "rate": np.float64,  # bit/s
    "since": np.int64,
    "gone": np.int64,  # when the last bit leaves at the present rate; then when it left
    "base": np.int64,
    "ideal": np.int64,
    "hops": np.int64,
    "finish": np.int64,
}


class SubmissionError(KvfabricError):
    """A flow that the emulator cannot take."""


class _Request(NamedTuple):
    """A flow as submitted: the fields of FLOW that the fluid uses."""

    flow: int
    handoff: int
    source: int
    destination: int
    size: int
    descriptors: int
    release_ps: int


class FluidEmulator:
    """Max-min fair sharing over one hashed path a flow; keeps the `Emulator` protocol.

    ``mtu`` is the payload of a full frame in bytes. ``efficiency`` replaces the computed share of
    payload in the bytes on the wire (above 0, at most 1). The same arguments and submissions give
    the same results, however `advance` is sliced.
    """

    def __init__(
        self,
        fabric: Fabric,
        routes: Routes,
        *,
        seed: int = 0,
        mtu: int = 4096,
        efficiency: float | None = None,
    ) -> None:
        if mtu <= 0:
            raise KvfabricError(f"mtu {size_text(mtu)}: a frame must carry payload; write 4KiB")
        if efficiency is not None and not 0 < efficiency <= 1:
            raise KvfabricError(f"efficiency {efficiency}: must be above 0 and at most 1")
        ports = fabric.ports
        self._fabric = fabric
        self._mtu = mtu
        self._efficiency = efficiency
        self._find = Pathfinder(fabric, routes, seed)
        self._count = len(ports.rate_bps)
        self._capacity = np.append(ports.rate_bps.astype(np.float64), np.inf)
        self._rate_of: list[int] = ports.rate_bps.tolist()
        switching = [node.switch.latency_ps if node.switch else 0 for node in fabric.nodes]
        self._latency: list[int] = (ports.delay_ps + np.asarray(switching)[ports.peer]).tolist()
        self._host = [node.kind is Kind.HOST for node in fabric.nodes]
        self._now = 0
        self._requests: list[_Request] = []
        self._paths: list[list[int]] = []
        self._row: dict[int, int] = {}
        self._hops = np.zeros((0, 1), np.int32)
        self._state = {name: np.zeros(0, kind) for name, kind in _COLUMNS.items()}
        self._on: list[set[int]] = [set() for _ in range(self._count)]  # flowing rows by port
        self._known: dict[tuple[int, ...], int] = {}  # ideals
        self._pending: list[tuple[int, int, int]] = []
        self._leaving: list[tuple[int, int]] = []  # some outdated: `gone` tells
        self._finishing: list[tuple[int, int, int]] = []
        self._sent = np.zeros(self._count, np.int64)
        self._frames = np.zeros(self._count, np.int64)
        self._events = 0
        self._tick = 0
        self._load = np.zeros(self._count + 1)  # bit/s by port
        self._seen = np.zeros(self._count)

    @property
    def now_ps(self) -> int:
        """The present time."""
        return self._now

    def submit(self, flows: NDArray[np.void]) -> None:
        """Hand over `FLOW` rows: all of them, or none if one is refused.

        Refused, with a `KvfabricError`: a release in the past, a used flow number, an unknown
        host, an empty flow, and a pair without a path.
        """
        entering: dict[int, tuple[_Request, list[int]]] = {}
        for row in np.atleast_1d(flows).astype(FLOW, copy=False).tolist():
            flow, handoff, source, destination, size, cuts, entropy, pinned, _, _, release = row
            request = _Request(flow, handoff, source, destination, size, cuts, release)
            self._check(request, flow in self._row or flow in entering)
            entering[flow] = request, self._find.path(source, destination, entropy, pinned)
        for request, path in entering.values():
            self._enter(request, path)

    def path(self, flow: int) -> list[int]:
        """The ports that a submitted flow crosses, in order."""
        if flow not in self._row:
            raise SubmissionError(f"flow {flow}: not submitted")
        return list(self._paths[self._row[flow]])

    def _check(self, request: _Request, taken: bool) -> None:
        flow = request.flow
        if taken:
            raise SubmissionError(f"flow {flow}: the number is taken; number flows once each")
        if request.release_ps < self._now:
            raise SubmissionError(
                f"flow {flow}: release {duration_text(request.release_ps)} is before the present "
                f"{duration_text(self._now)}; release it later"
            )
        if request.size < 1:
            raise SubmissionError(f"flow {flow}: {size_text(request.size)}; a flow has at least 1B")
        if not 1 <= request.descriptors <= request.size:
            raise SubmissionError(
                f"flow {flow}: {request.descriptors} descriptors for {size_text(request.size)}; "
                "write at least 1 and at most one a byte"
            )
        for end in (request.source, request.destination):
            if not 0 <= end < len(self._host) or not self._host[end]:
                raise SubmissionError(
                    f"flow {flow}: node {end} is not a host of fabric {self._fabric.name!r}"
                )
        if request.source == request.destination:
            raise SubmissionError(
                f"flow {flow}: host {request.source} sends to itself; nothing crosses the fabric"
            )

    def _enter(self, request: _Request, path: list[int]) -> None:
        row = len(self._requests)
        self._make_room(row, len(path))
        self._row[request.flow] = row
        self._requests.append(request)
        self._paths.append(path)
        self._hops[row, : len(path)] = path
        rates = [self._rate_of[port] for port in path]
        slowest = min(rates)
        wire = wire_bytes(request.size, self._mtu, request.descriptors)
        ideal = self._ideal(request, rates, [self._latency[p] for p in path])
        volume = wire if self._efficiency is None else request.size / self._efficiency
        state = self._state
        state["wire"][row] = wire
        state["left"][row] = volume * 8
        state["base"][row] = ideal - fluid_ps(wire, slowest)
        state["ideal"][row] = ideal
        state["hops"][row] = len(path)
        state["gone"][row] = state["finish"][row] = -1
        heappush(self._pending, (request.release_ps, request.flow, row))

    def _ideal(self, request: _Request, rates: list[int], latencies: list[int]) -> int:
        """The lone flow's time; with several descriptors by the packet engine's recurrence."""
        if request.descriptors == 1:
            return ideal_ps(request.size, self._mtu, rates, sum(latencies))
        kind = (request.size, request.descriptors, *rates, *latencies)
        if kind not in self._known:
            self._known[kind] = _engine.ideal_ps(
                bytes=request.size,
                descriptors=request.descriptors,
                mtu=self._mtu,
                issue_ps=0,
                rates_bps=rates,
                delays_ps=latencies,
                recurrence=False,
            )
        return self._known[kind]

    def _make_room(self, row: int, width: int) -> None:
        rows, columns = self._hops.shape
        if row >= rows or width > columns:
            more = max(64, 2 * rows) if row >= rows else rows
            hops = np.full((more, max(width, columns)), self._count, np.int32)
            hops[:rows, :columns] = self._hops
            self._hops = hops
            for name, column in self._state.items():
                self._state[name] = np.concatenate([column, np.zeros(more - rows, column.dtype)])

    def advance(self, until_ps: int) -> Advance:
        """Run to the first instant at most ``until_ps`` at which some flow completed."""
        refuse_past(until_ps, self._now)
        while True:
            at = min(
                self._pending[0][0] if self._pending else _NEVER,
                self._finishing[0][0] if self._finishing else _NEVER,
                self._departure(),
            )
            if at > until_ps:
                self._now = until_ps
                return Advance(until_ps, np.zeros(0, COMPLETION))
            self._now = at
            self._move(at)
            done: list[tuple[int, int, int]] = []
            while self._finishing and self._finishing[0][0] == at:
                _, flow, row = heappop(self._finishing)
                self._state["finish"][row] = at
                done.append((flow, self._requests[row].handoff, at))
            if done:
                return Advance(at, np.array(done, COMPLETION))

    def _departure(self) -> int:
        """When the next flow leaves at the present rates."""
        gone, rate = self._state["gone"], self._state["rate"]
        while self._leaving:
            at, row = self._leaving[0]
            if gone[row] == at and rate[row]:
                return at
            heappop(self._leaving)
        return _NEVER

    def _move(self, at: int) -> None:
        """Let go what has left by now, let in what is released now, and share anew."""
        touched: set[int] = set()
        while self._departure() == at:
            _, row = heappop(self._leaving)
            touched.update(self._paths[row])
            self._leave(row, at)
        while self._pending and self._pending[0][0] == at:
            _, _, row = heappop(self._pending)
            touched.update(self._paths[row])
            self._state["since"][row] = at
            for port in self._paths[row]:
                self._on[port].add(row)
            self._events += 1
        if touched:
            self._latch(at)
            self._share(touched, at)

    def _leave(self, row: int, at: int) -> None:
        state, path = self._state, self._paths[row]
        for port in path:
            self._on[port].remove(row)
        self._sent[path] += state["wire"][row]
        self._frames[path] += frames(
            self._requests[row].size, self._mtu, self._requests[row].descriptors
        )
        state["rate"][row] = state["left"][row] = 0.0
        finish = at + int(state["base"][row])
        heappush(self._finishing, (finish, self._requests[row].flow, row))
        self._events += 1

    def _share(self, touched: set[int], at: int) -> None:
        """New rates for the flows that the ports touch, directly or through shared ports."""
        rows: set[int] = set()
        ports = set(touched)
        reached = list(touched)
        for port in reached:  # grows on the way
            for row in self._on[port]:
                if row not in rows:
                    rows.add(row)
                    for other in self._paths[row]:
                        if other not in ports:
                            ports.add(other)
                            reached.append(other)
        self._load[reached] = 0.0
        if not rows:
            return
        state = self._state
        among = np.array(sorted(rows), np.int64)
        hops = self._hops[among]
        rate = max_min(hops, self._capacity)
        np.add.at(self._load, hops.ravel(), np.repeat(rate, hops.shape[1]))
        changed = rate != state["rate"][among]
        among, rate = among[changed], rate[changed]
        passed = (at - state["since"][among]) / PS_PER_S
        left = np.maximum(state["left"][among] - state["rate"][among] * passed, 0.0)
        gone = at + np.maximum(np.rint(left * PS_PER_S / rate).astype(np.int64), 1)
        state["left"][among] = left
        state["rate"][among] = rate
        state["since"][among] = at
        state["gone"][among] = gone
        for entry in zip(gone.tolist(), among.tolist(), strict=True):
            heappush(self._leaving, entry)

    def _latch(self, at: int) -> None:
        """Keep the utilisation of the last tick before the rates change."""
        tick = at // OBSERVATION_TICK_PS
        if tick > self._tick:
            self._tick = tick
            self._seen = (self._load / self._capacity)[: self._count]

    def observe(self) -> Table:
        """Utilisation of every port at the last tick; the fluid has no queues and no pauses."""
        self._latch(self._now)
        return {
            "port": np.arange(self._count, dtype=np.int32),
            "queued_bytes": np.zeros(self._count, np.int64),
            "paused": np.zeros(self._count, np.bool_),
            "utilisation": self._seen.copy(),
        }

    def busy_ps(self) -> NDArray[np.int64]:
        """The time that the wire bytes sent by now take at every port's rate, by port."""
        sent, share = self._sent.copy(), self._shares()
        for row in np.flatnonzero(self._state["rate"] > 0).tolist():
            sent[self._paths[row]] += int(self._state["wire"][row] * share[row])
        return self._time_of(sent)

    def _time_of(self, sent: NDArray[np.int64]) -> NDArray[np.int64]:
        rates = np.asarray(self._rate_of, np.float64)
        return np.rint(sent * (8 * PS_PER_S / rates)).astype(np.int64)

    def _shares(self) -> NDArray[np.float64]:
        """How much of every flow has been sent by now, in order of submission, 0 to 1."""
        column = {name: values[: len(self._requests)] for name, values in self._state.items()}
        flowing = column["rate"] > 0
        passed = (self._now - column["since"]) / PS_PER_S
        left = np.where(flowing, column["left"] - column["rate"] * passed, 0.0)
        volume = column["wire"] * 8.0
        if self._efficiency is not None:
            sizes = np.array([request.size for request in self._requests], np.int64)
            volume = sizes / self._efficiency * 8
        started = ((column["gone"] >= 0) & ~flowing).astype(np.float64)
        return np.where(flowing, 1 - left / np.maximum(volume, 1.0), started)

    def telemetry(self) -> Telemetry:
        """Tables up to the present time; what the fluid does not know is 0."""
        count = len(self._requests)
        submitted = np.array(self._requests, np.int64).reshape(count, len(_Request._fields))
        column = {name: values[:count] for name, values in self._state.items()}
        flowing = column["rate"] > 0
        started = (column["gone"] >= 0) & ~flowing
        share = self._shares()
        size, cuts = submitted[:, 4], np.maximum(submitted[:, 5], 1)
        longer = size % cuts
        total = longer * -(-(size // cuts + 1) // self._mtu)
        total += (cuts - longer) * -(-(size // cuts) // self._mtu)
        packets = np.floor(total * share).astype(np.int64)
        order = np.argsort(submitted[:, 0], kind="stable")
        flows: Table = {
            "flow": submitted[:, 0],
            "handoff": submitted[:, 1],
            "source": submitted[:, 2],
            "destination": submitted[:, 3],
            "bytes": submitted[:, 4],
            "release_ps": submitted[:, 6],
            "finish_ps": column["finish"],
            "sender_done_ps": np.where(started, column["gone"], -1),
            "ideal_ps": column["ideal"],
            "hops": column["hops"],
            "packets": packets,
        }
        for name in ("marked", "resent_bytes", "timeouts"):
            flows[name] = np.zeros(count, np.int64)
        sent, frame_count = self._sent.copy(), self._frames.copy()
        for row in np.flatnonzero(flowing).tolist():
            sent[self._paths[row]] += int(column["wire"][row] * share[row])
            frame_count[self._paths[row]] += packets[row]
        ports: Table = {
            "port": np.arange(self._count, dtype=np.int64),
            "tx_bytes": sent,
            "tx_packets": frame_count,
            "busy_ps": self._time_of(sent),
        }
        for name in ("paused_ps", "pauses", "marked", "drops", "max_queue_bytes", "blocked_ps"):
            ports[name] = np.zeros(self._count, np.int64)
        totals = {
            "events": self._events,
            "packet_hops": int(frame_count.sum()),
            "drops_buffer": 0,
            "drops_fault": 0,
            "bytes_sent": int(np.rint(submitted[:, 4] * share).sum()),
            "bytes_delivered": int(submitted[column["finish"] >= 0, 4].sum()),
        }
        return Telemetry({name: values[order] for name, values in flows.items()}, ports, totals)
