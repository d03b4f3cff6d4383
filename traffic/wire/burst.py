"""A burst plan: when which frame of a hand-off leaves one NIC, for a sender of real frames.

Each hand-off is a message that is sent at line rate from its release on, first come, first served,
cut into packets of the MTU: what a NIC without congestion control does with one queue pair after
the other. Times are nanoseconds of the link that is sent on, sizes payload bytes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from topo.error import KvfabricError
from topo.unit import PS_PER_NS, rate_text, size_text
from traffic.model import Model
from traffic.request import RequestTable

OVERHEAD: Final = 82
"""Bytes on the wire beside the payload: preamble 8, Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4,
FCS 4, gap 12 (IEEE 802.3; InfiniBand specification, annex A17)."""

LONGEST_NS: Final = 2**62
"""The last instant of a plan, 146 years: sums with the machine's clock still fit into 64 bits."""

PACKET: Final = np.dtype(
    [
        ("at_ns", np.int64),  # when its first bit leaves
        ("message", np.int64),  # the hand-off, dense from 0
        ("sequence", np.int64),  # in its message, from 0
        ("bytes", np.int64),  # payload
        ("last", np.bool_),
    ]
)
"""One row a packet, in the order of sending."""


class BurstError(KvfabricError):
    """Bursts that cannot be."""


@dataclass(frozen=True, slots=True)
class Bursts:
    """Messages in order of release: their releases in nanoseconds, and their bytes."""

    release_ns: NDArray[np.int64]
    size: NDArray[np.int64]

    def __post_init__(self) -> None:
        if len(self.size) and int(self.size.min()) < 1:
            raise BurstError("a burst without bytes: leave it out")
        if len(self.release_ns) and bool((np.diff(self.release_ns) < 0).any()):
            raise BurstError("bursts out of order: sort them by release")

    def packets(self, rate_bps: int, mtu: int) -> Iterator[NDArray[np.void]]:
        """`PACKET` rows, a message at a time."""
        if rate_bps < 1 or mtu < 1:
            raise BurstError(
                f"rate {rate_text(rate_bps)}, mtu {size_text(mtu)}: must be above 0; write "
                "10Gbps, 1KiB"
            )
        free = 0.0
        for message, (release, size) in enumerate(
            zip(self.release_ns.tolist(), self.size.tolist(), strict=True)
        ):
            count = -(-size // mtu)
            rows = np.zeros(count, PACKET)
            rows["message"] = message
            rows["sequence"] = np.arange(count)
            rows["bytes"] = mtu
            rows["bytes"][-1] = size - (count - 1) * mtu
            rows["last"][-1] = True
            begin = max(free, release)
            ends = begin + np.cumsum(rows["bytes"] + OVERHEAD) * (8e9 / rate_bps)
            free = float(ends[-1])
            if free > LONGEST_NS:
                raise BurstError(
                    f"rate {rate_text(rate_bps)}: frames would leave in centuries; write a "
                    "higher rate"
                )
            rows["at_ns"][0] = round(begin)
            rows["at_ns"][1:] = np.rint(ends[:-1])
            yield rows


def bursts(requests: RequestTable, model: Model, *, dilation: int = 1) -> Bursts:
    """The KV cache of every prompt as one message, released when its request arrives.

    dilation: times are so many times longer, for a link that is as much slower. Raises `BurstError`
    when they are longer than `LONGEST_NS` then.
    """
    size = np.array([model.kv_bytes(tokens) for tokens in requests.input_tokens.tolist()], np.int64)
    release = _from_zero((requests.arrival_ps // PS_PER_NS).tolist(), dilation)
    return Bursts(release, size)


def burst_frames(
    captured: Sequence[tuple[int, bytes]], *, dilation: int = 1
) -> tuple[NDArray[np.int64], list[bytes]]:
    """Frames of a capture, to be sent again with their own gaps: times from 0, and the frames.

    dilation: as of `bursts`.
    """
    at = _from_zero([time for time, _ in captured], dilation)
    order = np.argsort(at, kind="stable")
    return at[order], [captured[i][1] for i in order.tolist()]


def _from_zero(at_ns: list[int], dilation: int) -> NDArray[np.int64]:
    """Instants from the first one on, times ``dilation``."""
    first, last = min(at_ns, default=0), max(at_ns, default=0)
    if (last - first) * dilation > LONGEST_NS:
        raise BurstError(
            f"dilation {dilation:,}: the last of them would leave after more than 146 years; "
            "write a smaller one, or take out what is far from the rest"
        )
    # A lone instant is 0, whatever the dilation.
    scale = dilation if last > first else 1
    return np.array([(at - first) * scale for at in at_ns], np.int64)
