"""How many first requests a run needs before its hand-offs are those of a steady state.

MSER-5 (White, Simulation 69, 1997; White and Robinson, International Journal of Simulation and
Process Modelling 6, 2010): the series is averaged in batches of 5, and cut where the standard
error of what remains is least. Replications are averaged position by position first (Hoad,
Robinson and Davies, Journal of the Operational Research Society 61, 2010), which quietens the noise
and keeps the transient. A cut in the second half says that no steady state was seen. The minimum
wanders on a series without any transient, so that a cut is believed only where the replications
agree that what it removes differs from what it leaves, by Student's t.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analysis.interval import Estimate, mean_interval
from analysis.record import Cell
from analysis.replay import replays
from analysis.summary import Sample
from analysis.wording import count, duration

BATCH: Final = 5
LEAST_BATCHES: Final = 10
"""Fewer batches than these cannot tell a transient from noise."""

_LEFT: Final = 5

LEVEL: Final = 0.99
"""Of the interval that has to exclude zero; above 95 %, since the cut was looked for."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Transient:
    """What MSER-5 says of one alternative.

    The hand-offs of the ``cut`` first requests of a seed differ from the rest; ``beyond`` is by
    how much their mean exceeds that of the rest, ps. ``steady`` is false where the cut falls into
    the second half of the run: then the run is too short to tell its steady state.
    """

    cut: int
    beyond: Estimate
    steady: bool


def mser(series: Floats, batch: int = BATCH) -> int:
    """Values to leave out at the start: a multiple of ``batch`` that leaves at least 5 batches; 0
    for a series of fewer than 10 batches. Beyond half of the series it is not to be trusted.

    >>> mser(np.concatenate([np.full(10, 9.0), np.tile([1.0, 2.0], 50)]))
    10
    """
    count = len(series) // batch
    if count < LEAST_BATCHES:
        return 0
    means = series[: count * batch].reshape(count, batch).mean(axis=1)
    # sums over the batches from each place to the end, centred so that squares do not cancel
    centred = means - means.mean()
    left = np.arange(count, 0, -1)
    total = np.cumsum(centred[::-1])[::-1]
    square = np.cumsum(centred[::-1] ** 2)[::-1]
    error = np.maximum(square - total**2 / left, 0) / left**2
    return int(np.argmin(error[: count - _LEFT + 1])) * batch


def transient(sample: Sample, level: float = LEVEL) -> Transient | None:
    """What a run's first hand-offs do; None where the run is too short or nothing stands out, and
    of one seed or one record that all replay, which cannot tell a transient from the wandering of
    the minimum.

    Takes every request in order of arrival, warm-up included. Hand-offs that never ended are as
    long as the longest that did.
    """
    runs = [durations(cell) for cell in sample.cells if sample.impossible is None]
    shortest = min((len(run) for run in runs), default=0)
    if len(runs) < 2 or shortest < LEAST_BATCHES * BATCH or replays(sample.cells):
        return None
    together = np.vstack([run[:shortest] for run in runs])
    cut = mser(together.mean(axis=0))
    if not cut:
        return None
    beyond = _beyond(together, cut, level)
    if not beyond.excludes(0.0):
        return None
    asked = max(len(cell.requests["request"]) / len(durations(cell)) for cell in sample.cells)
    return Transient(ceil(cut * asked), beyond, steady=2 * cut <= shortest)


def notices(parts: Sequence[Sample]) -> list[str]:
    """What a reader should know of the warm-up of a study, in sentences; none when all is well.

    A transient is told where it outlasts the warm-up that the scenario leaves out. The level is
    corrected for the number of alternatives (Bonferroni).
    """
    ran = [part for part in parts if part.n]
    late: list[tuple[Transient, Sample]] = []
    never: list[tuple[Transient, Sample]] = []
    for part in ran:
        found = transient(part, 1 - (1 - LEVEL) / len(ran))
        if found is not None and found.cut > part.cells[0].manifest.warmup_requests:
            (late if found.steady else never).append((found, part))
    lines = []
    if late:
        most, part = max(late, key=lambda pair: pair[0].cut)
        warmup = part.cells[0].manifest.warmup_requests
        lines.append(
            f"Warm-up: in {len(late)} of {count(len(ran), 'alternative')} the first requests have "
            f"other hand-offs than the rest (MSER-5), and run.warmup leaves out {warmup}; most in "
            f"{_named(part)}, whose first {most.cut} are {_longer(most)}. Write warmup: {most.cut} "
            "requests."
        )
    if never:
        most, part = max(never, key=lambda pair: abs(pair[0].beyond.value))
        lines.append(
            f"No steady state in {len(never)} of {count(len(ran), 'alternative')}: hand-offs "
            "still change in the second half of the run (MSER-5); in "
            f"{_named(part)} the first {most.cut} are {_longer(most)}. "
            "The numbers are those of this span, not of a lasting load: raise requests.count, or "
            "lower the load if it grows without end."
        )
    return lines


def _named(part: Sample) -> str:
    return f"{part.fabric} with {part.policy}"


def _longer(found: Transient) -> str:
    way = "longer" if found.beyond.value > 0 else "shorter"
    return f"{duration(abs(found.beyond.value))} {way} on average"


def durations(cell: Cell) -> Floats:
    """KV ready - prefill end of the hand-offs of a cell in order of arrival, ps, all of them."""
    table = {name: column.astype(np.int64) for name, column in cell.requests.items()}
    order = np.lexsort((table["request"], table["arrival_ps"]))
    end, ready, release = (
        table[name][order] for name in ("prefill_end_ps", "kv_ready_ps", "handoff_release_ps")
    )
    moved = release >= 0
    took = np.where(ready >= 0, ready - end, -1)[moved].astype(np.float64)
    return np.where(took < 0, took.max(initial=0.0), took)


def _beyond(runs: Floats, cut: int, level: float) -> Estimate:
    """First part - rest, over the replications."""
    return mean_interval((runs[:, :cut].mean(axis=1) - runs[:, cut:].mean(axis=1)).tolist(), level)
