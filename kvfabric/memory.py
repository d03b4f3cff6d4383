"""What the KV memory of a cell's instances held: their table, and its totals for the manifest."""

from typing import Final

import numpy as np

from analysis.observed import INSTANCES
from kvfabric.latency import Served
from traffic.emulator import Table
from traffic.record.occupancy import COLUMNS
from traffic.serving.run import Outcome

_PPM: Final = 10**6


def instances(served: Served, outcome: Outcome, compared: Table | None) -> Table:
    """The table of `analysis.observed.INSTANCES`.

    ``compared`` has the time at work without latency, where it was compared; where nobody waits for
    messages the run is the one without.
    """
    table = dict(served.instances() if compared is None else compared)
    unknown = np.full(len(table["side"]), -1, np.int64)
    if compared is None:
        table["work_without_ps"] = unknown if served.waits else table["work_ps"]
    for name in COLUMNS:
        table[name] = unknown.copy()
        table[name][table["side"] == 1] = outcome.memory[name]
    return {name: table[name] for name in INSTANCES}


def memory_totals(outcome: Outcome) -> dict[str, int]:
    """Over the instances that decode: sums of capacity and mean, the peak of the fullest (a
    millionth of its capacity), time short in all and of the worst, evictions likewise."""
    table = {name: column.astype(np.int64) for name, column in outcome.memory.items()}
    if not len(table["window_ps"]):
        return {}
    fullest = table["kv_peak_bytes"] / table["kv_capacity_bytes"]
    totals = {
        "capacity_bytes": table["kv_capacity_bytes"].sum(),
        "mean_bytes": table["kv_mean_bytes"].sum(),
        "peak_ppm": np.floor(fullest.max() * _PPM),
        "short_ps": table["kv_short_ps"].sum(),
        "short_most_ps": table["kv_short_ps"].max(),
        "evictions": table["evictions"].sum(),
        "evictions_most": table["evictions"].max(),
        "instances": len(table["window_ps"]),
        "window_ps": table["window_ps"].max(),
    }
    return {f"hbm.{name}": int(value) for name, value in totals.items()}
