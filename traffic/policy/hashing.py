"""Policies that keep a key at one instance: consistent_hash, bounded_consistent_hash.

Every instance stands at many places of a ring of 64-bit hashes; a key belongs to the first healthy
instance clockwise from its own hash, so that a failure moves only the keys of the instance that
failed, and its return brings them back. Each pool has a ring of its own. Requests without the key
are spread at random, as SGLang's gateway does with anonymous ones. Both are blind to the fabric.
"""

# ruff: noqa: ARG002 -- blind policies take the protocol's arguments and ignore some of them

from typing import ClassVar, Final, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from traffic.draw import draw, mix
from traffic.policy.balance import Blind
from traffic.policy.choice import NOBODY, PolicyError, Request, Sight, View

VIRTUAL_NODES: Final = 150
"""Places of an instance on the ring (sgl-model-gateway src/core/worker_registry.rs,
VIRTUAL_NODES_PER_WORKER)."""


class Ring:
    """Instances on a circle of hashes, each at ``nodes`` places that ``seed`` and ``side`` give.

    >>> ring = Ring(3, 150, 0, "prefill")
    >>> usable = np.array([True, True, True])
    >>> owner = ring.owner(7, usable)
    >>> usable[owner] = False
    >>> ring.owner(7, usable) == owner
    False
    >>> ring.owner(7, np.zeros(3, np.bool_))
    -1
    """

    def __init__(self, instances: int, nodes: int, seed: int, side: str) -> None:
        places = [draw(seed, f"ring {side}", i, 1 << 64) for i in range(instances * nodes)]
        hashes = np.array(places, np.uint64)
        order = hashes.argsort(kind="stable")
        self._hashes = hashes[order]
        owners = order // nodes
        self._owners = np.concatenate((owners, owners))
        self._salt = draw(seed, f"key {side}", 0, 1 << 64)

    def owner(self, key: int, usable: NDArray[np.bool_]) -> int:
        """The first instance clockwise from the key that ``usable`` marks; `NOBODY` if none."""
        start = int(self._hashes.searchsorted(np.uint64(mix(self._salt ^ mix(key)))))
        width, whole = 16, self._hashes.size
        while True:
            part = self._owners[start : start + min(width, whole)]
            marked = usable[part]
            place = int(marked.argmax())
            if marked[place]:
                return int(part[place])
            if width >= whole:
                return NOBODY
            width *= 8


class HashSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """``key``: what stays together: the requests of a ``session``, of a ``tenant``, or those whose
    prompts begin with the same ``prefix`` block. ``virtual_nodes``: places on the ring of an
    instance, 150 in SGLang's gateway."""

    key: Literal["session", "tenant", "prefix"] = "session"
    virtual_nodes: int = VIRTUAL_NODES


class ConsistentHash(Blind):
    """The first healthy instance clockwise from the request's key, in each pool apart."""

    name: ClassVar[str] = "consistent_hash"
    settings: ClassVar[type[Struct]] = HashSettings
    source: ClassVar[str] = (
        "sgl-project/sglang, sgl-model-gateway/src/policies/consistent_hashing.rs"
    )

    def __init__(self, settings: HashSettings, hops: NDArray[np.int32], seed: int) -> None:
        nodes = settings.virtual_nodes
        if not 1 <= nodes <= 4096:
            raise PolicyError(
                f"{self.name} virtual_nodes {nodes}: not 1 to 4096; write e.g. {VIRTUAL_NODES}"
            )
        self._key = settings.key
        self._seed = seed
        self._prefill = Ring(hops.shape[0], nodes, seed, "prefill")
        self._decode = Ring(hops.shape[1], nodes, seed, "decode")

    def prefill(self, request: Request, view: View) -> int:
        """The prefill instance that the key belongs to."""
        key, healthy = self._key_of(request), view.prefill_healthy
        if key < 0:
            return self._anyone("prefill", request, healthy)
        return self._owner(self._prefill, key, view.prefill_requests, healthy)

    def decode(self, request: Request, prefill: int, view: View) -> int:
        """The decode instance that the key belongs to."""
        key, healthy = self._key_of(request), view.decode_healthy
        if key < 0:
            return self._anyone("decode", request, healthy)
        return self._owner(self._decode, key, view.decode_requests, healthy)

    def _owner(
        self, ring: Ring, key: int, load: NDArray[np.int64], healthy: NDArray[np.bool_]
    ) -> int:
        return ring.owner(key, healthy)

    def _key_of(self, request: Request) -> int:
        if self._key == "session":
            return request.session
        if self._key == "tenant":
            return request.tenant
        return abs(request.blocks[0]) if request.blocks else -1

    def _anyone(self, side: str, request: Request, healthy: NDArray[np.bool_]) -> int:
        found = healthy.nonzero()[0]
        if not found.size:
            return NOBODY
        return int(found[draw(self._seed, f"policy {side}", request.request, found.size)])


class BoundedHashSettings(HashSettings, frozen=True, forbid_unknown_fields=True):
    """As `HashSettings`; ``bound``: how many times the mean load the preferred instance may carry,
    max_load_skew 1.5 in SGLang's gateway."""

    bound: float = 1.5


class BoundedConsistentHash(ConsistentHash):
    """The preferred instance while its load is at most ``bound`` x the mean of the healthy ones;
    else the next one clockwise for which that holds; else the preferred one after all.

    Load is the number of requests in flight. Requests without the key are spread at random.
    """

    name: ClassVar[str] = "bounded_consistent_hash"
    settings: ClassVar[type[Struct]] = BoundedHashSettings
    sees: ClassVar[frozenset[Sight]] = frozenset({"load"})
    source: ClassVar[str] = (
        "sgl-project/sglang, sgl-model-gateway/src/policies/bounded_consistent_hashing.rs"
    )

    def __init__(self, settings: BoundedHashSettings, hops: NDArray[np.int32], seed: int) -> None:
        if not 1 <= settings.bound < float("inf"):
            raise PolicyError(
                f"{self.name} bound {settings.bound}: below 1 or not a number; write a factor of "
                "the mean load, e.g. 1.5"
            )
        super().__init__(settings, hops, seed)
        self._bound = settings.bound

    def _owner(
        self, ring: Ring, key: int, load: NDArray[np.int64], healthy: NDArray[np.bool_]
    ) -> int:
        preferred = ring.owner(key, healthy)
        if preferred < 0:
            return NOBODY
        part = load if healthy.all() else load[healthy]
        most = int(part.sum()) / part.size * self._bound
        if load[preferred] <= most:
            return preferred
        next_one = ring.owner(key, healthy & (load <= most))
        return preferred if next_one < 0 else next_one
