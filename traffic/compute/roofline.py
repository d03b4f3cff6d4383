"""How long prefill and decode take on a tensor-parallel group of GPUs: a roofline.

Prefill is the larger of its arithmetic at a stated share of the peak and one read of the weights.
A decode step is the matrix products of the batch (again the larger of arithmetic and one read of
the weights that the batch touches) plus the attention over its KV cache. Time is integer
picoseconds. Not modelled: the all-reduce of tensor parallelism, kernel launches, sampling,
pipeline and expert parallelism; a measured table replaces these numbers where it matters.

Arithmetic: 2 FLOP a parameter and token (Kaplan et al. 2020, arXiv 2001.08361), and attention of
``2 x (d_qk + d_v)`` FLOP a query head, layer and visible (query, key) pair, half the square under
the causal mask (FlashAttention-2, arXiv 2307.08691, section 4). Roofline: Williams et al. 2009.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

from topo.unit import PS_PER_S, show_size
from traffic.compute.gpu import DEFAULT_MEMORY_EFFICIENCY, DEFAULT_MFU, Gpu
from traffic.error import ComputeError
from traffic.model import Attention, Model, Weights

DEFAULT_RESERVE: Final = 0.1
"""Share of GPU memory kept from weights and KV cache (vLLM --gpu-memory-utilization 0.9)."""

KV_SHIFT: Final = 20
"""Binary places of `DecodeCost.kv_scaled`: one unit is 2**-20 ps a byte."""

SHARE_SHIFT: Final = 40
"""Binary places of `touched_share`."""


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Shares of the peak that kernels reach: ``mfu`` of FLOP/s, ``memory`` of the HBM rate."""

    mfu: float
    memory: float

    def __post_init__(self) -> None:
        for name, value in (("mfu", self.mfu), ("memory", self.memory)):
            if not 0 < value <= 1:
                raise ComputeError(
                    f"efficiency {name} {value}: must lie above 0 and at most 1; "
                    "write a share of the peak, e.g. 0.4"
                )


def efficiency(gpu: Gpu) -> Efficiency:
    """The efficiency stated for the GPU, else the named defaults."""
    return Efficiency(gpu.mfu or DEFAULT_MFU, gpu.memory_efficiency or DEFAULT_MEMORY_EFFICIENCY)


@dataclass(frozen=True, slots=True)
class PrefillCost:
    """Prefill on one instance; ``ps(tokens)`` is the time of one prompt alone.

    ``ps_per_flop`` is an exact fraction as numerator and denominator; ``dense_ps`` reads the
    weights that every token uses, ``expert_ps`` all routed experts.
    """

    model: Model
    ps_per_flop: tuple[int, int]
    dense_ps: int
    expert_ps: int

    def ps(self, tokens: int) -> int:
        """Picoseconds, rounded down, for a prompt of ``tokens``, at least 1."""
        if tokens < 1:
            raise ComputeError(f"prefill of {tokens} tokens: write at least 1")
        ps, flop = self.ps_per_flop
        compute = prefill_flop(self.model, tokens) * ps // flop
        touched = touched_share(self.model.experts, self.model.experts_per_token, tokens)
        return max(compute, self.dense_ps + (self.expert_ps * touched >> SHARE_SHIFT))


@dataclass(frozen=True, slots=True)
class DecodeCost:
    """One decode step of one instance, ``step_ps = base_ps(batch) + kv_ps(bytes read)``.

    The first term depends on the batch alone and the second is linear in the KV bytes of the
    batch, so that the steps between two changes of the batch sum in closed form:
    ``steps x base_ps(batch) + kv_ps(sum of the bytes read)``, see `Model.kv_bytes_sum`.

    ``dense_ps`` reads the weights that every token uses, ``expert_ps`` all routed experts,
    ``sequence_ps`` is the arithmetic of one sequence; ``kv_scaled`` is 2**20 ps a KV byte.
    """

    dense_ps: int
    expert_ps: int
    sequence_ps: int
    kv_scaled: int
    experts: int
    experts_per_token: int

    def base_ps(self, batch: int) -> int:
        """The step's matrix products: one read of the weights, or the batch's arithmetic."""
        if batch < 1:
            return 0
        touched = touched_share(self.experts, self.experts_per_token, batch)
        read = self.dense_ps + (self.expert_ps * touched >> SHARE_SHIFT)
        return max(read, self.sequence_ps * batch)

    def kv_ps(self, kv_bytes: int) -> int:
        """Attention over ``kv_bytes`` of cache (all ranks, counted once as in `Model.kv_bytes`)."""
        return (kv_bytes * self.kv_scaled) >> KV_SHIFT

    def step_ps(self, batch: int, kv_bytes: int) -> int:
        """One step of ``batch`` sequences that together hold ``kv_bytes``."""
        return self.base_ps(batch) + self.kv_ps(kv_bytes)


def prefill_flop(model: Model, tokens: int) -> int:
    """FLOP of one prompt: 2 x active parameters x tokens, and causal attention.

    Token i sees i tokens in a full layer and min(i, window) in a sliding one. The active
    parameters include the embedding and the output head, counted for every token. MLA attends in
    its uncompressed form; sparse attention (DSA) is counted as dense.
    """
    full = tokens * (tokens + 1) // 2
    beyond = max(0, tokens - model.window_tokens)
    sliding = full - beyond * (beyond + 1) // 2
    pairs = model.full_layers * full + model.sliding_layers * sliding
    if model.attention is Attention.MLA:
        dims = model.qk_nope_dim + model.rope_dim + model.v_head_dim
    else:
        dims = 2 * model.head_dim
    return 2 * model.active_parameters * tokens + 2 * model.q_heads * dims * pairs


def prefill_cost(
    model: Model, gpu: Gpu, tp: int, efficiency: Efficiency | None = None
) -> PrefillCost:
    """What a prompt costs on ``tp`` GPUs; refuses a group that the model cannot run on."""
    return _prefill_cost(model, gpu, tp, efficiency)


@lru_cache(maxsize=256)
def _prefill_cost(model: Model, gpu: Gpu, tp: int, stated: Efficiency | None) -> PrefillCost:
    _check(model, gpu, tp)
    reached = stated or efficiency(gpu)
    per_flop = PS_PER_S / (Fraction(reached.mfu) * _flops(model, gpu) * tp)
    return PrefillCost(
        model=model,
        ps_per_flop=(per_flop.numerator, per_flop.denominator),
        dense_ps=round(_read_ps(model.dense_bytes, gpu, tp, reached)),
        expert_ps=round(_read_ps(model.expert_bytes, gpu, tp, reached)),
    )


def prefill_ps(
    model: Model, gpu: Gpu, tp: int, tokens: int, efficiency: Efficiency | None = None
) -> int:
    """Picoseconds to prefill one prompt of ``tokens`` alone on ``tp`` GPUs.

    ``efficiency`` defaults to the one stated for the GPU. A loop that asks often keeps the
    `prefill_cost` instead.
    """
    return prefill_cost(model, gpu, tp, efficiency).ps(tokens)


def decode_step(
    model: Model,
    gpu: Gpu,
    tp: int,
    efficiency: Efficiency | None = None,
    kv_dtype: str | None = None,
    dp: int = 1,
) -> DecodeCost:
    """What a decode step costs on ``tp`` GPUs; refuses a group that the model cannot run on.

    ``dp`` groups of ranks read the caches of different requests, taken to be equally many bytes.
    """
    return _decode_step(model, gpu, tp, efficiency, kv_dtype, dp)


@lru_cache(maxsize=256)
def _decode_step(
    model: Model, gpu: Gpu, tp: int, stated: Efficiency | None, kv_dtype: str | None, dp: int
) -> DecodeCost:
    _check(model, gpu, tp)
    reached = stated or efficiency(gpu)
    per_sequence = 2 * model.active_parameters * PS_PER_S
    per_sequence_ps = per_sequence / (Fraction(reached.mfu) * _flops(model, gpu) * tp)
    # A rank reads its shard; its query heads' arithmetic on that shard can be the larger for MLA.
    read = _read_ps(1, gpu, model.shards(tp // dp) * dp, reached)
    arithmetic = _attention_flop_per_byte(model, kv_dtype) * PS_PER_S
    arithmetic /= Fraction(reached.mfu) * gpu.bf16_flops * tp
    return DecodeCost(
        dense_ps=round(_read_ps(model.dense_bytes, gpu, tp, reached)),
        expert_ps=round(_read_ps(model.expert_bytes, gpu, tp, reached)),
        sequence_ps=round(per_sequence_ps),
        kv_scaled=round(max(read, arithmetic) * 2**KV_SHIFT),
        experts=model.experts,
        experts_per_token=model.experts_per_token,
    )


def kv_capacity_bytes(model: Model, gpu: Gpu, tp: int, reserve: float = DEFAULT_RESERVE) -> int:
    """KV bytes that an instance holds beside its weights, counted once as in `Model.kv_bytes`.

    ``reserve`` is the share of memory kept free. Copies on ranks beyond the useful shards take
    memory and add nothing. Refuses weights that do not fit, naming the smallest tp that holds them.
    """
    if not 0 <= reserve < 1:
        raise ComputeError(f"memory reserve {reserve}: must lie in 0..1; write e.g. 0.1")
    model.check_tp(tp)
    _known(model)
    free = _free_bytes(model, gpu, tp, reserve)
    if free <= 0:
        enough = [n for n in model.tensor_parallel if _free_bytes(model, gpu, n, reserve) > 0]
        advice = f"write tp {enough[0]}" if enough else "write a GPU with more memory"
        raise ComputeError(
            f"tp {tp}: {show_size(model.weight_bytes)} of {model.name} weights do not fit "
            f"{tp} x {show_size(gpu.memory_bytes)} of {gpu.name} with {reserve:.0%} in reserve; "
            f"{advice} or more"
        )
    return free * model.shards(tp)


def _free_bytes(model: Model, gpu: Gpu, tp: int, reserve: float) -> int:
    return int(gpu.memory_bytes * (1 - Fraction(reserve)) - Fraction(model.weight_bytes, tp))


def _known(model: Model) -> None:
    if not model.parameters or not model.active_parameters:
        raise ComputeError(
            f"model {model.name}: its parameter counts are not known; give its row with "
            "params_total_1e9 and params_active_1e9 in a file of your own (catalogue.models), or "
            "choose another model"
        )


def _check(model: Model, gpu: Gpu, tp: int) -> None:
    kv_capacity_bytes(model, gpu, tp, 0.0)


def _flops(model: Model, gpu: Gpu) -> int:
    """Peak FLOP/s of the precision that the matrix products run in.

    fp8 weights use fp8 units where the GPU has them. mxfp4 weights are expanded to bf16, as the
    kernels of gpt-oss do before Blackwell; fp4 units are not in the catalogue.
    """
    return gpu.fp8_flops if model.weights is Weights.FP8 and gpu.fp8_flops else gpu.bf16_flops


def _read_ps(count: int, gpu: Gpu, parts: int, reached: Efficiency) -> Fraction:
    return count * PS_PER_S / (Fraction(reached.memory) * gpu.memory_bytes_per_s * parts)


def _attention_flop_per_byte(model: Model, kv_dtype: str | None) -> Fraction:
    """FLOP per KV byte in decode: every query head meets each cached token once.

    MLA decodes in the absorbed form, where keys are latent + rope wide and values latent wide
    (DeepSeek-V2, 2024).
    """
    if model.attention is Attention.MLA:
        dims = 2 * model.kv_lora_rank + model.rope_dim
    else:
        dims = 2 * model.head_dim
    return Fraction(2 * model.q_heads * dims, model.layer_token_bytes(kv_dtype))


@lru_cache(maxsize=4096)
def touched_share(experts: int, chosen: int, tokens: int) -> int:
    """Expected share of the experts that some token chooses, 1 - (1 - k/E)^tokens, times 2**40.

    Uniform, independent routing; skewed routing touches fewer. In whole numbers, so that every
    machine gets the same picosecond.
    """
    whole = 1 << SHARE_SHIFT
    if not experts or tokens * chosen > SHARE_SHIFT * experts:
        return whole
    idle: int = whole * (experts - chosen) ** tokens // experts**tokens
    return whole - idle
