"""How evenly the flows were served: Jain's index, and the steadiness of each pair's path.

Every flow asks for its NIC's full rate, so that demands are equal and what a flow got of it is
ideal time / time taken (1 / slowdown), whatever its size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
from numpy.typing import NDArray

from analysis.interval import highest_quantile, quantile
from analysis.record import Cell

Floats = NDArray[np.float64]


def jain(shares: Floats) -> float:
    """Jain's index: (sum x)^2 / (n sum x^2), 1 when all are equal, 1/n when one has all.

    Jain, Chiu and Hawe, DEC Research Report TR-301, 1984. NaN for no shares.

    >>> jain(np.array([1.0, 1.0])), jain(np.array([1.0, 0.0, 0.0, 0.0]))
    (1.0, 0.25)
    """
    square = float((shares**2).sum()) * len(shares)
    return float(shares.sum()) ** 2 / square if square else nan


@dataclass(frozen=True, slots=True)
class Fairness:
    """Over the flows of a cell that finished: Jain's index of what each got of its demand, the
    least share over the most, and the index that max-min sharing would have had (NaN: unknown)."""

    index: float
    least_over_most: float
    maxmin: float


def fairness(cell: Cell) -> Fairness:
    """The fairness of a cell, warm-up included, since all its flows share the fabric."""
    flows = {name: column.astype(np.int64) for name, column in cell.flows.items()}
    if not flows:
        return Fairness(nan, nan, nan)
    took = flows["finish_ps"] - flows["release_ps"]
    whole = (flows["finish_ps"] >= 0) & (flows["ideal_ps"] > 0) & (took > 0)
    got = flows["ideal_ps"][whole] / took[whole]
    known = whole & (flows["maxmin_ps"] > 0)
    fluid = flows["ideal_ps"][known] / flows["maxmin_ps"][known]
    if not len(got):
        return Fairness(nan, nan, nan)
    return Fairness(jain(got), float(got.min() / got.max()), jain(np.minimum(fluid, 1.0)))


@dataclass(frozen=True, slots=True)
class Stability:
    """The slowdown of one pair of hosts: its highest carried quantile over its median."""

    source: int
    destination: int
    flows: int
    q: float
    ratio: float


def path_stability(cells: Sequence[Cell]) -> list[Stability]:
    """Pairs of hosts from the least steady path to the steadiest, over all given seeds.

    The ratio is P99 / P50 of slowdown (of time, it would tell large caches from small ones). A
    pair below 1,000 flows is read at the highest quantile that ten of its flows exceed, P90 from
    100 on; pairs below that are left out, since their tail is one or two flows.
    """
    tables = [
        np.column_stack([cell.flows[name].astype(np.int64) for name in _PAIRED])
        for cell in cells
        if cell.flows
    ]
    if not tables:
        return []
    rows = np.vstack(tables)
    rows = rows[(rows[:, 3] >= 0) & (rows[:, 4] > 0)]
    if not len(rows):
        return []
    order = np.lexsort((rows[:, 1], rows[:, 0]))
    rows = rows[order]
    slowdown = (rows[:, 3] - rows[:, 2]) / rows[:, 4]
    new = np.any(rows[1:, :2] != rows[:-1, :2], axis=1)
    starts = np.flatnonzero(np.r_[True, new])
    found = []
    for first, after in zip(starts, [*starts[1:], len(rows)], strict=True):
        q = highest_quantile(int(after - first))
        if q is None or q < 0.9:
            continue
        q = min(q, 0.99)
        values = slowdown[first:after]
        ratio = quantile(values, q) / quantile(values, 0.5)
        pair = int(rows[first, 0]), int(rows[first, 1])
        found.append(Stability(*pair, int(after - first), q, ratio))
    return sorted(found, key=lambda each: (-each.ratio, each.source, each.destination))


_PAIRED = ("source", "destination", "release_ps", "finish_ps", "ideal_ps")
