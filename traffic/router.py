"""The router of a service: asks its policy, and refuses answers that cannot be."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traffic.instance import Deployment
from traffic.ledger import Ledger
from traffic.policy.choice import Policy, PolicyError, Request, View


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
    """Choices for the requests of one service."""

    def __init__(self, service: Service, ledger: Ledger) -> None:
        self.service = service
        self._policy = service.policy
        self._ledger = ledger

    def _ask(self, request: int) -> Request:
        ledger = self._ledger
        return Request(
            request,
            ledger.input_tokens[request],
            ledger.output_tokens[request],
            ledger.kv_bytes[request],
            ledger.session[request],
            ledger.tenant[request],
            ledger.priority[request],
        )

    def prefill(self, request: int, view: View) -> int:
        """The instance for a request that arrives."""
        chosen = self._policy.prefill(self._ask(request), view)
        self._check("prefill", chosen, len(view.prefill_requests))
        return chosen

    def decode(self, request: int, prefill: int, view: View) -> int:
        """The decode instance for a request that was or is being prefilled."""
        chosen = self._policy.decode(self._ask(request), prefill, view)
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
