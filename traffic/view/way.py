"""The ways between two pools, hop by hop: which ports a hand-off may cross, and how likely.

A flow takes one of the equal-cost paths by a hash that nobody knows beforehand. A hop of a pair is
therefore a set of ports, each with the share of the traffic that equal splits at every node would
send there. Many pairs share a hop, which is kept once. Hosts that hang on the same switches are
taken to be cabled alike.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from topo.route import Routes

Instances = Sequence[Sequence[int]]
"""The hosts of every instance, in the order of their ranks."""

Shares = dict[int, float]
"""Parts of the traffic from one host to another, by node or by port."""


class Ways:
    """The hops from every prefill to every decode instance.

    ``NONE`` and ``NO_PATH`` are the first two hops, of no ports: what lies beyond the last hop of
    a short way, and every hop of a pair that no path joins. Where instances have several ranks,
    each pair of ranks has ways of its own.
    """

    NONE: Final = 0
    NO_PATH: Final = 1

    def __init__(self, routes: Routes, prefill: Instances, decode: Instances) -> None:
        stages = Stages()
        most = max(len(prefill[0]), len(decode[0]))
        self._hops = [
            _hops(
                stages,
                routes,
                [hosts[rank * len(hosts) // most] for hosts in prefill],
                [hosts[rank * len(hosts) // most] for hosts in decode],
            )
            for rank in range(most)
        ]
        self._first, self._ports, self._share = stages.flat()

    def mean(self, values: NDArray[np.float64], *, lost: float) -> NDArray[np.float64]:
        """By hop, the mean of a value of its ports; 0 for `NONE`, ``lost`` for `NO_PATH`."""
        found: NDArray[np.float64] = np.add.reduceat(values[self._ports] * self._share, self._first)
        found[Ways.NONE], found[Ways.NO_PATH] = 0.0, lost
        return found

    def least(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """By hop, the least value of its ports; infinite for `NONE`, 0 for `NO_PATH`."""
        found: NDArray[np.float64] = np.minimum.reduceat(values[self._ports], self._first)
        found[Ways.NONE], found[Ways.NO_PATH] = np.inf, 0.0
        return found

    def of(self, prefill: int | None, decode: int | None) -> list[NDArray[np.int32]]:
        """Hops by number, for each pair of ranks: hops x prefill x decode instances, or the row or
        the column of the instances that are given."""
        where = (
            slice(None),
            slice(None) if prefill is None else prefill,
            slice(None) if decode is None else decode,
        )
        return [hops[where] for hops in self._hops]


class Stages:
    """Hops while they are collected: ports, and the share of the traffic on each; each once."""

    def __init__(self) -> None:
        self._number: dict[tuple[tuple[int, float], ...], int] = {}
        self._rows: list[tuple[tuple[int, float], ...]] = [((0, 0.0),), ((0, 0.0),)]

    def number(self, share: Shares) -> int:
        """The number of a hop."""
        row = tuple(sorted(share.items()))
        found = self._number.get(row)
        if found is None:
            found = self._number[row] = len(self._rows)
            self._rows.append(row)
        return found

    def flat(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Where each hop begins, and the ports and the shares of all."""
        sizes = [len(row) for row in self._rows]
        first = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        flat = [entry for row in self._rows for entry in row]
        return first, np.array([p for p, _ in flat], np.int64), np.array([s for _, s in flat])


def _hops(
    stages: Stages, routes: Routes, sources: Sequence[int], destinations: Sequence[int]
) -> NDArray[np.int32]:
    """Stage numbers, hops x sources x destinations; `Ways.NONE` beyond the last hop."""
    links = routes.distances(list(sources), list(destinations))
    made = np.full((max(1, int(links.max())), *links.shape), Ways.NONE, np.int32)
    made[:, links < 0] = Ways.NO_PATH
    between: dict[tuple[int, int, int], tuple[list[int], Shares]] = {}
    ends: dict[tuple[int, tuple[int, int, int]], int] = {}
    groups = routes.group.tolist()
    for i, source in enumerate(sources):
        for j, destination in enumerate(destinations):
            far = int(links[i, j])
            if far < 1:
                continue
            key = (groups[source], groups[destination], far)
            if key not in between:
                between[key] = _between(stages, routes, source, destination, far)
            middle, last = between[key]
            made[1 : far - 1, i, j] = middle
            out, back = (source, key), (-1 - destination, key)
            if far == 1 or out not in ends:
                ends[out] = stages.number(_onward(routes, {source: 1.0}, destination))
            made[0, i, j] = ends[out]
            if far > 1:
                if back not in ends:
                    ends[back] = stages.number(_onward(routes, last, destination))
                made[far - 1, i, j] = ends[back]
    return made


def _between(
    stages: Stages, routes: Routes, source: int, destination: int, far: int
) -> tuple[list[int], Shares]:
    """The hops but the first and the last, and the share that reaches each switch before that."""
    here: Shares = {source: 1.0}
    middle: list[int] = []
    for hop in range(far - 1):
        ports = _onward(routes, here, destination)
        if hop:
            middle.append(stages.number(ports))
        here = {}
        for port, share in ports.items():
            peer = int(routes.peer[port])
            here[peer] = here.get(peer, 0.0) + share
    return middle, here


def _onward(routes: Routes, here: Shares, destination: int) -> Shares:
    """The share of the traffic on every port, by equal splits, from the shares at every node."""
    ports: Shares = {}
    for node, share in here.items():
        onward = routes.next_hops(node, destination).tolist()
        for port in onward:
            ports[port] = ports.get(port, 0.0) + share / len(onward)
    return ports
