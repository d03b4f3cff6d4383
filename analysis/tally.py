"""What became of every request: arrived = finished + rejected + failed + in flight.

Counted are all requests of all seeds, the warm-up included, so that nothing can hide in a part
that is left out of the statistics.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from analysis.breakdown import Breakdown
from analysis.error import SummaryError
from analysis.record import FINISHED, IN_FLIGHT, REJECTED, Cell
from analysis.summary import Sample
from traffic.record.ledger import FAILED

ENDS: Final = {"finished": FINISHED, "rejected": REJECTED, "failed": FAILED, "in flight": IN_FLIGHT}
"""What can become of a request, by its ``status``."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Numbers of requests; ``in_flight`` had not ended when the run did."""

    finished: int = 0
    rejected: int = 0
    failed: int = 0
    in_flight: int = 0

    @property
    def arrived(self) -> int:
        """All of them."""
        return self.finished + self.rejected + self.failed + self.in_flight


def tally(cells: Sequence[Cell]) -> Tally:
    """What became of the requests of these cells.

    Raises `SummaryError` when one has a status that no run gives, so that none is lost here.
    """
    status = [cell.requests["status"].astype(np.int64) for cell in cells if cell.requests]
    every = np.concatenate([np.empty(0, np.int64), *status])
    made = Tally(*(int(np.count_nonzero(every == number)) for number in ENDS.values()))
    if made.arrived != len(every):
        odd = every[~np.isin(every, list(ENDS.values()))][0]
        raise SummaryError(f"status {odd} of a request: unknown; run the study again")
    return made


def tallies(samples: Sequence[Sample]) -> Breakdown:
    """One row an alternative that ran."""
    rows = []
    for sample in samples:
        if not sample.cells or sample.impossible is not None:
            continue
        one = tally(sample.cells)
        counts = (one.arrived, one.finished, one.rejected, one.failed, one.in_flight)
        rows.append((sample.fabric, sample.policy, *(f"{count:,}" for count in counts)))
    return Breakdown(
        "What became of the requests",
        "All requests of all seeds, warm-up included: arrived = finished + rejected + failed + in "
        "flight when the run ended.",
        ("fabric", "policy", "arrived", *ENDS),
        tuple(rows),
    )


def told(samples: Sequence[Sample]) -> str:
    """The same in a line where every request of every alternative finished, else empty."""
    ran = [s for s in samples if s.cells and s.impossible is None]
    counts = [tally(sample.cells) for sample in ran]
    if not counts or any(each.arrived != each.finished for each in counts):
        return ""
    least, most = (pick(each.arrived for each in counts) for pick in (min, max))
    span = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    return f"Requests: {span} arrived an alternative, warm-up included, and all finished."
