"""The loop between the requests and the network: events in order, and the emulator in between.

Events at one instant are taken in the order (time, kind, number), kinds as in `Kind`. The emulator
may have run past a completion that it reports, by less than the control delay; what a completion
causes therefore happens a control delay later. Times are integer picoseconds.
"""

from array import array
from collections.abc import Callable, Sequence
from enum import IntEnum
from heapq import heappop, heappush
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from topo.unit import PS_PER_S
from traffic.cache.lookup import Blocks
from traffic.emulator import Emulator, Table
from traffic.handoff.errand import request_of
from traffic.record.ledger import FINISHED, Ledger
from traffic.record.occupancy import Occupancy
from traffic.release import Releases

STALL_PS: Final = 100 * PS_PER_S
"""Emulated time without any completion, when nothing else can happen, after which a run ends."""

_NEVER: Final = 2**62
_TOLD_EACH: Final = 1000
"""Requests between two tellings of progress, at most: a second or two of packets."""


class Kind(IntEnum):
    """What happens first at one instant."""

    PREFILL_END = 0
    READY = 1
    STEP = 2
    CALL = 3
    ARRIVAL = 4


PREFILL_END: Final = int(Kind.PREFILL_END)
READY: Final = int(Kind.READY)
STEP: Final = int(Kind.STEP)
CALL: Final = int(Kind.CALL)
ARRIVAL: Final = int(Kind.ARRIVAL)


class Station(Protocol):
    """A service in a serving mode, as the loop sees it; requests and batches by number."""

    releases: Releases

    @property
    def steps(self) -> Sequence[int]:
        """Steps that have ended, of every batch."""
        ...

    def end(self, now: int) -> Sequence[Occupancy]:
        """The run ends: what the memory of every batch held."""
        ...

    def arrive(self, request: int, now: int) -> None:
        """A request is here."""
        ...

    def prefilled(self, request: int, now: int) -> None:
        """A prompt that a prefill instance computed is done."""
        ...

    def ready(self, request: int, now: int) -> None:
        """A hand-off was done one control delay ago."""
        ...

    def turn(self, batch: int, now: int) -> None:
        """A step boundary that was planned for the batch."""
        ...


class Crowd(Protocol):
    """Users who send their next request when they have the answer to the last."""

    count: int
    """Requests that arrive in all."""

    @property
    def prefix(self) -> Blocks | None:
        """The prefix blocks of the requests so far, where they have some."""
        ...

    def first(self) -> Sequence[tuple[int, int]]:
        """(arrival, user) of every user's first request, in any order."""
        ...

    def enter(self, user: int, ledger: Ledger, now: int) -> int:
        """Enter the user's next request, which arrives now; its number."""
        ...

    def after(self, request: int, now: int) -> tuple[int, int] | None:
        """(arrival, user) of what follows the answer to a request, None when nothing does."""
        ...


class Picture(Protocol):
    """What someone wants to know of the links from time to time."""

    staleness_ps: int
    """How long a picture is kept."""

    def look(self, state: Table, busy_ps: NDArray[np.int64], now_ps: int) -> None:
        """Take a new one, of the emulator's ``observe`` and ``busy_ps``."""
        ...


class Loop:
    """The events of one run, its ledger and its emulator.

    Requests arrive as the ledger says, or with the ``crowd``. ``stations`` serve them by the
    number of their model.
    """

    def __init__(
        self, ledger: Ledger, emulator: Emulator, delay_ps: int, crowd: Crowd | None = None
    ) -> None:
        self.ledger = ledger
        self.delay_ps = delay_ps
        self.stations: list[Station] = []
        self.end_ps = 0
        self._emulator = emulator
        self._crowd = crowd
        self._events: list[tuple[int, int, int, int]] = []
        self._plans: list[int] = []
        self._lives = array("q", [0]) * len(ledger)
        self._calls: dict[int, Callable[[int], None]] = {}
        self._called = 0
        self._station_of: list[tuple[Station, int]] = []
        self._next = -1  # the next row of a table to arrive, and when
        self._arrival = _NEVER
        self._done = 0
        self._since = 0  # the last time that something happened
        self._pictures: list[Picture] = []
        self._seen = 0  # when the last pictures were taken

    def watch(self, picture: Picture) -> None:
        """Let pictures of the links be taken at all multiples of its staleness, which must be that
        of the others. The links are idle at first."""
        self._pictures.append(picture)

    def batches(self, station: Station, count: int) -> int:
        """Numbers for the batches of a station, from the one that is returned."""
        first = len(self._plans)
        self._plans += [0] * count
        self._station_of += [(station, number) for number in range(count)]
        return first

    def at(self, at_ps: int, kind: int, request: int) -> None:
        """Let something happen to a request."""
        heappush(self._events, (at_ps, kind, request, self._lives[request]))

    def forget(self, request: int) -> None:
        """What was planned for a request so far does not count: it begins anew, or ends."""
        self._lives[request] += 1

    def call(self, at_ps: int, what: Callable[[int], None]) -> None:
        """Call something with the time; calls of one instant are made in the order of asking."""
        self._called += 1
        self._calls[self._called] = what
        heappush(self._events, (at_ps, CALL, self._called, 0))

    def step(self, batch: int, at_ps: int) -> None:
        """Plan the boundary of a batch; the one that was planned before does not count."""
        plan = self._plans[batch] = self._plans[batch] + 1
        heappush(self._events, (at_ps, STEP, batch, plan))

    def halt(self, batch: int) -> None:
        """No boundary of a batch is planned any more."""
        self._plans[batch] += 1

    def finish(self, request: int, now: int, status: int = FINISHED) -> None:
        """The last token is there, or the request is refused or given up."""
        self.ledger.status[request] = status
        if status == FINISHED:
            self.ledger.finish_ps[request] = now
        self._done += 1
        if self._crowd is not None:
            follows = self._crowd.after(request, now)
            if follows is not None:
                heappush(self._events, (follows[0], ARRIVAL, follows[1], 0))

    def go(self, until_ps: int | None, progress: Callable[[int, int], None] | None) -> None:
        """Alternate between the emulator and the events until nothing is left to do."""
        if self._crowd is not None:
            for at, user in self._crowd.first():
                heappush(self._events, (at, ARRIVAL, user, 0))
        else:
            self._follow()
        count = len(self.ledger)
        told, every = 0, min(_TOLD_EACH, max(1, count // 200))
        releases = [station.releases for station in self.stations]
        one = releases[0] if len(releases) == 1 else None
        until = _NEVER if until_ps is None else until_ps
        while self._done < count:
            at = self._events[0][0] if self._events else _NEVER
            if self._arrival < at:
                at = self._arrival
            least = min(self._since + STALL_PS if at == _NEVER else at, until)
            flying = one.under_way if one is not None else any(r.under_way for r in releases)
            look = self._due(least, flying) if self._pictures else _NEVER
            if flying:
                advance = self._emulator.advance(min(least, look))
                self.end_ps = advance.now_ps
                if advance.completions.size:
                    self._since = self.end_ps
                    self._complete(advance.completions)
                    continue
            if look <= least:
                self._take_pictures(look)
                continue
            self.end_ps = self._since = least
            if at > least:
                break
            self._happen(at)
            if progress is not None and self._done - told >= every:
                told = self._done
                progress(told, count)
        if progress is not None:
            progress(self._done, count)

    def _due(self, least: int, flying: bool) -> int:
        """When the next pictures are due: the last time up to the next event, since nobody looks
        before, and the one before that; but each while flows are under way whose ends, a control
        delay before their events, may lie beyond it."""
        each = self._pictures[0].staleness_ps
        if not flying or 2 * each <= self.delay_ps:
            tick = least // each * each
            if tick <= self._seen:
                return _NEVER
            # The one before it as well: counters are told as the change between two.
            before = tick - each
            return before if before > self._seen and before >= self.end_ps else tick
        tick = -(-self.end_ps // each) * each
        return tick if tick > self._seen else tick + each

    def _take_pictures(self, now: int) -> None:
        self._emulator.advance(now)
        self.end_ps = self._seen = now
        state, busy = self._emulator.observe(), self._emulator.busy_ps()
        for picture in self._pictures:
            picture.look(state, busy, now)

    def _follow(self) -> None:
        """Look at the next arrival of the table."""
        self._next += 1
        known = self.ledger.arrival_ps
        self._arrival = known[self._next] if self._next < len(known) else _NEVER

    def _happen(self, now: int) -> None:
        """Everything at this instant, in order; arrivals come last, by number."""
        events, ledger = self._events, self.ledger
        while True:
            if events and events[0][0] == now:
                _, kind, number, plan = heappop(events)
                if kind == STEP:
                    if plan == self._plans[number]:
                        station, batch = self._station_of[number]
                        station.turn(batch, now)
                    continue
                if kind == CALL:
                    self._calls.pop(number)(now)
                    continue
                if kind == ARRIVAL:
                    if self._crowd is not None:
                        number = self._crowd.enter(number, ledger, now)
                elif plan != self._lives[number]:
                    continue
            elif self._arrival == now:
                kind, number = ARRIVAL, self._next
                self._follow()
            else:
                return
            station = self.stations[ledger.model[number]]
            if kind == ARRIVAL:
                station.arrive(number, now)
            elif kind == READY:
                station.ready(number, now)
            else:
                station.prefilled(number, now)

    def _complete(self, completions: NDArray[np.void]) -> None:
        """Tell the hand-offs that are done; each acts a control delay after."""
        if len(self.stations) == 1:
            parts = [(self.stations[0].releases, completions)]
        else:
            requests = map(request_of, completions["handoff"].tolist())
            whose = np.array([self.ledger.model[request] for request in requests])
            parts = [
                (station.releases, completions[whose == number])
                for number, station in enumerate(self.stations)
            ]
        for releases, mine in parts:
            for request, at in releases.ready(mine):
                self.ledger.kv_ready_ps[request] = at
                self.at(at + self.delay_ps, READY, request)
