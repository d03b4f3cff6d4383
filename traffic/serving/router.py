"""The router of a service: asks its policy in an order of choice, and refuses what cannot be.

``prefill_first``: prefill at arrival, decode at the prefill's end, or at its start where layers
are handed over as they finish (ai-dynamo's router). ``decode_first``: both at arrival, decode
before prefill, which may look at it (llm-d's). ``joint``: both at arrival as one pair, by the
policy's ``pair``, or the least of its ``scores`` (asked for in llm-d-router issues 2135 and 2315).
An instance that was chosen at arrival counts as chosen from then on; its memory is reserved when
the prompt is handed over, as it is in every order.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traffic.cache.lookup import Blocks
from traffic.failure.resilience import Hazard
from traffic.instance import Deployment
from traffic.policy.choice import LATER, NOBODY, REFUSED, Policy, PolicyError, Request, Tie, View
from traffic.record.ledger import Ledger
from traffic.request import PRIORITIES
from traffic.serving.local import Local
from traffic.view.network import Network

ORDERS: Final = ("prefill_first", "decode_first", "joint")


@dataclass(frozen=True)
class Service:
    """One model with its pools and the policy that maps requests to their instances.

    ``hops`` is prefill x decode instances, links crossed, -1 where there is no path (see
    `traffic.instance.links`); ``latency_ps`` likewise the time of a read request between them
    (`traffic.instance.latencies`), which a pulled hand-off needs. ``order`` is that of choice, one
    of `ORDERS`; ``local`` tells which prompts their decode instances compute;
    ``network`` is for a policy that looks at its state; ``hazard`` what
    befalls the instances. A colocated service has one list of instances, the prefill pool's and
    then the decode pool's; its policy is only asked for ``prefill``, over all of them.
    """

    deployment: Deployment
    policy: Policy
    hops: NDArray[np.int32]
    latency_ps: NDArray[np.int64] | None = None
    order: str = "prefill_first"
    local: Local | None = None
    network: Network | None = None
    hazard: Hazard | None = None

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise PolicyError(
                f"order {self.order[:40]!r}: not known; write prefill_first, decode_first or joint"
            )
        if self.order == "joint" and not (
            hasattr(self.policy, "pair") or hasattr(self.policy, "scores")
        ):
            raise PolicyError(
                f"policy {self.policy.name}: has no joint choice (neither `pair` nor `scores`); "
                "write order prefill_first or decode_first"
            )


class Place(NamedTuple):
    """Where a request goes at its arrival.

    ``prefill`` may be `NOBODY`, `REFUSED` or `LATER`; ``decode`` is -1 when it is chosen later.
    ``local``: the decode instance computes the prompt, and ``prefill`` has nothing to do.
    """

    prefill: int
    decode: int = -1
    local: bool = False


class Router:
    """Choices for the requests of one service; ``prefix`` has the blocks of their prompts.

    ``chunk_tokens`` is what a step computes of prompts where they are chunked; ``seed`` is the
    run's, and breaks ties between pairs of equal score.
    """

    def __init__(
        self,
        service: Service,
        ledger: Ledger,
        prefix: Blocks | None = None,
        *,
        chunk_tokens: int = 0,
        seed: int = 0,
    ) -> None:
        self.service = service
        self.seed = seed
        self._policy = policy = service.policy
        self._ledger = ledger
        sees_blocks = "cache" in policy.sees or service.local is not None
        self._prefix = prefix if sees_blocks else None
        self._chunk = chunk_tokens
        self._tie = Tie(seed, "pair")
        self._pair = getattr(policy, "pair", None)
        self._scores = getattr(policy, "scores", None)
        self._priority = getattr(policy, "priority", None)
        self._own: dict[int, int] = {}  # priorities of their own, where the policy gave others

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

    def place(self, request: int, view: View, need: int = 0) -> Place:
        """Where a request goes that arrives; ``need`` is the decode memory of its whole sequence,
        asked for where prompts may stay on the decode side. There decode is chosen now in every
        order, and for good: a policy that goes by turns is asked once.

        A request without output has no hand-off, and no decode instance.
        """
        asked = self._ask(request)
        if self._priority is not None:
            asked = self._ranked(asked, view)
        if not asked.output_tokens:
            return Place(self._prefill(asked, view))
        chosen = self._chosen(asked, view)
        local = self.service.local
        if local is None or chosen.prefill < 0:
            return chosen
        prefill, decode = chosen.prefill, chosen.decode
        if decode < 0:
            decode = self._decode(asked, prefill, view)
            if decode < 0:
                return chosen
        stays = local.holds(asked, (prefill, decode), view, need, self._chunk)
        return Place(prefill, decode, local=stays)

    def _ranked(self, asked: Request, view: View) -> Request:
        """The request with the priority that the policy gives it, in the ledger from now on.

        A request that is placed anew is told to the policy with its own.
        """
        assert self._priority is not None
        number, own = asked.request, self._own.get(asked.request, asked.priority)
        priority = self._priority(asked._replace(priority=own), view)
        if not 0 <= priority < PRIORITIES:
            raise PolicyError(
                f"policy {self._policy.name}: gave request {asked.request} priority {priority}; "
                f"answer 0 to {PRIORITIES - 1}"
            )
        if priority != own:
            self._own[number] = own
        self._ledger.priority[number] = priority
        return asked._replace(priority=priority)

    def _chosen(self, asked: Request, view: View) -> Place:
        if self.service.order == "prefill_first":
            return Place(self._prefill(asked, view))
        if self.service.order == "joint":
            return self._joint(asked, view)
        decode = self._decode(asked, -1, view)
        if decode < 0:
            return Place(decode)
        prefill = self._prefill(asked._replace(decode=decode), view)
        if prefill >= 0:
            self._check_path(prefill, decode, view)
        return Place(prefill, decode if prefill >= 0 else -1)

    def _joint(self, asked: Request, view: View) -> Place:
        if self._pair is not None:
            prefill, decode = self._pair(asked, view)
        else:
            assert self._scores is not None
            prefill, decode = self._best(self._scores(asked, view), asked.request, view)
        if prefill in (NOBODY, REFUSED, LATER):
            return Place(prefill)
        self._check("prefill", prefill, view.prefill_healthy, asked)
        self._check("decode", decode, view.decode_healthy, asked)
        self._check_path(prefill, decode, view)
        return Place(prefill, decode)

    def _best(self, scores: NDArray[np.float64], request: int, view: View) -> tuple[int, int]:
        """The healthy pair of the least finite score that a path joins; ties are drawn."""
        if scores.shape != view.hops.shape:
            raise PolicyError(
                f"policy {self._policy.name}: scores of shape {scores.shape} for request "
                f"{request}; answer one a pair, {view.hops.shape}"
            )
        usable = (view.hops >= 0) & (scores < np.inf)
        if not (view.prefill_healthy.all() and view.decode_healthy.all()):
            usable &= view.prefill_healthy[:, None] & view.decode_healthy
        best = self._tie.least(scores.ravel(), request, usable.ravel())
        return divmod(best, view.hops.shape[1]) if best >= 0 else (NOBODY, NOBODY)

    def prefill(self, request: int, view: View) -> int:
        """The instance of a colocated service for a request that arrives."""
        return self._prefill(self._ask(request), view)

    def decode(self, request: int, prefill: int, view: View) -> int:
        """The decode instance for a request that was or is being prefilled, or `NOBODY`."""
        return self._decode(self._ask(request), prefill, view)

    def _prefill(self, asked: Request, view: View) -> int:
        chosen = self._policy.prefill(asked, view)
        if chosen not in (NOBODY, REFUSED, LATER):
            self._check("prefill", chosen, view.prefill_healthy, asked)
        return chosen

    def _decode(self, asked: Request, prefill: int, view: View) -> int:
        chosen = self._policy.decode(asked, prefill, view)
        if chosen == NOBODY or (prefill < 0 and chosen in (REFUSED, LATER)):
            return chosen
        self._check("decode", chosen, view.decode_healthy, asked)
        if prefill >= 0:
            self._check_path(prefill, chosen, view)
        return chosen

    def _check_path(self, prefill: int, decode: int, view: View) -> None:
        if view.hops[prefill, decode] < 0:
            raise PolicyError(
                f"policy {self._policy.name}: chose prefill {prefill} -> decode {decode}, which "
                "has no path in this fabric; let `pairs` tell so beforehand"
            )

    def _check(self, side: str, chosen: int, healthy: NDArray[np.bool_], asked: Request) -> None:
        count = len(healthy)
        if not 0 <= chosen < count:
            raise PolicyError(
                f"policy {self._policy.name}: chose {side} instance {chosen} of {count} "
                f"for request {asked.request}; answer 0 to {count - 1}"
            )
        if not healthy[chosen]:
            raise PolicyError(
                f"policy {self._policy.name}: chose {side} instance {chosen}, which is not "
                f"healthy, for request {asked.request}; answer one that view.{side}_healthy "
                "marks, or NOBODY"
            )
