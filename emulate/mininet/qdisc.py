"""The kernel's queue disciplines at the ports of a fabric: set, then read back.

A switch port is one tree. A token bucket of two full frames holds the link's dilated rate (Linux
lets frames out of a full bucket at once, and one frame would under-deliver); below it ETS serves
eight bands, the strict priorities first and the others by quanta, sorted by DSCP; below each band
RED marks by the scenario's thresholds, or a plain queue in bytes where there is none. A host's port
is the bucket over a long queue.

Delay is never under RED, where waiting packets would count as queued. It stands at the receiving
end, on a wire of its own: a pair of interfaces through which everything that comes in is led, with
netem's delay and its rate, which cuts a bucket's burst back into frames that take their time.

Sizes in bytes do not depend on the dilation: rates are divided by it and delays multiplied, and a
rate times a delay stays what it was. A profile is read at the fabric's rate, not at the dilated
one.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from emulate.discipline import PRIORITIES, Discipline
from emulate.marking import Threshold
from emulate.mininet.error import EmulationError
from emulate.mininet.program import call
from topo.unit import size_text

FRAMING: Final = 24
"""Preamble, FCS and gap (IEEE 802.3): on the wire, but not in the kernel's length of a frame."""

_HEADERS: Final = 14 + 20 + 32
"""Ethernet, IPv4, and TCP with time stamps."""

_HOST_FRAMES: Final = 1000
_WIRE_FRAMES: Final = 100_000
_MOST_PROBABILITY: Final = 0.999999
"""A probability of 1 overflows tc's 32 bits, and the kernel falls back to a half."""

Option = int | float | str | bool | list[int]
Read = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Queue:
    """One queue discipline: where it hangs, what makes it, and what must be read back of it.

    expected: options by the names of ``tc -json -details``; times in seconds, rates in bytes a
    second. Numbers may be off by the grain of the kernel's clock.
    """

    interface: str
    kind: str
    handle: str
    line: str
    expected: dict[str, Option]


def segment_bytes(mtu: int) -> int:
    """Payload of a full segment: what time stamps leave of the MTU's payload (RFC 7323)."""
    return mtu - 12


def frame_bytes(mtu: int) -> int:
    """Length of a full segment's frame as the kernel counts it, without `FRAMING`."""
    return segment_bytes(mtu) + _HEADERS


def bucket(interface: str, rate_bps: int, mtu: int) -> Queue:
    """The root: a token bucket of two full frames at that (dilated) rate."""
    burst = 2 * (frame_bytes(mtu) + FRAMING)
    return Queue(
        interface,
        "tbf",
        "1:",
        f"qdisc add dev {interface} root handle 1: tbf rate {rate_bps}bit burst {burst} "
        f"limit {_HOST_FRAMES * burst} overhead {FRAMING}",
        {"rate": rate_bps // 8, "burst": burst, "overhead": FRAMING},
    )


def plain(interface: str, parent: str, handle: str, limit: int) -> Queue:
    """A queue of so many bytes that drops at its tail."""
    return Queue(
        interface,
        "bfifo",
        handle,
        f"qdisc add dev {interface} parent {parent} handle {handle} bfifo limit {limit}",
        {"limit": limit},
    )


def red(
    interface: str, parent: str, handle: str, limit: int, at: Threshold, rate_bps: int, frame: int
) -> Queue:
    """RED that marks what can be marked, and queues the rest up to the limit.

    The average is as short as tc allows, half of the present queue and half of the last average
    (a burst of Kmin in frames gives a weight of one half). Above Kmax all is marked.
    """
    low = max(at.kmax_bytes if at.pmax == 0 else at.kmin_bytes, 1)
    high = max(at.kmax_bytes, low + 1)
    chance = min(at.pmax or _MOST_PROBABILITY, _MOST_PROBABILITY)
    if limit <= high:
        raise EmulationError(
            f"interface {interface}: a queue of {size_text(limit)} is full before RED marks all at "
            f"{size_text(high)}; write a larger switch buffer or egress_alpha, or a smaller kmax"
        )
    return Queue(
        interface,
        "red",
        handle,
        f"qdisc add dev {interface} parent {parent} handle {handle} red limit {limit} min {low} "
        f"max {high} avpkt {frame} burst {max(1, -(-low // frame))} bandwidth {rate_bps}bit "
        f"probability {chance:g} ecn nodrop",
        {
            "limit": limit,
            "min": low,
            "max": high,
            "ecn": True,
            "nodrop": True,
            "harddrop": False,
            "ewma": 1,
            # Where every queue is below Kmin or above Kmax it is not asked for.
            **({} if high == low + 1 else {"probability": chance}),
        },
    )


def bands(discipline: Discipline) -> list[int]:
    """The priority of each ETS band, the first served first."""
    strict = sorted(discipline.strict, reverse=True)
    return [*strict, *(p for p in range(PRIORITIES) if p not in discipline.strict)]


def ets(interface: str, discipline: Discipline, frame: int) -> Queue:
    """Eight bands: the strict ones, then the others by quanta of their weight in full frames."""
    order, strict = bands(discipline), len(discipline.strict)
    quanta = [discipline.weights[p] * frame for p in order[strict:]]
    last = [PRIORITIES - 1] * 16
    return Queue(
        interface,
        "ets",
        "10:",
        f"qdisc add dev {interface} parent 1:1 handle 10: ets bands {PRIORITIES} strict {strict} "
        + (f"quanta {' '.join(map(str, quanta))} " if quanta else "")
        + f"priomap {' '.join(map(str, last))}",
        {"bands": PRIORITIES, "strict": strict, "quanta": quanta, "priomap": last},
    )


def sorted_by_dscp(interface: str, discipline: Discipline) -> list[str]:
    """Filters that lead each DSCP, which is the priority, to its band."""
    return [
        f"filter add dev {interface} parent 10: protocol ip prio 1 u32 match ip dsfield "
        f"{priority << 2:#x} 0xfc flowid 10:{band + 1:x}"
        for band, priority in enumerate(bands(discipline))
    ]


def switch_port(
    interface: str, discipline: Discipline, limit: int, *, rate_bps: int, dilation: int, mtu: int
) -> list[Queue]:
    """The tree of a switch port of that rate of the fabric; ``limit``: bytes of each band."""
    frame, slow = frame_bytes(mtu), max(8, rate_bps // dilation)
    at = discipline.threshold(rate_bps)
    tree = [bucket(interface, slow, mtu), ets(interface, discipline, frame)]
    for band in range(PRIORITIES):
        parent, handle = f"10:{band + 1:x}", f"{100 + band}:"
        if at is None:
            tree.append(plain(interface, parent, handle, limit))
        else:
            tree.append(red(interface, parent, handle, limit, at, slow, frame))
    return tree


def host_port(interface: str, *, rate_bps: int, dilation: int, mtu: int) -> list[Queue]:
    """A NIC: the bucket over a queue that does not overflow."""
    long = _HOST_FRAMES * (frame_bytes(mtu) + FRAMING)
    return [
        bucket(interface, max(8, rate_bps // dilation), mtu),
        plain(interface, "1:1", "10:", long),
    ]


def wire(interface: str, *, delay_ps: int, rate_bps: int, dilation: int) -> Queue:
    """The delay of a link and of the pipeline behind it, and the time that frames take on it."""
    delay_ns, slow = delay_ps * dilation // 1000, max(8, rate_bps // dilation)
    return Queue(
        interface,
        "netem",
        "1:",
        f"qdisc add dev {interface} root handle 1: netem limit {_WIRE_FRAMES} "
        f"delay {delay_ns / 1000:.3f}us rate {slow}bit {FRAMING}",
        {
            "limit": _WIRE_FRAMES,
            "delay.delay": delay_ns / 1e9,
            "rate.rate": slow // 8,
            "rate.packetoverhead": FRAMING,
        },
    )


def apply(queues: Sequence[Queue], filters: Sequence[str]) -> None:
    """Make them in the namespace of this thread, read all of them back, and refuse a difference."""
    call("tc", "-batch", "-", text="\n".join([*(q.line for q in queues), *filters]) + "\n")
    found = {(str(q["dev"]), str(q["handle"])): q for q in read("-details")}
    for queue in queues:
        got = found.get((queue.interface, queue.handle))
        if got is None or got["kind"] != queue.kind:
            raise EmulationError(
                f"interface {queue.interface}: qdisc {queue.kind} was set and is not there; "
                "this kernel's queues cannot be trusted, use --dataplane softswitch"
            )
        refuse_difference(queue, got.get("options", {}))


def read(*how: str) -> list[Read]:
    """All queue disciplines of the namespace of this thread, as ``tc -json`` shows them."""
    told: list[Read] = json.loads(call("tc", "-json", *how, "qdisc", "show") or "[]")
    return told


def refuse_difference(queue: Queue, options: Read) -> None:
    """Raise `EmulationError` where an option that was read back is not what was set."""
    for name, wanted in queue.expected.items():
        value: Any = options
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, str):
            value = int(value.partition("b")[0])  # e.g. a burst: 8422b/1
        if not _same(wanted, value):
            raise EmulationError(
                f"interface {queue.interface}: qdisc {queue.kind} {name} was set to {wanted} and "
                f"reads back as {value}; use another kernel (docs/vm.md), or --dataplane softswitch"
            )


def _same(wanted: Option, value: Any) -> bool:
    if isinstance(wanted, bool | str | list) or value is None:
        return bool(wanted == value or (wanted == [] and value is None))
    grain = 1e-6 if isinstance(wanted, float) else 1.0
    return abs(float(value) - wanted) <= max(grain, 0.005 * abs(wanted))
