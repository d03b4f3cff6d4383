"""Loads and losses are met and not chosen: a design is judged by all of them together."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec import structs

from analysis.choice import choice, nearest
from analysis.condition import HEALTHY, Condition, at, cases, conditions, everywhere
from analysis.interval import Estimate
from analysis.record import FabricFact, Study, StudyManifest
from analysis.summary import IMPOSSIBLE, MET, MISSED, UNDECIDED, Summary
from analysis.verdict import verdict

MS = 10**9
Ask = Callable[..., StudyManifest]
SHARE = {MET: (0.01, 0.0, 0.03), MISSED: (0.3, 0.2, 0.4), UNDECIDED: (0.03, 0.01, 0.1)}
RATE, FAULTS = "requests.arrivals.rate", "faults"


def row(fabric: str, kind: str, usd: float = 100, tail: float = 2.0, policy: str = "p") -> Summary:
    facts = FabricFact(
        hosts=2, prefill=1, decode=1, switches=1, switch_cables=0, host_cables=2,
        cost_usd=usd, mu_bps=1, nic_bps=1,
    )  # fmt: skip
    if kind == IMPOSSIBLE:
        return Summary(fabric, policy, kind, "no path", facts)
    return Summary(
        fabric, policy, kind, facts=facts, n=200, seeds=4, q=0.9, median=MS,
        tail=Estimate(tail * MS, 0.9 * tail * MS, 1.1 * tail * MS), over=Estimate(*SHARE[kind]),
    )  # fmt: skip


@pytest.fixture
def swept(make_question: Ask) -> StudyManifest:
    varied = {
        f"{design} rate={rate}/s": {"fabric": design, RATE: f"rate={rate}/s"}
        for design in ("small", "big")
        for rate in (100, 200)
    }
    return make_question(fabrics=list(varied), policies=["p"], varied=varied)


def test_a_label_is_taken_apart_into_design_load_and_loss(make_question: Ask) -> None:
    varied = {
        "tree buffer=1MiB rate=9/s spine0 down": {
            "fabric": "tree",
            "fabric.switch.buffer": "buffer=1MiB",
            RATE: "rate=9/s",
            FAULTS: "spine0 down",
        }
    }
    study = make_question(fabrics=[*varied, "old"], varied=varied)
    where = conditions(study)
    (first, second) = where.values()
    assert first == Condition("tree buffer=1MiB", "rate=9/s", "spine0 down")
    assert first.text == "rate=9/s, spine0 down"
    assert second == Condition("old") == at(where, "old")
    assert at(where, "unheard of") == Condition("unheard of")


def test_a_design_passes_when_it_passes_at_every_load_and_is_told_by_its_worst(
    swept: StudyManifest,
) -> None:
    rows = [
        *(row("small rate=100/s", MET, 100), row("small rate=200/s", MISSED, 100)),
        *(row("big rate=100/s", MET, 500, 1.0), row("big rate=200/s", MET, 500, 3.0)),
    ]
    small, big = cases(rows, conditions(swept))
    assert (small.passes, small.met, small.worst) == (False, 1, rows[1])
    assert (big.passes, big.met, big.worst) == (True, 2, rows[3])
    # on its own the cheaper fabric passes at the lower load, and would have been chosen
    assert choice(rows) is rows[0]
    assert choice(rows, conditions(swept)) is rows[3]
    told = verdict(Study(swept, (), 0), [], rows)
    assert told.choice is rows[3]
    assert told.headline.startswith(
        "Cheapest that meets the budget of 5 ms at every load compared: big with p, $500. At its "
        "worst, rate=200/s: P90 hand-off 3 ms"
    )


def test_where_none_stands_every_load_the_one_that_stands_most_is_named(
    swept: StudyManifest,
) -> None:
    rows = [
        *(row("small rate=100/s", MET), row("small rate=200/s", MISSED)),
        *(row("big rate=100/s", UNDECIDED), row("big rate=200/s", UNDECIDED)),
    ]
    assert nearest(rows, conditions(swept)) is rows[1]
    told = verdict(Study(swept, (), 0), [], rows).headline
    assert told.startswith(
        "No alternative is shown to meet the budget of 5 ms at every load compared: 1 of 2 fail, "
        "1 undecided. Closest: small with p, in 1 of 2 cases. At its worst, rate=200/s: "
    )


def test_the_worst_case_is_that_with_most_over_budget_whatever_is_sure_of_it(
    swept: StudyManifest,
) -> None:
    mild, wild = row("small rate=100/s", MISSED), row("small rate=200/s", UNDECIDED)
    wild = replace(wild, over=Estimate(0.7, 0.01, 0.99))
    (case,) = cases([mild, wild], conditions(swept))
    assert case.worst is wild
    assert (case.verdict, case.passes) == (MISSED, False)
    told = verdict(Study(swept, (), 0), [], [mild, wild]).headline
    assert "1 of 1 fail, 0 undecided. Closest: small with p" in told
    assert "At its worst, rate=200/s: " in told


def test_a_loss_that_cannot_be_run_keeps_a_design_from_passing(make_question: Ask) -> None:
    varied = {f"f {x}": {"fabric": "f", FAULTS: x} for x in (HEALTHY, "leaf0 removed")}
    study = make_question(fabrics=list(varied), varied=varied)
    rows = [row(f"f {HEALTHY}", MET), row("f leaf0 removed", IMPOSSIBLE)]
    (case,) = cases(rows, conditions(study))
    assert not case.passes
    assert case.worst is rows[0]
    assert choice(rows, conditions(study)) is None


def test_the_budget_says_under_what_it_is_asked(make_question: Ask) -> None:
    one = {"a": Condition("a", "", ""), "b": Condition("b")}
    assert everywhere(one) == ""
    load = {"a": Condition("f", "1/s"), "b": Condition("f", "2/s")}
    assert everywhere(load) == " at every load compared"
    both = {"a": Condition("f", "1/s", "x"), "b": Condition("f", "2/s", HEALTHY)}
    assert everywhere(both) == " at every load compared and under every fault compared"


def test_one_design_at_several_loads_is_no_comparison_of_fabrics(make_question: Ask) -> None:
    varied = {f"f {x}": {"fabric": "f", RATE: x} for x in ("1/s", "2/s")}
    study = make_question(fabrics=list(varied), policies=["p"], varied=varied)
    rows = [row("f 1/s", MET), row("f 2/s", MET)]
    assert "The setting" not in verdict(Study(study, (), 0), [], rows).text()
    plain = make_question(fabrics=["f 1/s", "f 2/s"])
    assert "The setting" in verdict(Study(plain, (), 0), [], rows).text()


def test_a_choice_of_smaller_switches_than_asked_for_says_so_and_what_is_chosen_without(
    make_question: Ask,
) -> None:
    def ports(one: Summary, built: int) -> Summary:
        assert one.facts is not None
        made = structs.replace(one.facts, switch_ports=[built], ports_asked=64)
        return replace(one, facts=made)

    small, big = ports(row("tree", MET, 15_000), 2), ports(row("mesh", MET, 166_000), 64)

    def said(*rows: Summary) -> str:
        return verdict(Study(make_question(), (), 0), [], rows).text()

    first = (
        "tree with p, $15 k if switches of 2 ports are sold at that price; of those with 64 ports"
    )
    assert f"{first}, as asked for, mesh with p, $166 k. P90" in said(small, big)
    assert f"{first}, as asked for, none is shown to meet it. P90" in said(small)
    assert "sold" not in said(big)
