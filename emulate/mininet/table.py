"""The tables of both processes as one: rows by flow and by port, as every emulator has them."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from emulate.mininet.driver import LATE
from traffic.emulator import Table

Tables = Mapping[str, Mapping[str, Table]]
"""By process and name."""

_COUNTED = ("packets", "marked", "resent_bytes", "timeouts")
_PORT = (
    "tx_bytes",
    "tx_packets",
    "busy_ps",
    "paused_ps",
    "pauses",
    "marked",
    "drops",
    "max_queue_bytes",
    "blocked_ps",
)
_KNOWN = ("flow", "handoff", "source", "destination", "bytes", "release_ps", "ideal_ps", "hops")
_PAUSE = ("port", "priority", "paused_ps", "pauses", "longest_ps")
_STOP = ("port", "priority", "from_ps", "until_ps", "cause_port")


def flow_table(twin: Table, landed: NDArray[np.void], agent: Table) -> Table:
    """One row a submitted flow, in flow order.

    twin: the flow table of a packet emulator that was handed the same flows, for what does not
    depend on what happened. landed: `emulate.mininet.plan.LANDED` rows. agent: the agent's counts.
    """
    table: Table = {name: np.asarray(twin[name]).astype(np.int64) for name in _KNOWN}
    flows = np.asarray(table["flow"], np.int64)
    order = np.argsort(flows)

    def rows(of: NDArray[np.int64]) -> NDArray[np.int64]:
        return order[np.searchsorted(flows, of, sorter=order)] if len(of) else of

    finish, done = np.full(len(flows), -1, np.int64), np.full(len(flows), -1, np.int64)
    finish[rows(landed["flow"].astype(np.int64))] = landed["finish_ps"]
    theirs = rows(np.asarray(agent["flow"], np.int64))
    done[theirs] = agent["sender_done_ps"]
    table |= {"finish_ps": finish, "sender_done_ps": done}
    for name in _COUNTED:
        column = np.zeros(len(flows), np.int64)
        column[theirs] = agent[name]
        table[name] = column
    return table


def port_table(ports: int, tables: Tables) -> Table:
    """One row a port of the fabric, from whichever process sends on it."""
    table: Table = {"port": np.arange(ports, dtype=np.int64)}
    for name in _PORT:
        column = np.zeros(ports, np.int64)
        for of in tables.values():
            column[np.asarray(of["ports"]["port"], np.int64)] = of["ports"][name]
        table[name] = column
    return table


def pause_table(tables: Tables) -> Table:
    """The stopped (port, priority) pairs of both processes."""
    return {**_joined(tables, "pauses", _PAUSE)}


def stop_table(tables: Tables) -> dict[str, NDArray[np.int64]]:
    """The decisions to stop a peer of both processes, by (time, port, priority), in their time."""
    found = _joined(tables, "stops", _STOP)
    order = np.lexsort((found["priority"], found["port"], found["from_ps"]))
    return {name: values[order] for name, values in found.items()}


def late_table(tables: Tables) -> Table:
    """The lateness of both processes."""
    return {**_joined(tables, "late", LATE)}


def _joined(tables: Tables, name: str, columns: tuple[str, ...]) -> dict[str, NDArray[np.int64]]:
    return {
        column: np.concatenate([np.asarray(of[name][column], np.int64) for of in tables.values()])
        for column in columns
    }
