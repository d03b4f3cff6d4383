"""The packet emulator: every frame, under a simulated clock.

The Python face of the C++ engine in ``emulate/engine``: it checks the settings against the fabric,
hands over plain arrays, and turns what comes back into the tables of the emulator protocol. Time
is integer picoseconds. docs/packet-model.md lists the modelling choices with their sources.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from emulate import _engine
from emulate.discipline import PRIORITIES, Discipline, DisciplineError
from emulate.headroom import headroom_bytes, response_ps
from emulate.transport import Transport, TransportError
from topo.error import KvfabricError
from topo.fabric import Fabric, Kind
from topo.route import Routes
from topo.unit import PS_PER_US, show_duration, show_rate
from traffic.emulator import COMPLETION, FLOW, Advance, Table, Telemetry

OBSERVATION_TICK_PS: Final = 10 * PS_PER_US
"""Link state is latched at multiples of this, so that no policy sees the present."""

_NEVER: Final = 2**62
_MOST_RATE_BPS: Final = 8 * 10**12
_LEAST_RATE_BPS: Final = 10**6
_MOST_FLOWS: Final = 2**28


class FlowError(KvfabricError):
    """A flow that the emulator cannot take."""


class PacketEmulator:
    """Moves flows packet by packet; keeps the `Emulator` protocol.

    Refuses with one line, at the start, what cannot be: buffers too small for their headrooms and
    reserves or for one frame, a release level below zero, rates out of range. A flow is refused
    when its hosts are unknown, unreachable or the same, when it is empty, or when its release lies
    in the past. The same arguments and submissions give the same bytes.
    """

    def __init__(
        self,
        fabric: Fabric,
        routes: Routes,
        discipline: Discipline | None = None,
        transport: Transport | None = None,
        *,
        seed: int,
        tick_ps: int = OBSERVATION_TICK_PS,
    ) -> None:
        self.fabric = fabric
        self.discipline = Discipline() if discipline is None else discipline
        self.transport = Transport() if transport is None else transport
        if not 0 <= seed < 2**64:
            raise KvfabricError(f"seed {seed}: write a whole number from 0 to 2^64 - 1")
        if tick_ps < 1:
            raise KvfabricError(f"observation tick {tick_ps} ps: must be above 0; write 10us")
        self._now_ps = 0
        self._hosts = np.array([n.kind is Kind.HOST for n in fabric.nodes], np.bool_)
        self._seen = np.zeros(0, np.bool_)
        self._handoff = np.zeros(0, np.int64)
        _refuse_rates(fabric)
        headroom = _headroom(fabric, self.discipline, self.transport)
        _refuse_buffers(fabric, self.discipline, self.transport, headroom)
        self._engine = _engine.Reference(
            fabric=_fabric_setting(fabric),
            routes=_engine.route_setting(
                groups=routes.groups,
                group=routes.group,
                first=routes.first,
                ports=routes.ports,
                host_first=routes.host_first,
                host_ports=routes.host_ports,
            ),
            discipline=_discipline_setting(fabric, self.discipline, headroom),
            transport=_transport_setting(fabric, self.transport),
            seed=seed,
            tick_ps=tick_ps,
        )

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
        if until_ps < self._now_ps:
            raise KvfabricError(
                f"advance to {until_ps} ps: before the present time {self._now_ps} ps; "
                "time never goes back"
            )
        self._now_ps, done = self._engine.advance(min(until_ps, _NEVER))
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

    def observe(self) -> Table:
        """Link state at the last tick, one row a port: ``port queued_bytes paused utilisation``.

        ``paused`` has one bit a priority. ``utilisation`` is the share of the last tick spent
        sending.
        """
        state = self._engine.observe()
        return {"port": np.arange(len(state["paused"]), dtype=np.int32), **state}

    def telemetry(self) -> Telemetry:
        """Tables of everything up to the present time, as `traffic.emulator.Telemetry` says.

        Further flow columns: ``spurious_timeouts`` (no packet of the flow had been lost),
        ``lost_packets``, ``cnps`` and ``rate_bps`` (the sender's present rate). Further totals:
        payload ``bytes_sent = bytes_delivered + bytes_discarded + bytes_dropped +
        bytes_in_flight``, and ``drops_lossless``, which is an error of the run when not 0.
        """
        flows: Table = dict(self._engine.flow_table())
        ports: Table = {
            "port": np.arange(len(self.fabric.ports.node), dtype=np.int64),
            **self._engine.port_table(),
        }
        return Telemetry(flows, ports, {**self._engine.totals(), "drops_fault": 0})

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
        _first(flows, flows["bytes"] < 1, "bytes", "must be at least 1")
        _first(flows, flows["bytes"] > 2**46, "bytes", "must be at most 64 TiB")
        _first(
            flows,
            (flows["descriptors"] < 1) | (flows["descriptors"] > flows["bytes"]),
            "descriptors",
            "must be at least 1 and at most its bytes",
        )
        _first(flows, flows["priority"] >= PRIORITIES, "priority", "must be 0 to 7")
        late = (flows["release_ps"] < self._now_ps) | (flows["release_ps"] > _NEVER)
        now = show_duration(self._now_ps)
        _first(flows, late, "release_ps", f"must not be before the present time, {now}")
        number = flows["flow"]
        wild = (number < 0) | (number >= _MOST_FLOWS)
        _first(flows, wild, "flow", "must be 0 or more, dense from 0")
        known = number[number < len(self._seen)]
        twice = len(np.unique(number)) < len(number) or bool(self._seen[known].any())
        if twice:
            raise FlowError("flows: a flow number was submitted twice; number them apart, from 0")


def _first(flows: NDArray[np.void], bad: NDArray[np.bool_], name: str, why: str) -> None:
    if bad.any():
        flow = flows[int(np.argmax(bad))]
        raise FlowError(f"flow {flow['flow']}: {name} {flow[name]} {why}")


def _refuse_rates(fabric: Fabric) -> None:
    for link in fabric.links:
        if not _LEAST_RATE_BPS <= link.rate_bps <= _MOST_RATE_BPS:
            raise KvfabricError(
                f"link {link.index} rate {show_rate(link.rate_bps)}: the packet engine takes "
                "1 Mbps to 8 Tbps"
            )


def _headroom(fabric: Fabric, discipline: Discipline, transport: Transport) -> NDArray[np.int64]:
    ports = fabric.ports
    headroom = np.zeros(len(ports.node), np.int64)
    if not discipline.protected:
        return headroom
    at_switch = np.array([n.switch is not None for n in fabric.nodes], np.bool_)[ports.node]
    pairs = zip(ports.rate_bps.tolist(), ports.delay_ps.tolist(), at_switch.tolist(), strict=True)
    known: dict[tuple[int, int], int] = {}
    for port, (rate, delay, switch) in enumerate(pairs):
        if not switch:
            continue
        if (rate, delay) not in known:
            known[rate, delay] = headroom_bytes(discipline.headroom, rate, delay, transport.mtu)
        headroom[port] = known[rate, delay]
    return headroom


def _refuse_buffers(
    fabric: Fabric, discipline: Discipline, transport: Transport, headroom: NDArray[np.int64]
) -> None:
    first = fabric.ports.first
    frame = transport.mtu + _engine.DATA_OVERHEAD - _engine.STORED_LESS
    for node in fabric.nodes:
        if node.switch is None:
            continue
        ports = slice(int(first[node.index]), int(first[node.index + 1]))
        degree = ports.stop - ports.start
        each = int(headroom[ports].sum()) + degree * discipline.reserve_bytes
        kept = each * len(discipline.protected)
        buffer = node.switch.buffer_bytes
        if buffer < frame:
            raise TransportError(
                f"mtu {transport.mtu} B: a frame of {frame} B is above the buffer of switch "
                f"{node.name!r}, {buffer} B; write a larger buffer or a smaller mtu"
            )
        if kept + frame > buffer:
            raise DisciplineError(
                f"switch {node.name!r}: headrooms and reserves of {degree} ports need {kept} B of "
                f"its buffer of {buffer} B and leave no room for a frame; write a larger buffer, "
                "shorter cables or another headroom rule"
            )
        highest = discipline.alpha * (buffer - kept)
        if discipline.protected and discipline.xon_offset_bytes >= highest:
            raise DisciplineError(
                f"xon_offset {discipline.xon_offset_bytes} B: at or above the highest threshold of "
                f"switch {node.name!r}, {int(highest)} B; a stopped group would wait to be empty; "
                "write less"
            )


def _fabric_setting(fabric: Fabric) -> _engine.FabricSetting:
    ports = fabric.ports
    models = [node.switch for node in fabric.nodes]
    return _engine.fabric_setting(
        first=ports.first,
        node=ports.node,
        reverse=ports.reverse,
        rate_bps=ports.rate_bps,
        delay_ps=ports.delay_ps,
        is_switch=np.array([m is not None for m in models], np.uint8),
        buffer_bytes=np.array([0 if m is None else m.buffer_bytes for m in models], np.int64),
        latency_ps=np.array([0 if m is None else m.latency_ps for m in models], np.int64),
    )


def _discipline_setting(
    fabric: Fabric, discipline: Discipline, headroom: NDArray[np.int64]
) -> _engine.DisciplineSetting:
    rates: list[int] = fabric.ports.rate_bps.tolist()
    marks = {rate: discipline.threshold(rate) for rate in set(rates)}
    off = (_NEVER, _NEVER, 0.0)
    rows = [
        off if (t := marks[rate]) is None else (t.kmin_bytes, t.kmax_bytes, t.pmax)
        for rate in rates
    ]
    return _engine.discipline_setting(
        lossless=_bits(discipline.protected),
        strict=_bits(discipline.strict),
        mark_at_dequeue=discipline.marking == "dequeue",
        weight=list(discipline.weights),
        alpha_q16=round(discipline.alpha * 65536),
        egress_alpha_q16=round(discipline.egress_alpha * 65536),
        reserve_bytes=discipline.reserve_bytes if discipline.protected else 0,
        xon_offset_bytes=discipline.xon_offset_bytes,
        headroom_bytes=headroom,
        kmin_bytes=np.array([kmin for kmin, _, _ in rows], np.int64),
        kmax_bytes=np.array([kmax for _, kmax, _ in rows], np.int64),
        pmax_q32=np.array([round(pmax * 2**32) for _, _, pmax in rows], np.uint64),
        response_ps=np.array([response_ps(rate) for rate in rates], np.int64),
    )


def _transport_setting(fabric: Fabric, transport: Transport) -> _engine.TransportSetting:
    preset = transport.dcqcn
    rates: list[int] = fabric.ports.rate_bps.tolist()
    dcqcn = _engine.dcqcn_setting(
        alpha_period_ps=preset.alpha_period_ps,
        cut_period_ps=preset.cut_period_ps,
        increase_period_ps=preset.increase_period_ps,
        increase_bytes=preset.increase_bytes,
        keep_q10=preset.keep_q10,
        initial_q10=preset.initial_q10,
        gd_shift=preset.gd_shift,
        least_percent=preset.least_percent,
        recovery=preset.recovery,
        clamp=preset.clamp,
        clamp_after_timer=preset.clamp_after_timer,
        least_bps=preset.least_bps,
        additive_bps=preset.additive_bps,
        hyper_bps=preset.hyper_bps,
    )
    return _engine.transport_setting(
        mtu=transport.mtu,
        ack_every=transport.ack_every,
        window=transport.window,
        timeout_ps=transport.rto_ps,
        issue_ps=transport.issue_ps,
        cnp_interval_ps=preset.cnp_interval_ps,
        cnp_priority=transport.cnp_priority,
        controlled=transport.control == "dcqcn",
        dcqcn=dcqcn,
        least_bps=np.full(len(rates), preset.least_bps, np.int64),
        additive_bps=np.array([preset.additive(rate) for rate in rates], np.int64),
        hyper_bps=np.array([preset.hyper(rate) for rate in rates], np.int64),
    )


def _bits(priorities: tuple[int, ...]) -> int:
    return sum({1 << priority for priority in priorities})
