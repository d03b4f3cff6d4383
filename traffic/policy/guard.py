"""The SLO guard: acts while the fabric, and not compute, is what makes hand-offs late: slo_guard.

It tells the two apart by what a router can see: hand-offs over budget or links in full use, while
few prompts wait for prefill. The rule, its bounds and its actions are kvfabric's.
"""

from typing import ClassVar, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from topo.unit import PS_PER_MS, duration
from traffic.policy.choice import LATER, PolicyError, Request, Sight, View
from traffic.policy.cost import Cost, Costed
from traffic.policy.quantity import quantity
from traffic.policy.reuse import decode_blocks, missing_tokens, pool_blocks, prefill_blocks
from traffic.policy.usage import Usage

_FEWEST: Final = 32
"""Hand-offs that must have been seen before their share over budget counts."""

_LATE: Final = float(1 << 60)
"""Puts an overloaded instance behind all others; byte x links of one prompt stay far below."""

_HIGHEST: Final = 7


class GuardSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """When the guard acts, and what it does; all bounds are ours.

    budget: of a hand-off, from the end of the prefill; write the scenario's.
    over: share of the latest 256 hand-offs above it from which the fabric counts as the bottleneck;
        write less than the scenario allows.
    utilisation: of the busiest hop of the pairs on average, from which it does as well, where the
        run has a `NetworkView`.
    queue: prompts that wait for prefill, a healthy instance, above which compute is to blame; 2 is
        ours.
    every: the two are looked at so often. The guard rests again when both are below half.
    reuse: prefill where least of the prompt has to be read from the remote pool, and decode where
        most of it lies already, so that fewer bytes move.
    near: decode few links away. Both act within ``bound`` x the mean load.
    rank: priority one up for short prompts and one down for long ones, see `SloGuard`.
    hold: how long a long prompt is held back at most while the guard acts; 0s never.
    long_tokens: uncached tokens from which a prompt is long.
    """

    budget: str = "50ms"
    over: float = 0.02
    utilisation: float = 0.8
    queue: float = 2.0
    every: str = "10ms"
    reuse: bool = True
    near: bool = True
    rank: bool = True
    hold: str = "100ms"
    long_tokens: int = 8192
    bound: float = 1.5


class SloGuard(Costed):
    """The least loaded of both pools; while the guard acts, by its four actions.

    Prefill chases no cache for the sake of compute: what it knows already still has to cross the
    fabric, only sooner, and hand-offs then overlap more. Decode takes the fewest bytes x links, of
    what it does not hold (``reuse``) and to where it stands (``near``). Priorities act where the
    scenario lets them: ``serving.order: priority`` for lines, and ``handoff.classes`` for the
    network. Where caches are not known nobody holds anything. ``counters`` tells how often each
    action was taken. Ties are drawn, see `Tie`.
    """

    name: ClassVar[str] = "slo_guard"
    settings: ClassVar[type[Struct]] = GuardSettings
    sees: ClassVar[frozenset[Sight]] = frozenset({"load", "cache", "topology", "network"})
    source: ClassVar[str] = "none: kvfabric's own rule"

    def __init__(self, settings: GuardSettings, hops: NDArray[np.int32], seed: int) -> None:
        super().__init__(hops, seed)
        for name, example in (("over", 0.02), ("utilisation", 0.8)):
            value = getattr(settings, name)
            if not 0 < value <= 1:
                raise PolicyError(
                    f"slo_guard {name} {value}: not above 0 and at most 1; write e.g. {example}"
                )
        if not 0 <= settings.queue < float("inf"):
            raise PolicyError(
                f"slo_guard queue {settings.queue}: not 0 or more; write prompts an instance, "
                "e.g. 2.0"
            )
        if settings.long_tokens < 1:
            raise PolicyError(
                f"slo_guard long_tokens {settings.long_tokens}: below 1; write e.g. 8192"
            )
        if not 1 <= settings.bound < float("inf"):
            raise PolicyError(
                f"slo_guard bound {settings.bound}: below 1 or not a number; write a factor of the "
                "mean load, e.g. 1.5"
            )
        self._rules = settings
        self._budget = quantity("slo_guard budget", settings.budget, duration)
        self._every = quantity("slo_guard every", settings.every, duration)
        self._hold = quantity("slo_guard hold", settings.hold, duration)
        self._usage = Usage(self._joined)
        self._acts = False
        self._looked = -1
        self._since = 0
        self._held: dict[int, int] = {}
        self._did = {"acted": 0, "reuse": 0, "near": 0, "ranked": 0, "held": 0}
        self._acted_ps = 0

    @property
    def acts(self) -> bool:
        """Whether the fabric was the bottleneck when last looked at."""
        return self._acts

    def look(self, view: View) -> None:
        """Decide anew whether the fabric is the bottleneck, not more often than ``every``."""
        now = view.now_ps
        if self._looked >= 0 and now - self._looked < self._every:
            return
        self._looked = now
        acts = self._bottleneck(view, 0.5 if self._acts else 1.0)
        if acts and not self._acts:
            self._since = now
            self._did["acted"] += 1
        if self._acts and not acts:
            self._acted_ps += now - self._since
        self._acts = acts

    def _bottleneck(self, view: View, factor: float) -> bool:
        """Whether hand-offs are late or links full, by ``factor`` x the bounds; queues short."""
        waiting = (view.prefill_requests - view.prefill_running)[view.prefill_healthy]
        if not waiting.size or float(waiting.mean()) > self._rules.queue:
            return False
        seen = len(view.handoff_ps)
        if seen >= _FEWEST:
            late = sum(took > self._budget for took in view.handoff_ps)
            if late >= factor * self._rules.over * seen:
                return True
        if view.network is None:
            return False
        return self._usage.of(view.network) >= factor * self._rules.utilisation

    def priority(self, request: Request, view: View) -> int:
        """The request's own priority, one up or down while the guard acts."""
        self.look(view)
        if not (self._acts and self._rules.rank):
            return request.priority
        if request.request not in self._held:
            self._did["ranked"] += 1
        step = -1 if request.input_tokens >= self._rules.long_tokens else 1
        return min(max(request.priority + step, 0), _HIGHEST)

    def prefill(self, request: Request, view: View) -> int:
        """A prefill instance, or `LATER` for a long prompt that is held back."""
        self.look(view)
        if self._acts and self._holds(request, view):
            return LATER
        self._held.pop(request.request, None)
        if self._acts and self._rules.reuse and view.prefix is not None:
            self._did["reuse"] += 1
        return super().prefill(request, view)

    def _holds(self, request: Request, view: View) -> bool:
        if request.input_tokens < self._rules.long_tokens or not self._hold:
            return False
        since = self._held.get(request.request)
        if since is not None:
            return view.now_ps - since < self._hold
        missing = missing_tokens(request, prefill_blocks(request, view))
        if int(missing.min()) < self._rules.long_tokens:
            return False
        self._held[request.request] = view.now_ps
        self._did["held"] += 1
        return True

    def prefill_cost(self, request: Request, view: View) -> Cost:
        """Load; while the guard acts, tokens to read from the pool and then load."""
        load = view.prefill_requests
        if not (self._acts and self._rules.reuse) or view.prefix is None:
            return load
        usable = self.prefill_usable(request, view)
        beyond = np.maximum(pool_blocks(request, view) - prefill_blocks(request, view), 0)
        return self._bounded(beyond * float(request.block_tokens), load, usable)

    def decode(self, request: Request, prefill: int, view: View) -> int:
        """A decode instance."""
        self.look(view)
        if self._acts and self._rules.near and prefill >= 0:
            self._did["near"] += 1
        return super().decode(request, prefill, view)

    def decode_cost(self, request: Request, prefill: int, view: View) -> Cost:
        """Load; while the guard acts, bytes x links of what is to move, then load."""
        load, rules = view.decode_requests, self._rules
        near, reuse = rules.near and prefill >= 0, rules.reuse
        if not (self._acts and (near or reuse)):
            return load
        moved = np.full(load.size, float(request.kv_bytes))
        if reuse:
            missing = missing_tokens(request, decode_blocks(request, view))
            moved *= missing / max(request.input_tokens, 1)
        if near:
            moved *= view.hops[prefill]
        return self._bounded(moved, load, self.decode_usable(request, prefill, view))

    def _bounded(
        self, cost: NDArray[np.float64], load: NDArray[np.int64], usable: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """The cost and then load; those over the bound last."""
        part = load if usable.all() else load[usable]
        most = np.ceil(self._rules.bound * (int(part.sum()) + 1) / max(part.size, 1))
        cost = cost + load / 1024
        return np.asarray(np.where(load + 1 > most, cost + _LATE, cost), np.float64)

    def counters(self) -> dict[str, int]:
        """How often and how long the guard acted, and how often it took each action."""
        acted = self._acted_ps + (self._looked - self._since if self._acts else 0)
        return dict(self._did) | {"acted_ms": acted // PS_PER_MS}
