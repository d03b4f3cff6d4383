"""The feed: flows to the agent just before their release, and time that is idle skipped.

Serving models think in milliseconds, networks in microseconds: at a dilation of 10,000 a second of
decoding without a frame on any link would take almost three hours. So while no flow is under way
and every queue is empty, the time of the protocol jumps to what comes next. The processes know
nothing of it: their clock runs on, and a flow released at protocol time t is released to them at t
less all that was skipped before.
"""

from heapq import heappop, heappush
from typing import Final

import numpy as np
from numpy.typing import NDArray

from emulate.mininet.plan import LANDED
from emulate.mininet.session import Session
from topo.unit import PS_PER_US
from traffic.emulator import FLOW

QUIET_PS: Final = 2 * PS_PER_US
"""After the last landing the network is left so long before time may jump: the way of an ACK."""

LEAD_NS: Final = 100_000_000
"""A flow is handed over so long before its release, in real time."""

_LOOK_AGAIN_S: Final = 0.001


class Feed:
    """Hands flows over in time; protocol time is the session's plus what was skipped."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lead = LEAD_NS * 1000 // session.plan.dilation
        self._skipped = 0
        self._jumps: list[tuple[int, int]] = []
        self._waiting: list[tuple[int, int, bytes]] = []
        self._shift: dict[int, int] = {}
        self._flying = 0
        self._last_landing = 0

    @property
    def clock_ps(self) -> int:
        """Protocol time, negative before the session began."""
        return self._session.now_ps + self._skipped

    @property
    def skipped_ps(self) -> int:
        """How much of the time so far was skipped."""
        return self._skipped

    def add(self, flows: NDArray[np.void]) -> None:
        """Take `FLOW` rows in protocol time."""
        for row in flows:
            heappush(self._waiting, (int(row["release_ps"]), int(row["flow"]), row.tobytes()))

    def push(self) -> None:
        """Hand over what is released within the lead."""
        until = self.clock_ps + self._lead
        rows: list[bytes] = []
        while self._waiting and self._waiting[0][0] <= until:
            _, flow, row = heappop(self._waiting)
            self._shift[flow] = self._skipped
            rows.append(row)
        if rows:
            table = np.frombuffer(b"".join(rows), FLOW).copy()
            table["release_ps"] -= self._skipped
            self._flying += len(table)
            self._session.send(table)

    def landed(self, wait_s: float) -> NDArray[np.void]:
        """`LANDED` rows in protocol time, as soon as there are any, or none after that time."""
        rows = self._session.landed(wait_s)
        if not len(rows):
            return rows
        self._last_landing = self._session.now_ps
        self._flying -= len(rows)
        rows = rows.astype(LANDED)
        shift = np.array([self._shift[flow] for flow in rows["flow"].tolist()], np.int64)
        for name in ("finish_ps", "seen_ps"):
            rows[name] += shift
        return rows

    def shifted(self, flows: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Times of the session, -1 for never, in the protocol time of their flows."""
        shift = np.array([self._shift.get(flow, 0) for flow in flows.tolist()], np.int64)
        return np.where(times < 0, times, times + shift)

    def unskipped(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Instants of the session, -1 for never, in protocol time."""
        at = np.array([-1, *(at for at, _ in self._jumps)], np.int64)
        skipped = np.array([0, *(total for _, total in self._jumps)], np.int64)
        moved = times + skipped[np.maximum(np.searchsorted(at, times, "right") - 1, 0)]
        return np.where(times < 0, times, moved)

    def skip(self, until_ps: int) -> None:
        """Jump towards ``until_ps`` and the next release, where nothing is under way."""
        now = self._session.now_ps
        if self._flying or now < self._last_landing + QUIET_PS or now < 0:
            return
        state = self._session.state()
        if state["queued_bytes"].any() or state["paused"].any():
            return
        target = min(until_ps, self._next() - self._lead)
        jump = max(0, target - self.clock_ps)
        if jump:
            self._skipped += jump
            self._jumps.append((now, self._skipped))

    def wait_s(self, until_ps: int) -> float:
        """Real seconds until ``until_ps``, until there is something to hand over, or to skip."""
        at = min(until_ps, self._next() - self._lead)
        wait = self._session.real_s(at - self._skipped)
        if self._flying:
            return wait
        quiet = self._session.real_s(max(self._last_landing + QUIET_PS, 0))
        return min(wait, max(quiet, _LOOK_AGAIN_S))

    def _next(self) -> int:
        return self._waiting[0][0] if self._waiting else 2**62


def busy_ps(release_ps: NDArray[np.int64], finish_ps: NDArray[np.int64], lead_ps: int) -> int:
    """How much of some flows' time cannot be skipped: the union of their spans.

    Each lasts from ``lead_ps`` before its release to `QUIET_PS` after its finish.

    >>> us = PS_PER_US
    >>> busy_ps(np.array([0, 5, 40]) * us, np.array([10, 20, 50]) * us, us) // us
    36
    """
    order = np.argsort(release_ps, kind="stable")
    total, end = 0, -(2**62)
    for release, finish in zip(release_ps[order].tolist(), finish_ps[order].tolist(), strict=True):
        until = finish + QUIET_PS
        total += max(0, until - max(release - lead_ps, end))
        end = max(end, until)
    return total
