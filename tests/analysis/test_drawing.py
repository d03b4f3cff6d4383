"""Figures with awkward labels and numbers of alternatives: nothing merged, cut or crowded out."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from matplotlib.axes import Axes

from analysis.page import numeric
from analysis.plot.budget import budget
from analysis.plot.ccdf import ccdf
from analysis.plot.matrix import matrix
from analysis.plot.style import Plot, svg
from analysis.record import read_study
from analysis.result import Result, result

Make = Callable[..., Path]


@pytest.fixture
def found(tmp_path: Path, make_study: Make) -> Result:
    place = make_study(tmp_path, fabrics=["full mesh"], policies=["random"], seeds=[1])
    return result(read_study(place), place)


def inside(plot: Plot) -> None:
    """Every text of a figure lies on it."""
    svg(plot)
    width, height = plot.figure.bbox.size
    for legend in plot.figure.legends:
        box = legend.get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= width + 1
        assert box.y0 >= 0
        assert box.y1 <= height + 1


def test_alternatives_whose_labels_are_cut_alike_keep_a_bar_each(found: Result) -> None:
    (row,) = found.summaries
    rows = [replace(row, fabric=f"{'tree ' * 12}{n} of {'many ' * 12}") for n in (1, 1, 2, 2)]
    early: Axes = budget(rows).figure.axes[0]
    centres = {round(bar.get_y() + bar.get_height() / 2) for bar in early.patches}  # type: ignore[attr-defined]
    assert centres == {0, 1, 2, 3}
    assert len(early.get_yticks()) == 4


@pytest.mark.parametrize(("budget_ms", "side"), [(1.6, "left"), (5.0, "right")])
def test_the_budget_is_named_where_there_is_room(
    found: Result, budget_ms: float, side: str
) -> None:
    study = msgspec.structs.replace(found.study.manifest, budget_ps=round(budget_ms * 1e9))
    (axes,) = ccdf(found.samples, study).figure.axes
    (text,) = (each for each in axes.texts if each.get_text().startswith("budget"))
    assert text.get_ha() == side


@pytest.mark.parametrize("count", [1, 5, 8, 9, 22])
def test_the_tails_of_many_policies_are_named_on_the_figure_and_leave_room_for_them(
    found: Result, count: int
) -> None:
    (sample,) = found.samples
    names = [f"a policy of some length, number {n}" for n in range(count)]
    parts = [replace(sample, policy=name) for name in names]
    study = type(found.study.manifest)(
        **{
            **{name: getattr(found.study.manifest, name) for name in ("name", "question")},
            "scenario_sha256": "ab" * 32,
            "fabrics": ["full mesh"],
            "policies": names,
            "seeds": [1],
            "allowed": 0.05,
            "budget_ps": 5 * 10**9,
        }
    )
    drawn = ccdf(parts, study)
    inside(drawn)
    box = drawn.figure.axes[0].get_position()
    assert box.width * drawn.figure.get_figwidth() > 2
    assert box.height * drawn.figure.get_figheight() > 1.2


@pytest.mark.parametrize(("fabrics", "policies", "down"), [(12, 1, 2), (6, 2, 2), (4, 5, 4)])
def test_few_policies_on_many_fabrics_stand_side_by_side(
    found: Result, fabrics: int, policies: int, down: int
) -> None:
    (one,) = found.moved.values()
    moved = {(f"f{a}", f"p{b}"): one for a in range(fabrics) for b in range(policies)}
    drawn = matrix(moved)
    panels = [axes for axes in drawn.figure.axes if axes.get_title(loc="left")]
    assert len(panels) == fabrics * policies
    assert panels[0].get_gridspec().nrows == down  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("12 %", True), ("-1.5 ms (below 2 ms)", True), ("< 0.1 %", True), ("$4 k", True),
        ("n/a", True), ("same", True), ("leaf0:1 > h1:0", False), ("no faults", False), ("", False),
    ],
)  # fmt: skip
def test_numbers_stand_on_the_right_and_words_on_the_left(text: str, right: bool) -> None:
    assert numeric(text) is right
