"""The ideal: how long one flow takes alone on an idle path.

A flow is cut into full frames and one shorter last frame. A frame starts on a hop when it has
arrived whole and the frame before it has left (store and forward). For equal frames this
recurrence has a closed form, that of a flow shop with identical jobs, and the last frame adds the
longest path through the hops. Frame overhead on the wire is that of RoCEv2 on Ethernet.
"""

from collections.abc import Sequence
from typing import Final

from topo.unit import PS_PER_S

FRAME_OVERHEAD: Final = 8 + 14 + 20 + 8 + 12 + 4 + 4 + 12
"""Bytes on the wire beside the payload: preamble and start delimiter 8, Ethernet 14, IPv4 20,
UDP 8, BTH 12, ICRC 4, FCS 4, inter-frame gap 12 (IEEE 802.3; InfiniBand annex A17, RoCEv2)."""


def wire_bytes(payload: int, mtu: int, descriptors: int = 1) -> int:
    """Bytes on the wire of a payload that is sent in frames of at most ``mtu`` bytes each.

    >>> wire_bytes(8192, 4096), wire_bytes(1, 4096)
    (8356, 83)
    """
    return payload + FRAME_OVERHEAD * frames(payload, mtu, descriptors)


def frames(payload: int, mtu: int, descriptors: int = 1) -> int:
    """Frames of a payload of at least one byte; every descriptor ends with a frame of its own.

    Descriptors are of equal size, the first ones a byte longer when the payload does not divide.

    >>> frames(8192, 4096), frames(8192, 4096, 3), frames(8193, 4096, 2)
    (2, 3, 3)
    """
    small, longer = divmod(payload, descriptors)
    return longer * -(-(small + 1) // mtu) + (descriptors - longer) * -(-small // mtu)


def ideal_ps(payload: int, mtu: int, rates_bps: Sequence[int], latency_ps: int) -> int:
    """From release to the last byte at the receiver, on an idle path, in picoseconds.

    ``rates_bps`` are the rates of the hops in order; ``latency_ps`` is the sum of all propagation
    delays and switch latencies.

    With one rate and at least two frames this is the latency, one full frame on every hop after
    the first, and the bytes on the wire over the rate:

    >>> ideal_ps(2 * 4096, 4096, [400 * 10**9] * 2, 1_000_000) - 1_000_000 == 20 * 3 * 4178
    True
    """
    count = frames(payload, mtu)
    full = count - 1
    last = payload - full * mtu + FRAME_OVERHEAD
    whole = [_serial(mtu + FRAME_OVERHEAD, rate) for rate in rates_bps]
    short = [_serial(last, rate) for rate in rates_bps]
    rest = sum(short)
    best, before, slowest = rest if full == 0 else 0, 0, 0
    for frame, tail in zip(whole, short, strict=True):
        if full == 0:
            break
        before += frame
        slowest = max(slowest, frame)
        best = max(best, before + (full - 1) * slowest + rest)
        rest -= tail
    return latency_ps + best


def fluid_ps(wire: float, rate_bps: float) -> int:
    """Time that ``wire`` bytes take at a rate, rounded to the picosecond.

    >>> fluid_ps(4178, 400e9)
    83560
    """
    return round(wire * (8 * PS_PER_S) / rate_bps)


def _serial(count: int, rate_bps: int) -> int:
    return -(-count * 8 * PS_PER_S // rate_bps)
