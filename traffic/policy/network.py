"""Policies that look at the fabric: topology_aware.

Nearness is the number of links between two instances. It is what llm-d's topology-affinity scorer
(host before rack before zone, llm-d-router pull request 2299) and the same-rack-first decode
router of cklxx/kvcache-sim prefer, without their fixed weights.
"""

from typing import ClassVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from traffic.policy.choice import PolicyError, Request, Tie, View, islands


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
    then the least load, then a draw (`Tie`).
    """

    name: ClassVar[str] = "topology_aware"
    sees_network: ClassVar[bool] = True
    settings: ClassVar[type[Struct]] = TopologySettings

    def __init__(self, settings: TopologySettings, hops: NDArray[np.int32], seed: int) -> None:
        if not 1 <= settings.bound < float("inf"):
            raise PolicyError(
                f"topology_aware bound {settings.bound}: below 1 no instance could be chosen; "
                "write a factor of the mean load, e.g. 1.5"
            )
        islands(hops)
        self._bound = settings.bound
        self._reach = [np.flatnonzero(row >= 0) for row in hops]
        self._prefill = Tie(seed, "prefill")
        self._decode = Tie(seed, "decode")

    def prefill(self, request: Request, view: View) -> int:
        """The prefill instance with the fewest prompts waiting or running."""
        return self._prefill.least(view.prefill_requests, request.request)

    def decode(self, request: Request, prefill: int, view: View) -> int:
        """The nearest, then least loaded, decode instance within the bound."""
        reach = self._reach[prefill]
        load = view.decode_requests[reach]
        most = np.ceil(self._bound * (int(load.sum()) + 1) / reach.size)
        fit = load + 1 <= most
        reach, load = reach[fit], load[fit]
        links = view.hops[prefill, reach]
        near = links == links.min()
        reach, load = reach[near], load[near]
        return self._decode.among(reach[load == load.min()], request.request)

    def pairs(self, hops: NDArray[np.int32]) -> NDArray[np.bool_]:
        """The pairs that a path joins."""
        return hops >= 0
