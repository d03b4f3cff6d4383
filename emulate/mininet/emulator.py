"""The Mininet emulator: flows as real frames, under the real clock, slowed down by the dilation.

It keeps the protocol of `traffic.emulator`, in virtual time. Virtual time begins with the first
call of `advance`, and goes on by itself but for what is idle (`emulate.mininet.feed`): a serving
loop that submits a flow later than its release, or hears of a completion later than it may act on
it, makes the run invalid, and the guard says so.
"""

from collections.abc import Callable
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from emulate.mininet.error import EmulationError
from emulate.mininet.feed import Feed
from emulate.mininet.guard import Control, Measured, Verdict, bridge_ps, verdict
from emulate.mininet.network import Network
from emulate.mininet.plan import LANDED
from emulate.mininet.realtime import RealTime
from emulate.mininet.session import Command, Session, child_command
from emulate.mininet.setup import Setup, plan_of
from emulate.mininet.table import flow_table, late_table, pause_table, port_table, stop_table
from topo.unit import PS_PER_US, show_duration
from traffic.emulator import COMPLETION, Advance, Table, Telemetry

_NAP_S = 0.25
_LINGER_PS = 10 * PS_PER_US
_LEAST_WINDOW_NS = 1_000_000


class MininetEmulator(RealTime):
    """Moves flows as frames over a network; to be used as a context.

    dilation: how many times slower than the fabric's clock, a whole number of at least 1.
    window_ps: how much later than it happened a completion may be told: the control delay of a
    serving loop. watch: called now and then with the time that was not skipped. most_s: real
    seconds after which the run stops by itself and is invalid. Refuses flows as the packet emulator
    does.

    After `stop` what has completed until then counts, nothing more is sent, and time jumps to
    wherever it is advanced, so that a serving loop comes to its end.
    """

    def __init__(
        self,
        setup: Setup,
        network: Network,
        *,
        dilation: int,
        window_ps: int = 20 * PS_PER_US,
        command: Command = child_command,
        watch: Callable[[int], None] | None = None,
        most_s: float | None = None,
    ) -> None:
        super().__init__(most_s)
        refuse_window(dilation, window_ps)
        self.setup = setup
        self.dilation = dilation
        self._window = window_ps
        self._twin = setup.twin()
        self._session = Session(plan_of(setup, network, dilation), command)
        self._feed = Feed(self._session)
        self._watch = watch or (lambda _now: None)
        self._begun = False
        self._due: list[tuple[int, int, int]] = []
        self._landed: list[NDArray[np.void]] = []
        self._late_notices = 0
        self._busy = (0, self._session.state()["busy_ps"])
        self._found: Telemetry | None = None
        self._measured: Measured | None = None

    def close(self) -> None:
        """End both processes."""
        self._session.kill()

    @property
    def clock_ps(self) -> int:
        """What virtual time it is, 0 before it began."""
        return max(self._feed.clock_ps, 0) if self._begun else 0

    def submit(self, flows: NDArray[np.void]) -> None:
        """Hand over `FLOW` rows: all of them, or none if one is refused."""
        self._refuse_more(self._found is not None)
        self._twin.submit(flows)
        if self.stopped_ps is None:
            self._feed.add(flows)
            if self._begun:
                self._feed.push()

    def _begin(self) -> None:
        self._begun = True
        self._session.begin()

    def advance(self, until_ps: int) -> Advance:
        """Wait for the first completion at most at ``until_ps``, or until that instant is over.

        After news that came too late a serving loop may go back to what it should have done; the
        run is invalid then, and only has to come to its end.
        """
        self._refuse_past(until_ps, self._late_notices)
        if not self._begun:
            self._begin()
        while True:
            if self._due and self._due[0][0] <= until_ps:
                return self._completed()
            over = self.stopped_ps is not None or self._feed.clock_ps >= until_ps
            self._wait(0 if over else until_ps)
            if over and not (self._due and self._due[0][0] <= until_ps):
                self._now_ps = until_ps
                return Advance(until_ps, np.zeros(0, COMPLETION))

    def _wait(self, until_ps: int) -> None:
        """Fetch what has completed, and for that wait a little."""
        if self.stopped_ps is not None:
            return
        if self._overruns(-self._session.real_s(0)):
            return
        self._feed.push()
        self._feed.skip(until_ps)
        self._watch(self._session.now_ps)
        self._take(self._feed.landed(min(self._feed.wait_s(until_ps), _NAP_S)))

    def _take(self, rows: NDArray[np.void]) -> None:
        if not len(rows):
            return
        now = self._feed.clock_ps
        self._landed.append(rows)
        self._late_notices += int(np.count_nonzero(now - rows["finish_ps"] > self._window))
        for row in rows:
            heappush(self._due, (int(row["finish_ps"]), int(row["flow"]), int(row["handoff"])))

    def _completed(self) -> Advance:
        """What completed at the first instant of which that is known."""
        first = self._due[0][0]
        found = []
        while self._due and self._due[0][0] == first:
            finish, flow, handoff = heappop(self._due)
            found.append((flow, handoff, finish))
        self._now_ps = max(self._now_ps, first)
        return Advance(self._now_ps, np.array(found, COMPLETION))

    def observe(self) -> Table:
        """Link state as the processes last wrote it: ``port queued_bytes paused utilisation``.

        ``utilisation`` is the share of the time since the last different picture.
        """
        state, now = self._session.state(), self.clock_ps
        before, busy = self._busy
        span = max(now - before, 1)
        used = np.clip((state["busy_ps"] - busy) / span, 0.0, 1.0)
        if span >= self._session.plan.tick_ps:
            self._busy = (now, state["busy_ps"])
        return {
            "port": np.arange(len(state), dtype=np.int32),
            "queued_bytes": state["queued_bytes"],
            "paused": state["paused"].astype(np.uint8),
            "utilisation": used,
        }

    def busy_ps(self) -> NDArray[np.int64]:
        """The time that every port has spent sending by now, by port."""
        busy: NDArray[np.int64] = self._session.state()["busy_ps"]
        return busy

    def telemetry(self) -> Telemetry:
        """The tables of the run, which ends with this call."""
        if self._found is None:
            if not self._begun:
                self._begin()
            self._linger()
            tables = self._session.finish()
            landed = np.concatenate([np.zeros(0, LANDED), *self._landed])
            stops = stop_table(tables)
            for name in ("from_ps", "until_ps"):
                stops[name] = self._feed.unskipped(stops[name])
            counted = tables["agent"]["flows"]
            counted["sender_done_ps"] = self._feed.shifted(
                np.asarray(counted["flow"], np.int64),
                np.asarray(counted["sender_done_ps"], np.int64),
            )
            self._found = Telemetry(
                flow_table(self._twin.telemetry().flows, landed, counted),
                port_table(len(self.setup.fabric.ports.node), tables),
                _totals(tables, self.dilation),
                pauses=pause_table(tables),
                stops={**stops},
            )
            self._measured = Measured(
                late_table(tables),
                {name: _numbers(of["counters"]) for name, of in tables.items()},
                self._session.end_ns - self._session.start_ns,
                self._session.stolen,
                self._session.softnet_drops,
                self._late_notices,
                self.overran,
                {name: of["stalls"] for name, of in tables.items()},
                self._session.start_ns,
            )
        return self._found

    def _linger(self) -> None:
        """Let the last ACKs come home."""
        ends = self._session.now_ps + _LINGER_PS
        while self.stopped_ps is None and (left := self._session.real_s(ends)) > 0:
            self._take(self._feed.landed(min(left, _NAP_S)))

    def judged(self, controls: list[Control]) -> Verdict:
        """The guard's verdict on the run, which is over."""
        self.telemetry()
        assert self._measured is not None
        setup = self.setup
        return verdict(
            self._measured,
            controls,
            dilation=self.dilation,
            mtu=setup.transport.mtu,
            bridge_ps=bridge_ps(setup.fabric, setup.discipline, setup.headroom()),
        )

    @property
    def measured(self) -> Measured:
        """What the run left for the guard; only after `telemetry`."""
        assert self._measured is not None
        return self._measured


def refuse_window(dilation: int, window_ps: int) -> None:
    """Raise `EmulationError` for a dilation below 1, and for a window that no program can keep."""
    if dilation < 1:
        raise EmulationError(f"dilation {dilation}: write a whole number of at least 1, e.g. 10000")
    real_ns = window_ps * dilation // 1000
    if real_ns < _LEAST_WINDOW_NS:
        raise EmulationError(
            f"control delay {show_duration(window_ps)} at dilation {dilation}: is "
            f"{show_duration(real_ns * 1000)} of real time, too short for the serving loop; write "
            "a larger dilation or control_delay"
        )


def _numbers(counters: Table) -> dict[str, int]:
    return {name: int(value) for name, value in counters.items()}


def _totals(tables: dict[str, dict[str, Table]], dilation: int) -> dict[str, int]:
    """The totals of both processes together, without what is the guard's."""
    totals: dict[str, int] = {"dilation": dilation}
    for of in tables.values():
        for name, value in _numbers(of["counters"]).items():
            if name.startswith(("bytes_", "drops_", "frames_", "stops")):
                totals[name] = totals.get(name, 0) + value
    return totals
