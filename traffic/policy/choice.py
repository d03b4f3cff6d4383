"""What a policy is asked, what it may look at, and what it must answer.

The router picks the prefill instance when a request arrives and the decode instance when its
prefill ends, or starts where layers are handed over as they finish (prefill first, as in
ai-dynamo's router). Instances are numbered from 0 in each pool.
A policy that cannot see the network may pick a pair that no path joins; `check_reach` finds that
before a run.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from topo.error import KvfabricError
from traffic.draw import draw


class PolicyError(KvfabricError):
    """A policy that is unknown, set wrongly, or does not fit the fabric."""


class Request(NamedTuple):
    """What the router knows of a request; ``kv_bytes`` is the KV cache of its prompt."""

    request: int
    input_tokens: int
    output_tokens: int
    kv_bytes: int
    session: int = -1
    tenant: int = 0
    priority: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """The router's picture of the pools at the moment of a choice; arrays are by instance.

    ``prefill_requests`` and ``prefill_tokens`` count prompts that wait for prefill or are in it;
    ``decode_requests`` and ``decode_bytes`` count requests from the choice of their decode
    instance to their last token, and the KV memory they need there. ``hops`` is prefill x decode,
    links crossed, -1 where there is no path. The picture is exact and immediate: real routers see
    it some milliseconds late.
    """

    prefill_requests: NDArray[np.int64]
    prefill_tokens: NDArray[np.int64]
    decode_requests: NDArray[np.int64]
    decode_bytes: NDArray[np.int64]
    hops: NDArray[np.int32]
    decode_capacity_bytes: int

    @classmethod
    def idle(cls, hops: NDArray[np.int32], decode_capacity_bytes: int = 0) -> "View":
        """The view of pools without load."""
        prefill, decode = hops.shape
        return cls(
            np.zeros(prefill, np.int64),
            np.zeros(prefill, np.int64),
            np.zeros(decode, np.int64),
            np.zeros(decode, np.int64),
            hops,
            decode_capacity_bytes,
        )


class Policy(Protocol):
    """A mapping policy. ``pairs`` tells, prefill x decode, which pairs it may ever choose."""

    name: ClassVar[str]
    sees_network: ClassVar[bool]
    settings: ClassVar[type[Struct]]

    def __init__(self, settings: Any, hops: NDArray[np.int32], seed: int) -> None: ...

    def prefill(self, request: Request, view: View) -> int:
        """The prefill instance, chosen at arrival."""
        ...

    def decode(self, request: Request, prefill: int, view: View) -> int:
        """The decode instance, chosen at the end of the prefill on instance ``prefill``, or at its
        start where the hand-off is layer-wise."""
        ...

    def pairs(self, hops: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which (prefill, decode) pairs may be chosen."""
        ...


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

    def least(self, load: NDArray[np.int64], request: int) -> int:
        """An instance of the least load."""
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
