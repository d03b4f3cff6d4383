"""Victims: flows slowed by the congestion of others, against the same seed without it.

A flow congests when it shares an overloaded port: max-min sharing, which knows no pauses, cannot
give it what it asks for. A flow that does not, and yet crosses a port that was paused, is exposed.
How much it is slowed is its completion time over the one it has when the congesting flows are
taken away and all else is the same. Victims of pauses: Zhu et al. (DCQCN), SIGCOMM 2015, 2.2; Guo
et al. (RDMA over Commodity Ethernet at Scale), SIGCOMM 2016. The ratio is ours.
"""

from dataclasses import dataclass
from math import nan
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analysis.interval import highest_quantile, quantile
from traffic.emulator import Table

SLOWED: Final = 1.1
"""A slowdown above this makes an exposed flow a victim."""

_SPARE: Final = 1.01
"""Max-min times within a hundredth of the ideal are full rate: both are rounded to frames."""


@dataclass(frozen=True, slots=True)
class Victims:
    """Exposed flows and their slowdown; ``tail`` is at quantile ``q``, the highest that they carry.

    ``congesting`` counts the flows that were taken away; ``flows`` all flows that finished.
    """

    flows: int
    congesting: int
    exposed: int
    victims: int
    median: float
    q: float | None
    tail: float
    most: float


def congesting(flows: Table) -> NDArray[np.bool_]:
    """Which flows of a flow table share an overloaded port: their max-min time exceeds the ideal.

    A flow without an estimate does not.
    """
    fluid, ideal = (flows[name].astype(np.int64) for name in ("maxmin_ps", "ideal_ps"))
    slowed: NDArray[np.bool_] = fluid > ideal * _SPARE
    return slowed & (ideal > 0)


def victims(
    flows: Table, alone_ps: NDArray[np.int64], crosses_paused: NDArray[np.bool_]
) -> Victims:
    """The victims among the flows of a table.

    ``alone_ps`` is the duration of each flow with the congesting ones taken away (-1: not run, or
    not finished); ``crosses_paused`` whether a port of its path was paused in the whole run.
    """
    finish, release = (flows[name].astype(np.int64) for name in ("finish_ps", "release_ps"))
    jam = congesting(flows)
    ended = finish >= 0
    exposed = ended & ~jam & crosses_paused & (alone_ps > 0)
    slowdown = ((finish - release)[exposed] / alone_ps[exposed]).astype(np.float64)
    q = highest_quantile(len(slowdown))
    return Victims(
        flows=int(ended.sum()),
        congesting=int(jam.sum()),
        exposed=len(slowdown),
        victims=int((slowdown > SLOWED).sum()),
        median=quantile(slowdown, 0.5) if len(slowdown) else nan,
        q=q,
        tail=quantile(slowdown, q) if q is not None else nan,
        most=float(slowdown.max()) if len(slowdown) else nan,
    )
