"""A report of more alternatives than anybody can read: figures show some, the tables all."""

from collections.abc import Callable, Hashable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.comparison import _compare
from analysis.interval import LEVEL
from analysis.loss import Loss, Losses
from analysis.pairing import paired
from analysis.plot.cost import dominated
from analysis.plot.load import load
from analysis.plot.style import Plot, hide_rest
from analysis.plot.tornado import tornado
from analysis.record import read_study
from analysis.report import plots
from analysis.result import Result, ranked, result
from analysis.shown import PANELS, ROWS
from analysis.sweep import Curve, Point
from analysis.table import table
from kvfabric.table import print_table

MANY = 30
POLICIES = ("random", "least_loaded")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, make_study: Callable[..., Path]) -> Result:
    """Results of `MANY` fabrics: the last two the slowest and the fastest."""
    place = tmp_path_factory.mktemp("many")
    fabrics = [*(f"mesh {n}" for n in range(MANY - 2)), "bipartite 2:1", "full mesh"]
    make_study(place, fabrics=fabrics, policies=POLICIES, seeds=[1], impossible=(), count=20)
    return result(read_study(place), place)


@pytest.fixture(scope="module")
def drawn(found: Result) -> dict[str, Plot]:
    return {each.name: each for each in plots(found)}


def test_the_choice_and_both_ends_come_first_and_nothing_is_lost(found: Result) -> None:
    order = ranked(found)
    assert {fabric for fabric, _ in order[:3]} >= {"full mesh", "bipartite 2:1"}
    assert sorted(order) == sorted((row.fabric, row.policy) for row in found.summaries)


@pytest.mark.parametrize(
    ("name", "what", "some", "every"),
    [
        ("handoff-ccdf", "fabrics", PANELS, MANY),
        ("matrix", "alternatives", PANELS, 2 * MANY),
        ("budget", "alternatives", ROWS, 2 * MANY),
    ],
)
def test_a_figure_of_many_says_what_it_leaves_to_its_table(
    drawn: dict[str, Plot], name: str, what: str, some: int, every: int
) -> None:
    plot = drawn[name]
    assert f" Shown are {some} of {every} {what}: " in plot.says
    assert len({row[:2] for row in plot.rows}) == 2 * MANY
    axes = [each for each in plot.figure.axes if each.get_visible()]
    if some == PANELS:
        titles = [each.get_title(loc="left") for each in axes if each.get_title(loc="left")]
        assert len(titles) == PANELS
    else:
        titles = [text.get_text() for text in axes[0].get_yticklabels()]
        assert len(titles) == ROWS
    assert any(title.startswith("full mesh") for title in titles)
    assert any(title.startswith("bipartite 2:1") for title in titles)


def test_links_are_drawn_of_the_fabrics_that_come_first_and_the_caption_says_so(
    drawn: dict[str, Plot],
) -> None:
    plot = drawn["links"]
    titles = [axes.get_title(loc="left") for axes in plot.figure.axes]
    assert {"full mesh", "bipartite 2:1"} <= {title.partition("\n")[0] for title in titles}
    assert f" Shown are 4 of {MANY} fabrics: " in plot.says


def test_every_column_of_panels_has_the_numbers_of_its_ticks(drawn: dict[str, Plot]) -> None:
    panels = [axes for axes in drawn["handoff-ccdf"].figure.axes if axes.get_visible()]
    cut = panels[: PANELS - 1]
    hide_rest(drawn["handoff-ccdf"].figure.axes, len(cut), 4)
    labelled = [axes.xaxis.get_tick_params()["labelbottom"] for axes in cut]
    assert labelled == [False] * (PANELS - 5) + [True] * 4


def test_the_terminal_tells_as_many_as_a_figure_shows(found: Result) -> None:
    made = table(found.summaries, found.study.manifest, ranked(found))
    assert made.row_count == PANELS
    assert str(made.caption).endswith("the report has all.")


def test_a_long_table_on_the_terminal_ends_with_how_many_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table("t", ["a"], [[f"row {n}"] for n in range(5)], most=3)
    told = capsys.readouterr().out
    assert "row 2" in told
    assert "row 3" not in told
    assert "and 2 more rows: see the report" in told


def test_many_designs_under_several_loads_are_drawn_as_those_that_come_first(
    found: Result,
) -> None:
    curves = [
        Curve(
            row.fabric,
            row.policy,
            (Point("a", 1.0, 0.1, False, row), Point("b", 2.0, 0.2, False, row)),
        )
        for row in found.summaries
    ]
    plot = load(curves, found.study.manifest, ranked(found))
    shown = [each for each in plot.figure.axes if each.get_title(loc="left")]
    assert len(shown) == PANELS
    assert "Shown are 24 of 30 fabrics" in plot.says
    assert len(plot.rows) == 2 * len(curves)


def test_many_losses_are_drawn_as_the_worst(found: Result) -> None:
    row = found.summaries[0]
    each = tuple(
        Loss(f"link {n}", replace(row, fabric=f"{n}"), None, 1.0, 0) for n in range(ROWS + 3)
    )
    plot = tornado([Losses("mesh", "random", row, each)], found.study.manifest)
    assert f"the worst {ROWS} of {ROWS + 3} losses." in plot.says
    assert len(plot.figure.axes[0].get_yticks()) == ROWS
    assert len(plot.rows) == ROWS + 3


VALUES = st.dictionaries(st.integers(1, 4), st.integers(1, 9).map(float), max_size=4)


@given(st.dictionaries(st.tuples(st.sampled_from("abcd"), st.sampled_from("pq")), VALUES))
def test_all_pairs_at_once_are_as_each_by_itself(
    means: dict[tuple[str, Hashable], dict[int, float]],
) -> None:
    names = list(dict.fromkeys(name for name, _ in means))
    pairs = list(combinations(names, 2))
    gaps = []
    for one, other in pairs:
        both = [
            (means[one, p], means[other, p])
            for p in "pq"
            if means.get((one, p)) and means.get((other, p))
        ]
        seeds = set.intersection(*({*a} & {*b} for a, b in both)) if both else set()
        sides = [
            {seed: sum(pair[side][seed] for pair in both) / len(both) for seed in seeds}
            for side in (0, 1)
        ]
        gap = paired(*sides, level=1 - (1 - LEVEL) / len(pairs))
        if gap is not None:
            gaps.append(gap)
    told = _compare(means)
    assert (told.pairs, told.found) == (len(gaps), sum(gap.found for gap in gaps))
    most = max((abs(g.gap.value) for g in gaps if g.found or not told.found), default=None)
    if most is None:
        assert told.widest is None
    else:
        bound = max(max(abs(g.gap.low), abs(g.gap.high)) for g in gaps)
        assert told.widest is not None
        assert told.widest.ps.value == pytest.approx(most)
        assert told.widest.found == bool(told.found)
        assert told.bound == pytest.approx(bound)


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([1, 2, 3, float("inf")]))))
def test_what_is_dominated_is_what_some_other_beats(points: list[tuple[int, float]]) -> None:
    assert dominated(points) == [
        any(a <= cost and b <= tail and (a, b) != (cost, tail) for a, b in points)
        for cost, tail in points
    ]
