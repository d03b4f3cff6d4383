"""When requests arrive: processes of a given mean rate, in integer picoseconds.

The first request comes one gap after the start of the run. Gaps of renewal processes are rounded
to the picosecond one by one, so that arrivals never decrease.
"""

from math import isfinite
from typing import Final

import numpy as np
from numpy.typing import NDArray

from topo.unit import PS_PER_S
from traffic.error import RequestError
from traffic.source.modulation import Modulation, diurnal, on_off

PROCESSES: Final = ("poisson", "deterministic", "gamma", "on_off", "diurnal")
"""Names of the arrival processes."""

_LONGEST_S: Final = 4_000_000


def arrivals(
    process: str,
    rate_per_s: float,
    count: int,
    random: np.random.Generator,
    *,
    cv: float = 1.0,
    modulation: Modulation | None = None,
) -> NDArray[np.int64]:
    """The arrival times of ``count`` requests, picoseconds, non-decreasing.

    ``poisson``: exponential gaps. ``deterministic``: request i arrives at (i + 1) / rate.
    ``gamma``: gamma gaps of mean 1 / rate whose coefficient of variation is ``cv``: 1 is Poisson,
    above 1 is burstier (the arrival model of BurstGPT, arXiv 2401.17644). ``on_off`` and
    ``diurnal``: as ``modulation`` says, by default one of default shape. A rate that is not
    positive, an unknown process or a span beyond 4e6 s is refused with a `RequestError`.
    """
    if not isfinite(rate_per_s) or rate_per_s <= 0:
        raise RequestError(f"arrival rate {rate_per_s:g}/s: must be above 0; write e.g. 400/s")
    if count < 0:
        raise RequestError(f"count {count}: negative; write at least 1")
    if count / rate_per_s > _LONGEST_S:
        raise RequestError(
            f"{count} requests at {rate_per_s:g}/s: would last beyond {_LONGEST_S} s; "
            "raise the rate or lower the count"
        )
    if process == "on_off":
        return on_off(rate_per_s, count, random, modulation or Modulation())
    if process == "diurnal":
        return diurnal(rate_per_s, count, random, modulation or Modulation())
    mean_ps = PS_PER_S / rate_per_s
    if process == "poisson":
        gaps = random.exponential(mean_ps, count)
    elif process == "gamma":
        if not isfinite(cv) or not 0.01 <= cv <= 100:
            raise RequestError(f"cv {cv:g}: gamma gaps need 0.01 to 100; write e.g. 2")
        shape = cv**-2
        gaps = random.gamma(shape, mean_ps / shape, count)
    elif process == "deterministic":
        at = np.arange(1, count + 1) * mean_ps
        return np.asarray(np.rint(at), np.int64)
    else:
        raise RequestError(
            f"arrival process {process[:40]!r}: not known; write one of {', '.join(PROCESSES)}"
        )
    return np.cumsum(np.rint(gaps).astype(np.int64), dtype=np.int64)
