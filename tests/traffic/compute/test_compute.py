"""The roofline in cases that a reader can redo by hand, and its laws."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traffic.compute.gpu import Gpu, gpu
from traffic.compute.roofline import (
    Efficiency,
    decode_step,
    efficiency,
    kv_capacity_bytes,
    prefill_cost,
    prefill_flop,
    prefill_ps,
)
from traffic.error import ComputeError
from traffic.model import Model, model

H100 = gpu("H100-SXM")
H20 = gpu("H20")
LLAMA = model("Llama-3.1-70B")
DEEPSEEK = model("DeepSeek-V3")
OSS = model("gpt-oss-120b")
WHOLE = Efficiency(1.0, 1.0)
PS = 10**12


def test_a_long_prefill_is_bound_by_arithmetic() -> None:
    # 2 x 70.6e9 x 8192 + 2 x 64 heads x 256 x 80 layers x 8192 x 8193 / 2 FLOP, over
    # 8 x 989e12 x 0.40 FLOP/s: 0.393 s.
    flop = 2 * 70_600_000_000 * 8192 + 2 * 64 * 256 * 80 * 8192 * 8193 // 2
    assert prefill_flop(LLAMA, 8192) == flop
    expected = flop / (8 * 989e12 * 0.40) * PS
    assert prefill_ps(LLAMA, H100, 8, 8192) == pytest.approx(expected, abs=1)
    assert 0.39 * PS < expected < 0.40 * PS


def test_a_one_token_prefill_is_one_read_of_the_weights() -> None:
    # 141.2e9 B over 8 x 3.35e12 B/s x 0.8: 6.586 ms.
    expected = 141_200_000_000 / (8 * 3.35e12 * 0.8) * PS
    assert prefill_ps(LLAMA, H100, 8, 1) == pytest.approx(expected, abs=1)


def test_a_small_decode_batch_is_one_read_of_the_weights_and_of_its_cache() -> None:
    cost = decode_step(LLAMA, H100, 8)
    weights = 141_200_000_000 / (8 * 3.35e12 * 0.8) * PS
    assert cost.base_ps(1) == cost.base_ps(16) == pytest.approx(weights, abs=1)
    read = LLAMA.kv_bytes(1000) / (8 * 3.35e12 * 0.8) * PS
    assert cost.kv_ps(LLAMA.kv_bytes(1000)) == pytest.approx(read, rel=1e-4)
    assert cost.step_ps(4, 10**9) == cost.base_ps(4) + cost.kv_ps(10**9)


def test_a_large_decode_batch_is_bound_by_arithmetic() -> None:
    cost = decode_step(LLAMA, H100, 8)
    per_sequence = 2 * 70_600_000_000 / (8 * 989e12 * 0.40) * PS
    assert cost.base_ps(1000) == pytest.approx(1000 * per_sequence, rel=1e-6)
    ridge = next(b for b in range(1, 1000) if cost.base_ps(b) > cost.base_ps(1))
    # Batch at the ridge: FLOP/s over bytes/s, at 2 FLOP and 2 bytes a parameter.
    assert ridge == int(989 * 0.40 / (3.35 * 0.8)) + 1


def test_an_empty_batch_takes_no_time() -> None:
    assert decode_step(LLAMA, H100, 8).step_ps(0, 0) == 0


def test_one_sequence_of_a_mixture_reads_only_its_own_experts() -> None:
    cost = decode_step(OSS, H100, 1, WHOLE)
    # Dense part and 4 of 128 experts.
    read = OSS.dense_bytes + OSS.expert_bytes * 4 / 128
    assert cost.base_ps(1) == pytest.approx(read / 3.35e12 * PS, rel=1e-9)


def test_two_sequences_of_a_mixture_share_experts_by_chance() -> None:
    cost = decode_step(OSS, H100, 1, WHOLE)
    touched = 1 - (124 / 128) ** 2
    read = OSS.dense_bytes + OSS.expert_bytes * touched
    assert cost.base_ps(2) == pytest.approx(read / 3.35e12 * PS, rel=1e-9)


def test_a_large_batch_of_a_mixture_reads_every_expert_once() -> None:
    cost = decode_step(OSS, H100, 1)
    # (124 / 128)^800 = 1e-11 of the experts stay idle.
    assert cost.base_ps(800) == pytest.approx(cost.dense_ps + cost.expert_ps, rel=1e-10)
    assert decode_step(LLAMA, H100, 8).expert_ps == 0


def test_fp8_weights_use_fp8_units_where_there_are_any() -> None:
    tokens = 100_000
    hopper = prefill_ps(DEEPSEEK, H100, 16, tokens, WHOLE)
    flop = prefill_flop(DEEPSEEK, tokens)
    assert hopper == pytest.approx(flop / (16 * 1978e12) * PS, rel=1e-9)
    ampere = prefill_ps(DEEPSEEK, gpu("A100-SXM"), 16, tokens, WHOLE)
    assert ampere == pytest.approx(flop / (16 * 312e12) * PS, rel=1e-9)


def test_sliding_layers_attend_to_their_window_only() -> None:
    # One token beyond the window: the last query sees 128 tokens in a sliding layer, 129 in full.
    pairs = 18 * (129 * 130 // 2) + 18 * (128 * 129 // 2 + 128)
    expected = 2 * OSS.active_parameters * 129 + 2 * 64 * 128 * pairs
    assert prefill_flop(OSS, 129) == expected


def test_mla_decode_reads_the_latent_on_every_rank_or_is_bound_by_its_heads() -> None:
    # 2 x 128 heads x (2 x 512 + 64) FLOP a 1,152-byte latent: 241.8 FLOP a byte, above the ridge.
    one = decode_step(DEEPSEEK, H20, 8, Efficiency(0.6, 0.8))
    arithmetic = 2 * 128 * 1088 / 1152 / (8 * 148e12 * 0.6) * PS
    read = 1 / (4.096e12 * 0.8) * PS
    assert arithmetic > read
    assert one.kv_ps(10**9) == pytest.approx(10**9 * arithmetic, rel=1e-5)
    many = decode_step(DEEPSEEK, H20, 16, Efficiency(0.6, 0.8))
    assert many.kv_ps(10**9) == pytest.approx(10**9 * read, rel=1e-5)


def test_stated_efficiency_is_used_and_else_the_named_default() -> None:
    assert efficiency(H20) == Efficiency(0.60, 0.8)
    assert efficiency(H100) == Efficiency(0.40, 0.8)
    assert efficiency(gpu("MI300X")) == Efficiency(0.40, 0.8)


def test_capacity_is_memory_less_reserve_less_weights() -> None:
    free = int(80e9 * 0.9) * 4 - LLAMA.weight_bytes
    assert kv_capacity_bytes(LLAMA, H100, 4) == pytest.approx(free, abs=8)


def test_copies_of_the_cache_take_memory_and_add_none() -> None:
    weights = DEEPSEEK.weight_bytes // 16
    assert kv_capacity_bytes(DEEPSEEK, H100, 16) == pytest.approx(80e9 * 0.9 - weights, abs=2)


def test_weights_that_do_not_fit_are_refused_with_the_smallest_tp_that_does() -> None:
    with pytest.raises(ComputeError, match=r"tp 1: 141 GB of Llama-3\.1-70B .*write tp 2 or more"):
        kv_capacity_bytes(LLAMA, H100, 1)
    kv_capacity_bytes(LLAMA, H100, 2)
    with pytest.raises(ComputeError, match="a GPU with more memory"):
        kv_capacity_bytes(model("Kimi-K2-Instruct"), gpu("L40S"), 1, reserve=0.9)


@pytest.mark.parametrize("ask", [prefill_cost, decode_step])
def test_times_are_refused_for_a_group_that_cannot_hold_the_model(
    ask: Callable[[Model, Gpu, int], object],
) -> None:
    with pytest.raises(ComputeError, match="do not fit"):
        ask(LLAMA, H100, 1)
    with pytest.raises(ComputeError, match="do not divide"):
        ask(LLAMA, H100, 3)
    with pytest.raises(ComputeError, match="parameter counts are not known"):
        ask(model("Qwen3.5-397B-A17B"), H100, 8)


@pytest.mark.parametrize("bad", [0.0, -0.1, 1.5, float("nan")])
def test_an_efficiency_outside_zero_to_one_is_refused(bad: float) -> None:
    with pytest.raises(ComputeError, match="above 0 and at most 1"):
        Efficiency(bad, 0.8)
    with pytest.raises(ComputeError, match="above 0 and at most 1"):
        Efficiency(0.4, bad)


def test_a_prefill_of_no_tokens_is_refused() -> None:
    with pytest.raises(ComputeError, match="prefill of 0 tokens"):
        prefill_ps(LLAMA, H100, 8, 0)


@given(st.integers(1, 200_000), st.integers(1, 1000))
def test_a_longer_prompt_never_prefills_faster(tokens: int, more: int) -> None:
    for found in (LLAMA, OSS):
        cost = prefill_cost(found, H100, 8)
        assert cost.ps(tokens) <= cost.ps(tokens + more)


@given(st.integers(1, 2000), st.integers(0, 10**11), st.integers(0, 10**11))
def test_a_larger_batch_never_steps_faster_and_kv_time_adds_up(batch: int, a: int, b: int) -> None:
    for found in (LLAMA, OSS):
        cost = decode_step(found, H100, 8)
        assert cost.base_ps(batch) <= cost.base_ps(batch + 1)
        assert 0 <= cost.kv_ps(a + b) - cost.kv_ps(a) - cost.kv_ps(b) <= 1
