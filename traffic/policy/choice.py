"""What a policy is asked, and what it must answer; what it may look at is `traffic.policy.view`.

The router picks the prefill instance when a request arrives and the decode instance when its
prefill ends, or starts where layers are handed over as they finish (prefill first, as in
ai-dynamo's router). Other orders of choice are settings of the router, see
`traffic.serving.router`. A policy that cannot see the network may pick a pair that no path joins;
`check_reach` finds that before a run.
"""

from typing import Any, ClassVar, Final, Literal, Protocol, get_args

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from topo.error import KvfabricError
from traffic.draw import draw
from traffic.policy.view import NetworkView, PrefixView, Request, TimeView, View

__all__ = [
    "LATER",
    "NOBODY",
    "OPTIONAL",
    "REFUSED",
    "SIGHTS",
    "NetworkView",
    "NoSettings",
    "Policy",
    "PolicyError",
    "PrefixView",
    "Request",
    "Sight",
    "Tie",
    "TimeView",
    "View",
    "check_reach",
    "islands",
]

Sight = Literal["load", "cache", "topology", "network"]
"""What a policy looks at: queues and memory, prefix caches, distances, the state of the links."""

SIGHTS: Final[tuple[Sight, ...]] = get_args(Sight)


class PolicyError(KvfabricError):
    """A policy that is unknown, set wrongly, or does not fit the fabric."""


NOBODY: Final = -1
"""The answer of a policy when no healthy instance may be chosen: the request waits."""
REFUSED: Final = -2
"""The answer of a policy that turns a request away for good (HTTP 429)."""
LATER: Final = -3
"""The answer of a policy that holds a request back: it is asked again."""


class Policy(Protocol):
    """A mapping policy.

    name: as scenarios write it. settings: its parameters with their defaults. sees: what it looks
    at. source: where its definition comes from, in one line.

    An answer is the number of a healthy instance (see `View.prefill_healthy`), or `NOBODY`,
    `REFUSED` or `LATER`; the last two at arrival only. `OPTIONAL` names methods that it may have
    besides.
    """

    name: ClassVar[str]
    settings: ClassVar[type[Struct]]
    sees: ClassVar[frozenset[Sight]]
    source: ClassVar[str]

    def __init__(self, settings: Any, hops: NDArray[np.int32], seed: int) -> None: ...

    def prefill(self, request: Request, view: View) -> int:
        """The prefill instance, chosen at arrival; ``request.decode`` where that came first."""
        ...

    def decode(self, request: Request, prefill: int, view: View) -> int:
        """The decode instance, chosen at the end of the prefill on instance ``prefill``, at its
        start where the hand-off is layer-wise, or at arrival with -1 where decode comes first."""
        ...

    def pairs(self, hops: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which (prefill, decode) pairs may be chosen."""
        ...


OPTIONAL: Final = {
    "pair": "(request, view) -> (prefill, decode): both at once, for order `joint`",
    "scores": "(request, view) -> prefill x decode, the least is best: what `joint` takes without"
    " `pair`",
    "priority": "(request, view) -> 0..7: the priority of the request from its arrival on",
    "counters": "() -> whole numbers by name: what it did, told in the totals of the run",
}
"""Methods that a policy may have besides, and what they are asked."""


class NoSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """A policy without parameters."""


class Tie:
    """Breaks ties by a draw on (seed, 'policy', side, request).

    The lowest index would be the obvious rule and an artefact: at light load it sends every
    request to instance 0 and so loads one rack and one set of paths, which no router intends
    (vLLM-style routers rotate instead).
    """

    def __init__(self, seed: int, side: str) -> None:
        self._seed = seed
        self._purpose = f"policy {side}"

    def among(self, tied: NDArray[np.int64], request: int) -> int:
        """One of the given instances."""
        if tied.size == 1:
            return int(tied[0])
        return int(tied[draw(self._seed, self._purpose, request, tied.size)])

    def least(
        self,
        load: NDArray[np.int64] | NDArray[np.float64],
        request: int,
        among: NDArray[np.bool_] | None = None,
    ) -> int:
        """An instance of the least load, of those that ``among`` marks; `NOBODY` if it marks none.

        >>> Tie(0, "prefill").least(np.array([0, 3, 2]), 7, np.array([False, True, True]))
        2
        """
        if among is not None and not among.all():
            marked = among.nonzero()[0]
            if not marked.size:
                return NOBODY
            part = load[marked]
            return self.among(marked[part == part.min()], request)
        return self.among((load == load.min()).nonzero()[0], request)


def islands(hops: NDArray[np.int32]) -> list[tuple[list[int], list[int]]]:
    """The (prefill, decode) instances that paths join into one piece, by lowest prefill instance.

    Refuses an instance that reaches no other, with a `PolicyError`.

    >>> islands(np.array([[2, -1], [-1, 4]], np.int32))
    [([0], [0]), ([1], [1])]
    """
    joined = hops >= 0
    for side, alone in (("prefill", ~joined.any(axis=1)), ("decode", ~joined.any(axis=0))):
        if alone.any():
            other = "decode" if side == "prefill" else "prefill"
            raise PolicyError(
                f"{side} instance {int(np.argmax(alone))}: no path to any {other} instance in this "
                "fabric; connect it or place the roles otherwise"
            )
    found: list[tuple[list[int], list[int]]] = []
    rest = np.ones(len(joined), np.bool_)
    while rest.any():
        mine = np.arange(len(joined)) == np.argmax(rest)
        size = 0
        theirs = joined[mine].any(axis=0)
        while np.count_nonzero(mine) > size:
            size = int(np.count_nonzero(mine))
            theirs = joined[mine].any(axis=0)
            mine = np.asarray(joined[:, theirs].any(axis=1))
        found.append((np.flatnonzero(mine).tolist(), np.flatnonzero(theirs).tolist()))
        rest &= ~mine
    return found


def check_reach(policy: Policy, hops: NDArray[np.int32]) -> None:
    """Refuse a policy that may pick a pair without a path, before anything runs."""
    lost = np.argwhere(policy.pairs(hops) & (hops < 0))
    if not len(lost):
        return
    prefill, decode = lost[0].tolist()
    pieces = len(islands(hops))
    remedy = f"static_groups with groups: {pieces}" if pieces > 1 else "topology_aware"
    raise PolicyError(
        f"policy {policy.name} may pick prefill {prefill} -> decode {decode}, which has no path in "
        f"this fabric; use {remedy} or a connected fabric"
    )
