"""Pins flows to lanes in htsim without changing it, by the seeds it takes from `time()`.

htsim hashes a flow's number and path number, salted by the switch, over the next hops, which each
switch has shuffled when it first needed them. The path number is the first draw after seeding from
`time()` for that flow; the shuffles follow the last flow's seed, in the order in which first
packets reach the switches. All flows start at 0, one a host, and no ACK is back before the last
first packet has passed its aggregation switch; so that order is known: edge switches by flow, then
aggregation switches by place in the uplink's queue, each round over the edge switches in turn.
"""

from collections.abc import Iterator

import numpy as np
from workload import Workload

SEED = 13
"""htsim's seed of its own, and its default; the switches' salts are the draws after it."""

_MASK = 0xFFFFFFFF
_PATHS = 256


def _draws(seed: int, count: int) -> list[int]:
    """What its `random()` gives after seeding: 31 bits of a Mersenne Twister."""
    raw = np.random.RandomState(seed).randint(0, 2**32, count, dtype=np.uint32)
    return [int(value) & 0x7FFFFFFF for value in raw]


def _hash(flow: int, path: int, salt: int) -> int:
    """Jenkins' mix of three words, as FreeBSD's bridge hashes."""
    a, b, c = (0x9E3779B9 + flow) & _MASK, (0x9E3779B9 + salt) & _MASK, path
    for right, left, last in ((13, 8, 13), (12, 16, 5), (3, 10, 15)):
        a = ((a - b - c) & _MASK) ^ (c >> right)
        b = ((b - c - a) & _MASK) ^ (a << left & _MASK)
        c = ((c - a - b) & _MASK) ^ (b >> last)
    return c


def _shuffled(count: int, draws: Iterator[int]) -> list[int]:
    order = list(range(count))
    for left in range(count, 0, -1):
        taken = next(draws) % left
        order[taken], order[left - 1] = order[left - 1], order[taken]
    return order


class Pinning:
    """The seeds that put every flow of a workload on its lane; flow i has the number i + 1."""

    def __init__(self, workload: Workload) -> None:
        self._half = workload.k // 2
        self._flows = workload.flows
        self._hops = [workload.hops(s, d) for s, d, _ in workload.flows]
        if len({s for s, _, _ in workload.flows}) < len(workload.flows):
            raise ValueError(f"{workload.name}: two flows of one host; the order is not known then")
        switches = workload.k * self._half
        salts = _draws(SEED, 2 * switches)
        self._edge_salt, self._aggregation_salt = salts[:switches], salts[switches:]
        self.seeds = self._find()

    def _find(self) -> list[int]:
        firsts: dict[int, int] = {}
        seed = 0
        while len(firsts) < _PATHS:
            seed += 1
            firsts.setdefault(_draws(seed, 1)[0] % _PATHS, seed)
        for last in range(1, 100_000):
            edges, aggregations = self._orders(last)
            own = _draws(last, 1)[0] % _PATHS
            if not self._fits(len(self._flows) - 1, own, edges, aggregations):
                continue
            seeds = []
            for flow in range(len(self._flows) - 1):
                paths = range(_PATHS)
                path = next((p for p in paths if self._fits(flow, p, edges, aggregations)), None)
                if path is None:
                    break
                seeds.append(firsts[path])
            else:
                return [*seeds, last]
        raise ValueError("no seeds put every flow on its lane; draw other lanes")

    def _orders(self, last: int) -> tuple[dict[int, list[int]], dict[tuple[int, int], list[int]]]:
        """The shuffled next hops of edge switches, and of aggregation switches by destination."""
        half = self._half
        draws = iter(_draws(last, 8 * half * len(self._flows) + 1)[1:])
        edges: dict[int, list[int]] = {}
        seen: dict[int, int] = {}
        queues: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for flow, (source, _, lane) in enumerate(self._flows):
            edge = source // half
            place = seen[edge] = seen.get(edge, -1) + 1
            if self._hops[flow] == 2:
                continue
            if edge not in edges:
                edges[edge] = _shuffled(half, draws)
            queues.setdefault((edge, lane // half), []).append((place, flow))
        first_seen = {edge: i for i, edge in enumerate(seen)}
        arrivals = sorted(
            (depth, queue[0][0], first_seen[edge], flow)
            for (edge, _), queue in queues.items()
            for depth, (_, flow) in enumerate(queue)
        )
        aggregations: dict[tuple[int, int], list[int]] = {}
        for *_, flow in arrivals:
            _, destination, _ = self._flows[flow]
            key = self._aggregation(flow), destination
            if self._hops[flow] == 6 and key not in aggregations:
                aggregations[key] = _shuffled(half, draws)
        return edges, aggregations

    def _aggregation(self, flow: int) -> int:
        source, _, lane = self._flows[flow]
        return source // self._half**2 * self._half + lane // self._half

    def _fits(
        self,
        flow: int,
        path: int,
        edges: dict[int, list[int]],
        aggregations: dict[tuple[int, int], list[int]],
    ) -> bool:
        """Does this path number take the flow to its lane?"""
        half = self._half
        source, destination, lane = self._flows[flow]
        if self._hops[flow] == 2:
            return True
        edge = source // half
        up = edges[edge][_hash(flow + 1, path, self._edge_salt[edge]) % half]
        if up != lane // half:
            return False
        if self._hops[flow] == 4:
            return True
        number = self._aggregation(flow)
        hashed = _hash(flow + 1, path, self._aggregation_salt[number])
        return aggregations[number, destination][hashed % half] == lane % half
