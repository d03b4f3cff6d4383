"""What a load asks of each phase: the formulas on numbers worked by hand, and against a run."""

from collections.abc import Callable

import numpy as np
import pytest

from topo.unit import PS_PER_S
from traffic.error import ComputeError
from traffic.handoff.reshard import moves
from traffic.instance import Deployment
from traffic.load.sizing import sizing
from traffic.model import model
from traffic.request import RequestTable, request_table
from traffic.serving.run import Outcome

LLAMA = model("Llama-3.1-8B")


def steady(rate: float, count: int = 400, tokens: int = 550, output: int = 150) -> RequestTable:
    at = (np.arange(count) * PS_PER_S / rate).astype(np.int64)
    return request_table(
        arrival_ps=at, input_tokens=[tokens] * count, output_tokens=[output] * count
    )


def test_prefill_needs_its_rate_times_its_time_and_decode_its_batch_over_its_steps(
    pools: Callable[..., Deployment],
) -> None:
    made = pools(4, 2)
    found = sizing(steady(200), made, use=0.5)
    prompt = made.prefill.prefill_cost.ps(550)
    assert found.rate_per_s == pytest.approx(200)
    assert found.prefill_ps == prompt
    assert found.prefill_used == pytest.approx(200 * prompt / PS_PER_S / 4)
    assert found.prefill == int(np.ceil(200 * prompt / PS_PER_S / 0.5))
    step = made.decode.decode_cost.step_ps(256, round(256 * LLAMA.kv_bytes_sum(550, 150) / 150))
    assert (found.batch, found.by_memory) == (256, False)
    assert found.step_ps == step
    assert found.decoding == pytest.approx(200 * 150 * step / PS_PER_S)
    assert found.decode_used == pytest.approx(found.decoding / 256 / 2)
    assert found.decode == int(np.ceil(found.decoding / 256 / 0.5))
    assert found.kv_bps == pytest.approx(8 * LLAMA.kv_bytes(550) * 200)
    assert found.sender_bps == pytest.approx(found.kv_bps / 4)
    assert found.receiver_bps == pytest.approx(found.kv_bps / 2)


def test_memory_limits_the_batch_where_it_is_short(pools: Callable[..., Deployment]) -> None:
    made = pools(1, 1, memory=7 * LLAMA.kv_bytes(700) + 5)
    found = sizing(steady(10), made)
    assert (found.batch, found.by_memory) == (7, True)


def test_a_sequence_counts_once_a_step_so_that_long_answers_weigh_by_their_length(
    pools: Callable[..., Deployment],
) -> None:
    kv = LLAMA.kv_bytes
    table = request_table(
        arrival_ps=[0, PS_PER_S], input_tokens=[100, 100], output_tokens=[10, 990]
    )
    made = pools(memory=50 * kv(1000))
    found = sizing(table, made)
    mean = (10 * kv(110) + 990 * kv(1090)) / 1000
    assert found.batch == int(50 * kv(1000) / mean)
    read = (LLAMA.kv_bytes_sum(100, 10) + LLAMA.kv_bytes_sum(100, 990)) / 1000
    cost = made.decode.decode_cost
    assert found.step_ps == cost.step_ps(found.batch, round(found.batch * read))


@pytest.mark.parametrize("memory", [60_000, 10_000_000])
def test_decode_does_what_is_foretold_where_few_answers_are_far_longer_than_the_others(
    memory: int, pools: Callable[..., Deployment], run: Callable[..., Outcome]
) -> None:
    count = 2000
    table = request_table(
        arrival_ps=np.arange(count) * PS_PER_S // 1_000_000,
        input_tokens=[500] * count,
        output_tokens=[20, 20, 20, 1000] * (count // 4),
    )
    made = pools(40, 1, memory=LLAMA.kv_bytes(memory), max_batch=64)
    found = sizing(table, made, rate_per_s=1.0)
    finish = np.sort(run(table, made).requests["finish_ps"])
    served = (count // 2) * PS_PER_S / float(finish[3 * count // 4] - finish[count // 4])
    assert 1 / found.decode_used == pytest.approx(served, rel=0.07)


@pytest.mark.parametrize("tp", [(4, 4), (8, 2), (4, 16), (16, 16)])
def test_hand_offs_are_told_with_the_copies_that_ranks_beyond_the_heads_are_sent(
    tp: tuple[int, int], pools: Callable[..., Deployment]
) -> None:
    found = sizing(steady(200), pools(2, 3, tp=tp))
    moved = sum(move.bytes for move in moves(LLAMA, LLAMA.kv_bytes(550), *tp))
    assert found.kv_bps == pytest.approx(8 * moved * 200)
    assert found.receiver_bps == pytest.approx(8 * moved * 200 / (3 * tp[1]))


@pytest.mark.parametrize("use", [0.5, 0.9])
def test_pools_of_the_size_asked_for_work_their_share_of_the_time_and_smaller_ones_drown(
    use: float, pools: Callable[..., Deployment], run: Callable[..., Outcome]
) -> None:
    rate = 150.0
    asked = sizing(steady(rate), pools(1, 1), use=use)
    enough = run(steady(rate, 1200), pools(asked.prefill, asked.decode))
    short = run(steady(rate, 1200), pools(max(1, int(asked.prefill * use) - 1), asked.decode))

    def wait(outcome: Outcome) -> float:
        table = outcome.requests
        start, arrival = (table[n].astype(np.int64) for n in ("prefill_start_ps", "arrival_ps"))
        return float((start - arrival)[-100:].mean()) / asked.prefill_ps

    assert wait(enough) < 1
    assert wait(short) > 10


def test_requests_without_output_ask_for_no_fabric(pools: Callable[..., Deployment]) -> None:
    found = sizing(steady(10, output=0), pools(1, 1))
    assert (found.kv_bps, found.decode, found.decode_used) == (0, 1, 0)
    mixed = request_table(
        arrival_ps=[0, PS_PER_S], input_tokens=[550, 9000], output_tokens=[150, 0]
    )
    found = sizing(mixed, pools(1, 1), rate_per_s=10)
    assert found.kv_bps == pytest.approx(8 * LLAMA.kv_bytes(550) * 5)


def test_what_tells_no_rate_and_no_use_is_refused(pools: Callable[..., Deployment]) -> None:
    with pytest.raises(ComputeError, match="use 1: must lie above 0 and below 1"):
        sizing(steady(10), pools(1, 1), use=1)
    with pytest.raises(ComputeError, match="too few to tell a rate"):
        sizing(steady(10, count=1), pools(1, 1))


def test_a_declared_rate_counts_and_not_that_of_the_sample(
    pools: Callable[..., Deployment],
) -> None:
    sample = sizing(steady(200), pools(4, 2))
    found = sizing(steady(80), pools(4, 2), rate_per_s=200)
    assert found.rate_per_s == 200
    assert (found.prefill, found.decode) == (sample.prefill, sample.decode)
    assert found.kv_bps == pytest.approx(sample.kv_bps)


def test_requests_that_no_instance_can_hold_ask_for_nothing(
    pools: Callable[..., Deployment],
) -> None:
    made = pools(4, 2, memory=LLAMA.kv_bytes(700))
    rows = 400
    table = request_table(
        arrival_ps=np.arange(rows) * PS_PER_S // 100,
        input_tokens=[550, 551] * (rows // 2),
        output_tokens=[150] * rows,
    )
    found = sizing(table, made)
    assert found.misfits == rows // 2
    assert found.rate_per_s == pytest.approx(50, rel=0.01)
    assert found.prefill_ps == made.prefill.prefill_cost.ps(550)
    with pytest.raises(ComputeError, match=r"none fits the .* of KV memory"):
        sizing(steady(10, tokens=5000), made)
