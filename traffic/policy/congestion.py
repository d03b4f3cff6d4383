"""Policies that look at the state of the network: network_aware, netkv.

The picture is a `NetworkView`: queued bytes, pauses and utilisation as they were when it was taken.
Between two pictures many requests may see the same quiet path; both policies therefore weigh it
against the load of the instances, which is of the moment. Where a run has no such view the links
crossed take its place, fewest first.
"""

from typing import ClassVar, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from topo.unit import PS_PER_S
from traffic.policy.choice import NetworkView, PolicyError, Request, Sight, TimeView, View
from traffic.policy.cost import Cost, Costed
from traffic.policy.reuse import decode_blocks, missing_tokens

_MOST_BUSY: Final = 0.95
"""A path counts as at most this busy, so that an estimate stays finite: 20 times the idle time."""

_LATE_PS: Final = 10**15
"""A thousand seconds: what keeps an instance that may not be preferred behind all others."""

_LINK: Final = 1 << 20
"""What a link weighs in requests, where links come before load."""

_UNEQUAL: Final = float(1 << 32)
"""Above every rank by links and load."""

_PROBE: Final = (256, 1_000_000)
"""Sequences and tokens at which the slope of a decode step is taken."""

_Floats = NDArray[np.float64]
_Moved = float | NDArray[np.float64]


class Ways:
    """How long a hand-off would take between two instances, from the present picture.

    The bytes that the busiest NIC moves, at the rate of the slowest hop, stretched by what is in
    use: 1 / (1 - utilisation) and 1 / (1 - paused share), each counted to 0.95 at most, after what
    is queued. The stretch is the residual bandwidth of a busy link; the formula is ours. What a
    picture says of a row, a column or the whole is worked out once.
    """

    def __init__(self) -> None:
        self._of: NetworkView | None = None
        self._at = -1
        self._known: dict[tuple[int | None, int | None], tuple[_Floats, _Floats]] = {}

    def transfer_ps(
        self, network: NetworkView, moved: _Moved, prefill: int | None, decode: int | None
    ) -> NDArray[np.float64]:
        """By decode instance for a prefill one, the other way round, or by pair; picoseconds."""
        if self._of is not network or self._at != network.at_ps:
            self._of, self._at = network, network.at_ps
            self._known.clear()
        found = self._known.get((prefill, decode))
        if found is None:
            rate = np.maximum(network.rate_bps(prefill, decode), 1)
            free = 1 - np.minimum(network.utilisation(prefill, decode), _MOST_BUSY)
            running = 1 - np.minimum(network.paused(prefill, decode), _MOST_BUSY)
            each = np.asarray(8.0 * PS_PER_S / (rate * free * running), np.float64)
            queued = np.asarray(network.queued_ps(prefill, decode), np.float64)
            found = self._known[prefill, decode] = (each, queued)
        each, queued = found
        took = np.asarray(moved * each, np.float64)
        took += queued
        return took


class NetworkAwareSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """bound: how many times the mean load an instance may reach and still be preferred, as in
        topology_aware.
    equal: share by which an estimate may be above the shortest and still count as equal to it; a
        tenth is ours: counters of busy links differ by more than that from one reading to the next.
    """

    bound: float = 1.5
    equal: float = 0.1


class NetworkAware(Costed):
    """The decode instance with the shortest estimated hand-off, of those that are not overloaded.

    Overloaded is an instance whose load with this request would be above ceil(bound x (m + 1) / n),
    m being the load of the n that may be chosen. Of estimates that count as equal the fewest links
    win, then the least load, then a draw (`Tie`). Prefill is the least loaded; where decode is
    chosen first it is the least loaded, and prefill the one with the shortest hand-off.
    """

    name: ClassVar[str] = "network_aware"
    settings: ClassVar[type[Struct]] = NetworkAwareSettings
    sees: ClassVar[frozenset[Sight]] = frozenset({"load", "topology", "network"})
    source: ClassVar[str] = "none: link state by estimate; the load bound is arXiv 1608.01350's"

    def __init__(self, settings: NetworkAwareSettings, hops: NDArray[np.int32], seed: int) -> None:
        super().__init__(hops, seed)
        if not 1 <= settings.bound < float("inf"):
            raise PolicyError(
                f"network_aware bound {settings.bound}: below 1 or not a number; write a factor of "
                "the mean load, e.g. 1.5"
            )
        if not 0 <= settings.equal < float("inf"):
            raise PolicyError(
                f"network_aware equal {settings.equal}: below 0 or not a number; write a share, "
                "e.g. 0.1"
            )
        self._bound = settings.bound
        self._equal = 1 + settings.equal
        self._ways = Ways()

    def prefill_cost(self, request: Request, view: View) -> Cost:
        """Load, or the hand-off to ``decode``, links and load."""
        load, decode = view.prefill_requests, request.decode
        if decode < 0:
            return load
        usable = self.prefill_usable(request, view)
        ranks = view.hops[:, decode] * _LINK + load
        free = usable & ~self._late(load, usable)
        return self._ranked(self._path(request, view, None, decode), ranks, free)

    def decode_cost(self, request: Request, prefill: int, view: View) -> Cost:
        """The hand-off, links and load, or load alone where decode is chosen first."""
        load = view.decode_requests
        if prefill < 0:
            return load
        usable = self.decode_usable(request, prefill, view)
        ranks = view.hops[prefill] * _LINK + load
        free = usable & ~self._late(load, usable)
        return self._ranked(self._path(request, view, prefill, None), ranks, free)

    def _path(
        self, request: Request, view: View, prefill: int | None, decode: int | None
    ) -> NDArray[np.float64]:
        if view.network is None:
            links = view.hops if prefill is None else view.hops[prefill]
            return np.zeros(links.shape if decode is None else links[:, decode].shape)
        moved = request.kv_bytes * view.nic_share
        return self._ways.transfer_ps(view.network, moved, prefill, decode)

    def _late(self, load: NDArray[np.int64], usable: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Who would be overloaded with one request more."""
        part = load if usable.all() else load[usable]
        most = np.ceil(self._bound * (int(part.sum()) + 1) / max(part.size, 1))
        return np.asarray(load + 1 > most, np.bool_)

    def _ranked(
        self, way: NDArray[np.float64], ranks: NDArray[np.int64], free: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """The ranks of the shortest ways, then the other ways of the ``free``, then all others."""
        if not free.any():
            return way + _LATE_PS
        most = way[free].min() * self._equal
        cost = np.where(way <= most, ranks, way + _UNEQUAL)
        return np.asarray(np.where(free, cost, way + _LATE_PS), np.float64)

    def scores(self, request: Request, view: View) -> NDArray[np.float64]:
        """The same for every pair, by the load of both."""
        usable = view.prefill_healthy[:, None] & view.decode_healthy & self._joined
        busy = self._late(view.prefill_requests, view.prefill_healthy)
        free = usable & ~busy[:, None] & ~self._late(view.decode_requests, view.decode_healthy)
        ranks = view.hops * _LINK + view.prefill_requests[:, None] + view.decode_requests
        return self._ranked(self._path(request, view, None, None), ranks, free)


class NetkvSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """network_weight, step_weight: of the transfer and of the decode step in the cost.
    tier_weight: how much slower than nearest a transfer is taken to be for each tier of switches
        more; 1 is ours: twice as slow a tier farther, three times two tiers farther.
    """

    network_weight: float = 1.0
    step_weight: float = 1.0
    tier_weight: float = 1.0


class Netkv(Costed):
    """A greedy choice over the decode instances by a network cost oracle and the decode load.

    The abstract names an oracle of distance tier and congestion beside compute load and cached
    prefix, and a cost of O(decode instances) a request; the formula here is ours: weighted, the
    time to move what the instance does not hold yet (`Ways`, x 1 + ``tier_weight`` x tiers, a tier
    being two links more than the nearest pair has) and the step it would then run, linear in its
    sequences and tokens. Instances without room for the prompt come last. Prefill is
    the one of least predicted wait, or of fewest tokens where times are not known.
    """

    name: ClassVar[str] = "netkv"
    settings: ClassVar[type[Struct]] = NetkvSettings
    sees: ClassVar[frozenset[Sight]] = frozenset({"load", "cache", "topology", "network"})
    source: ClassVar[str] = "NetKV, arXiv 2606.03910 (abstract; the cost formula is kvfabric's)"

    def __init__(self, settings: NetkvSettings, hops: NDArray[np.int32], seed: int) -> None:
        super().__init__(hops, seed)
        for name in ("network_weight", "step_weight", "tier_weight"):
            weight = getattr(settings, name)
            if not 0 <= weight < float("inf"):
                raise PolicyError(f"netkv {name} {weight}: not a weight; write 0 or more, e.g. 1.0")
        self._rules = settings
        tiers = np.maximum(hops - int(hops[hops >= 0].min()), 0) / 2
        self._slower = np.asarray(1 + settings.tier_weight * tiers, np.float64)
        self._ways = Ways()
        self._slopes: tuple[TimeView, float, float] | None = None

    def prefill_cost(self, request: Request, view: View) -> Cost:
        """The wait, and the way to ``decode`` where that came first."""
        wait: Cost = view.prefill_tokens if view.time is None else view.prefill_wait_ps
        if request.decode < 0:
            return wait
        moved = missing_tokens(request, decode_blocks(request, view))[request.decode]
        way = self._way(request, view, moved, None, request.decode)
        return wait + self._rules.network_weight * way

    def decode_cost(self, request: Request, prefill: int, view: View) -> Cost:
        """The way there and the step it would run; those without room last."""
        missing = missing_tokens(request, decode_blocks(request, view))
        cost = self._step(view)
        if prefill >= 0:
            way = self._way(request, view, missing, prefill, None)
            cost = cost + self._rules.network_weight * way
        if view.decode_capacity_bytes:
            full = view.decode_bytes + request.kv_bytes > view.decode_capacity_bytes
            cost = cost + np.where(full, float(_LATE_PS), 0.0)
        return cost

    def _way(
        self, request: Request, view: View, tokens: Cost, prefill: int | None, decode: int | None
    ) -> NDArray[np.float64]:
        slower = self._slower if prefill is None else self._slower[prefill]
        if decode is not None:
            slower = slower[:, decode]
        if view.network is None:
            return slower * float(PS_PER_S)
        each = request.kv_bytes * view.nic_share / max(request.input_tokens, 1)
        moved = np.asarray(tokens * each, np.float64)
        return slower * self._ways.transfer_ps(view.network, moved, prefill, decode)

    def _step(self, view: View) -> NDArray[np.float64]:
        """The weighted step by decode instance, without what is equal for all."""
        if view.time is None:
            return np.asarray(view.decode_requests * self._rules.step_weight, np.float64)
        if self._slopes is None or self._slopes[0] is not view.time:
            batch, tokens = _PROBE
            least = view.time.step_ps(1, 1)
            self._slopes = (
                view.time,
                (view.time.step_ps(batch, 1) - least) / (batch - 1),
                (view.time.step_ps(1, tokens) - least) / (tokens - 1),
            )
        _, a_sequence, a_token = self._slopes
        step = view.decode_requests * a_sequence + view.decode_tokens * a_token
        return np.asarray(self._rules.step_weight * step, np.float64)

    def scores(self, request: Request, view: View) -> NDArray[np.float64]:
        """Wait, way and step of every pair."""
        missing = missing_tokens(request, decode_blocks(request, view))
        cost = self._way(request, view, missing, None, None)
        cost *= self._rules.network_weight
        cost += self.prefill_cost(request._replace(decode=-1), view)[:, None]
        cost += self.decode_cost(request, -1, view)
        return cost
