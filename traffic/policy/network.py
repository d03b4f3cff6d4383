"""Policies that look at the fabric: topology_aware.

Nearness is the number of links between two instances. It is what llm-d's topology-affinity scorer
(host before rack before zone, llm-d-router pull request 2299) and the same-rack-first decode
router of cklxx/kvcache-sim prefer, without their fixed weights.
"""

from typing import ClassVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from traffic.policy.choice import NOBODY, PolicyError, Request, Sight, Tie, View, islands


class TopologySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """``bound``: how many times the mean load an instance may reach and still be preferred.

    The default 1.5 is that of SGLang's bounded_consistent_hashing.rs.
    """

    bound: float = 1.5


class TopologyAware:
    """The nearest decode instance that is not overloaded.

    The prefill instance is the least loaded. Of the n decode instances that it reaches, those may
    be chosen whose load with this request would be at most ceil(bound x (m + 1) / n), m being the
    load of all n together: the rule of consistent hashing with bounded loads (Mirrokni, Thorup
    and Zadimoghaddam, arXiv 1608.01350), which always leaves one. Of these the fewest links win,
    then the least load, then a draw (`Tie`). Where decode is chosen first, it is the least loaded
    and the prefill instance is the nearest that is not overloaded.
    """

    name: ClassVar[str] = "topology_aware"
    settings: ClassVar[type[Struct]] = TopologySettings
    sees: ClassVar[frozenset[Sight]] = frozenset({"load", "topology"})
    source: ClassVar[str] = "arXiv 1608.01350; llm-d-router pull request 2299; cklxx/kvcache-sim"

    def __init__(self, settings: TopologySettings, hops: NDArray[np.int32], seed: int) -> None:
        if not 1 <= settings.bound < float("inf"):
            raise PolicyError(
                f"topology_aware bound {settings.bound}: below 1 no instance could be chosen; "
                "write a factor of the mean load, e.g. 1.5"
            )
        islands(hops)
        self._bound = settings.bound
        self._reach = [np.flatnonzero(row >= 0) for row in hops]
        self._back = [np.flatnonzero(column >= 0) for column in hops.T]
        self._prefill = Tie(seed, "prefill")
        self._decode = Tie(seed, "decode")

    def prefill(self, request: Request, view: View) -> int:
        """The prefill instance with the fewest prompts waiting or running, or near ``decode``."""
        load, healthy, first = view.prefill_requests, view.prefill_healthy, request.decode
        if first < 0:
            return self._prefill.least(load, request.request, healthy)
        links = view.hops[:, first]
        return self._near(self._back[first], links, load, healthy, self._prefill, request.request)

    def decode(self, request: Request, prefill: int, view: View) -> int:
        """The nearest, then least loaded, decode instance within the bound."""
        load, healthy = view.decode_requests, view.decode_healthy
        if prefill < 0:
            return self._decode.least(load, request.request, healthy)
        links = view.hops[prefill]
        return self._near(self._reach[prefill], links, load, healthy, self._decode, request.request)

    def _near(
        self,
        reach: NDArray[np.int64],
        links: NDArray[np.int32],
        loads: NDArray[np.int64],
        healthy: NDArray[np.bool_],
        tie: Tie,
        request: int,
    ) -> int:
        if not healthy.all():
            reach = reach[healthy[reach]]
            if not reach.size:
                return NOBODY
        load = loads[reach]
        most = np.ceil(self._bound * (int(load.sum()) + 1) / reach.size)
        fit = load + 1 <= most
        reach, load = reach[fit], load[fit]
        near = links[reach]
        nearest = near == near.min()
        reach, load = reach[nearest], load[nearest]
        return tie.among(reach[load == load.min()], request)

    def pairs(self, hops: NDArray[np.int32]) -> NDArray[np.bool_]:
        """The pairs that a path joins."""
        return hops >= 0
