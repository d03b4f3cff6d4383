"""Selective offloading: long prompts are prefilled far away while the way back is free: prfaas.

Prefill instances without a decode instance in their domain are the remote ones, as a separate
prefill cluster behind Ethernet is. In a fabric without such instances, or with nothing else, the
policy is the least loaded with decode kept in the domain.
"""

# ruff: noqa: ARG002 -- costs that depend on the load alone

from typing import ClassVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from traffic.policy.choice import PolicyError, Request, Sight, View
from traffic.policy.cost import Cost, Costed, Mask
from traffic.policy.reuse import missing_tokens, prefill_blocks
from traffic.policy.usage import Usage


class OffloadSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """threshold_tokens: uncached tokens from which a prompt is long; the paper fits it to a
        deployment, 8192 is ours.
    most_utilisation: how busy the ways from the remote instances may be, on average, for long
        prompts to go there; 0.8 is ours. Without a `NetworkView` they always may.
    domain_links: an instance's domain is what at most so many links reach.
    """

    threshold_tokens: int = 8192
    most_utilisation: float = 0.8
    domain_links: int = 4


class Prfaas(Costed):
    """Long uncached prompts to the least loaded remote prefill instance, others to a local one.

    Decode for a local prefill instance is the least loaded of its domain, for a remote one the
    least loaded of all. A side without a healthy instance hands its requests to the other. Ties are
    drawn, see `Tie`.
    """

    name: ClassVar[str] = "prfaas"
    settings: ClassVar[type[Struct]] = OffloadSettings
    sees: ClassVar[frozenset[Sight]] = frozenset({"load", "cache", "topology", "network"})
    source: ClassVar[str] = "PrfaaS, arXiv 2604.15039 (abstract; thresholds are kvfabric's)"

    def __init__(self, settings: OffloadSettings, hops: NDArray[np.int32], seed: int) -> None:
        super().__init__(hops, seed)
        if settings.threshold_tokens < 0:
            raise PolicyError(
                f"prfaas threshold_tokens {settings.threshold_tokens}: below 0; write tokens, "
                "e.g. 8192"
            )
        if not 0 <= settings.most_utilisation <= 1:
            raise PolicyError(
                f"prfaas most_utilisation {settings.most_utilisation}: no share; write 0 to 1, "
                "e.g. 0.8"
            )
        self._rules = settings
        self._near = np.asarray((hops >= 0) & (hops <= settings.domain_links), np.bool_)
        self._local = np.asarray(self._near.any(axis=1), np.bool_)
        self._usage = Usage(self._joined & ~self._local[:, None])
        self._did = {"offloaded": 0, "kept": 0}

    def prefill_cost(self, request: Request, view: View) -> Cost:
        """Prompts that wait or run."""
        return view.prefill_requests

    def decode_cost(self, request: Request, prefill: int, view: View) -> Cost:
        """Requests from their choice to their last token."""
        return view.decode_requests

    def prefill_usable(self, request: Request, view: View) -> Mask:
        """Healthy instances of the side that the prompt belongs to, or else of the other."""
        usable = super().prefill_usable(request, view)
        local, remote = usable & self._local, usable & ~self._local
        if not local.any() or not remote.any():
            return usable
        return remote if self._leaves(request, view, local) else local

    def _leaves(self, request: Request, view: View, local: Mask) -> bool:
        missing = missing_tokens(request, prefill_blocks(request, view))
        if int(missing[local].min()) < self._rules.threshold_tokens:
            return False
        if view.network is None:
            return True
        return self._usage.of(view.network) <= self._rules.most_utilisation

    def decode_usable(self, request: Request, prefill: int, view: View) -> Mask:
        """Healthy instances; of the domain of a local prefill instance while it has any."""
        usable = super().decode_usable(request, prefill, view)
        if prefill < 0 or not self._local[prefill]:
            return usable
        near = usable & self._near[prefill]
        return near if near.any() else usable

    def prefill(self, request: Request, view: View) -> int:
        """The least loaded of the side that the prompt belongs to."""
        chosen = super().prefill(request, view)
        if chosen >= 0:
            self._did["kept" if self._local[chosen] else "offloaded"] += 1
        return chosen

    def counters(self) -> dict[str, int]:
        """Prompts that were prefilled on remote and on local instances."""
        return dict(self._did)
