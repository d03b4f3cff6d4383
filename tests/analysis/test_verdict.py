"""The verdict says what the intervals support, and no more."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from analysis.choice import choice
from analysis.comparison import compare_fabrics, compare_policies
from analysis.handoff import handoffs
from analysis.interval import Estimate
from analysis.record import Cell, FabricFact, Study, StudyManifest, read_study
from analysis.result import result
from analysis.summary import MET, MISSED, UNDECIDED, UNKNOWN, Gap, Sample, Summary
from analysis.verdict import verdict

MS = 10**9
Ask = Callable[..., StudyManifest]


def facts(usd: float) -> FabricFact:
    return FabricFact(
        hosts=2, prefill=1, decode=1, switches=1, switch_cables=0, host_cables=2,
        cost_usd=usd, mu_bps=1, nic_bps=1,
    )  # fmt: skip


def row(fabric: str, policy: str, kind: str, usd: float, tail: float = 2.0) -> Summary:
    share = {MET: (0.01, 0.0, 0.03), MISSED: (0.3, 0.2, 0.4), UNDECIDED: (0.03, 0.01, 0.1)}[kind]
    return Summary(
        fabric, policy, kind, facts=facts(usd), n=200, seeds=4, q=0.9,
        tail=Estimate(tail * MS, 0.9 * tail * MS, 1.1 * tail * MS), over=Estimate(*share),
    )  # fmt: skip


def said(rows: Sequence[Summary], ask: StudyManifest, parts: Sequence[Sample] = ()) -> str:
    return verdict(Study(ask, (), 0), parts, rows).text()


def constant(
    fabric: str,
    policy: str,
    times: Sequence[float],
    make_rows: Callable[..., Cell],
    ask: StudyManifest,
) -> Sample:
    """An alternative whose seeds each have two hand-offs of the given ms."""
    cells = []
    for seed, time in enumerate(times):
        life = {"prefill_end_ps": 0, "handoff_release_ps": 0, "kv_ready_ps": round(time * MS)}
        cell = make_rows([life, life])
        cells.append(replace(cell, manifest=msgspec.structs.replace(cell.manifest, seed=seed)))
    parts = tuple(handoffs(cell, ask) for cell in cells)
    return Sample(fabric, policy, tuple(cells), parts, (), None)


def test_the_cheapest_that_passes_is_chosen_and_among_equals_the_shortest_tail() -> None:
    rows = [
        row("big", "a", MET, 900),
        row("mid", "a", MET, 500, 3.0),
        row("mid", "b", MET, 500, 2.0),
        row("small", "a", MISSED, 100),
        row("tiny", "a", UNDECIDED, 50),
    ]
    assert choice(rows) is rows[2]


def test_requests_that_were_lost_decide_before_the_tail_and_are_told_of_the_choice(
    make_question: Ask,
) -> None:
    lossy = replace(row("mid", "a", MET, 500, 1.0), failed=28)
    assert choice([lossy, row("mid", "b", MET, 500, 2.0)]).policy == "b"  # type: ignore[union-attr]
    text = said([lossy, replace(row("dear", "b", MET, 900), rejected=3)], make_question())
    assert "Requests not served: 28 failed." in text.splitlines()[0]
    assert "28 requests failed with their instances, in mid with a:" in text
    assert "3 requests rejected, in dear with b:" in text


def test_the_headline_names_choice_cost_quantile_interval_and_share(make_question: Ask) -> None:
    text = said([row("mid", "b", MET, 540_000)], make_question())
    assert text.startswith(
        "Cheapest that meets the budget of 5 ms: mid with b, $540 k. P90 hand-off 2 ms "
        "(1.8 ms to 2.2 ms); 1.0 % over budget (0 % to 3.0 %), 5.0 % allowed."
    )


def test_when_all_fail_the_closest_is_named(make_question: Ask) -> None:
    text = said([row("mid", "b", MISSED, 5)], make_question())
    assert text.startswith("No alternative meets the budget of 5 ms: 1 of 1 fail, 0 undecided.")


def test_bytes_that_alone_exceed_the_budget_are_told(make_question: Ask) -> None:
    over = replace(row("mid", "b", MISSED, 5), bandwidth=Gap(6.0 * MS, 1.1, 1.0, 1.2))
    assert "no fabric or policy helps" in said([over], make_question())
    near = replace(row("mid", "c", MISSED, 5), bandwidth=Gap(4.0 * MS, 1.1, 1.0, 1.2))
    assert "no fabric or policy helps" not in said([over, near], make_question())


def test_ratios_come_with_what_the_estimates_know_nothing_of(
    make_question: Ask, make_rows: Callable[..., Cell]
) -> None:
    gap = replace(row("mid", "b", MET, 5), bandwidth=Gap(MS, 9.0, 8.0, 9.5))
    told = "Neither estimate knows of faults of links or receivers that drain slowly"

    def text(*unknown: str) -> str:
        cells = tuple(make_rows([], settings={UNKNOWN: each} if each else {}) for each in unknown)
        return verdict(Study(make_question(), cells, 0), [], [gap]).text()

    assert told in text("", "faults of links", "receivers that drain slowly, faults of links")
    assert "Neither estimate" not in text("")


def test_undecided_is_not_called_a_failure(make_question: Ask) -> None:
    rows = [row("mid", "b", MISSED, 5), row("mid", "c", UNDECIDED, 5)]
    text = said(rows, make_question())
    assert text.startswith("No alternative is shown to meet the budget of 5 ms: 1 of 2 fail, 1 und")
    assert "more hand-offs would decide mid with c" in text


def test_an_undecided_alternative_that_is_dearer_than_the_choice_does_not_matter(
    make_question: Ask,
) -> None:
    rows = [row("mid", "b", MET, 5), row("big", "b", UNDECIDED, 50)]
    assert "would decide" not in said(rows, make_question())


def test_equal_fabrics_are_said_not_to_matter(
    make_rows: Callable[..., Cell], make_question: Ask
) -> None:
    ask = make_question()
    parts = [constant(f, "p", (2.0, 2.5, 3.0), make_rows, ask) for f in ("a", "b", "c")]
    rows = [row(part.fabric, "p", MET, 5) for part in parts]
    assert "Topology does not matter here" in said(rows, ask, parts)


def test_a_difference_found_is_told_as_the_share_of_the_budget_that_makes_it_small(
    make_rows: Callable[..., Cell], make_question: Ask
) -> None:
    def told(**limits: int | None) -> str:
        ask = make_question(**limits)
        parts = [
            constant("a", "p", (1.0, 1.5, 2.0), make_rows, ask),
            constant("b", "p", (1.35, 1.95, 2.5), make_rows, ask),
        ]
        return said([row(part.fabric, "p", MET, 5) for part in parts], ask, parts)

    made = "the mean hand-off on a is 433 us (8.7 % of the budget) shorter than on b"
    assert f"Topology makes a small difference: {made}" in told()
    assert "matters: the mean hand-off on a is 433 us (43 % of the TTFT objective)" in told(
        budget_ps=None, ttft_ps=MS
    )
    assert "matters: the mean hand-off on a is 433 us (22 %) shorter" in told(budget_ps=None)


def test_one_fabric_under_several_settings_is_not_called_a_topology(
    make_rows: Callable[..., Cell], make_question: Ask
) -> None:
    ask = make_question()
    names = ("leaf-spine breaker=False", "leaf-spine breaker=True")
    parts = [constant(name, "p", (2.0, 2.5, 3.0), make_rows, ask) for name in names]
    text = said([row(part.fabric, "p", MET, 5) for part in parts], ask, parts)
    assert "The setting does not matter here" in text
    assert "Topology" not in text
    text = said([row(part.fabric, "p", MET, usd) for usd, part in enumerate(parts)], ask, parts)
    assert "Topology does not matter here" in text


def test_each_key_that_is_compared_is_told_of_by_pairs_that_differ_in_it_alone(
    make_rows: Callable[..., Cell], make_question: Ask
) -> None:
    times = {("fast", "pfc"): 1.0, ("fast", "no pfc"): 1.2, ("slow", "pfc"): 4.0}
    times["slow", "no pfc"] = 4.2
    varied = {
        f"tree {nic} {pfc}": {"fabric": "tree", "fabric.nic": nic, "network.discipline": pfc}
        for nic, pfc in times
    }
    ask = make_question(fabrics=list(varied), varied=varied)
    parts = [
        constant(label, "p", (time, time * 1.01, time * 0.99), make_rows, ask)
        for label, time in zip(varied, times.values(), strict=True)
    ]
    text = said([row(part.fabric, "p", MET, 5) for part in parts], ask, parts)
    assert "`fabric.nic` matters: the mean hand-off with fast is 3 ms" in text
    assert "2 common seeds" not in text
    assert "mean over 2 cases). 1 of 1 pair differ." in text
    assert "`network.discipline` does not matter here" in text
    assert "Topology" not in text


def test_a_mean_over_cases_that_disagree_tells_in_how_many_it_is_the_other_way(
    make_rows: Callable[..., Cell], make_question: Ask
) -> None:
    ask = make_question()
    parts = [
        constant(fabric, policy, (time, time * 1.01, time * 0.99), make_rows, ask)
        for fabric, policy, time in (
            ("a", "p", 1.0), ("a", "q", 1.0), ("a", "r", 9.0),
            ("b", "p", 2.0), ("b", "q", 1.0), ("b", "r", 2.0),
        )
    ]  # fmt: skip
    pair = compare_fabrics(parts).widest
    assert pair is not None
    assert (pair.fast, pair.slow, pair.over, pair.alike, pair.contrary) == ("b", "a", 3, 1, 1)
    rows = [row(fabric, "p", MET, 5) for fabric in ("a", "b")]
    told = "mean over 3 policies: so in 1 of them, the other way round in 1)"
    assert told in said(rows, ask, parts)


def test_a_difference_within_the_noise_is_not_found_and_not_denied(
    make_rows: Callable[..., Cell], make_question: Ask
) -> None:
    ask = make_question()
    parts = [
        constant("a", "p", (2.0, 2.5, 3.0), make_rows, ask),
        constant("b", "p", (3.0, 2.4, 4.2), make_rows, ask),
    ]
    text = said([row("a", "p", MET, 5), row("b", "p", MET, 5)], ask, parts)
    assert "Topology: no difference found" in text
    assert "does not matter" not in text


def test_one_seed_shows_no_difference(make_rows: Callable[..., Cell], make_question: Ask) -> None:
    ask = make_question()
    parts = [constant(f, "p", (time,), make_rows, ask) for f, time in (("a", 1), ("b", 9))]
    text = said([row("a", "p", MET, 5), row("b", "p", MISSED, 5)], ask, parts)
    assert "one common seed cannot show a difference" in text
    assert "With p, a passes and b fails." in text


def test_a_difference_by_hand_pairs_the_seeds(
    make_rows: Callable[..., Cell], make_question: Ask
) -> None:
    ask = make_question()
    parts = [
        constant("a", "p", (1.0, 5.0, 9.0), make_rows, ask),
        constant("b", "p", (2.0, 6.0, 10.3), make_rows, ask),
    ]
    pair = compare_fabrics(parts).widest
    assert pair is not None
    assert (pair.fast, pair.slow, pair.seeds, pair.over) == ("a", "b", 3, 1)
    # differences 1, 1 and 1.3: mean 1.1, sd 0.17321, t(2) = 4.30265, so half width 0.4303
    assert pair.ps.value == pytest.approx(1.1 * MS)
    assert pair.ps.high - pair.ps.value == pytest.approx(0.43027 * MS, rel=1e-4)
    assert pair.found
    assert pair.share == pytest.approx(1.1 / 6.1)


def test_more_pairs_need_wider_intervals(
    make_rows: Callable[..., Cell], make_question: Ask
) -> None:
    ask = make_question()
    parts = [
        constant(name, "p", times, make_rows, ask)
        for name, times in (("a", (1.0, 5.0, 9.0)), ("b", (2.0, 6.0, 10.3)), ("c", (1.0, 5.0, 9.0)))
    ]
    pair = compare_fabrics(parts).widest
    assert pair is not None
    # t(2) at 1 - 0.05 / 6 = 7.6488
    assert pair.ps.high - pair.ps.value == pytest.approx(7.6488 * 0.1 * MS, rel=1e-3)


def test_policies_are_compared_on_the_fabrics_that_both_ran(
    make_rows: Callable[..., Cell], make_question: Ask
) -> None:
    ask = make_question()
    parts = [
        constant("a", "p", (1.0, 1.0), make_rows, ask),
        constant("a", "q", (2.0, 2.0), make_rows, ask),
        constant("b", "p", (100.0, 100.0), make_rows, ask),
        Sample("b", "q", (), (), (), "no groups"),
    ]
    pair = compare_policies(parts).widest
    assert pair is not None
    assert (pair.fast, pair.slow, pair.over) == ("p", "q", 1)
    assert pair.ps.value == pytest.approx(1.0 * MS)


def test_hand_offs_that_never_end_keep_a_cell_out_of_the_comparison(
    make_rows: Callable[..., Cell], make_question: Ask
) -> None:
    ask = make_question()
    whole = constant("a", "p", (1.0, 2.0), make_rows, ask)
    broken = constant("b", "p", (1.0, 2.0), make_rows, ask)
    never = replace(broken.handoffs[0], duration=np.array([np.inf, 1.0]))
    broken = replace(broken, handoffs=(never, broken.handoffs[1]))
    pair = compare_fabrics([whole, broken]).widest
    assert pair is not None
    assert pair.seeds == 1


def test_random_seeds_alone_seldom_show_a_difference(
    make_rows: Callable[..., Cell], make_question: Ask
) -> None:
    ask, rng, found = make_question(), np.random.default_rng(3), 0
    for _ in range(150):
        seeds = rng.lognormal(0, 0.5, 4)
        parts = [
            constant(name, "p", (seeds + rng.normal(0, 0.05, 4) + 1).tolist(), make_rows, ask)
            for name in "abc"
        ]
        found += bool(compare_fabrics(parts).found)
    # at most 5 % of 150 studies, give or take 2.5 standard errors
    assert found <= 150 * (0.05 + 2.5 * 0.018)


def test_the_whole_first_look_is_told_with_units_and_n(first_look: Path) -> None:
    text = result(read_study(first_look)).verdict.text()
    assert "Of 20 alternatives: " in text
    assert "1 impossible" in text
    assert "Topology matters: the mean hand-off on full mesh is" in text
    assert "Bytes/bandwidth against packets at P90" in text
    assert "Evidence: 150 hand-offs an alternative over 3 seeds, read at P90" in text
    assert "nan" not in text
    assert "inf" not in text.replace("info", "")


def test_a_study_without_cells_decides_nothing(make_question: Ask) -> None:
    text = result(Study(make_question(), (), 1)).verdict.text()
    assert text.startswith("No alternative has run")
    assert "1 cell not run yet" in text


def test_policies_whose_order_turns_with_the_fabric_are_not_averaged_into_no_difference(
    make_rows: Callable[..., Cell], make_question: Ask
) -> None:
    ask = make_question(fabrics=["a", "b"], policies=["p", "q"], seeds=[0, 1, 2, 3])
    parts = [
        constant("a", "p", [1, 2, 3, 4.1], make_rows, ask),
        constant("a", "q", [2, 3, 4, 5], make_rows, ask),
        constant("b", "p", [4, 5, 6, 7], make_rows, ask),
        constant("b", "q", [3, 4, 5, 6.1], make_rows, ask),
    ]
    rows = [row(part.fabric, part.policy, MET, 1.0) for part in parts]
    assert (
        "Policy matters, and which is better depends on the fabric: on a, the mean hand-off with p "
        "is 975 us (20 % of the budget) shorter than with q (895 us to 1.05 ms, 4 common seeds); "
        "on b it is 975 us (20 % of the budget) longer (895 us to 1.05 ms)."
    ) in said(rows, ask, parts)


def test_one_uncertain_fabric_turns_nothing(
    make_rows: Callable[..., Cell], make_question: Ask
) -> None:
    ask = make_question(fabrics=["a", "b"], policies=["p", "q"], seeds=[0, 1, 2, 3])
    parts = [
        constant("a", "p", [1, 2, 3, 4.1], make_rows, ask),
        constant("a", "q", [2, 3, 4, 5], make_rows, ask),
        constant("b", "p", [4, 5, 6, 7], make_rows, ask),
        constant("b", "q", [3, 5.5, 5, 7], make_rows, ask),
    ]
    rows = [row(part.fabric, part.policy, MET, 1.0) for part in parts]
    assert "depends on the fabric" not in said(rows, ask, parts)


def test_a_run_of_one_alternative_compares_nothing(make_question: Ask) -> None:
    gap = Gap(MS, 1.4, 1.1, 2.0)
    alone = replace(row("mid", "b", UNDECIDED, 5), bandwidth=gap)
    text = said([alone], make_question())
    assert "fewer than two" not in text
    assert "Of 1 alternative" not in text
    assert "the emulated transfer takes 1.4x the estimate." in text
    text = said([alone, row("big", "b", MET, 9)], make_question())
    assert "Of 2 alternatives: 1 pass, 1 undecided." in text
    assert "Policy" not in text


def test_policies_that_chose_alike_are_told_as_one_result(
    make_rows: Callable[..., Cell], make_question: Ask
) -> None:
    life = {"prefill_end_ps": 0, "handoff_release_ps": 0, "kv_ready_ps": MS}
    cell = make_rows([life])
    ask = msgspec.structs.replace(make_question(), fabrics=["x"], policies=["a", "b", "c"])
    cells = tuple(
        replace(cell, manifest=msgspec.structs.replace(cell.manifest, fabric="x", policy=policy))
        for policy in ask.policies
    )
    rows = [row("x", policy, MET, 5) for policy in ask.policies]
    text = verdict(Study(ask, cells, 0), (), rows).text()
    assert "a, b and c made the same choices on x: one result, not 3." in text


@pytest.mark.parametrize(("second", "told"), [((5, 7), True), ((7, 5), False), ((5, 5), False)])
def test_seeds_that_replay_one_record_are_told_as_no_samples_of_the_load(
    second: tuple[int, int], told: bool, make_rows: Callable[..., Cell], make_question: Ask
) -> None:
    life = {"prefill_end_ps": 0, "handoff_release_ps": 0, "kv_ready_ps": MS, "output_tokens": 9}
    cells = []
    for seed, lengths in enumerate(((5, 7), second), start=1):
        cell = make_rows([life | {"input_tokens": tokens} for tokens in lengths])
        manifest = msgspec.structs.replace(cell.manifest, fabric="x", policy="p", seed=seed)
        cells.append(replace(cell, manifest=manifest))
    ask = msgspec.structs.replace(make_question(), fabrics=["x"], policies=["p"], seeds=[1, 2])
    text = verdict(Study(ask, tuple(cells), 0), (), [row("x", "p", UNDECIDED, 5)]).text()
    assert ("a longer record helps, more seeds do not" in text) is told
    assert ("All seeds serve the same recorded requests" in text) is told
