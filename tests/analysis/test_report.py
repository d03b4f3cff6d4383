"""The report stands alone, escapes strangers' labels, and is the same for the same results."""

import csv
import io
import re
import time
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from analysis.brief import brief
from analysis.error import RecordError
from analysis.export import csv_text
from analysis.plot.cost import cost, dominated
from analysis.plot.style import MARKS, STANDING, Plot, label, labels, svg
from analysis.record import StudyManifest, read_study, write_study
from analysis.report import plots, write_report
from analysis.result import Result, result, watched
from analysis.shown import PANELS
from analysis.table import table
from analysis.wording import money

Make = Callable[..., Path]
HOSTILE = "<script>alert(1)</script>"


class Links(HTMLParser):
    """Collects what a page would fetch, its tags, and its headings."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [
            value or ""
            for name, value in attrs
            if name in {"src", "href", "xlink:href", "srcset", "action", "data", "poster"}
        ]


def read(page: str) -> Links:
    parser = Links()
    parser.feed(page)
    return parser


@pytest.fixture(scope="module")
def found(first_look: Path) -> Result:
    return result(read_study(first_look))


@pytest.fixture(scope="module")
def figures(found: Result) -> list[Plot]:
    return plots(found)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, first_look: Path) -> Path:
    import shutil

    home = tmp_path_factory.mktemp("report") / "study"
    shutil.copytree(first_look, home)
    return write_report(home)


def test_the_report_fetches_nothing(report: Path) -> None:
    page = report.read_text("utf-8")
    outside = [
        link for link in read(page).fetched if not link.startswith(("#", "data:image/png;base64,"))
    ]
    assert outside == []
    assert "@import" not in page
    assert re.findall(r"url\((?!#)[^)]*\)", page) == []
    scripts = re.findall(r"<script[^>]*>", page)
    assert scripts == [
        '<script type="application/json" id="grids-links">',
        '<script type="application/json" id="policies">',
        "<script>",
    ]
    own = page.rsplit("<script>", 1)[1]
    assert not re.search(r"\b(fetch|XMLHttpRequest|import|eval|innerHTML|WebSocket)\b", own)


def test_the_report_has_its_sections_and_figures(report: Path) -> None:
    page = report.read_text("utf-8")
    heads = re.findall(r"<h2 [^>]*>([^<]*)</h2>", page)
    assert heads == [
        "Decision",
        "Alternatives",
        "Hand-off tails",
        "Budgets",
        "Service and GPUs",
        "Movement between the pools",
        "Links and pauses",
        "Cost and capacity",
        "Estimates against packets",
        "Assumptions, profiles and what is not modelled",
        "Reproduce",
        "Review",
        "Sign-off",
    ]
    assert read(page).tags.count("figure") == 6
    assert not re.search(r"\bnan\b", re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL))


def test_the_ports_that_the_cost_counts_stand_beside_it(report: Path, found: Result) -> None:
    page = report.read_text("utf-8")
    assert '<th scope="col">ports of each</th>' in page
    assert '<td class="n">10</td><td class="n">16, 32</td><td class="n">2.67:1</td>' in page
    assert " k, 16 and 32 ports | " in brief(found)
    console = Console(width=160, file=io.StringIO())
    console.print(table(found.summaries, found.study.manifest))
    assert " k, 16 and 32" in console.file.getvalue()


def test_every_figure_is_beside_the_report_as_svg_png_and_csv(report: Path) -> None:
    names = sorted(file.name for file in (report.parent / "plots").iterdir())
    stems = ("budget", "cost", "estimate", "handoff-ccdf", "links", "matrix")
    assert names == sorted(f"{stem}.{kind}" for stem in stems for kind in ("svg", "png", "csv"))


def test_the_summary_has_one_row_an_alternative(report: Path) -> None:
    rows = list(csv.DictReader((report.parent / "summary.csv").read_text("utf-8").splitlines()))
    assert len(rows) == 20
    first = rows[0]
    assert (first["fabric"], first["policy"], first["hand_offs"]) == ("full mesh", "random", "150")
    assert float(first["bandwidth_tail_ms"]) == 2.0


def test_the_same_results_give_the_same_report(report: Path) -> None:
    before = report.read_bytes()
    plots_before = {file.name: file.read_bytes() for file in (report.parent / "plots").iterdir()}
    assert write_report(report.parent).read_bytes() == before
    for name, content in plots_before.items():
        assert (report.parent / "plots" / name).read_bytes() == content, name


def test_labels_of_strangers_are_shown_and_not_run(tmp_path: Path, make_study: Make) -> None:
    fabrics = (HOSTILE, "$x_{$ \n& \u202etab\t", '"><img src=x onerror=y>')
    home = make_study(
        tmp_path, fabrics=fabrics, policies=("{{ 7*7 }}", "[red]p[/red]"), impossible=(),
        name=HOSTILE, count=25,
    )  # fmt: skip
    page = write_report(home).read_text("utf-8")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert HOSTILE not in page
    assert read(page).tags.count("script") == 3
    assert "img" not in read(page).tags
    brief = (home / "summary.md").read_text("utf-8")
    assert HOSTILE not in brief
    assert "\\<script\\>alert" in brief
    assert "{{ 7*7 }}" in page
    for file in (home / "plots").glob("*.svg"):
        assert {"script", "img"}.isdisjoint(read(file.read_text("utf-8")).tags)


def test_the_budget_line_and_every_curve_are_in_the_tails(figures: list[Plot]) -> None:
    figure = figures[0].figure
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert len(panels) == 4
    assert len({axes.get_xlim() for axes in panels}) == 1
    # budget line, allowed line, and for each policy a carried and a pale part
    assert [len(axes.lines) for axes in panels] == [2 + 2 * 4, 2 + 2 * 5, 2 + 2 * 5, 2 + 2 * 5]


def test_the_solid_part_of_a_curve_stops_at_ten_over_n(figures: list[Plot]) -> None:
    figure = figures[0].figure
    solid = [line for line in figure.axes[0].lines if len(line.get_xdata()) > 2][0::2]
    for line in solid:
        assert min(line.get_ydata()) == pytest.approx(10 / 150)


def test_the_links_drawn_are_those_of_the_least_over_on_each_fabric(found: Result) -> None:
    least: dict[str, list[float]] = {}
    for row in found.summaries:
        if row.over is not None:
            least.setdefault(row.fabric, []).append(row.over.value)
    for sample in watched(found):
        row = next(
            r for r in found.summaries if (r.fabric, r.policy) == (sample.fabric, sample.policy)
        )
        assert row.over is not None
        assert row.over.value == min(least[sample.fabric])


def test_a_figure_gives_the_same_svg_twice(found: Result) -> None:
    one, two = (cost(found.summaries, found.study.manifest) for _ in range(2))
    assert svg(one) == svg(two)


def test_the_figure_of_cost_has_a_column_a_fabric_and_tells_verdict_and_dominance_apart(
    found: Result,
) -> None:
    drawn = cost(found.summaries, found.study.manifest)
    (axes,) = drawn.figure.axes
    rows = {(row[0], row[1]): row for row in drawn.rows}
    names = [text.get_text().rsplit("\n", 1) for text in axes.get_xticklabels()]
    prices = sorted({row[2] for row in drawn.rows})  # type: ignore[type-var]
    assert [price for _, price in names] == [money(float(str(price))) for price in prices]
    marks = [line for line in axes.lines if line.get_marker() in MARKS and line.get_zorder() == 3]
    assert len(marks) == len(rows)
    by_colour = {colour: verdict for verdict, colour in STANDING.items()}
    for mark in marks:
        at = float(np.asarray(mark.get_xdata())[0])
        column = names[round(at)][0].replace("\n", " ")
        policy = found.study.manifest.policies[MARKS.index(str(mark.get_marker()))]
        (row,) = [r for r in found.summaries if (r.fabric, r.policy) == (column, policy)]
        assert by_colour[str(mark.get_color())] == row.verdict
        assert (mark.get_markerfacecolor() == "white") == rows[column, policy][6]
        assert abs(at - round(at)) < 0.5


def test_of_very_many_designs_the_figure_of_cost_shows_some_and_says_so(found: Result) -> None:
    (row, *_) = [row for row in found.summaries if row.tail is not None]
    rows = [replace(row, fabric=f"tree {n} " + "of many " * 9) for n in range(60)]
    drawn = cost(rows, found.study.manifest, [(rows[50].fabric, row.policy)])
    names = [text.get_text() for text in drawn.figure.axes[0].get_xticklabels()]
    assert len(names) == PANELS
    assert any(name.startswith("tree 50") for name in names)
    assert "Shown are 24 of 60 fabrics" in drawn.says
    assert len(drawn.rows) == 60


def test_a_study_that_has_not_run_still_has_a_report(
    tmp_path: Path, make_question: Callable[..., StudyManifest]
) -> None:
    write_study(tmp_path, make_question())
    page = write_report(tmp_path).read_text("utf-8")
    assert "No alternative has run" in page
    assert "figure" not in read(page).tags


def test_a_study_of_impossible_cells_says_why(tmp_path: Path, make_study: Make) -> None:
    home = make_study(
        tmp_path, fabrics=("mesh",), policies=("p",), seeds=(1,), impossible=[("mesh", "p")]
    )
    assert "no groups in a mesh" in write_report(home).read_text("utf-8")


def test_a_directory_without_results_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"study.json: No such file"):
        write_report(tmp_path / "nothing")


def test_a_hundred_cells_are_reported_in_seconds(tmp_path: Path, make_study: Make) -> None:
    home = make_study(tmp_path, seeds=(1, 2, 3, 4, 5))
    before = time.process_time()
    write_report(home)
    # about 7 s of processor time on a 2020s laptop core; three times that is a regression
    assert time.process_time() - before < 20


@pytest.mark.parametrize("policies", [3, 5, 9])
def test_the_terminal_table_fits_100_columns(
    tmp_path: Path, make_study: Make, policies: int
) -> None:
    from rich.console import Console

    names = ("random", "[red]x[/red]", "topology_aware", "q" * 30, *(f"p{i}" for i in range(5)))
    home = make_study(
        tmp_path, policies=names[:policies], count=30, fabrics=("full mesh", "a" * 50)
    )
    found = result(read_study(home))
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(table(found.summaries, found.study.manifest))
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 100
    assert "[red]" in text
    assert "impossible" not in text


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12))
def test_no_undominated_point_is_beaten_and_every_dominated_one_is(
    points: list[tuple[int, int]],
) -> None:
    beaten = dominated(points)
    for point, worse in zip(points, beaten, strict=True):
        better = [p for p in points if p != point and p[0] <= point[0] and p[1] <= point[1]]
        assert worse == bool(better)


def test_a_label_that_a_spreadsheet_would_run_is_quoted() -> None:
    text = csv_text(("a", "b"), [("=1+1", -1.5), ("plain", float("nan"))])
    assert text == "a,b\n'=1+1,-1.5\nplain,\n"


def test_long_labels_are_cut_and_control_characters_dropped() -> None:
    assert label("a\x00b\u202ec") == "a b c"
    assert len(label("x" * 99)) == 30


def test_the_study_of_one_cell_has_a_report(tmp_path: Path, make_study: Make) -> None:
    home = make_study(tmp_path, fabrics=("mesh",), policies=("p",), seeds=(1,), count=11)
    assert write_report(home).stat().st_size > 10_000


@given(
    st.lists(st.text("ab =,", min_size=1, max_size=60), min_size=1, max_size=8, unique=True),
    st.integers(16, 40),
)
def test_labels_that_are_cut_stay_different(texts: list[str], most: int) -> None:
    found = labels(texts, most)
    assert len(set(found.values())) == len(texts)
    assert all(len(short.replace("...", "_")) <= most for short in found.values())


def test_labels_that_differ_in_several_places_show_all_of_them() -> None:
    texts = [
        f"leaf-spine of the new hall, buffer {size} MiB with a staleness of {time} ms"
        for size in (16, 32)
        for time in ("one", "a hundred")
    ]
    assert list(labels(texts, 36).values()) == [
        "leaf-spine of...16 MiB with a...one ms",
        "leaf-spine...16 MiB with...a hundred ms",
        "leaf-spine of...32 MiB with a...one ms",
        "leaf-spine...32 MiB with...a hundred ms",
    ]
