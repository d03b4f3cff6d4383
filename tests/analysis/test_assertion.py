"""Assertions: the grammar, what holds, and the names of measures."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from analysis.assertion import FAILS, HOLDS, UNDECIDED, Assertion, Outcome, assertion, decide
from analysis.error import SummaryError
from analysis.handoff import handoffs
from analysis.interval import Estimate, clopper_pearson
from analysis.measure import MEASURES, Unit, measure
from analysis.record import Cell, StudyManifest, read_study
from analysis.summary import Sample, samples

MS = 10**9
Rows = Callable[..., Cell]
Ask = Callable[..., StudyManifest]


@pytest.mark.parametrize(
    ("text", "which", "name", "sign", "limit", "observed"),
    [
        ("over_budget<1%", "all", "over_budget", "<", 0.01, False),
        ("  over_budget  <=  1/8  ", "all", "over_budget", "<=", 0.125, False),
        ("choice: handoff_p99 < 25ms", "choice", "handoff_p99", "<", 25 * MS, False),
        ("any:goodput>800/s observed", "any", "goodput", ">", 800.0, True),
        ("leaf-spine 2:1/random: drops == 0", "leaf-spine 2:1/random", "drops", "==", 0.0, False),
        ("fat-tree k=4/*: ttft_p99.9>=1s", "fat-tree k=4/*", "ttft_p99.9", ">=", 1e12, False),
        ("slowdown_mean<1.5x", "all", "slowdown_mean", "<", 1.5, False),
        ("slowdown_mean<1.5", "all", "slowdown_mean", "<", 1.5, False),
    ],
)  # fmt: skip
def test_an_assertion_is_read(
    text: str, which: str, name: str, sign: str, limit: float, observed: bool
) -> None:
    read = assertion(text)
    assert (read.which, read.measure.name, read.sign) == (which, name, sign)
    assert (read.limit, read.observed) == (pytest.approx(limit), observed)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("over_budget", "not `measure < value`"),
        ("", "not `measure < value`"),
        ("over_budget<", "unknown unit|not a plain number"),
        ("over_budget<0.01", "write 1% or 1/8"),
        ("over_budget<101%", "above the whole"),
        ("handoff_p99<25", "a number needs its unit; write 25us, 25ms or 25s"),
        ("handoff_p99<25parsec", "unknown unit 'parsec'"),
        ("p99_handoff<25ms", "did you mean handoff_p99?"),
        ("over_budgt<1%", "did you mean over_budget"),
        ("__import__('os')<1", "not `measure < value`"),
        ("some: drops<=0", "'some' names no alternative"),
        ("drops<=many", "value 'many': not a plain number; write 0"),
        ("over_budget==1%", "only counts are equal or not"),
        ("drops<1<2", "not `measure < value`"),
    ],
)
def test_what_is_not_an_assertion_is_told_in_one_line(text: str, told: str) -> None:
    with pytest.raises(SummaryError, match=told) as raised:
        assertion(text)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("low", "high", "standing"),
    [(0.0, 0.004, HOLDS), (0.02, 0.05, FAILS), (0.004, 0.02, UNDECIDED), (0.01, 0.02, FAILS)],
)
def test_the_whole_interval_has_to_hold(low: float, high: float, standing: str) -> None:
    found = Estimate((low + high) / 2, low, high)
    assert assertion("over_budget<1%").standing(found) == standing
    turned = {HOLDS: FAILS, FAILS: HOLDS, UNDECIDED: UNDECIDED}[standing]
    assert assertion("over_budget>=1%").standing(found) == turned


def test_observed_lets_the_number_alone_decide() -> None:
    found = Estimate(0.009, 0.0, 0.5)
    assert assertion("over_budget<1%").standing(found) == UNDECIDED
    assert assertion("over_budget<1% observed").standing(found) == HOLDS


def constant(make: Rows, ask: StudyManifest, fabric: str, times: list[int]) -> Sample:
    """An alternative of one seed with hand-offs of these ms."""
    life = [{"prefill_end_ps": 0, "handoff_release_ps": 0, "kv_ready_ps": t * MS} for t in times]
    cell = make(life)
    return Sample(fabric, "p", (cell,), (handoffs(cell, ask),), (), None)


def decided(text: str, parts: list[Sample], ask: StudyManifest, choice: str = "") -> Outcome:
    return decide(assertion(text), parts, ask, (choice, "p") if choice else None)


def test_all_any_choice_and_names_choose_the_alternatives(
    make_rows: Rows, make_question: Ask
) -> None:
    ask = make_question()
    good = constant(make_rows, ask, "good", [1] * 400)
    bad = constant(make_rows, ask, "bad", [9] * 400)
    both = [good, bad]
    assert decided("over_budget<5%", both, ask).standing == FAILS
    assert decided("any: over_budget<5%", both, ask).standing == HOLDS
    assert decided("choice: over_budget<5%", both, ask, "good").standing == HOLDS
    assert decided("choice: over_budget<5%", both, ask, "bad").standing == FAILS
    assert decided("good/*: over_budget<5%", both, ask).standing == HOLDS
    assert decided("bad/p: over_budget>50%", both, ask).standing == HOLDS
    assert decided("any: over_budget<5%", [bad], ask).standing == FAILS


def test_nothing_to_hold_it_against_fails(make_rows: Rows, make_question: Ask) -> None:
    ask = make_question()
    parts = [constant(make_rows, ask, "f", [1] * 20)]
    assert decided("choice: drops==0", parts, ask).standing == FAILS
    assert decided("g/p: drops==0", parts, ask).standing == FAILS
    assert decided("drops==0", [], ask).standing == FAILS


def test_an_impossible_alternative_is_left_out_unless_it_is_named(
    make_rows: Rows, make_question: Ask
) -> None:
    ask = make_question()
    parts = [constant(make_rows, ask, "f", [1] * 20), Sample("mesh", "p", (), (), (), "no groups")]
    assert decided("drops==0", parts, ask).standing == HOLDS
    outcome = decided("mesh/p: drops==0", parts, ask)
    assert outcome.standing == FAILS
    assert "impossible: no groups" in outcome.text()


def test_a_mean_of_one_seed_is_told_without_an_interval(
    make_rows: Rows, make_question: Ask
) -> None:
    ask = make_question()
    outcome = decided("handoff_mean<9ms", [constant(make_rows, ask, "f", [1] * 20)], ask)
    assert outcome.standing == UNDECIDED
    assert "1 ms (one seed gives no interval, 20 hand-offs)" in outcome.text()


def test_too_few_hand_offs_decide_nothing_and_are_told_how_many_would(
    make_rows: Rows, make_question: Ask
) -> None:
    ask = make_question()
    outcome = decided("over_budget<5%", [constant(make_rows, ask, "f", [1] * 40)], ask)
    assert outcome.standing == UNDECIDED
    # none over of n: below 5 % from 72 on
    assert "about 32 more hand-offs would decide" in outcome.text()
    assert decided("over_budget<5%", [constant(make_rows, ask, "f", [1] * 72)], ask).standing


def test_no_quantile_is_asserted_beyond_ten_over_n(make_rows: Rows, make_question: Ask) -> None:
    ask = make_question()
    outcome = decided("handoff_p99<9ms", [constant(make_rows, ask, "f", [1] * 999)], ask)
    assert outcome.standing == UNDECIDED
    assert "fewer than ten of 999 hand-offs lie beyond it" in outcome.text()
    enough = [constant(make_rows, ask, "f", [1] * 1000)]
    assert decided("handoff_p99<9ms", enough, ask).standing == HOLDS


def test_long_lists_of_alternatives_are_cut(make_rows: Rows, make_question: Ask) -> None:
    ask = make_question()
    parts = [constant(make_rows, ask, f"f{place}", [9] * 20) for place in range(14)]
    lines = decided("over_budget<5%", parts, ask).text().splitlines()
    assert len(lines) == 12
    assert lines[-1] == "  and 4 more alternatives"


def test_every_measure_gives_a_number_and_shows_it(first_look: Path) -> None:
    study = read_study(first_look)
    sample = samples(study)[0]
    for name, each in MEASURES.items():
        found = each.estimate(sample, study.manifest)
        if found is None:
            # the made-up study has no prefix caches or prices, and too few hand-offs for these
            assert name in {"known", "computed_again", "token_cost"} or name.endswith(
                ("_p95", "_p99", "_p99.9")
            ), name
            continue
        assert found.low <= found.value <= found.high, name
        assert each.unit.show(found.value)


def test_the_share_over_budget_is_that_of_the_summary(make_rows: Rows, make_question: Ask) -> None:
    ask = make_question()
    sample = constant(make_rows, ask, "f", [1] * 90 + [9] * 10)
    assert measure("over_budget").estimate(sample, ask) == clopper_pearson(10, 100)
    assert measure("handoff_mean").by_seed(sample, ask) == {1: pytest.approx(1.8 * MS)}


def test_units_are_written_as_people_read_them() -> None:
    shown = [
        Unit.TIME.show(-2.5 * MS), Unit.SHARE.show(0.25), Unit.FACTOR.show(1.5),
        Unit.COUNT.show(3.0), Unit.RATE.show(100.0), Unit.DENSITY.show(np.float64(12.0)),
    ]  # fmt: skip
    assert shown == ["-2.5 ms", "25 %", "1.5x", "3", "100 /s", "12 tokens/GPU/s"]


def test_an_assertion_keeps_its_text() -> None:
    read: Assertion = assertion(" drops==0 ")
    assert read.text == "drops==0"
    assert Outcome(read, HOLDS, ()).text() == "assert drops==0: holds"


def test_a_label_does_not_steer_the_terminal(make_rows: Rows, make_question: Ask) -> None:
    ask = make_question()
    told = decided("over_budget<5%", [constant(make_rows, ask, "a\x1b[31m\n", [9] * 20)], ask)
    assert "\x1b" not in told.text()
    assert len(told.text().splitlines()) == 2
