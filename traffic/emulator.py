"""The one protocol between the serving model and whatever moves the bytes.

The packet engine, the fluid and the Mininet emulator all keep it. Time is integer picoseconds
since the start of the run and never goes back.
"""

from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from topo.error import KvfabricError
from topo.unit import duration_text

Table = dict[str, NDArray[np.generic]]
"""A table as named columns of equal length."""

FLOW: Final = np.dtype(
    [
        ("flow", np.int64),  # unique, chosen by the caller, dense from 0
        ("handoff", np.int64),  # the hand-off it belongs to
        ("source", np.int32),  # node index of the sending host
        ("destination", np.int32),  # node index of the receiving host
        ("bytes", np.int64),  # payload, at least 1
        ("descriptors", np.int64),  # work requests that carry it, at least 1
        ("entropy", np.uint32),  # queue pair: becomes the UDP source port, decides the ECMP path
        ("path", np.int32),  # pinned path number, or -1: hashed
        ("write", np.bool_),  # write (push) or read (pull)
        ("priority", np.uint8),  # 0..7
        ("release_ps", np.int64),  # not before the emulator's present time
    ]
)
"""One row a flow."""

COMPLETION: Final = np.dtype(
    [
        ("flow", np.int64),
        ("handoff", np.int64),
        ("finish_ps", np.int64),  # the last in-order byte is at the receiver
    ]
)
"""One row a completed flow, in the order (finish_ps, flow)."""


@dataclass(frozen=True, slots=True)
class Advance:
    """What `advance` returns: the time reached and the flows that completed at that instant."""

    now_ps: int
    completions: NDArray[np.void]


@dataclass(slots=True)
class Telemetry:
    """What a run leaves behind.

    flows: one row a submitted flow, in flow order: the `FLOW` columns ``flow handoff source
    destination bytes release_ps`` and ``finish_ps`` (-1: not finished), ``sender_done_ps`` (-1),
    ``ideal_ps`` (duration of the same flow alone on an idle fabric), ``hops`` (links crossed),
    ``packets``, ``marked`` (of them, those taken with a congestion mark), ``resent_bytes``,
    ``timeouts``.

    ports: one row a port of the fabric, in port order: ``port tx_bytes`` (wire bytes sent),
    ``tx_packets busy_ps`` (time spent sending), ``paused_ps`` (time its data class, of several the
    one with most, was stopped by its peer), ``pauses`` (XOFF frames received), ``marked`` (packets
    marked here), ``drops``, ``max_queue_bytes``, ``blocked_ps`` (idle while something waited:
    head-of-line blocking). An emulator without a notion leaves that column 0.

    totals: named whole numbers of the run, such as ``events packet_hops drops_buffer
    drops_fault bytes_sent bytes_delivered``.

    hops: of emulators with frames, where the accepted copy of each finished flow's last packet
    waited, one row a (flow, hop) at which it did: ``flow hop port queued_ps paused_ps``. Hop 0 is
    the sender's NIC: the flow's turns and pauses there.

    pauses: one row a (port, priority) that its peer stopped: ``port priority paused_ps pauses
    longest_ps``, the longest without a break.

    stops: the first 2^17 decisions to stop a peer, by time: ``port priority`` that were stopped,
    ``from_ps``, ``until_ps`` (-1: still stopped) and ``cause_port``, the port of the stopping
    switch that held most of the stopped group's bytes. ``totals["stops"]`` counts all of them.

    innocence: one row a (port, priority) that stood stopped, by pause or for want of credits, with
    frames waiting at some tick of observation: ``port priority paused_bytes innocent_bytes``, bytes
    on the wire summed over the ticks. Of ``paused_bytes`` those are innocent whose own egress, by
    which they will leave the next switch, is neither stopped itself nor the one that the stop is
    blamed on (``cause_port``; without pauses the egress that holds most bytes of the lane): the
    root of a tree of pauses is congested, never stopped. What a host stops is not innocent, and
    what a NIC has not sent is no frame yet. ``totals`` has the sums.

    occupancy: a histogram of the bytes that waited at ticks of observation: ``port least_bytes
    samples``, where a row covers sizes from ``least_bytes`` (a power of two, or 0: empty) to below
    its double.

    series: the same samples over time, at most 512 rows a port, those without bytes left out:
    ``port from_ps span_ps mean_bytes max_bytes``, of the samples in (from, from + span].
    """

    flows: Table
    ports: Table
    totals: dict[str, int] = field(default_factory=dict)
    hops: Table = field(default_factory=dict)
    pauses: Table = field(default_factory=dict)
    stops: Table = field(default_factory=dict)
    innocence: Table = field(default_factory=dict)
    occupancy: Table = field(default_factory=dict)
    series: Table = field(default_factory=dict)


def refuse_past(until_ps: int, now_ps: int) -> None:
    """Raise `KvfabricError` for an advance to before the present."""
    if until_ps < now_ps:
        raise KvfabricError(
            f"advance to {duration_text(until_ps)}: before the present time "
            f"{duration_text(now_ps)}; time never goes back"
        )


class Emulator(Protocol):
    """Moves flows over a fabric."""

    def submit(self, flows: NDArray[np.void]) -> None:
        """Hand over `FLOW` rows. Refuses a release before the present time and unknown hosts."""
        ...

    def advance(self, until_ps: int) -> Advance:
        """Run to the first instant at most ``until_ps`` at which some flow completed.

        Returns at ``until_ps`` with no completions when there was none; never hangs.
        Cutting the call into slices changes no result.
        """
        ...

    def observe(self) -> Table:
        """Link state that a congestion-aware policy may see, one row a port:
        ``queued_bytes paused utilisation``, latched at fixed ticks."""
        ...

    def busy_ps(self) -> NDArray[np.int64]:
        """The time that every port has spent sending by now, one entry a port."""
        ...

    def telemetry(self) -> Telemetry:
        """Tables of everything up to the present time."""
        ...
