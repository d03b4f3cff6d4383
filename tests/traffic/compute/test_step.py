"""The roofline of a step: what decode and chunks share, and what they do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traffic.compute.gpu import gpu
from traffic.compute.roofline import decode_step, prefill_cost
from traffic.compute.step import Roofline
from traffic.model import Model, model

H100 = gpu("H100-SXM")
SHAPES = [model(name) for name in ("Llama-3.1-8B", "gpt-oss-120b", "gpt-oss-20b")]


def time(shape: Model) -> Roofline:
    return Roofline(prefill_cost(shape, H100, 1), decode_step(shape, H100, 1), None)


@pytest.mark.parametrize("shape", SHAPES)
@given(tokens=st.integers(1, 20_000))
def test_a_whole_prompt_alone_takes_its_prefill(shape: Model, tokens: int) -> None:
    asked = time(shape)
    whole = prefill_cost(shape, H100, 1).ps(tokens)
    assert asked.mixed_ps(0, 0, 0, [(0, tokens)]) == asked.prefill_ps(tokens) == whole


@pytest.mark.parametrize("shape", SHAPES)
@given(batch=st.integers(1, 200), context=st.integers(1, 4000))
def test_a_step_without_chunks_is_a_decode_step(shape: Model, batch: int, context: int) -> None:
    read = batch * shape.kv_bytes(context)
    step = decode_step(shape, H100, 1).step_ps(batch, read)
    asked = time(shape)
    assert asked.steps_ps(batch, batch * context, read, 1) == step
    assert asked.mixed_ps(batch, batch * context, read, []) == step


@pytest.mark.parametrize("shape", SHAPES)
@given(
    batch=st.integers(1, 64),
    done=st.integers(0, 5000),
    more=st.integers(1, 2000),
)
def test_sharing_a_step_saves_at_most_one_read_of_the_weights_and_never_costs(
    shape: Model, batch: int, done: int, more: int
) -> None:
    asked = time(shape)
    read = batch * shape.kv_bytes(500)
    both = asked.mixed_ps(batch, 500 * batch, read, [(done, more)])
    decode = asked.steps_ps(batch, 500 * batch, read, 1)
    chunk = asked.mixed_ps(0, 0, 0, [(done, more)])
    weights = prefill_cost(shape, H100, 1)
    assert max(decode, chunk) <= both + 1
    assert both <= decode + chunk + 1
    assert decode + chunk - both <= weights.dense_ps + weights.expert_ps + 2


def test_small_chunks_cost_a_read_of_the_weights_each_and_large_ones_almost_nothing() -> None:
    shape = SHAPES[0]
    asked = time(shape)

    def taken(chunk: int) -> float:
        parts = [(done, min(chunk, 8192 - done)) for done in range(0, 8192, chunk)]
        return sum(asked.mixed_ps(0, 0, 0, [part]) for part in parts) / asked.prefill_ps(8192)

    assert 1 < taken(4096) < taken(2048) < 1.05
    weights = prefill_cost(shape, H100, 1).dense_ps
    assert taken(16) > 8192 / 16 * weights / asked.prefill_ps(8192) > 3
