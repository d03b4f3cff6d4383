"""Max-min fair rates: what every flow gets when no flow can gain without a poorer one losing.

Progressive filling (Bertsekas and Gallager, Data Networks, 2nd edition, section 6.5.2): all rates
rise together until a port is full, the flows of that port stop there, and the rest go on. Here
every port that is *locally* the tightest is filled in the same round: the share of a port only
grows while flows elsewhere are settled, so a port whose share is the least on all its flows keeps
it. The result is the same and the rounds are few. Rates are floating point, in bit/s.
"""

import numpy as np
from numpy.typing import NDArray


def max_min(hops: NDArray[np.int32], capacity_bps: NDArray[np.float64]) -> NDArray[np.float64]:
    """The max-min fair rate of every flow, in bit/s.

    ``hops`` has one row a flow: the ports it crosses, filled up with the number of the last entry
    of ``capacity_bps``, which must be infinite. Every flow crosses at least one real port.

    >>> inf = float("inf")
    >>> hops = np.array([[0, 1], [0, 2], [1, 2]], np.int32)  # port 2 is the filler
    >>> max_min(hops, np.array([10.0, 4.0, inf])).tolist()
    [2.0, 8.0, 2.0]
    """
    if len(hops) == 1:
        return np.array([capacity_bps[hops[0]].min()])
    used, inverse = np.unique(hops, return_inverse=True)
    local = inverse.reshape(hops.shape)
    left = capacity_bps[used]
    rates = np.zeros(len(hops))
    rest = np.arange(len(hops))
    while rest.size:
        crossed = local[rest]
        count = np.bincount(crossed.ravel(), minlength=left.size)
        share = np.full(left.size, np.inf)
        np.divide(left, count, out=share, where=count > 0)
        offered = share[crossed]
        least = offered.min(axis=1)
        elsewhere = np.zeros(left.size, np.bool_)
        elsewhere[crossed[offered > least[:, None]]] = True
        settled = ((offered == least[:, None]) & ~elsewhere[crossed]).any(axis=1)
        rates[rest[settled]] = least[settled]
        ports = crossed[settled]
        taken = np.bincount(
            ports.ravel(), np.repeat(least[settled], ports.shape[1]), minlength=left.size
        )
        left = np.maximum(left - taken, 0.0)
        rest = rest[~settled]
    return rates
