"""The packet emulator: every frame, under a simulated clock.

The Python face of the C++ engine in ``emulate/engine``: it checks the settings against the fabric,
hands over plain arrays, and turns what comes back into the tables of the emulator protocol. Time
is integer picoseconds. docs/packet-model.md lists the modelling choices with their sources.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from emulate import _engine
from emulate.bound import MOST_BYTES, MOST_WAIT_PS, refuse_beyond
from emulate.discipline import PRIORITIES, Discipline
from emulate.fault import Fault, fault_settings
from emulate.setting import (
    NEVER,
    discipline_setting,
    fabric_setting,
    in_effect,
    port_headroom,
    refuse_buffers,
    refuse_rates,
    refuse_storms,
    route_setting,
    transport_setting,
)
from emulate.transport import Transport
from topo.error import KvfabricError
from topo.fabric import Fabric, Kind
from topo.route import Routes
from topo.unit import PS_PER_US, duration_text, size_text
from traffic.emulator import COMPLETION, FLOW, Advance, Table, Telemetry, refuse_past

OBSERVATION_TICK_PS: Final = 10 * PS_PER_US
"""Link state is latched at multiples of this, so that no policy sees the present."""

EngineName = Literal["auto", "core", "reference"]
"""Which engine moves the packets; the results are the same."""

_MOST_FLOWS: Final = 2**28
_MOST_PACKETS: Final = 2**32 - 1
_MOST_THREADS: Final = 64


class FlowError(KvfabricError):
    """A flow that the emulator cannot take."""


@dataclass(frozen=True, slots=True)
class Deadlock:
    """Queues of one priority that wait for each other; each of ``ports`` waits for the next."""

    time_ps: int
    priority: int
    ports: tuple[str, ...]


class PacketEmulator:
    """Moves flows packet by packet; keeps the `Emulator` protocol.

    Refuses with one line, at the start, what cannot be: buffers too small for their headrooms and
    reserves or for one frame, a release level below zero, rates out of range. A flow is refused
    when its hosts are unknown, unreachable or the same, when it is empty, or when its release lies
    in the past. ``headrooms`` has the bytes of single switch ports, by port, in place of the
    discipline's rule. The same arguments and submissions give the same bytes, with either
    ``engine``: the reference, or the fast core (docs/packet-core.md), and with any number of its
    ``threads``.
    """

    def __init__(
        self,
        fabric: Fabric,
        routes: Routes,
        discipline: Discipline | None = None,
        transport: Transport | None = None,
        *,
        seed: int,
        faults: Sequence[Fault] = (),
        headrooms: Mapping[int, int] | None = None,
        tick_ps: int = OBSERVATION_TICK_PS,
        engine: EngineName = "auto",
        threads: int = 1,
    ) -> None:
        self.fabric = fabric
        self.discipline = Discipline() if discipline is None else discipline
        self.transport = Transport() if transport is None else transport
        if not 0 <= seed < 2**64:
            raise KvfabricError(f"seed {seed}: write a whole number from 0 to 2^64 - 1")
        if tick_ps < 1:
            raise KvfabricError(
                f"observation tick {duration_text(tick_ps)}: must be above 0; write 10us"
            )
        refuse_beyond(KvfabricError, "observation tick", tick_ps, MOST_WAIT_PS, "ps")
        self._now_ps = 0
        self._tick_ps = tick_ps
        self._hosts = np.array([n.kind is Kind.HOST for n in fabric.nodes], np.bool_)
        self._seen = np.zeros(0, np.bool_)
        self._handoff = np.zeros(0, np.int64)
        refuse_rates(fabric)
        rules = in_effect(self.discipline, self.transport)
        headroom = port_headroom(fabric, rules, self.transport)
        for port, size in (headrooms or {}).items():
            refuse_beyond(KvfabricError, f"headroom of port {port}", size, MOST_BYTES, "B")
            headroom[port] = size
        refuse_buffers(fabric, rules, self.transport, headroom)
        refuse_storms(rules, faults)
        if engine not in ("auto", "core", "reference"):
            raise KvfabricError(f"engine {engine!r}: write auto, core or reference")
        slow = engine == "reference"
        make = _engine.Reference if slow else _engine.Core
        if not 1 <= threads <= _MOST_THREADS:
            raise KvfabricError(f"threads {threads}: write 1 to {_MOST_THREADS}")
        if threads > 1 and slow:
            raise KvfabricError(
                f"threads {threads}: the reference engine has one; write engine core, or 1"
            )
        self._engine: _engine.Reference | _engine.Core = make(
            fabric=fabric_setting(fabric),
            routes=route_setting(routes),
            discipline=discipline_setting(fabric, rules, headroom),
            transport=transport_setting(fabric, self.transport),
            faults=fault_settings(fabric, faults),
            seed=seed,
            tick_ps=tick_ps,
        )
        if threads > 1 and isinstance(self._engine, _engine.Core):
            self._engine.use_threads(threads)

    @property
    def now_ps(self) -> int:
        """The present time."""
        return self._now_ps

    def submit(self, flows: NDArray[np.void]) -> None:
        """Hand over `FLOW` rows: all of them, or none if one is refused."""
        if flows.dtype != FLOW:
            raise FlowError(f"flows of type {flows.dtype}: hand over rows of traffic.emulator.FLOW")
        if len(flows) == 0:
            return
        self._refuse(flows)
        # A field of one row counts as contiguous where it lies, unaligned: always copy.
        columns = {name: flows[name].copy() for name in FLOW.names or () if name != "write"}
        row = self._engine.submit(**columns)
        if row >= 0:
            source, destination = self._names(flows[row])
            raise FlowError(
                f"flow {flows[row]['flow']}: no route from {source!r} to {destination!r} and back; "
                "connect them, or place the roles elsewhere"
            )
        top = int(flows["flow"].max()) + 1
        if top > len(self._seen):
            grown = max(top, 2 * len(self._seen))
            self._seen = np.concatenate([self._seen, np.zeros(grown - len(self._seen), np.bool_)])
            self._handoff = np.concatenate(
                [self._handoff, np.zeros(grown - len(self._handoff), np.int64)]
            )
        self._seen[flows["flow"]] = True
        self._handoff[flows["flow"]] = flows["handoff"]

    def advance(self, until_ps: int) -> Advance:
        """Run to the first instant at most ``until_ps`` at which some flow completed."""
        refuse_past(until_ps, self._now_ps)
        self._now_ps, done = self._engine.advance(min(until_ps, NEVER))
        rows = np.zeros(len(done), COMPLETION)
        rows["flow"] = done
        rows["handoff"] = self._handoff[done]
        rows["finish_ps"] = self._now_ps
        return Advance(self._now_ps, rows)

    def path(self, flow: int) -> list[int]:
        """The ports that a submitted flow's data crosses, in order."""
        if not 0 <= flow < len(self._seen) or not self._seen[flow]:
            raise FlowError(f"flow {flow}: not submitted")
        return list(self._engine.path(flow))

    def deadlocks(self) -> list[Deadlock]:
        """Circles of queues that wait for each other, each once, at the tick that found it.

        `topo.deadlock` says beforehand whether there can be any.
        """
        return [
            Deadlock(time, priority, tuple(self.fabric.port_name(p) for p in ports))
            for time, priority, ports in self._engine.deadlocks()
        ]

    def observe(self) -> Table:
        """Link state at the last tick, one row a port: ``port queued_bytes paused utilisation``.

        ``paused`` has one bit a priority. ``utilisation`` is the share of the last tick spent
        sending.
        """
        state = self._engine.observe()
        return {"port": np.arange(len(state["paused"]), dtype=np.int32), **state}

    def busy_ps(self) -> NDArray[np.int64]:
        """The time that every port has spent sending by now, by port."""
        busy: NDArray[np.int64] = self._engine.port_table()["busy_ps"]
        return busy

    def effort(self) -> dict[str, int]:
        """What the run took: nothing that belongs to its results.

        Of the fast core ``lookahead_ps`` (the least time from an event at one node to its effect at
        another), ``threads``, ``spans`` (of one of two classes of nodes), ``visits`` (of nodes),
        and bytes of memory: ``flow_bytes`` for each flow, ``frame_bytes`` for all frames in flight
        and in queues, ``port_bytes`` for each port. Of the reference ``threads`` alone.
        """
        if isinstance(self._engine, _engine.Core):
            return dict(self._engine.effort())
        return {"threads": 1}

    def telemetry(self) -> Telemetry:
        """Tables of everything up to the present time, as `traffic.emulator.Telemetry` says.

        Further flow columns: ``spurious_timeouts`` (no packet of the flow had been lost),
        ``lost_packets``, ``cnps`` and ``rate_bps`` (the sender's rate now, or when its last ACK
        came); ``last_mark_port`` (-1: none); and the parts of ``finish_ps - release_ps``, to the
        picosecond, -1 before the finish: ``blame_wire_ps blame_queued_ps blame_paused_ps
        blame_source_ps blame_issue_ps blame_pacing_ps blame_window_ps blame_retransmission_ps``
        (docs/packet-model.md). Time lost to pacing is the fault of the port that marked last.
        Further totals: payload ``bytes_sent = bytes_delivered + bytes_discarded + bytes_dropped +
        bytes_in_flight``; ``drops_lossless``, which is an error of the run when not 0; and
        ``drops_fault``, frames lost on a link that was down or lossy, and ``drops_watchdog``.
        """
        flows: Table = dict(self._engine.flow_table())
        ports: Table = {
            "port": np.arange(len(self.fabric.ports.node), dtype=np.int64),
            **self._engine.port_table(),
        }
        totals = self._engine.totals()
        return Telemetry(
            flows,
            ports,
            totals,
            hops=dict(self._engine.hop_table()),
            pauses=dict(self._engine.pause_table()),
            stops=dict(self._engine.stop_table()),
            innocence=dict(self._engine.innocence_table()),
            occupancy=dict(self._engine.occupancy_table()),
            series=self._series(),
        )

    def _series(self) -> Table:
        """The queue series, in time instead of ticks."""
        table = self._engine.series_table()
        return {
            "port": table["port"],
            "from_ps": table["tick"] * self._tick_ps,
            "span_ps": table["samples"] * self._tick_ps,
            "mean_bytes": table["sum_bytes"] // table["samples"],
            "max_bytes": table["max_bytes"],
        }

    def _names(self, flow: np.void) -> tuple[str, str]:
        nodes = self.fabric.nodes
        return nodes[int(flow["source"])].name, nodes[int(flow["destination"])].name

    def _refuse(self, flows: NDArray[np.void]) -> None:
        """One line about the first flow that cannot be taken."""
        count = len(self._hosts)
        for end in ("source", "destination"):
            node = flows[end]
            inside = (node >= 0) & (node < count)
            known = inside & self._hosts[np.where(inside, node, 0)]
            _first(flows, ~known, end, "not a host of the fabric")
        _first(flows, flows["source"] == flows["destination"], "destination", "is its source")
        _first(flows, flows["bytes"] < 1, "bytes", "must be at least 1B")
        _first(flows, flows["bytes"] > 2**46, "bytes", "must be at most 64 TiB")
        _first(
            flows,
            (flows["descriptors"] < 1) | (flows["descriptors"] > flows["bytes"]),
            "descriptors",
            "must be at least 1 and at most its bytes",
        )
        mtu = self.transport.mtu
        _first(
            flows,
            _packets(flows, mtu) > _MOST_PACKETS,
            "bytes",
            f"take more than 2^32 - 1 packets of {size_text(mtu)}; write fewer, or a larger mtu",
        )
        issue = self.transport.issue_ps
        long = flows["descriptors"] > MOST_WAIT_PS // max(1, issue)
        why = f"of {duration_text(issue)} each take more than 10,000 s; write fewer, or less time"
        _first(flows, long & (issue > 0), "descriptors", why)
        _first(flows, flows["priority"] >= PRIORITIES, "priority", "must be 0 to 7")
        late = flows["release_ps"] < self._now_ps
        _first(flows, late, "release_ps", f"must not be before the present time, {self._now_ps}")
        _first(flows, flows["release_ps"] > NEVER, "release_ps", f"must be at most {NEVER}")
        number = flows["flow"]
        wild = (number < 0) | (number >= _MOST_FLOWS)
        _first(flows, wild, "flow", "must be 0 or more, dense from 0")
        known = number[number < len(self._seen)]
        twice = len(np.unique(number)) < len(number) or bool(self._seen[known].any())
        if twice:
            raise FlowError("flows: a flow number was submitted twice; number them apart, from 0")


def _packets(flows: NDArray[np.void], mtu: int) -> NDArray[np.int64]:
    """Packets of each flow, by the rule of `emulate.ideal.frames`."""
    count = flows["descriptors"]
    small, longer = np.divmod(flows["bytes"], count)
    packets: NDArray[np.int64] = longer * -(-(small + 1) // mtu) + (count - longer) * -(
        -small // mtu
    )
    return packets


def _first(flows: NDArray[np.void], bad: NDArray[np.bool_], name: str, why: str) -> None:
    if bad.any():
        flow = flows[int(np.argmax(bad))]
        shown = size_text(int(flow[name])) if name == "bytes" else flow[name]
        raise FlowError(f"flow {flow['flow']}: {name} {shown} {why}")
