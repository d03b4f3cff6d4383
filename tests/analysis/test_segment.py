"""Hand-offs by class, by hand: who pays for the tail."""

from collections.abc import Callable, Sequence

import pytest

from analysis.budget import budgets
from analysis.handoff import handoffs
from analysis.record import Cell, StudyManifest
from analysis.segment import classes, segments
from analysis.summary import Sample

MS = 10**9
Rows = Callable[..., Cell]
Ask = Callable[..., StudyManifest]


def sample(make: Rows, ask: StudyManifest, seeds: Sequence[list[dict[str, int]]]) -> Sample:
    cells = [make(rows) for rows in seeds]
    parts = tuple(handoffs(cell, ask) for cell in cells)
    return Sample("f", "p", tuple(cells), parts, tuple(budgets(cell) for cell in cells), None)


def life(took: int, **more: int) -> dict[str, int]:
    ready = took * MS
    return {"prefill_end_ps": 0, "handoff_release_ps": 0, "kv_ready_ps": ready} | more


def test_each_tenant_has_its_own_median_and_share_over(make_rows: Rows, make_question: Ask) -> None:
    rows = [life(1, tenant=0)] * 30 + [life(9, tenant=1)] * 10
    found = segments(sample(make_rows, make_question(), [rows, rows]))
    assert [(each.kind, each.label, each.n) for each in found] == [
        ("tenant", "0", 60), ("tenant", "1", 20),
    ]  # fmt: skip
    assert [each.median for each in found] == [1 * MS, 9 * MS]
    assert [each.over.value for each in found] == [0.0, 1.0]
    assert [each.q for each in found] == [0.5, 0.5]


def test_lengths_are_cut_into_quarters_that_hold_every_hand_off(
    make_rows: Rows, make_question: Ask
) -> None:
    rows = [life(1 + tokens // 50, input_tokens=tokens) for tokens in range(1, 101)]
    found = segments(sample(make_rows, make_question(), [rows]))
    assert [each.label for each in found] == [
        "1 to 25 tokens", "26 to 50 tokens", "51 to 75 tokens", "76 to 100 tokens",
    ]  # fmt: skip
    assert [each.n for each in found] == [25, 25, 25, 25]
    assert [each.median / MS for each in found] == pytest.approx([1, 1, 2, 2])


def test_alike_requests_have_no_classes(make_rows: Rows, make_question: Ask) -> None:
    one = sample(make_rows, make_question(), [[life(1, input_tokens=7)] * 30])
    assert segments(one) == []
    assert classes(one).rows == ()


def test_a_request_is_found_by_its_number_and_not_its_row(
    make_rows: Rows, make_question: Ask
) -> None:
    rows = [life(9, request=5, tenant=1), life(1, request=2, tenant=0), life(1, request=9)]
    found = segments(sample(make_rows, make_question(), [rows]))
    assert [(each.label, each.n, each.over.value) for each in found] == [
        ("0", 2, 0.0), ("1", 1, 1.0),
    ]  # fmt: skip


def test_a_class_of_few_has_no_tail(make_rows: Rows, make_question: Ask) -> None:
    rows = [life(1, priority=0)] * 20 + [life(1, priority=3)] * 19
    found = segments(sample(make_rows, make_question(), [rows]))
    assert [each.q for each in found] == [0.5, None]
    assert classes(sample(make_rows, make_question(), [rows])).rows[1][4] == "n/a"
