"""The decision map: what is chosen for each workload, and how it is told and drawn."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec import structs

from analysis.condition import Condition, conditions
from analysis.decision import decisions, sentence, table
from analysis.interval import Estimate
from analysis.plot.decision import decision
from analysis.plot.style import png
from analysis.record import FabricFact, Study, StudyManifest
from analysis.summary import MET, MISSED, UNDECIDED, Summary
from analysis.verdict import verdict

MS = 10**9
Ask = Callable[..., StudyManifest]
SHARE = {MET: (0.01, 0.0, 0.03), MISSED: (0.3, 0.2, 0.4), UNDECIDED: (0.03, 0.01, 0.1)}
PROFILE, RATE = "requests.profile", "requests.arrivals.rate"


def row(fabric: str, kind: str, usd: float = 100, tail: float = 2.0) -> Summary:
    facts = FabricFact(
        hosts=2, prefill=1, decode=1, switches=1, switch_cables=0, host_cables=2,
        cost_usd=usd, mu_bps=1, nic_bps=1,
    )  # fmt: skip
    return Summary(
        fabric, "p", kind, facts=facts, n=200, seeds=4, q=0.9, median=MS,
        tail=Estimate(tail * MS, 0.9 * tail * MS, 1.1 * tail * MS), over=Estimate(*SHARE[kind]),
    )  # fmt: skip


@pytest.fixture
def study(make_question: Ask) -> StudyManifest:
    """Two designs, a small and a big one, under two profiles."""
    varied = {
        f"{design} {told}": {"fabric": design, PROFILE: told}
        for design in ("small", "big")
        for told in ("short", "long")
    }
    return make_question(fabrics=list(varied), policies=["p"], varied=varied)


def rows(small: str, big: str) -> list[Summary]:
    """Both pass under short prompts; under long ones as told."""
    return [
        *(row("small short", MET, 100), row("small long", small, 100, 9.0)),
        *(row("big short", MET, 500), row("big long", big, 500, 4.0)),
    ]


def test_what_the_requests_are_and_the_model_are_met_and_not_chosen(make_question: Ask) -> None:
    varied = {
        "tree model=8B long rate=9/s": {
            "fabric": "tree", "model": "model=8B", PROFILE: "long", RATE: "rate=9/s",
        },
    }  # fmt: skip
    (one,) = conditions(make_question(fabrics=list(varied), varied=varied)).values()
    assert one == Condition("tree", "rate=9/s", "", "model=8B, long")
    assert one.text == "model=8B, long, rate=9/s"
    assert one.but(load="") == "tree, model=8B, long"


def test_a_design_is_named_as_its_label_is(make_question: Ask) -> None:
    varied = {"tree buffer=1MiB": {"buffer": "buffer=1MiB", "fabric": "tree"}}
    (one,) = conditions(make_question(fabrics=list(varied), varied=varied)).values()
    assert one.design == "tree buffer=1MiB"


def test_each_workload_has_the_cheapest_that_meets_the_budget_under_it(
    study: StudyManifest,
) -> None:
    short, long = decisions(rows(MISSED, MET), study)
    assert (short.workload, long.workload) == ("short", "long")
    assert [one.chosen.fabric for one in (short, long) if one.chosen] == ["small short", "big long"]
    assert [case.design for case in long.cases if long.chooses(case)] == ["big"]


def test_the_verdict_asks_for_all_workloads_and_tells_when_the_choice_depends_on_them(
    study: StudyManifest,
) -> None:
    every = rows(MISSED, MET)
    told = verdict(Study(study, (), 0), [], every, decisions(every, study))
    assert told.headline.startswith(
        "Cheapest that meets the budget of 5 ms for every workload compared: big with p, $500. "
        "At its worst, long: P90 hand-off 4 ms"
    )
    assert (
        "Workload: the choice depends on it: small with p for short; big with p for long."
        in told.sentences
    )
    assert sentence(decisions(rows(MET, MET), study)) == (
        "Workload: it does not change the choice, small with p for each of the 2."
    )
    assert sentence(decisions(rows(MISSED, UNDECIDED), study)) == (
        "Workload: the choice depends on it: small with p for short; none for long."
    )


def test_a_choice_of_smaller_switches_than_asked_for_says_so(study: StudyManifest) -> None:
    small = [
        replace(one, facts=structs.replace(one.facts, switch_ports=[8], ports_asked=64))
        for one in rows(MISSED, MET)
        if one.facts is not None
    ]
    told = sentence(decisions(small, study))
    assert "small with p if switches of 8 ports are sold at that price for short" in told
    assert table(decisions(small, study)).rows[0][2] == "$100, 8 ports"


def test_where_none_is_shown_to_meet_the_budget_the_closest_is_named(study: StudyManifest) -> None:
    first, last = table(decisions(rows(MISSED, UNDECIDED), study)).rows
    assert first == (
        *("short", "small with p", "$100", "2 ms (1.8 ms to 2.2 ms)", "1.0 % (0 % to 3.0 %)"),
        "2 of 2",
    )
    assert last[:3] == ("long", "none is shown to meet it; closest big with p", "$500")
    assert last[-1] == "0 of 2"


def test_one_workload_makes_no_map(make_question: Ask) -> None:
    plain = make_question(fabrics=["a", "b"], policies=["p"])
    assert decisions([row("a", MET), row("b", MET)], plain) == []
    assert sentence([]) == ""
    assert table([]).rows == ()


def test_a_design_is_judged_at_all_its_loads_under_a_workload(make_question: Ask) -> None:
    varied = {
        f"tree {told} {load}": {"fabric": "tree", PROFILE: told, RATE: load}
        for told in ("short", "long")
        for load in ("1/s", "9/s")
    }
    study = make_question(fabrics=list(varied), policies=["p"], varied=varied)
    kinds = {"tree short 1/s": MET, "tree short 9/s": MET, "tree long 1/s": MET}
    found = decisions([row(label, kinds.get(label, MISSED)) for label in varied], study)
    assert [one.chosen is not None for one in found] == [True, False]


def test_the_figure_frames_the_choices_and_has_a_row_for_every_field(study: StudyManifest) -> None:
    plot = decision(decisions(rows(MISSED, MET), study))
    chosen = [(line[0], line[1]) for line in plot.rows if line[4]]
    assert chosen == [("short", "small"), ("long", "big")]
    assert len(plot.rows) == 4
    (axes,) = plot.figure.axes
    assert "2 choices for 2 workloads; 1 design would do for all" in axes.get_title(loc="left")
    assert png(plot)[:4] == b"\x89PNG"


def test_of_many_designs_the_figure_shows_those_that_are_chosen(make_question: Ask) -> None:
    varied = {
        f"d{i} {told}": {"fabric": f"d{i}", PROFILE: told}
        for i in range(40)
        for told in ("short", "long")
    }
    study = make_question(fabrics=list(varied), policies=["p"], varied=varied)
    every = [row(label, MET, 1 if label.startswith("d39") else 5) for label in varied]
    plot = decision(decisions(every, study))
    shown = [tick.get_text() for tick in plot.figure.axes[0].get_yticklabels()]
    assert len(shown) == 24
    assert "d39 with p" in shown
    assert "16 more designs" in plot.says
    assert len(plot.rows) == 80
