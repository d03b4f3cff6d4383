"""The router of a service: asks its policy, and refuses answers that cannot be."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traffic.instance import Deployment
from traffic.ledger import Ledger
from traffic.policy.choice import LATER, NOBODY, REFUSED, Policy, PolicyError, Request, View
from traffic.request import Prefix


@dataclass(frozen=True)
class Service:
    """One model with its pools and the policy that maps requests to their instances.

    ``hops`` is prefill x decode instances, links crossed, -1 where there is no path (see
    `traffic.instance.links`); ``latency_ps`` likewise the time of a read request between them
    (`traffic.instance.latencies`), which a pulled hand-off needs. A colocated service has one list
    of instances, the prefill pool's and then the decode pool's; its policy is only asked for
    ``prefill``, over all of them.
    """

    deployment: Deployment
    policy: Policy
    hops: NDArray[np.int32]
    latency_ps: NDArray[np.int64] | None = None


class Router:
    """Choices for the requests of one service; ``prefix`` has the blocks of their prompts.

    Answers are instances, or `NOBODY`, `REFUSED` or `LATER`, the last two at arrival only.
    """

    def __init__(self, service: Service, ledger: Ledger, prefix: Prefix | None = None) -> None:
        self.service = service
        self._policy = service.policy
        self._ledger = ledger
        self._prefix = prefix if "cache" in service.policy.sees else None

    def _ask(self, request: int) -> Request:
        ledger, prefix = self._ledger, self._prefix
        return Request(
            request,
            ledger.input_tokens[request],
            ledger.output_tokens[request],
            ledger.kv_bytes[request],
            ledger.session[request],
            ledger.tenant[request],
            ledger.priority[request],
            () if prefix is None else prefix.of(request).tolist(),
            0 if prefix is None else prefix.block_tokens,
        )

    def prefill(self, request: int, view: View) -> int:
        """The instance for a request that arrives."""
        chosen = self._policy.prefill(self._ask(request), view)
        if chosen not in (NOBODY, REFUSED, LATER):
            self._check("prefill", chosen, len(view.prefill_requests))
        return chosen

    def decode(self, request: int, prefill: int, view: View) -> int:
        """The decode instance for a request that was or is being prefilled."""
        chosen = self._policy.decode(self._ask(request), prefill, view)
        if chosen == NOBODY:
            return NOBODY
        self._check("decode", chosen, len(view.decode_requests))
        if view.hops[prefill, chosen] < 0:
            raise PolicyError(
                f"policy {self._policy.name}: chose prefill {prefill} -> decode {chosen}, which "
                "has no path in this fabric; let `pairs` tell so beforehand"
            )
        return chosen

    def _check(self, side: str, chosen: int, count: int) -> None:
        if not 0 <= chosen < count:
            raise PolicyError(
                f"policy {self._policy.name}: chose {side} instance {chosen} of {count}; "
                f"answer 0 to {count - 1}"
            )
