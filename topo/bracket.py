"""Bounds of a maximum concurrent flow too large for a linear programme: a routing and a proof.

Fictitious play of the two sides of the programme: each round sends every demand whole over the
shortest paths by the current edge lengths, and lengths grow with the load that an edge has had so
far. The mean of the rounds is a routing, and the inverse of its fullest edge the lower bound; any
lengths prove that theta is at most sum(capacity x length) over sum(demand x distance), the dual
programme (Shahrokhi and Matula, Journal of the ACM 1990; the multiplicative weights are those of
Garg and Konemann, SIAM Journal on Computing 2007).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

ROUNDS: Final = 400
WORK: Final = 4_000_000
"""Senders x nodes x rounds at most, but for the first few rounds."""

GAP: Final = 0.02
"""Relative width of the bracket at which the rounds end."""

Number = NDArray[np.float64]
Index = NDArray[np.int64]


def bracket(
    tail: Index,
    head: Index,
    capacity: Index,
    wanted: Number,
    sources: Index,
    *,
    rounds: int = ROUNDS,
    gap: float = GAP,
) -> tuple[float, float]:
    """Lower and upper bound of theta; ``wanted`` is senders x nodes, of which ``sources`` send.

    ``tail`` and ``head`` are in ascending order of pairs. Ends when the bounds are within `GAP`
    of each other, or after `ROUNDS`, which are fewer for a graph that takes more than `WORK`;
    ``rounds`` and ``gap`` replace the two.
    """
    room = capacity.astype(np.float64)
    asked = wanted[sources]
    load = np.zeros(len(room))
    low, high = 0.0, _cut(tail, head, room, asked, sources)
    length = 1 / room
    most = min(rounds, max(2, WORK // asked.size))
    for done in range(1, most + 1):
        used, paid = _shortest(tail, head, length, asked, sources)
        if not np.isfinite(paid):
            return 0.0, 0.0
        high = min(high, float((room * length).sum() / paid))
        load += used
        full = load / room / done
        low = max(low, float(1 / full.max()))
        if high - low <= gap * high:
            break
        # Lengths fall off by e over a share of the fullest edge that shrinks with the rounds; the
        # pace was chosen by trial on meshes, dragonflies and bipartite fabrics.
        sharp = 0.05 * done / full.max()
        length = np.exp(sharp * (full - full.max())) / room + 1e-12
    return min(low, high), high


def _cut(tail: Index, head: Index, room: Number, asked: Number, sources: Index) -> float:
    """What the edges out of each sender and into each receiver leave of the demand."""
    nodes = asked.shape[1]
    out = np.bincount(tail, weights=room, minlength=nodes)[sources]
    into = np.bincount(head, weights=room, minlength=nodes)
    taken = asked.sum(axis=0)
    used = taken > 0
    return float(min((out / asked.sum(axis=1)).min(), (into[used] / taken[used]).min()))


def _shortest(
    tail: Index, head: Index, length: Number, asked: Number, sources: Index
) -> tuple[Number, float]:
    """Load of every edge with all demands on shortest paths, and sum(demand x distance)."""
    nodes = asked.shape[1]
    graph = csr_array((length, (tail, head)), shape=(nodes, nodes))
    distance, before = dijkstra(graph, indices=sources, return_predecessors=True)
    paid = float((asked[asked > 0] * distance[asked > 0]).sum())
    carried = asked.copy()
    rows = np.arange(len(sources))
    order = np.argsort(-np.where(np.isfinite(distance), distance, -1), axis=1, kind="stable")
    key = tail * nodes + head
    load = np.zeros(len(tail))
    for step in range(nodes):
        node = order[:, step]
        parent = before[rows, node]
        moves = (parent >= 0) & (carried[rows, node] > 0)
        if not moves.any():
            continue
        row, child, up = rows[moves], node[moves], parent[moves]
        amount = carried[row, child]
        carried[row, up] += amount
        np.add.at(load, np.searchsorted(key, up * nodes + child), amount)
    return load, paid
