"""Mooncake's Conductor: the pair of instances by predicted time to first token, or a refusal.

Algorithm 1 of Qin et al., Mooncake: Trading More Storage for Less Computation (FAST 2025, section
4.1). The estimates come from the pools' own times (`TimeView`): the queue is the sum of the prefill
times of those that wait, as in the paper.
"""

from typing import ClassVar, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from topo.unit import PS_PER_S, duration, rate
from traffic.policy.choice import (
    NOBODY,
    REFUSED,
    PolicyError,
    Request,
    Sight,
    TimeView,
    View,
)
from traffic.policy.cost import Cost, Costed
from traffic.policy.quantity import quantity
from traffic.policy.reuse import pool_blocks, prefill_blocks

_FOREVER: Final = 2**62

_TOKENS: Final = 2**40
"""More than the tokens of any instance, so that a number holds them beside its sequences."""


class ConductorSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """balancing_threshold: how many times as long as its own the pool's match must be for a
        prefill instance to fetch it (kvcache_balancing_threshold; the paper gives no value, 2 is
        ours).
    ttft_slo, tbt_slo: what a prediction may reach; 30 s and 200 ms, the middle one of 100, 200 and
        300 ms, in section 5.1.
    reject: refuse requests whose prediction is over an SLO (HTTP 429), as the algorithm does.
    transfer_rate: at which the rest of a match is assumed to come from the pool; one NIC of the
        paper's testbed.
    """

    balancing_threshold: float = 2.0
    ttft_slo: str = "30s"
    tbt_slo: str = "200ms"
    reject: bool = True
    transfer_rate: str = "200Gbps"


class Conductor(Costed):
    """The prefill instance of the least predicted TTFT, and the decode instance of the least TBT.

    TTFT = T_transfer + T_queue + T_prefill(prompt, prefix). Where the pool's match is longer than
    ``balancing_threshold`` x the instance's own, the rest of it is fetched, and prefix is the
    pool's; else prefix is its own and nothing is fetched. A fetch is only possible from the remote
    pool of the run: without one, no instance can get what another holds. TBT is the next step of a
    decode instance with this request in its batch. Requests over an SLO are refused at arrival.
    Ties are drawn, see `Tie`.

    Without a `TimeView` times are taken to grow as tokens do: the least pending tokens, this
    prompt's missing ones included, and the fewest prompt tokens; no request is refused then.
    """

    name: ClassVar[str] = "mooncake"
    settings: ClassVar[type[Struct]] = ConductorSettings
    sees: ClassVar[frozenset[Sight]] = frozenset({"load", "cache", "topology"})
    source: ClassVar[str] = "Mooncake, FAST 2025, Algorithm 1"

    def __init__(self, settings: ConductorSettings, hops: NDArray[np.int32], seed: int) -> None:
        super().__init__(hops, seed)
        if not 1 <= settings.balancing_threshold < float("inf"):
            raise PolicyError(
                f"mooncake balancing_threshold {settings.balancing_threshold}: below 1 or not a "
                "number; write a ratio of matches, e.g. 2.0"
            )
        self._ratio = settings.balancing_threshold
        self._ttft = quantity("mooncake ttft_slo", settings.ttft_slo, duration)
        self._tbt = quantity("mooncake tbt_slo", settings.tbt_slo, duration)
        self._reject = settings.reject
        self._rate = quantity("mooncake transfer_rate", settings.transfer_rate, rate)
        self._did = {"refused_ttft": 0, "refused_tbt": 0, "fetched": 0}

    def prefill_cost(self, request: Request, view: View) -> Cost:
        """Predicted TTFT in picoseconds; tokens where times are not known."""
        return self._predict(request, view)[0]

    def _predict(self, request: Request, view: View) -> tuple[Cost, NDArray[np.bool_]]:
        own = prefill_blocks(request, view)
        pool = pool_blocks(request, view)
        fetch = pool > own * self._ratio
        size, tokens = request.block_tokens, request.input_tokens
        prefix = np.minimum(np.where(fetch, pool, own) * size, tokens)
        if view.time is None:
            return view.prefill_tokens + tokens - prefix, fetch
        lengths, where = np.unique(prefix, return_inverse=True)
        times = [view.time.prefill_ps(tokens, int(cached)) for cached in lengths.tolist()]
        ttft = view.prefill_wait_ps + np.array(times, np.int64)[where]
        if fetch.any():
            bits_each = request.kv_bytes * 8 * size / max(tokens, 1)
            ps = bits_each / self._rate * PS_PER_S
            ttft = ttft + np.where(fetch, (pool - own) * ps, 0).astype(np.int64)
        return ttft, fetch

    def decode_cost(self, request: Request, prefill: int, view: View) -> Cost:
        """Predicted time between tokens, of those that can be the least; tokens without times."""
        if view.time is None:
            return view.decode_tokens
        found = self.decode_usable(request, prefill, view).nonzero()[0]
        cost = np.full(len(view.decode_requests), _FOREVER, np.int64)
        cost[found] = step_times(
            view.time, view.decode_requests[found], view.decode_tokens[found], request.input_tokens
        )
        return cost

    def prefill(self, request: Request, view: View) -> int:
        """The prefill instance of the least TTFT; `REFUSED` when it or the TBT is over its SLO."""
        ttft, fetch = self._predict(request, view)
        chosen = self._prefill.least(ttft, request.request, self.prefill_usable(request, view))
        if chosen < 0:
            return NOBODY
        if self._reject and view.time is not None:
            if ttft[chosen] > self._ttft:
                self._did["refused_ttft"] += 1
                return REFUSED
            if request.decode < 0 and request.output_tokens and self._slow(request, chosen, view):
                self._did["refused_tbt"] += 1
                return REFUSED
        self._did["fetched"] += int(fetch[chosen])
        return chosen

    def _slow(self, request: Request, prefill: int, view: View) -> bool:
        """Whether every decode instance would be over the SLO; none at all is not slow."""
        if not self.decode_usable(request, prefill, view).any():
            return False
        return int(self.decode_cost(request, prefill, view).min()) > self._tbt

    def pair(self, request: Request, view: View) -> tuple[int, int]:
        """Both at arrival, as the algorithm has it."""
        prefill = self.prefill(request, view)
        if prefill < 0:
            return prefill, prefill
        return prefill, self.decode(request, prefill, view)

    def counters(self) -> dict[str, int]:
        """Requests refused by either SLO, and prompts sent to an instance that fetches a match."""
        return dict(self._did)


def step_times(
    time: TimeView, requests: NDArray[np.int64], tokens: NDArray[np.int64], more: int
) -> NDArray[np.int64]:
    """The next step of each decode instance with one request of ``more`` tokens besides, in ps.

    A step takes no less for more sequences or more tokens. Instances that another one beats in
    both cannot be the least; they are left at 2**62, so that few times are computed.
    """
    kinds, kind = np.unique(requests * _TOKENS + tokens, return_inverse=True)
    batch, held = np.divmod(kinds, _TOKENS)
    front = np.ones(kinds.size, np.bool_)
    front[1:] = held[1:] < np.minimum.accumulate(held)[:-1]
    times = np.full(kinds.size, _FOREVER, np.int64)
    times[front] = [
        time.step_ps(sequences + 1, cached + more)
        for sequences, cached in zip(batch[front].tolist(), held[front].tolist(), strict=True)
    ]
    return times[kind]
