"""What a cell keeps of the packets' telemetry: all that blames, and no rows without a wait."""

from typing import Final

import numpy as np

from analysis.observed import BLAME, OBSERVED
from traffic.emulator import Table, Telemetry

SERIES_PORTS: Final = 32
"""Queues kept over time: those of the ports with the longest, to keep a cell's files small."""


def observed(telemetry: Telemetry) -> dict[str, Table]:
    """The tables of `analysis.observed` by name; none of an emulator without frames.

    Hops without a wait are left out, and series of all but the `SERIES_PORTS` longest queues.
    """
    if not telemetry.hops:
        return {}
    tables: dict[str, Table] = {"blame": {name: telemetry.flows[name] for name in BLAME}}
    for name, columns in OBSERVED.items():
        if name != "blame":
            table: Table = getattr(telemetry, name)
            tables[name] = {column: table[column] for column in columns}
    hops, series = tables["hops"], tables["series"]
    waited = (hops["queued_ps"] != 0) | (hops["paused_ps"] != 0)
    longest = np.argsort(-telemetry.ports["max_queue_bytes"].astype(np.int64), kind="stable")
    shown = np.isin(series["port"], longest[:SERIES_PORTS])
    tables["hops"] = {column: values[waited] for column, values in hops.items()}
    tables["series"] = {column: values[shown] for column, values in series.items()}
    return tables
