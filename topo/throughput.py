"""Throughput theta: the share of a demand that a fabric carries, for all its pairs at once.

theta is the maximum concurrent flow (Shahrokhi and Matula, Journal of the ACM 1990): the largest
factor by which every entry of a demand can be moved together on the best routing there is. Demands
are scaled so that the busiest NICs are just full: theta = 1 is a fabric that never limits, an r:1
leaf-spine gives 1/r to a hand-off that leaves its leaves. mu asks only for the sum; theta asks that
no pair is starved for it.

Three demands. *uniform*: every prefill host to every decode host, in proportion to their NICs.
*hot*: half of all bytes goes to the decode hosts of one leaf, the rest to all as before.
*longest*: each prefill host sends to the decode hosts that lie farthest, a matching of the two
pools of greatest total distance: near the worst case of a fabric (Jyothi, Singla, Godfrey and
Kolla, "Measuring and understanding throughput of network topologies", SC 2016).

The linear programme has one flow a sender over the edges of the fabric's `quotient`, in which the
senders and receivers stay apart; HiGHS solves it exactly up to `MOST_VARIABLES`. Beyond, `theta`
brackets the value between a routing that reaches the lower end and lengths that prove the upper.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from topo.bracket import bracket
from topo.error import FabricError
from topo.fabric import Fabric
from topo.route import Routes, equal_cost
from topo.skeleton import Index, Skeleton, merged, quotient, skeleton

if TYPE_CHECKING:
    from scipy.sparse import coo_array

DEMANDS: Final = ("uniform", "hot", "longest")
HOT_SHARE: Final = 0.5
MOST_VARIABLES: Final = 40_000
PROOF_ROUNDS: Final = 24
_EQUAL: Final = 1e-9

Demand = NDArray[np.float64]
"""Senders x receivers of the skeleton, in its units of capacity."""


@dataclass(frozen=True, slots=True)
class Theta:
    """The value lies between ``low`` and ``high``; they are equal where it is exact."""

    low: float
    high: float

    def __str__(self) -> str:
        if self.high - self.low < 0.0005:
            return f"{self.low:.3f}"
        return f"{self.low:.3f}..{self.high:.3f}"


def throughput(
    fabric: Fabric,
    demands: tuple[str, ...] = DEMANDS,
    *,
    routes: Routes | None = None,
    most_variables: int = MOST_VARIABLES,
) -> dict[str, Theta]:
    """theta of each named demand. Errors: an unknown demand, no prefill or no decode host."""
    graph = skeleton(fabric)
    found: dict[str, Theta] = {}
    for name in demands:
        if name == "uniform":
            wanted = uniform(graph)
        elif name == "hot":
            wanted = hot(fabric, graph)
        elif name == "longest":
            wanted = longest(fabric, graph, routes)
        else:
            raise FabricError(f"demand {name!r}: unknown; write one of {', '.join(DEMANDS)}")
        found[name] = theta(graph, wanted, most_variables=most_variables)
    return found


def uniform(graph: Skeleton) -> Demand:
    """Every sender to every receiver, in proportion to their NICs; the smaller pool's are full."""
    sent, taken = _supplies(graph)
    return np.asarray(np.outer(sent, taken) / max(sent.sum(), taken.sum()), np.float64)


def hot(fabric: Fabric, graph: Skeleton, share: float = HOT_SHARE) -> Demand:
    """``share`` of all bytes to the receivers of one leaf, the rest to all in proportion.

    The leaf is the one whose receivers have the fewest NIC bits, the first of those; a pool behind
    one leaf makes the demand uniform. The busiest NICs are full.
    """
    sent, taken = _supplies(graph)
    racks = np.array([fabric.nodes[m[0]].rack for m in graph.members[graph.senders :]], np.int64)
    lone = np.flatnonzero(racks < 0)
    racks[lone] = racks.max(initial=0) + 1 + np.arange(len(lone))
    behind = {int(rack): taken[racks == rack].sum() for rack in racks}
    chosen = racks == min(behind, key=lambda rack: behind[rack])
    target = share * np.where(chosen, taken, 0) / taken[chosen].sum()
    target = target + (1 - share) * taken / taken.sum()
    demand = np.outer(sent / sent.sum(), target)
    busiest = max((demand.sum(axis=1) / sent).max(), (demand.sum(axis=0) / taken).max())
    return np.asarray(demand / busiest, np.float64)


def longest(fabric: Fabric, graph: Skeleton, routes: Routes | None = None) -> Demand:
    """The matching of the two pools of greatest total distance in links.

    Groups of hosts are matched as a transport problem, in proportion to their NICs; among equally
    long matchings, which there are many of in a Clos, the solver takes one. Many groups of equal
    NICs on both sides are matched one to one, an optimum of the same problem (Birkhoff 1946).
    """
    from scipy.optimize import linear_sum_assignment

    routes = equal_cost(fabric) if routes is None else routes
    sent, taken = _supplies(graph)
    sent, taken = sent / sent.sum(), taken / taken.sum()
    first = [members[0] for members in graph.members]
    far = routes.distances(first[: graph.senders], first[graph.senders :])
    length = np.where(far < 0, 0, far).astype(np.float64)
    supplies = _supplies(graph)
    most = min(supplies[0].sum(), supplies[1].sum())
    rows, columns = length.shape
    if (
        rows == columns
        and rows * columns > MOST_VARIABLES
        and not np.ptp(sent)
        and not np.ptp(taken)
    ):
        matched = np.zeros((rows, columns))
        matched[linear_sum_assignment(length, maximize=True)] = most / rows
        return matched
    share = _transport(fabric, length, sent, taken)
    return np.asarray(share * most, np.float64)


def _transport(fabric: Fabric, length: Demand, sent: Demand, taken: Demand) -> Demand:
    """Shares of all bytes that make the mean length greatest, with the sums of both sides given."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    rows, columns = length.shape
    place = np.arange(rows * columns)
    sums = coo_array(
        (
            np.ones(2 * len(place)),
            (np.concatenate([place // columns, rows + place % columns]), np.tile(place, 2)),
        ),
        shape=(rows + columns, len(place)),
    ).tocsr()
    solved = linprog(
        -length.ravel(), A_eq=sums, b_eq=np.concatenate([sent, taken]), method="highs-ds"
    )
    if solved.status != 0:
        raise FabricError(f"fabric {fabric.name!r}: no longest matching: {solved.message}")
    return np.asarray(np.maximum(solved.x.reshape(rows, columns), 0), np.float64)


def theta(graph: Skeleton, demand: Demand, *, most_variables: int = MOST_VARIABLES) -> Theta:
    """The maximum concurrent flow of a demand, exact up to ``most_variables`` of the programme.

    A demand between hosts without a path gives 0.
    """
    ends = graph.senders + graph.receivers
    colour = np.full(graph.nodes, ends, np.int64)
    colour[:ends] = np.arange(ends)
    classes = quotient(graph, colour, graph.capacity)
    # Senders and receivers are alone in their classes: give them their numbers back.
    order = np.full(int(classes.max()) + 1, -1, np.int64)
    order[classes[:ends]] = np.arange(ends)
    rest = np.flatnonzero(order < 0)
    order[rest] = ends + np.arange(len(rest))
    tail, head, capacity = merged(graph, order[classes], graph.capacity)
    wanted = np.zeros((graph.senders, len(order)))
    wanted[:, graph.senders : ends] = demand
    sources = np.flatnonzero(wanted.sum(axis=1) > 0)
    if len(sources) * len(tail) > most_variables:
        return Theta(*bracket(tail, head, capacity, wanted, sources))
    # Where NICs alone limit, as they mostly do, a few rounds prove it sooner than the programme.
    low, high = bracket(tail, head, capacity, wanted, sources, rounds=PROOF_ROUNDS, gap=_EQUAL)
    if high - low <= _EQUAL * high:
        return Theta(high, high)
    value = _solve(tail, head, capacity, wanted, sources)
    return Theta(value, value)


def _solve(tail: Index, head: Index, capacity: Index, wanted: Demand, sources: Index) -> float:
    from scipy.optimize import linprog

    balance, most = _programme(tail, head, wanted, sources)
    goal = np.zeros(len(sources) * len(tail) + 1)
    goal[-1] = -1
    solved = linprog(
        goal,
        A_ub=most.tocsr(),
        b_ub=capacity.astype(np.float64),
        A_eq=balance.tocsr(),
        b_eq=np.zeros(len(sources) * wanted.shape[1]),
        method="highs-ipm",
    )
    if solved.status != 0:
        raise FabricError(f"throughput: the solver gave up: {solved.message}")
    return float(solved.x[-1])


def _programme(
    tail: Index, head: Index, wanted: Demand, sources: Index
) -> "tuple[coo_array, coo_array]":
    """Equalities and capacities: column s * edges + e is sender s's flow on e, the last is theta.

    What a node but the sender takes in and does not pass on is theta times what it wants.
    """
    from scipy.sparse import coo_array

    edges, nodes = len(tail), wanted.shape[1]
    flows = len(sources) * edges
    column = np.arange(flows)
    which, edge = column // edges, column % edges
    into = which * nodes + head[edge]
    out = which * nodes + tail[edge]
    own = tail[edge] == sources[which]
    rows = np.concatenate([into, out[~own]])
    columns = np.concatenate([column, column[~own]])
    signs = np.concatenate([np.ones(flows), -np.ones(int((~own).sum()))])
    asked = wanted[sources]
    sender, node = np.nonzero(asked)
    balance = coo_array(
        (
            np.concatenate([signs, -asked[sender, node]]),
            (
                np.concatenate([rows, sender * nodes + node]),
                np.concatenate([columns, np.full(len(sender), flows)]),
            ),
        ),
        shape=(len(sources) * nodes, flows + 1),
    )
    most = coo_array((np.ones(flows), (edge, column)), shape=(edges, flows + 1))
    return balance, most


def _supplies(graph: Skeleton) -> tuple[Demand, Demand]:
    supply = graph.supply.astype(np.float64)
    return supply[: graph.senders], supply[graph.senders :]
