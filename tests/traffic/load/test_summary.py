"""Statistics of requests: small tables by hand, and the real traces against published figures."""

from pathlib import Path

import numpy as np
import pytest

from traffic.error import RequestError
from traffic.load.summary import summary
from traffic.model import model
from traffic.request import request_table
from traffic.source.workload import synthesise
from traffic.trace.registry import trace

SECOND = 10**12


def test_a_table_of_three_requests_by_hand() -> None:
    table = request_table(
        arrival_ps=[0, SECOND, 4 * SECOND], input_tokens=[100, 200, 600], output_tokens=[1, 1, 4]
    )
    found = summary(table, model("Llama-3.1-8B"))
    assert (found.count, found.span_ps, found.rate_per_s) == (3, 4 * SECOND, 0.5)
    assert (found.input.mean, found.input.p50, found.input.most) == (300, 200, 600)
    # Gaps 1 s and 3 s: mean 2, deviation 1.
    assert found.gap_cv == 0.5
    assert found.peak_to_mean == 2.0
    load = found.load
    assert load is not None
    assert load.kv_bytes.mean == 300 * 131_072
    # 800 tokens follow the first request within 4 s.
    assert load.kv_bps == 8 * 800 * 131_072 / 4


def test_offered_load_of_the_base_profile_is_rate_times_bytes() -> None:
    found = summary(synthesise(count=20_000, rate_per_s=400, seed=1), model("gpt-oss-120b"))
    assert found.load is not None
    # 400/s x 25 MB x 8: 80 Gbit/s; the mean of 20,000 draws strays by 1 / sqrt(20,000).
    assert found.load.kv_bps == pytest.approx(400 * 24_993_792 * 8, rel=5 / np.sqrt(20_000))
    assert found.gap_cv == pytest.approx(1, abs=0.05)


def test_requests_beyond_the_models_context_are_counted_and_said() -> None:
    table = request_table(
        arrival_ps=[0, 1, 2], input_tokens=[40_000, 40_959, 50_000], output_tokens=[960, 2, 1]
    )
    found = summary(table, model("Qwen3-8B"))
    assert found.load is not None
    assert found.load.beyond_context == 2
    assert dict(found.rows())["beyond the context"].startswith("2 requests exceed the 40,960")
    within = summary(table, model("gpt-oss-120b"))
    assert "beyond the context" not in dict(within.rows())


def test_one_request_has_no_rate() -> None:
    found = summary(request_table(arrival_ps=[5], input_tokens=[9], output_tokens=[0]))
    assert (found.rate_per_s, found.gap_cv, found.peak_to_mean) == (0, 0, 1)
    assert found.load is None


def test_simultaneous_requests_have_no_rate_either() -> None:
    table = request_table(arrival_ps=[5] * 3, input_tokens=[9] * 3, output_tokens=[0] * 3)
    assert summary(table, model("Qwen3-8B")).rate_per_s == 0


@pytest.mark.parametrize("count", [1, 3])
def test_what_cannot_be_told_of_one_moment_is_not_shown_as_a_number(count: int) -> None:
    ones = [1] * count
    table = request_table(arrival_ps=[7] * count, input_tokens=ones, output_tokens=ones)
    rows = dict(summary(table, model("Llama-3.1-8B")).rows())
    assert rows["mean rate"] == rows["offered KV load"] == "- (no span)"
    assert rows["gap CV"] == "- (fewer than 2 gaps)"


def test_an_empty_table_is_refused() -> None:
    with pytest.raises(RequestError, match="the table is empty"):
        summary(request_table(arrival_ps=[], input_tokens=[], output_tokens=[]))


def test_rows_carry_labels_values_and_units() -> None:
    table = request_table(
        arrival_ps=[0, SECOND, 2 * SECOND], input_tokens=[550] * 3, output_tokens=[133] * 3
    )
    rows = dict(summary(table, model("gpt-oss-120b")).rows())
    assert rows["mean rate"] == "1 requests/s"
    assert rows["input tokens"] == "550 +- 0, P50 550, P95 550, P99 550, most 550"
    assert rows["text words"] == "mean 414 in, 100 out at 1.33 tokens a word"
    assert rows["KV a request, gpt-oss-120b"].startswith("mean 25 MB")
    assert rows["offered KV load"] == "200 Mbps"


# Count, span in s; input and output mean, deviation, P95, P99; gap CV; 1 s peak over mean.
AZURE_CODE = (8_819, 3_436, (2_048, 1_974, 7_303, 7_436), (28, 60, 90, 251), 13.15, 26.1)
MOONCAKE = (12_031, 3_537, (12_035, 15_800, 39_550, 85_400), (343, 250, 698, 1_119), 3.03, 8.2)


@pytest.mark.parametrize(
    ("fixture", "expected"),
    [("azure_code", AZURE_CODE), ("mooncake_conversation", MOONCAKE)],
    ids=["Azure 2023 code", "Mooncake conversation"],
)
def test_real_traces_have_the_statistics_found_by_others(
    request: pytest.FixtureRequest,
    fixture: str,
    expected: tuple[int, int, tuple[int, int, int, int], tuple[int, int, int, int], float, float],
) -> None:
    path: Path = request.getfixturevalue(fixture)
    found = summary(trace(path, jitter=False).requests)
    count, span_s, tokens_in, tokens_out, gap_cv, peak = expected
    assert found.count == count
    assert found.span_ps / SECOND == pytest.approx(span_s, abs=0.5)
    for spread, figures in ((found.input, tokens_in), (found.output, tokens_out)):
        seen = (spread.mean, spread.std, spread.p95, spread.p99)
        assert seen == pytest.approx(figures, abs=0.501)
    assert found.gap_cv == pytest.approx(gap_cv, abs=0.005)
    assert found.peak_to_mean == pytest.approx(peak, abs=0.05)


def test_mooncake_is_jittered_unless_told_otherwise(mooncake_conversation: Path) -> None:
    found = trace(mooncake_conversation, seed=1)
    assert "10.2 requests a tick, at most 28" in found.notes[0]
    assert summary(found.requests).gap_cv < 1.2
    assert summary(found.requests).input == summary(trace(mooncake_conversation).requests).input


def test_mooncakes_prefix_blocks_repeat_as_often_as_the_paper_says(
    mooncake_conversation: Path,
) -> None:
    prefix = trace(mooncake_conversation).requests.prefix
    assert prefix is not None
    # An infinite cache misses each block number once; 0.37 of the blocks hit.
    hit = 1 - len(np.unique(prefix.blocks)) / len(prefix.blocks)
    assert hit == pytest.approx(0.37, abs=0.005)


def test_azure_is_replayed_as_recorded(azure_code: Path) -> None:
    found = trace(azure_code)
    assert found.notes == []
    assert found.requests.output_tokens.min() >= 0
