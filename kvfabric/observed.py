"""What a cell keeps of the packets' telemetry: all that blames, and few rows without a wait."""

from typing import Final

import numpy as np

from analysis.observed import BLAME, OBSERVED
from emulate.discipline import Discipline
from topo.fabric import Fabric
from traffic.emulator import Table, Telemetry

SERIES_PORTS: Final = 32
"""Queues kept over time: those of the ports with the longest, to keep a cell's files small."""


def observed(
    fabric: Fabric, telemetry: Telemetry, rules: Discipline | None = None
) -> dict[str, Table]:
    """The tables of `analysis.observed` by name; none of an emulator without frames, and only what
    the pauses were of one that does not follow a flow's last packet (real frames).

    ``rules`` are those by which switches mark, None where none does.

    Hops without a wait are left out, but for NICs and for flows that sent anew, whose way tells
    where they may have lost; and series of all but the `SERIES_PORTS` longest queues.
    """
    if not telemetry.hops:
        return _stopped(fabric, telemetry)
    tables: dict[str, Table] = {"blame": {name: telemetry.flows[name] for name in BLAME}}
    for name, columns in OBSERVED.items():
        if name not in ("blame", "egress", "marking"):
            table: Table = getattr(telemetry, name)
            tables[name] = {column: table[column] for column in columns}
    hops, series = tables["hops"], tables["series"]
    waited = (hops["queued_ps"] != 0) | (hops["paused_ps"] != 0)
    again = telemetry.flows["flow"][telemetry.flows["blame_retransmission_ps"].astype(np.int64) > 0]
    waited |= (hops["hop"] == 0) | np.isin(hops["flow"], again)
    longest = np.argsort(-telemetry.ports["max_queue_bytes"].astype(np.int64), kind="stable")
    shown = np.isin(series["port"], longest[:SERIES_PORTS])
    tables["hops"] = {column: values[waited] for column, values in hops.items()}
    tables["series"] = {column: values[shown] for column, values in series.items()}
    tables["egress"] = _egress(fabric, telemetry)
    tables["marking"] = _marking(fabric, rules)
    return tables


def _stopped(fabric: Fabric, telemetry: Telemetry) -> dict[str, Table]:
    """Who was stopped because of whom, where the emulator tells it."""
    if not telemetry.stops:
        return {}
    told = {"pauses": telemetry.pauses, "stops": telemetry.stops}
    return {
        "egress": _egress(fabric, telemetry),
        **{name: {column: of[column] for column in OBSERVED[name]} for name, of in told.items()},
    }


def _marking(fabric: Fabric, rules: Discipline | None) -> Table:
    """From where on, and beyond where, the ports of switches mark."""
    rows = [
        (port, mark.kmin_bytes, mark.kmax_bytes)
        for port, rate in enumerate(fabric.ports.rate_bps.tolist())
        if fabric.nodes[fabric.ports.node[port]].switch is not None
        and rules is not None
        and (mark := rules.threshold(rate)) is not None
    ]
    columns = np.array(rows, np.int64).reshape(-1, 3).T
    return dict(zip(OBSERVED["marking"], columns, strict=True))


def _egress(fabric: Fabric, telemetry: Telemetry) -> Table:
    """What every port faces, leans on, and for how long it was blocked."""
    models = (node.switch for node in fabric.nodes)
    buffers = np.array([0 if m is None else m.buffer_bytes for m in models], np.int64)
    return {
        "port": telemetry.ports["port"],
        "far_port": fabric.ports.reverse,
        "buffer_bytes": buffers[fabric.ports.node],
        "blocked_ps": telemetry.ports["blocked_ps"],
    }
