"""What the packet engine is told at the start, and what cannot be, refused in one line.

A fabric, a queue discipline and a transport become the plain arrays of the engine: one number a
port, a node or a priority. Rates are bit/s, times picoseconds, sizes bytes.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from emulate import _engine
from emulate.bound import MOST_BYTES, MOST_WAY_PS, refuse_beyond
from emulate.discipline import PRIORITIES, Discipline, DisciplineError
from emulate.fault import Fault, FaultError
from emulate.headroom import headroom_bytes, response_ps
from emulate.transport import Transport, TransportError
from topo.error import KvfabricError
from topo.fabric import Fabric
from topo.route import Routes
from topo.unit import rate_text, size_text

NEVER: Final = 2**62
"""An instant that is not reached, and a number of bytes that no queue holds."""

NO_STORM: Final = (
    "storm: no class is under PFC, nothing would stop; leave it out, or write pfc: true and a "
    "rocev2 transport"
)
"""Why a pause storm is refused where nothing can be paused."""

Columns = dict[str, Any]
"""Numbers, lists and arrays by the name under which an engine takes them."""

_MOST_RATE_BPS: Final = 8 * 10**12
_LEAST_RATE_BPS: Final = 10**6


def refuse_rates(fabric: Fabric) -> None:
    """Raise `KvfabricError` for a link whose rate picoseconds a byte cannot tell, or a cable, a
    pipeline or a memory beyond what the engines count."""
    for link in fabric.links:
        name = f"link {fabric.nodes[link.a].name!r} to {fabric.nodes[link.b].name!r}"
        if not _LEAST_RATE_BPS <= link.rate_bps <= _MOST_RATE_BPS:
            raise KvfabricError(
                f"{name} rate {rate_text(link.rate_bps)}: the packet engine takes 1Mbps to 8Tbps; "
                "write such a rate"
            )
        refuse_beyond(KvfabricError, f"{name} delay", link.delay_ps, MOST_WAY_PS, "ps")
    for node in fabric.nodes:
        if node.switch is not None:
            name = f"switch {node.name!r}"
            latency, buffer = node.switch.latency_ps, node.switch.buffer_bytes
            refuse_beyond(KvfabricError, f"{name} latency", latency, MOST_WAY_PS, "ps")
            refuse_beyond(KvfabricError, f"{name} buffer", buffer, MOST_BYTES, "B")


def in_effect(discipline: Discipline, transport: Transport) -> Discipline:
    """What of the discipline holds: under credits neither pauses nor marks do."""
    if not transport.by_credits:
        return discipline
    if discipline.watchdog is not None:
        raise DisciplineError("watchdog: watches pauses, which infiniband has not; leave it out")
    return replace(discipline, pfc=False, ecn="off")


def refuse_storms(discipline: Discipline, faults: Sequence[Fault]) -> None:
    """Raise `FaultError` for a pause storm where nothing can be paused."""
    storms = [fault for fault in faults if fault.kind == "storm"]
    if storms and not discipline.protected:
        raise FaultError(NO_STORM)


def port_headroom(
    fabric: Fabric, discipline: Discipline, transport: Transport
) -> NDArray[np.int64]:
    """Bytes of headroom of each lossless class, one entry a port; 0 without PFC, and at hosts that
    always receive."""
    ports = fabric.ports
    headroom = np.zeros(len(ports.node), np.int64)
    if not discipline.protected:
        return headroom
    at_switch = np.array([n.switch is not None for n in fabric.nodes], np.bool_)[ports.node]
    if transport.drain_bps:
        at_switch[:] = True
    pairs = zip(ports.rate_bps.tolist(), ports.delay_ps.tolist(), at_switch.tolist(), strict=True)
    known: dict[tuple[int, int], int] = {}
    for port, (rate, delay, switch) in enumerate(pairs):
        if not switch:
            continue
        if (rate, delay) not in known:
            known[rate, delay] = headroom_bytes(discipline.headroom, rate, delay, transport.mtu)
        headroom[port] = known[rate, delay]
    return headroom


def refuse_buffers(
    fabric: Fabric, discipline: Discipline, transport: Transport, headroom: NDArray[np.int64]
) -> None:
    """Raise an error for a switch that cannot hold its headrooms and reserves, or one frame.

    ``headroom`` is that of `port_headroom`. Also refused is a release level below zero.
    """
    first = fabric.ports.first
    frame = transport.mtu + _engine.DATA_OVERHEAD - _engine.STORED_LESS
    blocks = _engine.CREDIT_BLOCK * -(-frame // _engine.CREDIT_BLOCK)
    if transport.by_credits and transport.credits < blocks:
        raise TransportError(
            f"credits {size_text(transport.credits)}: below the {size_text(blocks)} of one frame, "
            "which could never start; write more credits or a smaller mtu"
        )
    if transport.drain_bps and discipline.cut_through:
        raise TransportError(
            f"drain {rate_text(transport.drain_bps)}: not with switches that cut through; leave it "
            "out, or write cut_through: false"
        )
    for node in fabric.nodes:
        if node.switch is None:
            if transport.drain_bps:
                _refuse_receiver(
                    node.name,
                    headroom[int(first[node.index])],
                    frame,
                    discipline,
                    transport.receive_buffer,
                )
            continue
        ports = slice(int(first[node.index]), int(first[node.index + 1]))
        degree = ports.stop - ports.start
        each = int(headroom[ports].sum()) + degree * discipline.reserve_bytes
        kept = each * len(discipline.protected)
        buffer = node.switch.buffer_bytes
        if buffer < frame:
            raise TransportError(
                f"switch {node.name!r} buffer {size_text(buffer)}: below a frame of "
                f"{size_text(frame)} at mtu {size_text(transport.mtu)}; write a larger buffer or a "
                "smaller mtu"
            )
        lanes = PRIORITIES * degree * transport.credits if transport.by_credits else 0
        if lanes > buffer:
            raise TransportError(
                f"credits {size_text(transport.credits)}: {PRIORITIES} virtual lanes of {degree} "
                f"ports need {size_text(lanes)}, above the buffer of switch {node.name!r}, "
                f"{size_text(buffer)}; write less credits or a larger buffer"
            )
        if kept + frame > buffer:
            raise DisciplineError(
                f"switch {node.name!r}: headrooms and reserves of {degree} ports need "
                f"{size_text(kept)} of its buffer of {size_text(buffer)} and leave no room for a "
                "frame; write a larger buffer, shorter cables or less headroom"
            )
        _refuse_threshold(f"switch {node.name!r}", discipline, buffer)
        highest = discipline.alpha * (buffer - kept)
        if discipline.protected and discipline.xon_offset_bytes >= highest:
            raise DisciplineError(
                f"switch {node.name!r}: its highest threshold, {size_text(int(highest))} by alpha "
                f"{discipline.alpha:g} of its buffer of {size_text(buffer)}, is not above "
                f"xon_offset {size_text(discipline.xon_offset_bytes)}; a stopped group would wait "
                "to be empty; write a larger alpha or buffer"
            )


def route_setting(routes: Routes) -> _engine.RouteSetting:
    """The next hops as the engine reads them."""
    return _engine.route_setting(**route_columns(routes))


def route_columns(routes: Routes) -> Columns:
    """The arguments of `route_setting`, by name."""
    return {
        "groups": routes.groups,
        "group": routes.group,
        "first": routes.first,
        "ports": routes.ports,
        "host_first": routes.host_first,
        "host_ports": routes.host_ports,
    }


def _refuse_threshold(name: str, discipline: Discipline, buffer: int) -> None:
    """A threshold is alpha, in 65536ths, times free memory, in 64 bits."""
    for alpha in (discipline.alpha, discipline.egress_alpha):
        if alpha * buffer > MOST_BYTES:
            raise DisciplineError(
                f"{name}: alpha {alpha:g} of its buffer of {size_text(buffer)} is above "
                f"{size_text(MOST_BYTES)}, the largest threshold; write a smaller buffer or alpha"
            )


def _refuse_receiver(
    host: str, headroom: int, frame: int, discipline: Discipline, buffer: int
) -> None:
    kept = (int(headroom) + discipline.reserve_bytes) * len(discipline.protected)
    _refuse_threshold(f"receive_buffer of host {host!r}", discipline, buffer)
    if kept + frame > buffer:
        raise TransportError(
            f"receive_buffer {size_text(buffer)}: headrooms and reserves of the NIC of host "
            f"{host!r} need {size_text(kept)} and leave no room for a frame; write more"
        )
    if discipline.protected and discipline.xon_offset_bytes >= discipline.alpha * (buffer - kept):
        raise TransportError(
            f"receive_buffer {size_text(buffer)}: the highest threshold of host {host!r} is not "
            f"above xon_offset {size_text(discipline.xon_offset_bytes)}; write more"
        )


def fabric_setting(fabric: Fabric) -> _engine.FabricSetting:
    """The fabric as the engine reads it."""
    return _engine.fabric_setting(**fabric_columns(fabric))


def fabric_columns(fabric: Fabric) -> Columns:
    """The arguments of `fabric_setting`, by name."""
    ports = fabric.ports
    models = [node.switch for node in fabric.nodes]
    return {
        "first": ports.first,
        "node": ports.node,
        "reverse": ports.reverse,
        "rate_bps": ports.rate_bps,
        "delay_ps": ports.delay_ps,
        "is_switch": np.array([m is not None for m in models], np.uint8),
        "buffer_bytes": np.array([0 if m is None else m.buffer_bytes for m in models], np.int64),
        "latency_ps": np.array([0 if m is None else m.latency_ps for m in models], np.int64),
    }


def discipline_setting(
    fabric: Fabric, discipline: Discipline, headroom: NDArray[np.int64]
) -> _engine.DisciplineSetting:
    """The discipline at the rate of each port; ``headroom`` is that of `port_headroom`."""
    return _engine.discipline_setting(**discipline_columns(fabric, discipline, headroom))


def discipline_columns(
    fabric: Fabric, discipline: Discipline, headroom: NDArray[np.int64]
) -> Columns:
    """The arguments of `discipline_setting`, by name."""
    rates: list[int] = fabric.ports.rate_bps.tolist()
    marks = {rate: discipline.threshold(rate) for rate in set(rates)}
    off = (NEVER, NEVER, 0.0)
    rows = [
        off if (t := marks[rate]) is None else (t.kmin_bytes, t.kmax_bytes, t.pmax)
        for rate in rates
    ]
    return {
        "lossless": _bits(discipline.protected),
        "strict": _bits(discipline.strict),
        "mark_at_dequeue": discipline.marking == "dequeue",
        "cut_through": discipline.cut_through,
        "watch_detect_ps": 0 if discipline.watchdog is None else discipline.watchdog.detect_ps,
        "deadlock_ps": discipline.deadlock_ps,
        "watch_restore_ps": 0 if discipline.watchdog is None else discipline.watchdog.restore_ps,
        "weight": list(discipline.weights),
        "alpha_q16": round(discipline.alpha * 65536),
        "egress_alpha_q16": round(discipline.egress_alpha * 65536),
        "reserve_bytes": discipline.reserve_bytes if discipline.protected else 0,
        "xon_offset_bytes": discipline.xon_offset_bytes,
        "headroom_bytes": headroom,
        "kmin_bytes": np.array([kmin for kmin, _, _ in rows], np.int64),
        "kmax_bytes": np.array([kmax for _, kmax, _ in rows], np.int64),
        "pmax_q32": np.array([round(pmax * 2**32) for _, _, pmax in rows], np.uint64),
        "response_ps": np.array([_response(discipline, rate) for rate in rates], np.int64),
    }


def _response(discipline: Discipline, rate_bps: int) -> int:
    return response_ps(rate_bps) if discipline.response_ps is None else discipline.response_ps


def transport_setting(fabric: Fabric, transport: Transport) -> _engine.TransportSetting:
    """The transport at the rate of each port."""
    dcqcn = _engine.dcqcn_setting(**dcqcn_columns(transport))
    return _engine.transport_setting(dcqcn=dcqcn, **transport_columns(fabric, transport))


def dcqcn_columns(transport: Transport) -> Columns:
    """The arguments of the engine's DCQCN setting, by name."""
    preset = transport.dcqcn
    return {
        "alpha_period_ps": preset.alpha_period_ps,
        "cut_period_ps": preset.cut_period_ps,
        "increase_period_ps": preset.increase_period_ps,
        "increase_bytes": preset.increase_bytes,
        "keep_q10": preset.keep_q10,
        "initial_q10": preset.initial_q10,
        "gd_shift": preset.gd_shift,
        "least_percent": preset.least_percent,
        "recovery": preset.recovery,
        "clamp": preset.clamp,
        "clamp_after_timer": preset.clamp_after_timer,
        "least_bps": preset.least_bps,
        "additive_bps": preset.additive_bps,
        "hyper_bps": preset.hyper_bps,
        "cut_grid": preset.cut_grid,
        "retimed": preset.retimed,
    }


def transport_columns(fabric: Fabric, transport: Transport) -> Columns:
    """The other arguments of `transport_setting`, by name."""
    preset = transport.dcqcn
    rates: list[int] = fabric.ports.rate_bps.tolist()
    return {
        "mtu": transport.mtu,
        "ack_every": transport.ack_every,
        "window": transport.window,
        "timeout_ps": transport.rto_ps,
        "issue_ps": transport.issue_ps,
        "send_queue": transport.send_queue,
        "one_issuer": transport.issuers == 1,
        "drain_bps": transport.drain_bps,
        "receive_bytes": transport.receive_buffer,
        "ack_message": transport.ack_message,
        "cnp_interval_ps": transport.cnp_gap_ps,
        "credit_bytes": transport.credits if transport.by_credits else 0,
        "cnp_priority": transport.cnp_priority,
        "ack_priority": -1 if transport.ack_priority is None else transport.ack_priority,
        "controlled": transport.control == "dcqcn",
        "least_bps": np.full(len(rates), preset.least_bps, np.int64),
        "additive_bps": np.array([preset.additive(rate) for rate in rates], np.int64),
        "hyper_bps": np.array([preset.hyper(rate) for rate in rates], np.int64),
    }


def _bits(priorities: tuple[int, ...]) -> int:
    return sum({1 << priority for priority in priorities})
