"""Who began a pause: every stop followed over the ports that were stopped themselves, to its root.

A switch stops a peer because of the egress that held most of the stopped bytes (its cause). If that
egress stood stopped at that moment, the stop that held it is the next link of the chain; the root
is the cause of the last one, an egress that was congested and not stopped. A stop is caused by an
earlier one only, so that a circle of stops ends at the one that began it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Chains:
    """The stops of a cell in order of time, each with its root port and its depth (1: no chain).

    ``until`` is the end of the run for a stop that had not ended.
    """

    port: Ints
    since: Ints
    until: Ints
    root: Ints
    depth: Ints

    @cached_property
    def _by_port(self) -> tuple[Ints, Ints]:
        order = np.lexsort((self.since, self.port))
        return order, self.port[order]

    @cached_property
    def _spans(self) -> dict[int, tuple[Ints, Ints, Ints]]:
        """Beginnings, ends and roots of the stops of each port, in order of time."""
        order, ports = self._by_port
        cuts = np.flatnonzero(ports[1:] != ports[:-1]) + 1
        columns = [np.split(each[order], cuts) for each in (self.since, self.until, self.root)]
        first = ports[np.concatenate(([0], cuts))] if len(ports) else ports
        return dict(zip(first.tolist(), zip(*columns, strict=True), strict=False))

    def of(self, port: int) -> Ints:
        """The rows of the stops of one port, in order of time."""
        order, ports = self._by_port
        first, last = np.searchsorted(ports, [port, port + 1])
        return order[first:last]

    def roots(self, port: int, since: int, until: int) -> dict[int, int]:
        """Picoseconds that ``port`` stood stopped within a span, by the root of each stop."""
        found: dict[int, int] = {}
        spans = self._spans.get(port)
        if spans is None:
            return found
        begun, ended, roots = spans
        last = int(begun.searchsorted(until))
        shared = np.minimum(ended[:last], until) - np.maximum(begun[:last], since)
        held = (shared > 0).nonzero()[0]
        rows = zip(roots[held].tolist(), shared[held].tolist(), strict=True)
        for root, time in rows:
            found[root] = found.get(root, 0) + time
        return found


def chains(stops: Mapping[str, NDArray[np.generic]], end_ps: int) -> Chains:
    """Root and depth of every row of a ``stops`` table of `traffic.emulator.Telemetry`.

    >>> stops = {"port": [7, 2], "priority": [3, 3], "from_ps": [10, 20],
    ...     "until_ps": [90, 80], "cause_port": [9, 7]}
    >>> found = chains({name: np.array(column) for name, column in stops.items()}, 100)
    >>> found.root.tolist(), found.depth.tolist()
    ([9, 9], [1, 2])
    """
    column = {name: values.astype(np.int64) for name, values in stops.items()}
    order = np.argsort(column["from_ps"], kind="stable")
    port, priority, since, until, cause = (
        column[name][order] for name in ("port", "priority", "from_ps", "until_ps", "cause_port")
    )
    until = np.where(until < 0, max(end_ps, int(since.max(initial=0))), until)
    before = _holding(port * 8 + priority, until, cause * 8 + priority, since)
    root, depth = cause.copy(), np.ones(len(port), np.int64)
    # every pass doubles how far up its chain each stop has looked
    while len(rows := np.flatnonzero(before >= 0)):
        earlier = before[rows]
        depth[rows] += depth[earlier]
        root[rows], before[rows] = root[earlier], before[earlier]
    return Chains(port, since, until, root, depth)


def _holding(queue: Ints, until: Ints, asked: Ints, at: Ints) -> Ints:
    """For every row the latest earlier one that stops the asked queue at that moment, or -1."""
    count = len(queue)
    if not count:
        return np.empty(0, np.int64)
    row = np.arange(count)
    keys = queue * count + row
    order = np.argsort(keys)
    place = np.searchsorted(keys[order], asked * count + row) - 1
    found = order[np.maximum(place, 0)]
    held = (place >= 0) & (queue[found] == asked) & (until[found] > at)
    return np.where(held, found, -1)
