"""Arrivals recorded on coarse ticks, and their spreading.

The Mooncake traces are stamped about every 3 s with some ten requests a stamp; replayed as they
are, they invent synchronised bursts that no user sent. Spreading each stamp's requests uniformly
over the time to the next stamp, in their recorded order, keeps the count of every tick and assumes
nothing but an even rate inside it.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from topo.unit import PS_PER_MS, show_duration
from traffic.load.summary import peak_to_mean
from traffic.seed import generator

_SHORTEST_PS: Final = 100 * PS_PER_MS
_EVEN: Final = 0.01
_AT_ONCE: Final = 2**20


def tick(arrival_ps: NDArray[np.int64]) -> int:
    """The tick that arrivals sit on, picoseconds, or 0 when they do not.

    They do when most rows share their stamp with another row, and nine in ten of the distances
    between stamps lie within 1 % of a whole multiple of their median, which is at least 100 ms.
    """
    shared = np.zeros(len(arrival_ps) + 1, np.bool_)
    np.equal(arrival_ps[1:], arrival_ps[:-1], out=shared[1:-1])
    count = len(arrival_ps) - int(np.count_nonzero(shared))
    if count < 3 or int(np.count_nonzero(shared[1:] | shared[:-1])) * 2 < len(arrival_ps):
        return 0
    # Half of the distances are at least the median.
    if (count - 1) * _SHORTEST_PS > 2 * int(arrival_ps[-1] - arrival_ps[0]):
        return 0
    gaps = np.diff(arrival_ps[~shared[:-1]])
    median = int(np.median(gaps))
    if median < _SHORTEST_PS:
        return 0
    off = np.abs(gaps - np.rint(gaps / median) * median)
    return median if np.mean(off <= _EVEN * median) >= 0.9 else 0


def inside_tick(
    arrival_ps: NDArray[np.int64], tick_ps: int, seed: int | None
) -> tuple[NDArray[np.int64], str]:
    """The arrivals spread inside their tick by the seed (None: as they are), and what was done.

    Arrivals stay in recorded order and before the next stamp.
    """
    first = np.flatnonzero(np.diff(arrival_ps, prepend=arrival_ps[0] - 1))
    stamps, sizes = arrival_ps[first], np.diff(first, append=len(arrival_ps))
    raw = (
        f"Arrivals are recorded on ticks of about {show_duration(tick_ps)} "
        f"({len(arrival_ps) / len(stamps):.1f} requests a tick, at most {sizes.max()})"
    )
    if seed is None:
        return arrival_ps, f"{raw} and are replayed so: the bursts are an artefact of the ticks."
    room = np.minimum(np.append(np.diff(stamps), tick_ps), tick_ps)
    draw = generator(seed, "tick jitter")
    spread = arrival_ps.copy()
    ends = np.cumsum(sizes)
    low = 0
    while low < len(sizes):
        # Whole ticks, some million rows at once.
        high = max(low + 1, int(np.searchsorted(ends, first[low] + _AT_ONCE, "right")))
        group = np.repeat(np.arange(low, high), sizes[low:high])
        place = draw.random(len(group))
        # Sorting by (tick, place) hands the draws of a tick to its rows in recorded order.
        place = place[np.lexsort((place, group))]
        spread[first[low] : ends[high - 1]] += (place * room[group]).astype(np.int64)
        low = high
    return spread, (
        f"{raw}; each was moved uniformly inside its tick, in recorded order (seed {seed}). "
        f"Busiest second over mean rate: {peak_to_mean(arrival_ps):.1f} as recorded, "
        f"{peak_to_mean(spread):.1f} spread."
    )
