"""The ``network`` of a scenario: what switches and NICs run, and how the report tells it."""

from emulate.discipline import Discipline, DisciplineError, Watchdog
from emulate.marking import Threshold
from emulate.transport import Transport, TransportError
from kvfabric.scenario import DisciplinePart, EcnPart, TransportPart, WatchdogPart
from topo.error import UnitError
from topo.unit import rate_text, show_duration, show_rate, show_size, size, size_text


def discipline_of(part: DisciplinePart, *, pauses: bool = True) -> Discipline:
    """The queue discipline of every switch; without pauses nobody watches them."""
    return Discipline(
        pfc=part.pfc,
        headroom=_headroom(part.headroom),
        alpha=float(part.alpha),
        ecn=_marking(part.ecn),
        cut_through=part.cut_through,
        watchdog=_watchdog(part.watchdog) if part.pfc and pauses else None,
    )


def _headroom(text: str) -> str | int:
    """A rule's name, or a size."""
    try:
        return size(text) if text[:1].isdigit() else text
    except UnitError as error:
        raise DisciplineError(f"headroom: {error}") from None


def _watchdog(part: bool | WatchdogPart) -> Watchdog | None:
    """The usual times for true."""
    if isinstance(part, WatchdogPart):
        return Watchdog(int(part.detect), int(part.restore))
    return Watchdog() if part else None


def _marking(ecn: str | bool | EcnPart) -> str | Threshold:
    """A profile's name, thresholds of one's own, or off; YAML reads a bare `off` as false."""
    if isinstance(ecn, EcnPart):
        return Threshold(int(ecn.kmin), int(ecn.kmax), float(ecn.pmax))
    return ("sonic" if ecn else "off") if isinstance(ecn, bool) else ecn


def transport_of(part: TransportPart, issue_ps: int) -> Transport:
    """The transport of every NIC; ``issue_ps`` is what the hand-off says of descriptors.

    Infiniband has no control, whatever stands there for alternatives that have.
    """
    lanes = part.kind == "infiniband"
    if part.drain == 0:
        raise TransportError(
            f"drain {rate_text(part.drain)}: no hand-off would end; write e.g. 50Gbps, or leave it "
            "out for no limit"
        )
    usual = Transport()
    return Transport(
        kind=part.kind,
        control="none" if lanes else part.control or "dcqcn",
        preset=part.preset,
        mtu=int(part.mtu),
        issue_ps=issue_ps,
        issuers=part.issuers,
        send_queue=part.send_queue or 0,
        ack_message=part.ack_message,
        drain_bps=int(part.drain or 0),
        receive_buffer=usual.receive_buffer
        if part.receive_buffer is None
        else int(part.receive_buffer),
        ack_every=usual.ack_every if part.ack_every is None else part.ack_every,
        credits=usual.credits if part.credits is None else int(part.credits),
    )


def network_told(rules: Discipline, sender: Transport, nic_bps: int) -> dict[str, str]:
    """Every profile and setting behind the packets, as text for the report."""
    told = {
        "transport": f"{sender.kind}, MTU {size_text(sender.mtu)}, control {sender.control}"
        + (f" preset {sender.preset}" if sender.control == "dcqcn" else "")
        + f", an ACK every {sender.ack_every} packets"
        + (" and descriptor" if sender.ack_message else ""),
        "forwarding": "cut-through where it can" if rules.cut_through else "store and forward",
        "load balancing": "ECMP by hash of the 5-tuple",
    }
    if sender.issuers:
        told["issue"] = "one thread a NIC posts the descriptors of all its flows"
    if sender.drain_bps:
        told["hosts"] = (
            f"take {show_rate(sender.drain_bps)} from each NIC port, whose receive buffer is "
            f"{show_size(sender.receive_buffer)}"
        )
    if sender.send_queue:
        told["send queue"] = f"{sender.send_queue} unacknowledged descriptors a flow"
    if sender.by_credits:
        lanes = f"{show_size(sender.credits)} for each of 8 virtual lanes of a link"
        return {**told, "credits": lanes, "PFC": "none: credits", "ECN": "none"}
    room = rules.headroom if isinstance(rules.headroom, str) else show_size(rules.headroom)
    pfc = f"on, headroom {room}, alpha {rules.alpha:g}" if rules.pfc else "off"
    watched = "none"
    if rules.watchdog is not None:
        times = rules.watchdog.detect_ps, rules.watchdog.restore_ps
        watched = "drops after {}, restores after {}".format(*map(show_duration, times))
    ecn = _marking_told(rules, nic_bps)
    return {**told, "PFC": pfc, "pause watchdog": watched, "ECN": ecn}


def _marking_told(rules: Discipline, nic_bps: int) -> str:
    mark = rules.threshold(nic_bps)
    if mark is None:
        return "off"
    profile = rules.ecn if isinstance(rules.ecn, str) else "own"
    return (
        f"{profile}: Kmin {show_size(mark.kmin_bytes)}, Kmax {show_size(mark.kmax_bytes)}, "
        f"Pmax {mark.pmax:.3g} at {show_rate(nic_bps)}"
    )
