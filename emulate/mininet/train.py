"""The control experiment of the kernel dataplane: a train of full frames, timed by the kernel.

Datagrams as long as a full segment's frame are sent all at once between two hosts that are farthest
apart, over an idle network. The first must take its ideal time, store and forward at every hop; all
of them must leave at the rate of the slowest link; and how far each is off the even train is the
lateness of this machine, in times of a frame. Arrivals are stamped by the kernel (socket(7),
SO_TIMESTAMPNS), so that this program's own delays do not count.
"""

import socket
import struct
import time
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from emulate.mininet.control import farthest
from emulate.mininet.error import EmulationError
from emulate.mininet.guard import Control
from emulate.mininet.namespace import inside
from emulate.mininet.plane import Plane, latency_ps, longest_path
from emulate.mininet.qdisc import FRAMING, frame_bytes
from topo.unit import PS_PER_S

FRAMES: Final = 100
"""Of the train: at two frames of burst in a bucket, long enough for a rate within 1 %."""

_WARM: Final = 5
"""Frames before it, which do not count: the first of all find cold code and caches."""

_HEADERS: Final = 14 + 20 + 8
_TIMESTAMP: Final = 35
_RECEIVE_BUFFER: Final = 33
_SEND_BUFFER: Final = 32
_PORT: Final = 5202
_PATIENCE: Final = 3.0


@dataclass(frozen=True, slots=True)
class Train:
    """What the train gave, in picoseconds of the fabric's time."""

    first_ps: int
    first_ideal_ps: int
    gap_ps: int
    gap_ideal_ps: int
    late: NDArray[np.float64]
    """How far each frame is behind the even train, in times of a frame."""

    def controls(self) -> list[Control]:
        """The two experiments, for the guard."""
        return [
            Control("the lone frame", self.first_ps, self.first_ideal_ps),
            Control("the rate of a train", self.gap_ps, self.gap_ideal_ps),
        ]


def train(plane: Plane) -> Train:
    """Send one, on a plane that is idle."""
    fabric, setup = plane.network.fabric, plane.setup
    source, destination = farthest(fabric, setup.routes)
    path = longest_path(setup)
    wire_bits = 8 * (frame_bytes(setup.transport.mtu) + FRAMING)
    times = [wire_bits * PS_PER_S // int(fabric.ports.rate_bps[port]) for port in path]
    ideal = sum(times) + latency_ps(fabric, path)
    takes = ideal + FRAMES * max(times)
    _sent(plane, source, destination, _WARM, takes)
    sent, stamps = _sent(plane, source, destination, FRAMES, takes)
    arrived = (stamps - sent) * 1000 // plane.dilation
    frame = max(times)
    even = arrived[0] + frame * np.arange(FRAMES)
    late = np.abs(arrived - even) / frame
    gap = int(arrived[-1] - arrived[0]) // (FRAMES - 1)
    return Train(int(arrived[0]), ideal, gap, frame, late)


def _sent(
    plane: Plane, source: int, destination: int, count: int, takes_ps: int
) -> tuple[int, NDArray[np.int64]]:
    """When the first was sent, and when each arrived: CLOCK_REALTIME, nanoseconds."""
    network = plane.network
    body = bytes(frame_bytes(plane.setup.transport.mtu) - _HEADERS)
    with inside(network.namespace(destination)):
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with inside(network.namespace(source)):
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with receiver, sender:
        receiver.setsockopt(socket.SOL_SOCKET, _RECEIVE_BUFFER, 2**24)
        receiver.setsockopt(socket.SOL_SOCKET, _TIMESTAMP, 1)
        sender.setsockopt(socket.SOL_SOCKET, _SEND_BUFFER, 2**24)
        receiver.bind((network.nodes[destination].ip, _PORT))
        sender.bind((network.nodes[source].ip, 0))
        sender.connect((network.nodes[destination].ip, _PORT))
        real_s = takes_ps * plane.dilation / PS_PER_S
        receiver.settimeout(_PATIENCE + 2 * real_s)
        begin = time.clock_gettime_ns(time.CLOCK_REALTIME)
        for _ in range(count):
            sender.send(body)
        stamps: list[int] = []
        for _ in range(count):
            try:
                _, extra, *_ = receiver.recvmsg(len(body), 64)
            except TimeoutError:
                raise EmulationError(
                    f"control experiment: {len(stamps)} of {count} frames came from "
                    f"{network.nodes[source].name} to {network.nodes[destination].name}; does a "
                    "firewall of this kernel drop them?"
                ) from None
            seconds, nanoseconds = struct.unpack_from("=qq", extra[0][2])
            stamps.append(seconds * 10**9 + nanoseconds)
    return begin, np.array(stamps, np.int64)
