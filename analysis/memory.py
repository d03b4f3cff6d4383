"""How full the KV memory of the instances that decode was, and who had to wait or go for it.

Memory is held from the moment it is reserved, when the hand-off is admitted, to the last token; see
`traffic.record.occupancy` for the exact rule. Means and times are over the run, first arrival to
end, warm-up included; sums over the instances come from the totals of a cell, and every instance is
in its ``instances.parquet``.
"""

from collections.abc import Sequence
from math import nan
from typing import Final

import numpy as np

from analysis.breakdown import Breakdown
from analysis.record import Cell
from analysis.summary import Sample
from analysis.wording import percent
from topo.unit import show_size

_PREFIX: Final = "hbm."


def held(cell: Cell) -> float:
    """HBM occupancy: the time-weighted mean of the KV bytes reserved, over all that there are."""
    return _share(cell, "mean_bytes", "capacity_bytes")


def peak(cell: Cell) -> float:
    """The most that an instance ever held of its KV memory; that of the fullest one."""
    return _total(cell, "peak_ppm") / 1e6


def short(cell: Cell) -> float:
    """The share of the instances' time in which somebody waited for memory."""
    return _share(cell, "short_ps", "window_ps") / _total(cell, "instances")


def short_most(cell: Cell) -> float:
    """The same of the instance where it was longest."""
    return _share(cell, "short_most_ps", "window_ps")


def evictions(cell: Cell) -> float:
    """How often a sequence had to leave an instance since memory had grown full."""
    return _total(cell, "evictions")


def memory(samples: Sequence[Sample]) -> Breakdown:
    """Occupancy, time short and evictions of every alternative that tells them; means of seeds."""
    rows = []
    for sample in samples:
        cells = [cell for cell in sample.cells if f"{_PREFIX}instances" in cell.manifest.totals]
        if sample.impossible is not None or not cells:
            continue
        has = np.mean([_share(cell, "capacity_bytes", "instances") for cell in cells])
        means = [
            float(np.mean([share(cell) for cell in cells]))
            for share in (held, peak, short, short_most)
        ]
        gone = sum(evictions(cell) for cell in cells)
        most = max(_total(cell, "evictions_most") for cell in cells)
        rows.append(
            (
                *(sample.fabric, sample.policy, show_size(round(has))),
                *(percent(share) for share in means),
                *(f"{count:,.0f}" for count in (gone, most)),
            )
        )
    return Breakdown(
        "KV memory of the instances that decode",
        "Held is what is reserved, from the admission of a hand-off to the last token: its mean "
        "over time and instances, and the peak of the fullest instance. Short is the share of time "
        "in which somebody waited for memory. Evicted is who had to leave memory that had grown "
        "full, over all seeds. First arrival to end, warm-up included; other columns are means of "
        "seeds.",
        (
            *("fabric", "policy", "of an instance", "held, mean", "held, peak"),
            *("short", "short, worst instance", "evicted", "of one instance, most"),
        ),
        tuple(rows),
    )


def _total(cell: Cell, name: str) -> float:
    found = cell.manifest.totals.get(_PREFIX + name)
    return nan if found is None else float(found)


def _share(cell: Cell, part: str, whole: str) -> float:
    of = _total(cell, whole)
    return _total(cell, part) / of if of > 0 else nan
