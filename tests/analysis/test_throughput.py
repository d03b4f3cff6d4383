"""Requests, tokens, words and bytes a second, added up by hand."""

from collections.abc import Callable
from math import isnan

import pytest

from analysis.measure import MEASURES
from analysis.record import IN_FLIGHT, Cell, StudyManifest
from analysis.summary import Sample
from analysis.throughput import throughput, throughputs

S = 10**12
Rows = Callable[..., Cell]
Ask = Callable[..., StudyManifest]


def request(arrival: int, finish: int, prompt: int, output: int, **more: int) -> dict[str, int]:
    return {
        "arrival_ps": arrival * S,
        "finish_ps": finish * S,
        "input_tokens": prompt,
        "output_tokens": output,
    } | more


ROWS = [
    request(1, 4, 300, 30),
    request(2, 11, 500, 50),
    request(3, 0, 900, 90, status=IN_FLIGHT) | {"finish_ps": -1},
]
FLOWS = [
    {"handoff": 0, "bytes": 4_000, "finish_ps": 3 * S},
    {"handoff": 0, "bytes": 1_000, "finish_ps": 3 * S},
    {"handoff": 1, "bytes": 5_000, "finish_ps": 5 * S},
    {"handoff": 2, "bytes": 9_000, "finish_ps": 6 * S},
]


def test_what_finished_is_counted_from_the_first_arrival_to_the_last_end(make_rows: Rows) -> None:
    found = throughput(make_rows(ROWS, FLOWS, totals={"tokens_per_1000_words": 1250}))
    assert found.requests == pytest.approx(2 / 10)
    assert found.prompt_tokens == pytest.approx(80)
    assert found.output_tokens == pytest.approx(8)
    assert found.prompt_words == pytest.approx(64)  # 1.25 tokens a word
    assert found.output_words == pytest.approx(6.4)
    assert found.kv_bytes == pytest.approx(1000)


def test_warm_up_is_left_out(make_rows: Rows) -> None:
    found = throughput(make_rows(ROWS, FLOWS, warmup_requests=1))
    assert found.output_tokens == pytest.approx(50 / 9)
    assert found.kv_bytes == pytest.approx(5_000 / 9)


def test_without_a_tokeniser_there_are_no_words_and_without_an_end_nothing(
    make_rows: Rows, make_question: Ask
) -> None:
    assert isnan(throughput(make_rows(ROWS, totals={})).output_words)
    unended = make_rows(ROWS[2:])
    assert isnan(throughput(unended).requests)
    assert throughputs([Sample("f", "p", (unended,), (), (), None)]).rows == ()
    assert (
        MEASURES["through_output_tokens"].estimate(
            Sample("f", "p", (unended,), (), (), None), make_question()
        )
        is None
    )


def test_the_table_has_the_means_of_the_seeds(make_rows: Rows) -> None:
    cells = tuple(
        make_rows([request(0, 10, 1000 * more, 100 * more)], totals={"tokens_per_1000_words": 1250})
        for more in (1, 3)
    )
    (row,) = throughputs([Sample("f", "p", cells, (), (), None)]).rows
    assert row == ("f", "p", "0.1", "200", "20", "160", "16", "0 bps")
