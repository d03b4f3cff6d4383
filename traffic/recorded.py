"""Hand-offs that take what they took before: the network of another run, without its packets.

What would the same requests do if something beside the network were otherwise? The serving model
is run again, and every flow gets the duration that the flow of the same hand-off had, counted in
the order of submission. So nothing is said of how the network would have changed; the rest is the
model's own arithmetic, exactly.
"""

from heapq import heappop, heappush
from typing import Final

import numpy as np
from numpy.typing import NDArray

from topo.unit import PS_PER_S
from traffic.emulator import COMPLETION, Advance, Emulator, Table, Telemetry

_NONE: Final = np.zeros(0, COMPLETION)


class Recorded:
    """An emulator of known durations.

    ``flows`` are the `FLOW` rows of the run, ``finish_ps`` their ends (-1: not finished). A flow
    that has no end there, or no counterpart, takes its bytes at ``rate_bps`` and is counted in
    ``unknown``. ``idle`` is a fresh emulator that answers what is seen of the links: nothing.
    """

    def __init__(
        self,
        flows: NDArray[np.void],
        finish_ps: NDArray[np.int64],
        rate_bps: int,
        idle: Emulator,
    ) -> None:
        order = np.argsort(flows["handoff"], kind="stable")
        took = np.where(finish_ps < 0, -1, finish_ps - flows["release_ps"])
        self._handoff = flows["handoff"][order]
        self._took = took[order]
        self._rate = rate_bps
        self._idle = idle
        self._used: dict[int, int] = {}  # flows submitted by hand-off
        self._under_way: list[tuple[int, int, int]] = []
        self._now = 0
        self.unknown = 0

    def submit(self, flows: NDArray[np.void]) -> None:
        """Let flows take what they took."""
        for row in flows:
            handoff = int(row["handoff"])
            took = self._duration(handoff)
            if took < 0:
                self.unknown += 1
                took = -(-int(row["bytes"]) * 8 * PS_PER_S // self._rate)
            heappush(self._under_way, (int(row["release_ps"]) + took, int(row["flow"]), handoff))

    def _duration(self, handoff: int) -> int:
        place = self._used.get(handoff, 0)
        self._used[handoff] = place + 1
        place += int(np.searchsorted(self._handoff, handoff))
        known = place < len(self._handoff) and self._handoff[place] == handoff
        return int(self._took[place]) if known else -1

    def advance(self, until_ps: int) -> Advance:
        """The first ends up to ``until_ps``."""
        under_way = self._under_way
        self._now = min(until_ps, under_way[0][0]) if under_way else until_ps
        done: list[tuple[int, int, int]] = []
        while under_way and under_way[0][0] == self._now:
            finish, flow, handoff = heappop(under_way)
            done.append((flow, handoff, finish))
        return Advance(self._now, np.array(done, COMPLETION) if done else _NONE)

    def observe(self) -> Table:
        """Idle links."""
        return self._idle.observe()

    def busy_ps(self) -> NDArray[np.int64]:
        """Links that have sent nothing."""
        return self._idle.busy_ps()

    def telemetry(self) -> Telemetry:
        """No tables: nothing was moved."""
        return Telemetry({}, {})
