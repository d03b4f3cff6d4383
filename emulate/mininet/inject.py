"""Inject bursts into a link: frames of a plan or of a capture, from one interface to another.

Works on any interface of any namespace, a port of a real lab as well: what is needed is a raw
socket on the sending side and the addresses of the receiving one. Frames are RoCEv2 writes without
a NIC's answer to marks and pauses; what comes back is the host's. Batches are built while the one
before is on its way, so that the first instants of a long plan do not wait for its last frames.
"""

import fcntl
import ipaddress
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from emulate.mininet.driver import live
from emulate.mininet.error import EmulationError
from emulate.mininet.namespace import inside
from emulate.mininet.place import Place
from topo.unit import size_text
from traffic.wire.burst import Bursts

Batch = tuple[bytes, NDArray[np.int64], NDArray[np.int64]]
"""Frames one behind the other, their lengths, and when each is due, in nanoseconds from 0."""

_Part = tuple[NDArray[np.int64], int]
"""What was sent of a batch: how late each frame was, in nanoseconds, and the bytes of them."""

BATCH: Final = 512
FIRST_QUEUE_PAIR: Final = 16
"""Numbers below are special in InfiniBand (specification, 3.5.3)."""

_LEAD_NS: Final = 50_000_000
_STRETCH_NS: Final = 100_000_000
"""What one call sends at most: Ctrl-C is heard in between, however long the gaps are."""
_LONGEST_WAIT_S: Final = 3600.0
_ETHERNET_HEADER: Final = 14
_TAG: Final = 4  # of a VLAN, which the MTU does not count
_MAC: Final = re.compile("[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")
_HARDWARE_ADDRESS: Final = 0x8927
_ADDRESS: Final = 0x8915
_MTU: Final = 0x8921
_HEADERS: Final = 20 + 8 + 12 + 4
_ENTROPY: Final = 0xC000


@dataclass(frozen=True, slots=True)
class Ends:
    """Addresses of the frames, as texts: MAC and IPv4 of both sides.

    Raises `EmulationError` for a text that is no such address.
    """

    source_mac: str
    destination_mac: str
    source_ip: str
    destination_ip: str

    def __post_init__(self) -> None:
        for text in (self.source_mac, self.destination_mac):
            if not _MAC.fullmatch(text):
                raise EmulationError(
                    f"MAC address {text!r}: write six bytes in hex, as 02:00:00:00:00:02"
                )
        for text in (self.source_ip, self.destination_ip):
            try:
                ipaddress.IPv4Address(text)
            except ValueError:
                raise EmulationError(
                    f"IPv4 address {text!r}: write four numbers up to 255, as 10.0.0.2"
                ) from None


@dataclass(frozen=True, slots=True)
class Injected:
    """What was sent: frames, bytes of them, over how long, and how late frames left, P50 and P99.

    arrived: frames that came in at the other end meanwhile, None where it cannot be seen.
    interrupted: Ctrl-C came first.
    """

    frames: int
    size: int
    seconds: float
    late_p50_ns: int
    late_p99_ns: int
    arrived: int | None = None
    interrupted: bool = False


def mac_of(place: Place) -> str:
    """The MAC address of an interface."""
    data = _ask(place, _HARDWARE_ADDRESS, "a MAC address")
    return ":".join(f"{byte:02x}" for byte in data[18:24])


def ip_of(place: Place) -> str:
    """The IPv4 address of an interface."""
    return socket.inet_ntoa(_ask(place, _ADDRESS, "an IPv4 address; write it")[20:24])


def mtu_of(place: Place) -> int:
    """The MTU of an interface."""
    return int(struct.unpack("I", _ask(place, _MTU, "an MTU")[16:20])[0])


def _ask(place: Place, request: int, what: str) -> bytes:
    with inside(place.namespace), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        try:
            return fcntl.ioctl(channel, request, struct.pack("256s", place.interface.encode()))
        except OSError as error:
            raise EmulationError(
                f"interface {place.label!r}: has not {what}: {error.strerror}"
            ) from None


def refuse_mtu(place: Place, mtu: int) -> None:
    """Raise `EmulationError` for a payload that the interface cannot send in one frame."""
    most = mtu_of(place)
    if mtu + _HEADERS > most:
        raise EmulationError(
            f"mtu {size_text(mtu)}: with {size_text(_HEADERS)} of headers above the MTU of "
            f"{place.label}, {size_text(most)}; write at most {most - _HEADERS}"
        )


def refuse_long(place: Place, frames: list[bytes]) -> None:
    """Raise `EmulationError` for a frame of a capture that the interface cannot send."""
    most = mtu_of(place)
    for number, frame in enumerate(frames, 1):
        if len(frame) > most + _ETHERNET_HEADER + _TAG:
            raise EmulationError(
                f"frame {number} of {size_text(len(frame))}: above the MTU of {place.label}, "
                f"{size_text(most)}; it was captured with offloads on (turn them off with ethtool "
                "-K, and capture again), or the MTU is too small"
            )


def burst_batches(
    plan: Bursts, ends: Ends, *, rate_bps: int, mtu: int, priority: int
) -> Iterator[Batch]:
    """The frames of a burst plan; each message has a queue pair and a UDP source port to itself."""
    build = live().roce_frame
    addresses = {
        "source_mac": int(ends.source_mac.replace(":", ""), 16),
        "destination_mac": int(ends.destination_mac.replace(":", ""), 16),
        "source_ip": int.from_bytes(socket.inet_aton(ends.source_ip), "big"),
        "destination_ip": int.from_bytes(socket.inet_aton(ends.destination_ip), "big"),
    }
    for message, rows in enumerate(plan.packets(rate_bps, mtu)):
        whole = int(plan.size[message])
        for first in range(0, len(rows), BATCH):
            part = rows[first : first + BATCH]
            frames = [
                build(
                    **addresses,
                    source_port=_ENTROPY | message & 0x3FFF,
                    kind="data",
                    priority=priority,
                    flow=FIRST_QUEUE_PAIR + message,
                    sequence=sequence & 0xFFFFFF,
                    payload=payload,
                    first=sequence == 0,
                    last=last,
                    asks=last,
                    message=whole,
                )
                for sequence, payload, last in part[["sequence", "bytes", "last"]].tolist()
            ]
            length = np.array([len(frame) for frame in frames], np.int64)
            yield b"".join(frames), length, part["at_ns"].astype(np.int64)


def frame_batches(at_ns: NDArray[np.int64], frames: list[bytes]) -> Iterator[Batch]:
    """Frames that are there already, such as those of a capture.

    Raises `EmulationError` for a frame that is too short for any link.
    """
    for number, frame in enumerate(frames, 1):
        if len(frame) < _ETHERNET_HEADER:
            raise EmulationError(
                f"frame {number} of {size_text(len(frame))}: an Ethernet header alone has "
                f"{size_text(_ETHERNET_HEADER)}; leave it out"
            )
    for first in range(0, len(frames), BATCH):
        part = frames[first : first + BATCH]
        length = np.array([len(frame) for frame in part], np.int64)
        yield b"".join(part), length, at_ns[first : first + BATCH]


def inject(
    batches: Iterable[Batch],
    source: Place,
    destination: Place | None,
    *,
    watch: Callable[[int, int], None] | None = None,
) -> Injected:
    """Send all batches in time, or until Ctrl-C.

    ``watch`` is called with the frames and the nanoseconds so far.
    """
    with inside(source.namespace):
        try:
            channel = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        except PermissionError:
            raise EmulationError(
                f"inject into {source.label}: raw sockets need root; run it with `sudo -E`"
            ) from None
    with channel:
        try:
            channel.bind((source.interface, 0))
        except OSError as error:
            raise EmulationError(f"interface {source.label!r}: {error.strerror}") from None
        before = None if destination is None else _received(destination)
        sent = send(batches, channel, source.label, watch=watch)
    if destination is None or before is None:
        return sent
    time.sleep(0.02)
    return replace(sent, arrived=_received(destination) - before)


def send(
    batches: Iterable[Batch],
    channel: socket.socket,
    label: str,
    *,
    watch: Callable[[int, int], None] | None = None,
) -> Injected:
    """Send all batches in time, or until Ctrl-C, into a socket whose interface ``label`` names."""
    start = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + _LEAD_NS
    parts: list[Future[_Part]] = []
    ended = threading.Event()
    interrupted, begun = False, 0
    with ThreadPoolExecutor(1) as sender:
        try:
            for batch in batches:
                if parts:
                    _sent(parts[-1], label)
                parts.append(sender.submit(_send, channel, batch, start, ended))
                begun += len(batch[1])
                if watch is not None:
                    watch(begun, int(batch[2][-1]))
            if parts:
                _sent(parts[-1], label)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            ended.set()
    took = (time.clock_gettime_ns(time.CLOCK_MONOTONIC) - start) / 1e9
    done = [_sent(part, label) for part in parts]
    late = np.concatenate([np.zeros(0, np.int64), *(one for one, _ in done)])
    size = sum(size for _, size in done)
    p50, p99 = (int(np.quantile(late, q, method="higher")) if late.size else 0 for q in (0.5, 0.99))
    return Injected(late.size, size, max(took, 0.0), p50, p99, interrupted=interrupted)


def _send(channel: socket.socket, batch: Batch, start: int, ended: threading.Event) -> _Part:
    """Send a batch in stretches, and no more once ``ended`` is set."""
    data, length, at = batch
    edges = np.concatenate(([0], np.cumsum(length)))
    late: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    first = 0
    while first < len(at):
        begin = int(at[first]) + start - _STRETCH_NS
        while (ahead := begin - time.clock_gettime_ns(time.CLOCK_MONOTONIC)) > 0:
            if ended.wait(min(ahead / 1e9, _LONGEST_WAIT_S)):
                break
        if ended.is_set():
            break
        last = first + int(np.searchsorted(at[first:], at[first] + _STRETCH_NS, "right"))
        late.append(
            live().send_frames(
                socket=channel.fileno(),
                frames=data[edges[first] : edges[last]],
                length=length[first:last],
                at_ns=at[first:last] + start,
            )
        )
        first = last
    return np.concatenate(late), int(edges[first])


def _sent(part: Future[_Part], label: str) -> _Part:
    try:
        return part.result()
    except OSError as error:
        raise EmulationError(f"interface {label!r}: {error}") from None


def _received(place: Place) -> int:
    """Frames that an interface has received, by the kernel's count: proc(5), /proc/net/dev."""
    with inside(place.namespace):
        table = Path("/proc/thread-self/net/dev").read_text()
        for line in table.splitlines():
            name, _, counters = line.partition(":")
            if name.strip() == place.interface:
                return int(counters.split()[1])
    raise EmulationError(f"interface {place.label!r}: no such interface; `ip link` shows them")
