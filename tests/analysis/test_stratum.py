"""TTFT, TPOT, attainment and hand-offs of a class, by hand, and that the classes make the whole."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.budget import budgets
from analysis.handoff import handoffs
from analysis.measure import MEASURES
from analysis.record import REJECTED, Cell, StudyManifest
from analysis.stratum import OF_CLASS, class_rows, requests_by_class, strata
from analysis.summary import Sample

MS = 10**9
Rows = Callable[..., Cell]
Ask = Callable[..., StudyManifest]


def request(ttft: int, tpot: int, output: int = 11, **more: int) -> dict[str, int]:
    """A finished request that arrives at once, by its TTFT and TPOT in ms."""
    return {
        "prefill_start_ps": 0,
        "prefill_end_ps": MS,
        "handoff_release_ps": MS,
        "kv_ready_ps": 3 * MS,
        "decode_start_ps": 4 * MS,
        "first_token_ps": ttft * MS,
        "finish_ps": (ttft + tpot * (output - 1)) * MS,
        "arrival_ps": 0,
        "output_tokens": output,
    } | more


def sample(cells: Sequence[Cell], ask: StudyManifest) -> Sample:
    parts = tuple(handoffs(cell, ask) for cell in cells)
    return Sample("f", "p", tuple(cells), parts, tuple(budgets(cell) for cell in cells), None)


def test_each_tenant_has_its_own_times_and_attainment(make_rows: Rows, make_question: Ask) -> None:
    ask = make_question(ttft_ps=100 * MS, tpot_ps=10 * MS)
    fast = [request(50, 5, tenant=0)] * 30
    slow = [request(100, 10, tenant=1)] * 15 + [request(200, 12, tenant=1)] * 15
    refused = [{"arrival_ps": 0, "status": REJECTED, "tenant": 1}] * 10
    found = requests_by_class(sample([make_rows([*fast, *slow, *refused])], ask), ask)
    assert [row[:4] for row in found.rows] == [
        ("tenant", "0", "30", "50 ms"),
        ("tenant", "1", "40", "100 ms"),
    ]
    assert [row[5:7] for row in found.rows] == [("5 ms", "100 ms"), ("10 ms", "200 ms")]
    assert found.rows[0][4].startswith("P50 50 ms")
    assert found.rows[0][7].startswith("100 % (")
    assert found.rows[1][7].startswith("38 % (")  # 15 of 40


def test_a_measure_of_a_class_is_the_measure_of_its_requests_alone(
    make_rows: Rows, make_question: Ask
) -> None:
    ask = make_question(ttft_ps=100 * MS)
    one = [request(60, 5, model=0, input_tokens=9)] * 25
    other = [request(90, 7, model=1, input_tokens=9)] * 25
    both = sample([make_rows([*one, *other])], ask)
    alone = sample([make_rows(other)], ask)
    second = next(
        part for kind, label, part in strata(both, ask) if (kind, label) == ("model", "1")
    )
    for name, measure in OF_CLASS.items():
        got, wanted = measure.estimate(second, ask), measure.estimate(alone, ask)
        assert (got is None) == (wanted is None), name
        if got is not None and wanted is not None:
            assert got.value == pytest.approx(wanted.value, nan_ok=True), name


def test_warm_up_is_in_no_class(make_rows: Rows, make_question: Ask) -> None:
    rows = [request(50, 5, tenant=place % 2, arrival_ps=place) for place in range(10)]
    whole = sample([make_rows(rows, warmup_requests=4)], make_question())
    counts = [
        len(part.cells[0].requests["request"]) for _, _, part in strata(whole, make_question())
    ]
    assert counts == [3, 3]


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 3)), min_size=1, max_size=30))
def test_the_classes_of_a_kind_hold_every_request_once(
    make_rows: Rows, make_question: Ask, asked: list[tuple[int, int]]
) -> None:
    rows = [request(9, 1, input_tokens=tokens, priority=level) for tokens, level in asked]
    held: dict[str, list[int]] = {}
    for kind, _, part in strata(sample([make_rows(rows)], make_question()), make_question()):
        held.setdefault(kind, []).extend(part.cells[0].requests["request"].tolist())
    for numbers in held.values():
        assert sorted(numbers) == list(range(len(rows)))
    assert set(held) <= {"priority", "length"}


def test_rows_carry_the_interval_of_each_class_and_nothing_of_ports(
    make_rows: Rows, make_question: Ask
) -> None:
    rows = [request(50, 5, tenant=place % 2) for place in range(60)]
    columns, found = class_rows([sample([make_rows(rows)], make_question())], make_question())
    assert columns[2:5] == ("by", "class", "measure")
    names = {str(row[4]) for row in found}
    assert {"ttft_p50", "tpot_mean", "e2e_p50", "handoff_p50", "over_budget"} <= names
    assert "utilisation_max" in MEASURES
    assert not {name for name in names if name.startswith(("hbm", "pause", "util"))}
    assert np.isfinite([float(str(row[6])) for row in found]).all()
