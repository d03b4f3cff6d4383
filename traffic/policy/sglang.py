"""SGLang's policies that weigh prefix caches against load: cache_aware, lmetric.

The gateway keeps an approximate tree of the prompts it has sent; here the instances' own caches are
looked at, as ai-dynamo's port of the policy does. Both choose prefill and decode apart from each
other with the same rule, and are blind to the fabric. Load is the number of requests in flight.
Where nothing is known of caches both take the least loaded.
"""

# ruff: noqa: ARG002 -- blind policies take the protocol's arguments and ignore some of them

from typing import ClassVar, Final, Literal, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from traffic.policy.balance import Blind
from traffic.policy.choice import NOBODY, NoSettings, PolicyError, Request, Sight, Tie, View
from traffic.policy.reuse import decode_blocks, missing_tokens, prefill_blocks


class Thresholds(NamedTuple):
    """When cache or load decides, see `CacheAware`."""

    cache: float
    absolute: int
    relative: float


PRESETS: Final = {
    "library": Thresholds(0.5, 32, 1.1),
    "command_line": Thresholds(0.3, 64, 1.5),
}
"""The two published sets of sgl-model-gateway: CacheAwareConfig::default() in src/policies/mod.rs,
and the defaults of the command line in src/main.rs."""


class CacheAwareSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """``preset``: one of the two published sets of thresholds. The others replace one of its
    values each: ``cache_threshold``, the share of the prompt's blocks above which the cache
    decides; ``balance_abs_threshold`` and ``balance_rel_threshold``, the difference and the ratio
    between the most and the least loaded above which, both together, load decides."""

    preset: Literal["library", "command_line"] = "library"
    cache_threshold: float | None = None
    balance_abs_threshold: int | None = None
    balance_rel_threshold: float | None = None


class CacheAware(Blind):
    """The instance that holds most of the prompt, unless load is out of balance.

    With max - min > absolute and max > relative x min the least loaded wins; else, where the
    longest match is more than ``cache`` of the prompt's blocks, the least loaded of those that have
    it; else the least loaded. The extremes are those of the healthy instances (the gateway's own
    code counts the others too). Ties are drawn, see `Tie`.
    """

    name: ClassVar[str] = "cache_aware"
    settings: ClassVar[type[Struct]] = CacheAwareSettings
    sees: ClassVar[frozenset[Sight]] = frozenset({"load", "cache"})
    source: ClassVar[str] = "sgl-project/sglang, sgl-model-gateway/src/policies/cache_aware.rs"

    def __init__(self, settings: CacheAwareSettings, hops: NDArray[np.int32], seed: int) -> None:
        preset = PRESETS[settings.preset]
        self.thresholds = Thresholds(
            preset.cache if settings.cache_threshold is None else settings.cache_threshold,
            preset.absolute
            if settings.balance_abs_threshold is None
            else settings.balance_abs_threshold,
            preset.relative
            if settings.balance_rel_threshold is None
            else settings.balance_rel_threshold,
        )
        cache, absolute, relative = self.thresholds
        if not 0 <= cache <= 1:
            raise PolicyError(
                f"cache_aware cache_threshold {cache}: no share; write 0 to 1, e.g. 0.5"
            )
        if absolute < 0:
            raise PolicyError(
                f"cache_aware balance_abs_threshold {absolute}: below 0; write requests, e.g. 32"
            )
        if not 1 <= relative < float("inf"):
            raise PolicyError(
                f"cache_aware balance_rel_threshold {relative}: below 1 or not a number; write a "
                "factor, e.g. 1.1"
            )
        self._prefill = Tie(seed, "prefill")
        self._decode = Tie(seed, "decode")

    def prefill(self, request: Request, view: View) -> int:
        """The prefill instance by the rule."""
        return self._pick(
            self._prefill, request, view.prefill_requests, view.prefill_healthy, view, prefill=True
        )

    def decode(self, request: Request, prefill: int, view: View) -> int:
        """The decode instance by the rule."""
        return self._pick(
            self._decode, request, view.decode_requests, view.decode_healthy, view, prefill=False
        )

    def _pick(
        self,
        tie: Tie,
        request: Request,
        loads: NDArray[np.int64],
        healthy: NDArray[np.bool_],
        view: View,
        *,
        prefill: bool,
    ) -> int:
        found = healthy.nonzero()[0]
        if not found.size:
            return NOBODY
        load = loads[found]
        least, most = int(load.min()), int(load.max())
        cache, absolute, relative = self.thresholds
        if request.blocks and not (most - least > absolute and most > relative * least):
            held = (prefill_blocks if prefill else decode_blocks)(request, view)[found]
            longest = int(held.max())
            if longest > cache * len(request.blocks):
                holders = held == longest
                found, load = found[holders], load[holders]
        return tie.among(found[load == load.min()], request.request)


class Lmetric(Blind):
    """The least (tokens to compute) x (load + 1); of equals the least load, then a draw (`Tie`).

    Cache and load are multiplied, so there is no threshold. Of equal products and loads the tokens
    to compute are equal too.
    """

    name: ClassVar[str] = "lmetric"
    sees: ClassVar[frozenset[Sight]] = frozenset({"load", "cache"})
    source: ClassVar[str] = "sgl-project/sglang, sgl-model-gateway/src/policies/lmetric.rs (Blitz)"

    def __init__(self, settings: NoSettings, hops: NDArray[np.int32], seed: int) -> None:
        self._prefill = Tie(seed, "prefill")
        self._decode = Tie(seed, "decode")

    def prefill(self, request: Request, view: View) -> int:
        """The prefill instance of the least product."""
        work = missing_tokens(request, prefill_blocks(request, view))
        return _least(self._prefill, request, work, view.prefill_requests, view.prefill_healthy)

    def decode(self, request: Request, prefill: int, view: View) -> int:
        """The decode instance of the least product, the work being what it does not hold."""
        work = missing_tokens(request, decode_blocks(request, view))
        return _least(self._decode, request, work, view.decode_requests, view.decode_healthy)


def _least(
    tie: Tie,
    request: Request,
    work: NDArray[np.int64],
    load: NDArray[np.int64],
    healthy: NDArray[np.bool_],
) -> int:
    found = healthy.nonzero()[0]
    if not found.size:
        return NOBODY
    work, load = work[found], load[found]
    product = work * (load + 1)
    best = product == product.min()
    found, load = found[best], load[best]
    return tie.among(found[load == load.min()], request.request)
