"""A model's shape, and from it the bytes of KV cache that a prompt leaves behind.

KV bytes are what a hand-off moves. Per token and layer that keeps all tokens they are
``2 x kv_heads x head_dim x bytes`` for MHA, MQA and GQA (K and V; Shazeer 2019, Ainslie et al.
2023) and ``(kv_lora_rank + rope_dim) x bytes`` for MLA, whose latent replaces both (DeepSeek-V2,
2024). A sliding-window layer keeps min(tokens, window) tokens, so its share stops growing; many
engines transfer full blocks for it all the same, which this count does not include. Constant
states of linear-attention layers and the indexer keys of DeepSeek sparse attention are not counted.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

from traffic.catalog.table import Row, catalogue, unknown
from traffic.error import CatalogError, ComputeError

KV_VALUE_BYTES: Final = {"bf16": 2, "fp16": 2, "fp8": 1}
"""Bytes of one cached value by the name of its format."""

_GIGA: Final = 1_000_000_000


class Attention(StrEnum):
    """How queries share keys and values."""

    MHA = "MHA"
    GQA = "GQA"
    MQA = "MQA"
    MLA = "MLA"


class Weights(StrEnum):
    """How the weights are stored.

    fp8 counts every parameter as 1 byte. mxfp4 is that of gpt-oss: expert weights take 4 bits and
    an 8-bit scale per 32 values (OCP Microscaling Formats 1.0: 4.25 bits), all others 16 bits.
    """

    BF16 = "bf16"
    FP8 = "fp8"
    MXFP4 = "mxfp4"


@dataclass(frozen=True, slots=True)
class Model:
    """One row of the model catalogue.

    Parameters are whole counts; 0 means not known. ``expert_parameters`` are those of all routed
    experts together. ``useful_tp`` is the largest number of distinct KV shards: the KV heads, or 1
    for MLA, whose latent every rank keeps whole.
    """

    name: str
    attention: Attention
    layers: int
    full_layers: int
    sliding_layers: int
    window_tokens: int
    hidden: int
    q_heads: int
    kv_heads: int
    head_dim: int
    kv_lora_rank: int
    rope_dim: int
    qk_nope_dim: int
    v_head_dim: int
    kv_value_bytes: int
    parameters: int
    active_parameters: int
    experts: int
    experts_per_token: int
    weights: Weights
    max_tokens: int
    useful_tp: int
    source: str
    note: str

    def value_bytes(self, dtype: str | None = None) -> int:
        """Bytes of one cached value in the given format, or in the model's own."""
        if dtype is None:
            return self.kv_value_bytes
        try:
            return KV_VALUE_BYTES[dtype]
        except KeyError:
            known = ", ".join(KV_VALUE_BYTES)
            raise CatalogError(
                f"KV format {dtype[:40]!r}: not known; write one of {known}"
            ) from None

    def layer_token_bytes(self, dtype: str | None = None) -> int:
        """KV bytes of one token in one layer."""
        if self.attention is Attention.MLA:
            values = self.kv_lora_rank + self.rope_dim
        else:
            values = 2 * self.kv_heads * self.head_dim
        return values * self.value_bytes(dtype)

    def full_token_bytes(self, dtype: str | None = None) -> int:
        """KV bytes of one token over the layers that keep every token.

        >>> model("gpt-oss-120b").full_token_bytes()
        36864
        """
        return self.full_layers * self.layer_token_bytes(dtype)

    def kv_bytes(self, tokens: int, dtype: str | None = None) -> int:
        """KV bytes that a context of ``tokens`` holds, over all layers and ranks, counted once.

        >>> model("gpt-oss-120b").kv_bytes(550)
        24993792
        >>> model("DeepSeek-V3").kv_bytes(1000)
        70272000
        """
        if tokens < 0:
            raise ComputeError(f"context of {tokens} tokens: negative; write at least 0")
        held = self.full_layers * tokens + self.sliding_layers * min(tokens, self.window_tokens)
        return held * self.layer_token_bytes(dtype)

    def kv_bytes_sum(self, tokens: int, steps: int, dtype: str | None = None) -> int:
        """kv_bytes(tokens) + kv_bytes(tokens + 1) + ... over ``steps`` terms, in closed form.

        What a sequence makes decode read over that many steps.

        >>> m = model("gpt-oss-20b")
        >>> m.kv_bytes_sum(100, 50) == sum(m.kv_bytes(100 + i) for i in range(50))
        True
        """
        growing = min(steps, max(0, self.window_tokens - tokens))
        full = steps * tokens + steps * (steps - 1) // 2
        sliding = growing * tokens + growing * (growing - 1) // 2
        sliding += (steps - growing) * self.window_tokens
        held = self.full_layers * full + self.sliding_layers * sliding
        return held * self.layer_token_bytes(dtype)

    @property
    def expert_parameters(self) -> int:
        """Parameters of all routed experts, from the totals: total - active lies in idle experts.

        0 for a dense model.
        """
        idle = self.experts - self.experts_per_token
        if idle <= 0:
            return 0
        return (self.parameters - self.active_parameters) * self.experts // idle

    @property
    def expert_bytes(self) -> int:
        """Bytes of all routed experts' weights."""
        if self.weights is Weights.MXFP4:
            return self.expert_parameters * 17 // 32
        return self.expert_parameters * (1 if self.weights is Weights.FP8 else 2)

    @property
    def dense_bytes(self) -> int:
        """Bytes of the weights that every token reads."""
        dense = self.parameters - self.expert_parameters
        return dense * (1 if self.weights is Weights.FP8 else 2)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights.

        gpt-oss-120b comes to 65.2e9, against the 60.8 GiB checkpoint of its model card
        (arXiv 2508.10925).

        >>> round(model("gpt-oss-120b").weight_bytes / 2**30, 1)
        60.7
        """
        return self.dense_bytes + self.expert_bytes

    def check_tp(self, tp: int) -> None:
        """Refuse a tensor-parallel degree over which the heads do not divide evenly.

        Query heads must divide by tp; KV heads must divide by tp, or tp by the KV heads, which
        then are replicated (vLLM ModelConfig and its KV-head replication).
        """
        if tp < 1:
            raise ComputeError(f"tp {tp}: below 1; write 1 or more")
        replicates = self.attention is Attention.MLA or tp % self.kv_heads == 0
        if self.q_heads % tp or not (replicates or self.kv_heads % tp == 0):
            fits = ", ".join(str(n) for n in self.tensor_parallel)
            raise ComputeError(
                f"tp {tp}: {self.name} has {self.q_heads} query and {self.kv_heads} KV heads, "
                f"which do not divide over {tp} ranks; write one of {fits}"
            )

    @property
    def tensor_parallel(self) -> tuple[int, ...]:
        """Every degree up to 64 that `check_tp` allows."""
        mla = self.attention is Attention.MLA
        return tuple(
            n
            for n in range(1, min(self.q_heads, 64) + 1)
            if self.q_heads % n == 0 and (mla or n % self.kv_heads == 0 or self.kv_heads % n == 0)
        )

    def shards(self, tp: int) -> int:
        """Distinct KV shards over ``tp`` ranks: ranks beyond these hold copies."""
        return min(tp, self.useful_tp)

    def rank_bytes(self, total: int, tp: int) -> tuple[int, ...]:
        """The KV bytes that each of ``tp`` ranks holds of a cache of ``total`` bytes.

        The cache is cut into `shards` parts, the remainder of the division going one byte each to
        the first; consecutive ranks share a part when there are more ranks than parts.

        >>> model("Llama-3.1-8B").rank_bytes(10, 4)
        (3, 3, 2, 2)
        >>> model("DeepSeek-V3").rank_bytes(10, 2)
        (10, 10)
        """
        shards = self.shards(tp)
        each, rest = divmod(total, shards)
        if tp == shards:
            return (each + 1,) * rest + (each,) * (tp - rest)
        copies = tp // shards
        return tuple(each + (rank // copies < rest) for rank in range(tp))

    def notes(self, tp: int) -> list[str]:
        """What a reader should know about this model at this degree, as plain sentences."""
        said = [f"{self.name}: {self.note}."] if self.note else []
        if tp > self.useful_tp:
            said.append(
                f"{self.name} at tp {tp} has only {self.useful_tp} distinct KV shard(s): "
                f"each is held, and handed over, {tp // self.useful_tp} times."
            )
        return said


_COLUMNS: Final = [
    "model",
    "attention",
    "layers",
    "kv_layers_full",
    "kv_layers_sliding",
    "sliding_window_tokens",
    "hidden_dim",
    "q_heads",
    "kv_heads",
    "head_dim",
    "kv_lora_rank_dim",
    "rope_dim",
    "qk_nope_dim",
    "v_head_dim",
    "kv_bytes_per_value_default",
    "params_total_1e9",
    "params_active_1e9",
    "experts",
    "experts_per_token",
    "weight_format",
    "max_position_tokens",
    "source",
    "note",
]


def _model(row: Row) -> Model:
    attention = _one_of(Attention, row, "attention")
    mla = attention is Attention.MLA
    made = Model(
        name=row.name("model"),
        attention=attention,
        layers=row.whole("layers"),
        full_layers=row.whole("kv_layers_full"),
        sliding_layers=row.whole("kv_layers_sliding", 0),
        window_tokens=row.whole("sliding_window_tokens", 0),
        hidden=row.whole("hidden_dim"),
        q_heads=row.whole("q_heads"),
        kv_heads=row.whole("kv_heads"),
        head_dim=row.whole("head_dim", 0 if mla else None),
        kv_lora_rank=row.whole("kv_lora_rank_dim", None if mla else 0),
        rope_dim=row.whole("rope_dim", None if mla else 0),
        qk_nope_dim=row.whole("qk_nope_dim", None if mla else 0),
        v_head_dim=row.whole("v_head_dim", None if mla else 0),
        kv_value_bytes=row.whole("kv_bytes_per_value_default"),
        parameters=round(row.number("params_total_1e9", 0) * _GIGA),
        active_parameters=round(row.number("params_active_1e9", 0) * _GIGA),
        experts=row.whole("experts", 0),
        experts_per_token=row.whole("experts_per_token", 0),
        weights=_one_of(Weights, row, "weight_format"),
        max_tokens=row.whole("max_position_tokens", 0),
        useful_tp=1 if mla else row.whole("kv_heads"),
        source=row.text("source"),
        note=row.text("note"),
    )
    _check(made, row.place)
    return made


_Choice = TypeVar("_Choice", bound=StrEnum)


def _one_of(kind: type[_Choice], row: Row, column: str) -> _Choice:
    try:
        return kind(row.text(column))
    except ValueError:
        known = ", ".join(kind)
        cell = row.text(column)[:40]
        raise CatalogError(f"{row.place}: {column} {cell!r}: write one of {known}") from None


def _check(made: Model, place: str) -> None:
    for what in ("layers", "q_heads", "kv_heads", "kv_value_bytes"):
        if getattr(made, what) < 1:
            raise CatalogError(f"{place}: {what} 0: write at least 1")
    if made.q_heads % made.kv_heads:
        raise CatalogError(
            f"{place}: {made.q_heads} query heads do not divide over {made.kv_heads} KV heads; "
            "write a multiple"
        )
    if not 1 <= made.full_layers + made.sliding_layers <= made.layers:
        raise CatalogError(
            f"{place}: {made.full_layers} full + {made.sliding_layers} sliding KV layers of "
            f"{made.layers}: write between 1 and {made.layers} in all"
        )
    if (made.sliding_layers > 0) != (made.window_tokens > 0):
        raise CatalogError(
            f"{place}: {made.sliding_layers} sliding layers with a window of "
            f"{made.window_tokens} tokens: write both or neither"
        )
    if made.active_parameters > made.parameters:
        raise CatalogError(f"{place}: more active than total parameters; exchange them")
    if made.experts_per_token > made.experts:
        raise CatalogError(f"{place}: more experts a token than experts; exchange them")
    if made.layer_token_bytes() < 1:
        raise CatalogError(f"{place}: a token has no KV bytes; write head or latent dimensions")


@cache
def models(file: Path | None = None) -> dict[str, Model]:
    """Every model by name: the shipped catalogue, and over it a user's file of the same columns."""
    return catalogue("models.csv", file, _COLUMNS, _model)


def model(name: str, file: Path | None = None) -> Model:
    """The model of that name (case does not matter), or a `CatalogError` with close matches."""
    table = models(file)
    found = table.get(name) or {k.lower(): m for k, m in table.items()}.get(name.lower())
    if found is None:
        raise unknown("model", name, list(table))
    return found
