"""Arrivals whose rate changes in time: bursts with silences between, and days with nights.

Both are Poisson processes in a time of their own that is then mapped to the clock. `on_off` stops
the clock of arrivals during lulls (the interrupted Poisson process: Kuczura, Bell System Technical
Journal 52(3), 1973); `diurnal` runs it faster and slower along a sine (time change of a Poisson
process: Cinlar, Introduction to Stochastic Processes, section 4.7).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from topo.unit import PS_PER_S, show_duration
from traffic.error import RequestError

_MOST_BURSTS: Final = 10_000_000
_HALVINGS: Final = 64
_LATEST_PS: Final = 4_000_000 * PS_PER_S


@dataclass(frozen=True, slots=True)
class Modulation:
    """How a rate changes in time.

    ``burst_ps`` and ``lull_ps``: mean lengths of the exponential periods with and without arrivals
    (``on_off``). ``period_ps`` and ``swing``: the rate is the mean times 1 + swing x sin(2 pi t /
    period), so that it starts at the mean and rises (``diurnal``). Defaults are choices: one second
    of burst in two, and a day that swings by half, between 0.5 and 1.5 times the mean.
    """

    burst_ps: int = PS_PER_S
    lull_ps: int = PS_PER_S
    period_ps: int = 86_400 * PS_PER_S
    swing: float = 0.5

    def __post_init__(self) -> None:
        for name, value in (("burst", self.burst_ps), ("period", self.period_ps)):
            if value < 1:
                raise RequestError(f"{name} {show_duration(value)}: must be above 0; write e.g. 1s")
        if self.lull_ps < 0:
            raise RequestError(f"lull {show_duration(self.lull_ps)}: negative; write e.g. 1s")
        if not 0 <= self.swing <= 1:
            raise RequestError(
                f"swing {self.swing:g}: the rate would fall below 0; write 0% to 100%"
            )


def on_off(
    rate_per_s: float, count: int, random: np.random.Generator, shape: Modulation
) -> NDArray[np.int64]:
    """Arrivals of an interrupted Poisson process of the given mean rate, picoseconds.

    During a burst the rate is the mean times (burst + lull) / burst, during a lull it is 0. The
    process starts as if it had run for ever: in a burst with probability burst / (burst + lull).
    The squared coefficient of variation of its gaps is 1 + 2 x r x burst x lull^2 / (burst +
    lull)^2, r being the rate inside a burst. More than 10 million bursts are refused,
    and arrivals beyond 4e6 s.
    """
    burst, lull = float(shape.burst_ps), float(shape.lull_ps)
    inside = rate_per_s / PS_PER_S * (burst + lull) / burst
    if count / inside / burst > _MOST_BURSTS:
        raise RequestError(
            f"burst {show_duration(shape.burst_ps)}: {count} requests at {rate_per_s:g}/s "
            f"would need more than {_MOST_BURSTS} bursts; write longer bursts"
        )
    busy = np.cumsum(random.exponential(1 / inside, count))
    ends = np.zeros(0)
    while not len(ends) or (count and ends[-1] < busy[-1]):
        more = max(16, int(1.1 * count / inside / burst))
        last = ends[-1] if len(ends) else 0.0
        ends = np.concatenate((ends, last + np.cumsum(random.exponential(burst, more))))
    silent = np.cumsum(random.exponential(lull, len(ends) + 1))
    # A start inside a burst has no lull before it.
    waited = silent if random.random() < lull / (burst + lull) else silent - silent[0]
    at = busy + waited[np.searchsorted(ends, busy)]
    if count and at[-1] > _LATEST_PS:
        raise RequestError(
            f"lull {show_duration(shape.lull_ps)}: the last of {count} requests would come beyond "
            "4e6 s; write shorter lulls"
        )
    return np.rint(at).astype(np.int64)


def diurnal(
    rate_per_s: float, count: int, random: np.random.Generator, shape: Modulation
) -> NDArray[np.int64]:
    """Arrivals of a Poisson process whose rate follows a sine, picoseconds.

    The expected count up to t is rate x (t + swing x period / 2 pi x (1 - cos(2 pi t / period)));
    unit-rate arrivals are mapped through its inverse, found by bisection.
    """
    wanted = np.cumsum(random.exponential(PS_PER_S / rate_per_s, count))
    scale = shape.swing * shape.period_ps / (2 * np.pi)
    low, high = np.maximum(wanted - 2 * scale, 0), wanted.copy()
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        early = middle + scale * (1 - np.cos(2 * np.pi / shape.period_ps * middle)) < wanted
        low, high = np.where(early, middle, low), np.where(early, high, middle)
    return np.maximum.accumulate(np.rint(high).astype(np.int64))
