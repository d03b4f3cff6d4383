"""What failures cost the requests of a run: attempts, work in vain, and why some were given up."""

from array import array
from typing import Final

import numpy as np
from numpy.typing import NDArray

from traffic.emulator import Table

RETRIES: Final = 1
"""Why a request failed: its attempts were used up. 0: it did not fail."""
BUDGET: Final = 2
"""The retry budget was."""
NOBODY_HEALTHY: Final = 3
"""Nobody healthy could be chosen for as long as a request waits."""
DECODE_LOST: Final = 4
"""Its decode instance took it along, where that is not tried again."""

COLUMNS: Final = (
    "request",
    "attempts",
    "reason",
    "failed_ps",
    "wasted_prefill_ps",
    "wasted_flows",
    "wasted_bytes",
)


class Toll:
    """One row a request, of ``room`` at most.

    ``attempts`` are sendings to instances; ``wasted_prefill_ps`` the prefill time of attempts that
    were lost; ``strays`` the flows of their hand-offs, which the network carried all the same.
    """

    def __init__(self, room: int) -> None:
        self.attempts = array("q", [0]) * room
        self.reason = array("q", [0]) * room
        self.failed_ps = array("q", [-1]) * room
        self.wasted_prefill_ps = array("q", [0]) * room
        self.strays: list[range] = []

    def stray_flows(self) -> NDArray[np.int64]:
        """The numbers of the flows that moved bytes in vain, in order."""
        parts = [np.arange(part.start, part.stop, dtype=np.int64) for part in self.strays]
        return np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int64)

    def table(self, flows: NDArray[np.void], count: int) -> Table:
        """`COLUMNS` of the first ``count`` requests; ``flows`` are all that were submitted."""
        stray = flows[self.stray_flows()]
        whose = stray["handoff"].astype(np.int64)
        wasted, sent = np.zeros(count, np.int64), np.zeros(count, np.int64)
        np.add.at(wasted, whose, stray["bytes"].astype(np.int64))
        np.add.at(sent, whose, 1)
        found: Table = {"request": np.arange(count, dtype=np.int64)}
        for name in ("attempts", "reason", "failed_ps", "wasted_prefill_ps"):
            found[name] = np.array(getattr(self, name)[:count], np.int64)
        return found | {"wasted_flows": sent, "wasted_bytes": wasted}
