"""The fabric between two pools, as a router sees it that polls its switches and NICs.

Every ``staleness_ps`` the state of all links is read, and every choice until the next reading sees
the same picture: queues and pauses as they are at that time, utilisation as the mean since the
reading before, as counters give it. The emulator itself latches queues every 10 us.

A hand-off's flow takes one of the equal-cost paths by a hash that its router does not know. A
picture of a pair is therefore a mean over the ports of each hop, weighted by the traffic that the
split at every switch would send there, and then the sum or the worst of the hops. Where instances
have several ranks, the worst pair of ranks counts, since the cache is ready when the last of them
has read. Hosts that hang on the same switches are taken to be cabled alike.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from topo.fabric import Fabric
from topo.route import Routes
from topo.unit import PS_PER_MS, PS_PER_S, PS_PER_US, show_duration
from traffic.emulator import Table
from traffic.policy.choice import PolicyError

DEFAULT_STALENESS_PS: Final = 50 * PS_PER_MS
"""How often llm-d's endpoint picker polls what it chooses by (--refresh-metrics-interval; in
gateway-api-inference-extension, DefaultRefreshMetricsInterval). Streaming telemetry of switches is
mostly slower."""

LEAST_STALENESS_PS: Final = 10 * PS_PER_US
"""The emulators latch their queues so often."""

Instances = Sequence[Sequence[int]]
"""The hosts of every instance, in the order of their ranks."""

Shares = dict[int, float]
"""Parts of the traffic from one host to another, by node or by port."""


class Network:
    """A `NetworkView` of the ways from prefill to decode instances; `look` takes a new picture."""

    def __init__(
        self,
        fabric: Fabric,
        routes: Routes,
        prefill: Instances,
        decode: Instances,
        staleness_ps: int = DEFAULT_STALENESS_PS,
    ) -> None:
        if staleness_ps < LEAST_STALENESS_PS:
            raise PolicyError(
                f"staleness {show_duration(staleness_ps)}: link state is latched every "
                f"{show_duration(LEAST_STALENESS_PS)}; write that or more"
            )
        self.staleness_ps = staleness_ps
        self.at_ps = 0
        """When the picture was taken."""
        self._rate = fabric.ports.rate_bps.astype(np.int64)
        self._stages = _Stages()
        most = max(len(prefill[0]), len(decode[0]))
        self._hops = [
            _hops(
                self._stages,
                routes,
                [hosts[rank * len(hosts) // most] for hosts in prefill],
                [hosts[rank * len(hosts) // most] for hosts in decode],
            )
            for rank in range(most)
        ]
        self._first, self._ports, self._share = self._stages.flat()
        self._busy = np.zeros(len(self._rate), np.int64)
        self._slowest = np.minimum.reduceat(self._rate[self._ports].astype(float), self._first)
        self._slowest[_Stages.NO_PATH], self._slowest[_Stages.NONE] = 0.0, np.inf
        self._queued = np.zeros(len(self._first))
        self._used = self._stopped = self._blank(self._queued)

    def _blank(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The values of all stages, 0 for no hop and 1 where there is no path."""
        values = values.copy()
        values[_Stages.NONE], values[_Stages.NO_PATH] = 0.0, 1.0
        return values

    def look(self, state: Table, busy_ps: NDArray[np.int64], now_ps: int) -> None:
        """Take a picture of what an emulator's ``observe`` and ``busy_ps`` say now."""
        passed = now_ps - self.at_ps
        queued = state["queued_bytes"].astype(np.int64) * 8 * (PS_PER_S // 10**6)
        self._queued = self._mean(queued / (self._rate // 10**6))
        self._queued[_Stages.NONE] = self._queued[_Stages.NO_PATH] = 0.0
        if passed > 0:
            used = np.clip((busy_ps - self._busy) / passed, 0.0, 1.0)
            self._used = self._blank(self._mean(used))
        self._stopped = self._blank(self._mean(np.asarray(state["paused"], np.bool_).astype(float)))
        self._busy, self.at_ps = busy_ps, now_ps

    def _mean(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        weighted: NDArray[np.float64] = np.add.reduceat(
            values[self._ports] * self._share, self._first
        )
        return weighted

    def queued_ps(self, prefill: int | None = None, decode: int | None = None) -> NDArray[np.int64]:
        """The time that the bytes queued on the way need, all hops together."""
        sums = [self._queued[hops].sum(axis=0) for hops in self._of(prefill, decode)]
        whole: NDArray[np.int64] = np.rint(_worst(sums)).astype(np.int64)
        return whole

    def utilisation(
        self, prefill: int | None = None, decode: int | None = None
    ) -> NDArray[np.float64]:
        """The share of time that the busiest hop was sending, 0 to 1."""
        return _worst([self._used[hops].max(axis=0) for hops in self._of(prefill, decode)])

    def paused(self, prefill: int | None = None, decode: int | None = None) -> NDArray[np.float64]:
        """The share of ports that stand paused at the hop with most of them, 0 to 1."""
        return _worst([self._stopped[hops].max(axis=0) for hops in self._of(prefill, decode)])

    def rate_bps(self, prefill: int | None = None, decode: int | None = None) -> NDArray[np.int64]:
        """The rate of the slowest hop; 0 without a path."""
        least = [self._slowest[hops].min(axis=0) for hops in self._of(prefill, decode)]
        whole: NDArray[np.int64] = (-_worst([-rate for rate in least])).astype(np.int64)
        return whole

    def _of(self, prefill: int | None, decode: int | None) -> list[NDArray[np.int32]]:
        """Stage numbers, hops first, of each pair of ranks."""
        where = (
            slice(None),
            slice(None) if prefill is None else prefill,
            slice(None) if decode is None else decode,
        )
        return [hops[where] for hops in self._hops]


def _worst(values: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    found = values[0]
    for more in values[1:]:
        found = np.maximum(found, more)
    return found


class _Stages:
    """Hops that some way takes: ports, and the share of the way's traffic on each; each once."""

    NONE: Final = 0
    NO_PATH: Final = 1

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
    stages: _Stages, routes: Routes, sources: Sequence[int], destinations: Sequence[int]
) -> NDArray[np.int32]:
    """Stage numbers, hops x sources x destinations; `_Stages.NONE` beyond the last hop."""
    links = routes.distances(list(sources), list(destinations))
    made = np.full((max(1, int(links.max())), *links.shape), _Stages.NONE, np.int32)
    made[:, links < 0] = _Stages.NO_PATH
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
    stages: _Stages, routes: Routes, source: int, destination: int, far: int
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
