"""Background traffic: what else crosses the fabric that carries the hand-offs.

A source makes bursts among groups of hosts, each burst a set of flows that are released together:

| kind | flows of a burst in a group of n hosts | bytes of a flow |
|---|---|---|
| all_to_all | every host to every other (expert parallelism) | bytes / (n - 1) |
| all_reduce | every host to the next on a ring | 2 (n - 1) / n x bytes |
| weights | one storage host to every host | bytes |
| fetch | one storage host to one host | bytes |

``bytes`` is what a host sends, what is reduced, or what a host receives. The ring's steps are taken
together, which keeps its bytes (Patarasuk and Yuan, Journal of Parallel and Distributed Computing
69(2), 2009) and makes it smoother than it is. A burst is planned every ``every_ps`` inside the
active part of a cycle, and is put off while the one before is under way: a step does not start
before its messages have come. Nothing waits for these flows and none is a hand-off: their hand-off
number is -1. `Background` wraps any emulator and keeps its protocol; bursts begin with the run and
go on for as long as it is advanced.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from math import log
from typing import Final

import numpy as np
from numpy.typing import NDArray

from topo.error import KvfabricError
from topo.unit import PS_PER_S, show_duration, show_size
from traffic.draw import draw
from traffic.emulator import COMPLETION, FLOW, Advance, Emulator, Table, Telemetry
from traffic.handoff.flow import DEFAULT_BLOCK_BYTES, DEFAULT_PRIORITY, entropy

KINDS: Final = ("all_to_all", "all_reduce", "weights", "fetch")

NO_HANDOFF: Final = -1


class BackgroundError(KvfabricError):
    """Background traffic that cannot be."""


@dataclass(frozen=True, slots=True)
class Source:
    """One kind of background traffic among some hosts.

    groups: host indices, each group by itself; ``storage``: where weights and fetches come from.
    size_bytes, every_ps: above 0. duty, cycle_ps: bursts fill the first ``duty`` (above 0, at most
        1) of every cycle. start_ps: of the first burst; each group begins at a time of its own,
        drawn within ``every_ps``, when None. A fetch comes after exponential gaps of mean
        ``every_ps``.
    """

    name: str
    kind: str
    groups: tuple[tuple[int, ...], ...]
    size_bytes: int
    every_ps: int
    duty: float = 1.0
    cycle_ps: int = PS_PER_S
    start_ps: int | None = None
    priority: int = DEFAULT_PRIORITY
    storage: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        where = f"background {self.name}"
        if self.kind not in KINDS:
            raise BackgroundError(f"{where}: kind {self.kind!r}: write {', '.join(KINDS)}")
        if self.size_bytes < 1 or self.every_ps < 1 or self.cycle_ps < 1:
            raise BackgroundError(
                f"{where}: {show_size(self.size_bytes)} every {show_duration(self.every_ps)} in a "
                f"cycle of {show_duration(self.cycle_ps)}: write all of them above 0"
            )
        if not 0 < self.duty <= 1:
            raise BackgroundError(f"{where}: duty {self.duty:g}: not a share; write e.g. 50%")
        if self.cycle_ps * self.duty < self.every_ps and self.duty < 1:
            raise BackgroundError(
                f"{where}: no burst every {show_duration(self.every_ps)} fits "
                f"{show_duration(round(self.cycle_ps * self.duty))} of each cycle; write a longer "
                "cycle"
            )
        if not 0 <= self.priority <= 7:
            raise BackgroundError(f"{where}: priority {self.priority}: write 0 to 7")
        small = 1 if self.stored else 2
        for group in self.groups:
            if len(group) < small:
                raise BackgroundError(
                    f"{where}: a group of {len(group)} host(s); {self.kind} needs at least {small}"
                )
        if not self.groups:
            raise BackgroundError(f"{where}: no hosts; name a role that has some")
        if self.stored and not self.storage:
            raise BackgroundError(
                f"{where}: {self.kind} comes from storage hosts; write placement.storage, e.g. 1"
            )

    @property
    def stored(self) -> bool:
        """Whether its bytes come from storage."""
        return self.kind in ("weights", "fetch")

    def planned_ps(self, index: int, phase_ps: int) -> int:
        """When burst ``index`` of a group is due, the first one ``phase_ps`` into its cycle.

        >>> one = Source("x", "all_to_all", ((0, 1),), 8, 10, duty=0.5, cycle_ps=40)
        >>> [one.planned_ps(k, 0) for k in range(5)]
        [0, 10, 40, 50, 80]
        """
        active = index * self.every_ps + phase_ps
        if self.duty == 1:
            return active
        cycle, inside = divmod(active, max(1, round(self.cycle_ps * self.duty)))
        return cycle * self.cycle_ps + inside

    def planned_by(self, end_ps: int) -> float:
        """About how many bursts of a group are planned by then, on average over what is drawn.

        >>> Source("x", "all_to_all", ((0, 1),), 8, 10, 0.5, 40, start_ps=0).planned_by(59)
        4
        """
        active = end_ps
        if self.duty < 1:
            most = max(1, round(self.cycle_ps * self.duty))
            cycles, inside = divmod(end_ps, self.cycle_ps)
            active = cycles * most + min(inside, most)
        if self.start_ps is None:
            return active / self.every_ps
        if self.kind == "fetch":
            return max(0.0, (active - self.start_ps) / self.every_ps)
        return max(0, (active - self.start_ps) // self.every_ps + 1)

    def moves(self, group: Sequence[int], pick: int) -> list[tuple[int, int, int]]:
        """(sender, receiver, bytes) of one burst; ``pick`` chooses among storage hosts."""
        n, size = len(group), self.size_bytes
        if self.kind == "all_to_all":
            each, rest = divmod(size, n - 1)
            return [
                (one, group[(i + step) % n], each + (step <= rest))
                for i, one in enumerate(group)
                for step in range(1, n)
                if each + (step <= rest)
            ]
        if self.kind == "all_reduce":
            each = -(-2 * (n - 1) * size // n)
            return [(one, group[(i + 1) % n], each) for i, one in enumerate(group)]
        store = self.storage[pick % len(self.storage)]
        return [(store, one, size) for one in group if one != store]


class _Group:
    """Where the bursts of one group of one source stand."""

    def __init__(self, source: int, what: Source, hosts: tuple[int, ...], seed: int) -> None:
        self.source = source
        self.what = what
        self.hosts = hosts
        self.left = 0  # flows of the present burst under way
        self.index = 0
        self._seed = seed
        self._key = hosts[0]
        self._at = what.start_ps if what.start_ps is not None else self._drawn(what.every_ps)
        self._phase = self._at

    def _drawn(self, below: int) -> int:
        return draw(self._seed, f"background {self.what.name}", self._key, below)

    def burst(self, now_ps: int, first_flow: int) -> NDArray[np.void]:
        """The rows of the next burst, released when it is due or now."""
        what, number = self.what, (self.index << 20) | self._key
        pick = draw(self._seed, f"background {what.name} from", number, 1 << 30)
        at = max(self._due(number), now_ps)
        rows = [
            (
                first_flow + i,
                NO_HANDOFF,
                sender,
                receiver,
                size,
                -(-size // DEFAULT_BLOCK_BYTES),
                entropy(self._seed, number, i),
                -1,
                True,
                what.priority,
                at,
            )
            for i, (sender, receiver, size) in enumerate(what.moves(self.hosts, pick))
        ]
        self.index += 1
        self.left = len(rows)
        return np.array(rows, FLOW)

    def _due(self, number: int) -> int:
        what = self.what
        if what.kind != "fetch":
            return what.planned_ps(self.index, self._phase)
        share = 1 + draw(self._seed, f"background {what.name} gap", number, 1 << 52)
        self._at += round(-log(share / 2**52) * what.every_ps)
        return what.planned_ps(0, self._at)


class Background:
    """An emulator with background traffic on it; keeps the `Emulator` protocol.

    The caller's flows keep their numbers; those of the background are seen by the emulator alone.
    """

    def __init__(self, emulator: Emulator, sources: Sequence[Source], seed: int) -> None:
        self._emulator = emulator
        self._sources = tuple(sources)
        self._groups = [
            _Group(place, source, hosts, seed)
            for place, source in enumerate(sources)
            for hosts in source.groups
        ]
        self._outer: list[int] = []  # by number in the emulator: the caller's, or -1 - group
        self._rows: list[NDArray[np.void]] = []
        self._now = 0
        for place in range(len(self._groups)):
            self._burst(place)

    @property
    def inner(self) -> Emulator:
        """The emulator that carries both."""
        return self._emulator

    @property
    def rows(self) -> NDArray[np.void]:
        """The background's `FLOW` rows so far; their numbers are the emulator's."""
        return np.concatenate(self._rows) if self._rows else np.zeros(0, FLOW)

    def _burst(self, place: int) -> None:
        rows = self._groups[place].burst(self._now, len(self._outer))
        self._outer += [-1 - place] * len(rows)
        self._rows.append(rows)
        self._emulator.submit(rows)

    def submit(self, flows: NDArray[np.void]) -> None:
        """Hand over the caller's rows."""
        mine = flows.copy()
        mine["flow"] = np.arange(len(self._outer), len(self._outer) + len(flows))
        self._emulator.submit(mine)
        self._outer += flows["flow"].tolist()

    def advance(self, until_ps: int) -> Advance:
        """Run to the first instant at which some flow of the caller completed, or to the end."""
        while True:
            step = self._emulator.advance(until_ps)
            self._now = step.now_ps
            done: list[tuple[int, int, int]] = []
            for flow, handoff, finish in step.completions.tolist():
                outer = self._outer[flow]
                if outer >= 0:
                    done.append((outer, handoff, finish))
                    continue
                group = self._groups[-1 - outer]
                group.left -= 1
                if not group.left:
                    self._burst(-1 - outer)
            if done or step.now_ps >= until_ps:
                return Advance(step.now_ps, np.array(done, COMPLETION))

    def observe(self) -> Table:
        """Link state, the background's share included."""
        return self._emulator.observe()

    def busy_ps(self) -> NDArray[np.int64]:
        """The time that every port has spent sending by now, the background's included."""
        return self._emulator.busy_ps()

    def telemetry(self) -> Telemetry:
        """Tables of everything: the caller's flows; the ports with all traffic on them.

        Further totals for each source, of what was released by now: ``background.NAME.bursts``,
        ``flows``, ``finished``, ``bytes`` (payload), ``bytes_finished``, and ``fct_p50_ps``,
        ``fct_p99_ps`` and ``slowdown_p99_permille`` of the flows that finished.
        """
        found = self._emulator.telemetry()
        outer = np.array(self._outer, np.int64)
        row = outer[found.flows["flow"].astype(np.int64)] if len(outer) else outer
        own = row >= 0
        flows = {name: column[own] for name, column in found.flows.items()}
        flows["flow"] = row[own]
        totals = {**found.totals}
        group = np.array([g.source for g in self._groups], np.int64)
        for place, source in enumerate(self._sources):
            mine = ~own
            mine[mine] = group[-1 - row[mine]] == place
            mine &= found.flows["release_ps"].astype(np.int64) <= self._now
            theirs = {name: column[mine] for name, column in found.flows.items()}
            for name, value in _told(theirs):
                totals[f"background.{source.name}.{name}"] = value
            begun = np.stack([-1 - row[mine], theirs["release_ps"].astype(np.int64)])
            bursts = np.unique(begun, axis=1).shape[1]  # a group has one burst at a time
            totals[f"background.{source.name}.bursts"] = bursts
        found.flows, found.totals = flows, totals
        for kind in fields(found):
            table = getattr(found, kind.name)
            if kind.name not in ("flows", "totals") and "flow" in table:
                number = outer[table["flow"].astype(np.int64)]
                kept = {name: column[number >= 0] for name, column in table.items()}
                setattr(found, kind.name, kept | {"flow": number[number >= 0]})
        return found


def _told(flows: Table) -> Iterator[tuple[str, int]]:
    """What became of one source's flows."""
    finish, release, size, ideal = (
        flows[name].astype(np.int64) for name in ("finish_ps", "release_ps", "bytes", "ideal_ps")
    )
    ended = finish >= 0
    yield "flows", len(finish)
    yield "finished", int(ended.sum())
    yield "bytes", int(size.sum())
    yield "bytes_finished", int(size[ended].sum())
    if ended.any():
        took = (finish - release)[ended]
        p50, p99 = np.percentile(took, (50, 99), method="inverted_cdf")
        slow = took[ideal[ended] > 0] / ideal[ended][ideal[ended] > 0]
        yield "fct_p50_ps", int(p50)
        yield "fct_p99_ps", int(p99)
        if len(slow):
            worst = np.percentile(slow, 99, method="inverted_cdf")
            yield "slowdown_p99_permille", round(1000 * float(worst))
