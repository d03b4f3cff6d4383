"""NVIDIA Dynamo's KV-aware router, with its topology taints: dynamo_kv.

Costs are in KV blocks. As documented for disaggregated serving, the prefill stage tracks no decode
blocks, and the decode stage gives no credit for overlap and tracks no prompt tokens
(ai-dynamo/dynamo docs/components/router/router-concepts.md, router-configuration.md and
router-disaggregated-serving.md). Its other selection policy, lmetric, puts prefill instances in the
same order here, as it multiplies by decode blocks that this stage does not track; so it is no
setting.
"""

import math
from typing import ClassVar, Final, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from traffic.draw import draw
from traffic.policy.choice import NOBODY, PolicyError, Request, Sight, Tie, View
from traffic.policy.cost import Cost, Costed, Mask
from traffic.policy.reuse import pool_blocks, prefill_blocks

BLOCK_TOKENS: Final = 16
"""Tokens of a KV block where the requests carry no hashes (Dynamo's default with vLLM)."""

_UNIT: Final = 1 << 53


class DynamoSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters under Dynamo's names, with its defaults.

    overlap_score_credit: blocks of credit for a block that the instance holds.
    shared_cache_multiplier: credit for one that only the remote pool holds.
    prefill_load_scale: factor of the prefill cost.
    temperature: of a softmax over the costs, normalised by their range; 0 takes the least.
    taint: none, or how decode is bound to the domain of the prefill instance: ``required`` (no
        other is eligible) or ``preferred`` (others cost more).
    preferred_weight: strength of the preference, 0 to 1; 0.85 is the documentation's example.
    domain_links: an instance's domain is what at most so many links reach; 2 is behind one switch.
    """

    overlap_score_credit: float = 1.0
    shared_cache_multiplier: float = 0.0
    prefill_load_scale: float = 1.0
    temperature: float = 0.0
    taint: Literal["none", "required", "preferred"] = "none"
    preferred_weight: float = 0.85
    domain_links: int = 2


class DynamoKv(Costed):
    """The least cost in blocks, or a softmax draw over the costs.

    Prefill: scale x max(active + incoming - credit, 0), over prompts that wait or run. Decode:
    active + incoming, the blocks of the prompts of its requests. With a preferred taint the cost is
    (cost + 1) x exp(-tanh(weight)) inside the domain and cost + 1 outside (the KV router's
    preferred_taint_multiplier). A required taint without an eligible instance answers `NOBODY`.

    A `PrefixView` does not tell tiers apart, so all tiers of an instance give full credit; Dynamo's
    defaults are 1 for the GPU, 0.75 for the host and 0.25 for the disk. Ties are drawn, see `Tie`.
    """

    name: ClassVar[str] = "dynamo_kv"
    settings: ClassVar[type[Struct]] = DynamoSettings
    sees: ClassVar[frozenset[Sight]] = frozenset({"load", "cache", "topology"})
    source: ClassVar[str] = "ai-dynamo/dynamo, docs/components/router/router-concepts.md"

    def __init__(self, settings: DynamoSettings, hops: NDArray[np.int32], seed: int) -> None:
        super().__init__(hops, seed)
        for name, value in (
            ("overlap_score_credit", settings.overlap_score_credit),
            ("shared_cache_multiplier", settings.shared_cache_multiplier),
            ("prefill_load_scale", settings.prefill_load_scale),
            ("temperature", settings.temperature),
        ):
            if not 0 <= value < float("inf"):
                raise PolicyError(f"dynamo_kv {name} {value}: not 0 or more; write e.g. 1.0")
        if not 0 <= settings.preferred_weight <= 1:
            raise PolicyError(
                f"dynamo_kv preferred_weight {settings.preferred_weight}: no share; write 0 to 1, "
                "e.g. 0.85"
            )
        self._rules = settings
        self._near = (hops >= 0) & (hops <= settings.domain_links)
        inside = math.exp(-math.tanh(settings.preferred_weight))
        self._bias = np.where(self._near, inside, 1.0)
        self._seed = seed
        if settings.taint == "required":
            alone = ~self._near.any(axis=1)
            if alone.any():
                raise PolicyError(
                    f"dynamo_kv domain_links {settings.domain_links}: prefill instance "
                    f"{int(alone.argmax())} has no decode instance so near, and a required taint "
                    f"would fail its requests; write domain_links: {int(hops[hops >= 0].max())} "
                    "or taint: preferred"
                )

    def prefill_cost(self, request: Request, view: View) -> Cost:
        """Scaled prompt blocks that are to be computed there, this prompt's included."""
        rules, size = self._rules, request.block_tokens or BLOCK_TOKENS
        raw = (view.prefill_tokens + request.input_tokens) / size
        if request.blocks and view.prefix is not None:
            held = prefill_blocks(request, view)
            credit = rules.overlap_score_credit * held
            if rules.shared_cache_multiplier:
                beyond = np.maximum(pool_blocks(request, view) - held, 0)
                credit = credit + rules.shared_cache_multiplier * beyond
            raw = np.maximum(raw - credit, 0)
        cost = rules.prefill_load_scale * raw
        if request.decode >= 0 and rules.taint == "preferred":
            return np.asarray((cost + 1) * self._bias[:, request.decode], np.float64)
        return cost

    def decode_cost(self, request: Request, prefill: int, view: View) -> Cost:
        """Prompt blocks held there, this prompt's included."""
        size = request.block_tokens or BLOCK_TOKENS
        cost = (view.decode_tokens + request.input_tokens) / size
        if prefill >= 0 and self._rules.taint == "preferred":
            return np.asarray((cost + 1) * self._bias[prefill], np.float64)
        return cost

    def prefill_usable(self, request: Request, view: View) -> Mask:
        """Healthy instances; of the domain of the decode instance where that came first."""
        usable = super().prefill_usable(request, view)
        if request.decode >= 0 and self._rules.taint == "required":
            return usable & self._near[:, request.decode]
        return usable

    def decode_usable(self, request: Request, prefill: int, view: View) -> Mask:
        """Healthy instances; of the domain of the prefill instance where the taint requires it."""
        usable = super().decode_usable(request, prefill, view)
        if self._rules.taint == "required":
            return usable & (self._near[prefill] if prefill >= 0 else self._near.any(axis=0))
        return usable

    def prefill(self, request: Request, view: View) -> int:
        """The prefill instance of the least cost, or one drawn."""
        cost, usable = self.prefill_cost(request, view), self.prefill_usable(request, view)
        return self._pick("prefill", self._prefill, cost, usable, request.request)

    def decode(self, request: Request, prefill: int, view: View) -> int:
        """The decode instance of the least cost, or one drawn."""
        cost = self.decode_cost(request, prefill, view)
        usable = self.decode_usable(request, prefill, view)
        return self._pick("decode", self._decode, cost, usable, request.request)

    def _pick(self, side: str, tie: Tie, cost: Cost, usable: Mask, request: int) -> int:
        if not self._rules.temperature:
            return tie.least(cost, request, usable)
        found = usable.nonzero()[0]
        if not found.size:
            return NOBODY
        shares = softmax(cost[found], self._rules.temperature).cumsum()
        drawn = draw(self._seed, f"policy softmax {side}", request, _UNIT) / _UNIT
        return int(found[min(int(shares.searchsorted(drawn)), found.size - 1)])

    def scores(self, request: Request, view: View) -> NDArray[np.float64]:
        """The sum of both costs, the decode cost under the taint of each prefill instance;
        infinite for a pair that a required taint forbids."""
        prefill = self.prefill_cost(request, view)
        decode = np.asarray(self.decode_cost(request, -1, view), np.float64)
        if self._rules.taint == "preferred":
            return prefill[:, None] + (decode + 1) * self._bias
        both = prefill[:, None] + decode
        return both if self._rules.taint == "none" else np.where(self._near, both, np.inf)


def softmax(cost: Cost, temperature: float) -> NDArray[np.float64]:
    """The chance of each instance: exp(-cost / (range of the costs x temperature)), normalised.

    Equal costs give equal chances. Source: ai-dynamo/dynamo, softmax_sample in the KV router's
    scheduling/selector.rs.

    >>> softmax(np.array([0, 1]), 1.0).round(3).tolist()
    [0.731, 0.269]
    """
    least, most = cost.min(), cost.max()
    if least == most:
        return np.full(len(cost), 1 / len(cost))
    weight = np.exp((least - cost) / ((most - least) * temperature))
    return np.asarray(weight / weight.sum(), np.float64)
