"""The tables of a run of the kernel dataplane, in the columns that every emulator has."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from emulate.mininet import qdisc
from emulate.mininet.backlog import Counted
from topo.unit import PS_PER_S
from traffic.emulator import Table

_KNOWN: Final = (
    *("flow", "handoff", "source", "destination", "bytes", "release_ps"),
    *("ideal_ps", "hops"),
)


def flow_rows(
    twin: Table,
    submitted: Sequence[int],
    finish: Mapping[int, int],
    told: Mapping[int, tuple[int, int, int]],
) -> Table:
    """One row a submitted flow, in flow order.

    twin: the flow table of a packet emulator that was handed the same flows. submitted: flow
    numbers by row; finish and told (segments, marked ones, bytes sent again) are by row. When the
    sender knows and how many timeouts it had the kernel does not tell: -1 and 0.
    """
    table: Table = {name: np.asarray(twin[name]).astype(np.int64) for name in _KNOWN}
    rows = {flow: row for row, flow in enumerate(submitted)}
    order = [rows[flow] for flow in table["flow"].tolist()]
    table["finish_ps"] = np.array([finish.get(row, -1) for row in order], np.int64)
    table["sender_done_ps"] = np.full(len(order), -1, np.int64)
    counted = np.array([told.get(row, (0, 0, 0)) for row in order], np.int64).reshape(-1, 3)
    table["packets"], table["marked"], table["resent_bytes"] = counted.T.copy()
    table["timeouts"] = np.zeros(len(order), np.int64)
    return table


def wire_bytes(before: Mapping[int, Counted], after: Mapping[int, Counted]) -> NDArray[np.int64]:
    """What every port has sent between two looks, framing included."""
    return np.array(
        [
            after[port].bytes
            - before[port].bytes
            + qdisc.FRAMING * (after[port].packets - before[port].packets)
            for port in sorted(before)
        ],
        np.int64,
    )


def busy_time(wire: NDArray[np.int64], rate_bps: NDArray[np.int64]) -> NDArray[np.int64]:
    """How long wire bytes take at the fabric's rates, in picoseconds.

    >>> busy_time(np.array([1250]), np.array([10**10])).tolist()
    [1000000]
    """
    taken: NDArray[np.int64] = wire * 8 * (PS_PER_S // 10**6) // (rate_bps // 10**6)
    return taken


def port_rows(
    wire: NDArray[np.int64],
    packets: NDArray[np.int64],
    busy_ps: NDArray[np.int64],
    marked: NDArray[np.int64],
    drops: NDArray[np.int64],
    samples: Sequence[tuple[int, int, int]],
) -> Table:
    """One row a port of the fabric; ``samples`` are (time, port, bytes waiting)."""
    highest = np.zeros(len(wire), np.int64)
    for _, port, waiting in samples:
        highest[port] = max(highest[port], waiting)
    none = np.zeros(len(wire), np.int64)
    return {
        "port": np.arange(len(wire), dtype=np.int64),
        "tx_bytes": wire,
        "tx_packets": packets,
        "busy_ps": busy_ps,
        "paused_ps": none,
        "pauses": none.copy(),
        "marked": marked,
        "drops": drops,
        "max_queue_bytes": highest,
        "blocked_ps": none.copy(),
    }
