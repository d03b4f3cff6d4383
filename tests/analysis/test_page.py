"""The page for every reader: dark, printed, by keyboard, without a script; and in Markdown."""

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import numpy as np
import pytest

from analysis.brief import brief
from analysis.handoff import window_ps
from analysis.page import page
from analysis.plot.ccdf import ccdf, kept
from analysis.plot.heat import heat
from analysis.plot.inline import grids, inline
from analysis.plot.matrix import matrix
from analysis.plot.style import Plot, svg
from analysis.record import Cell, StudyManifest, read_study
from analysis.result import Result, requirements, result, watched
from analysis.use import gpus, movements, ports, service

Make = Callable[..., Path]


class Outline(HTMLParser):
    """Collects the attributes of every tag."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.found if name == tag]


@pytest.fixture(scope="module")
def found(first_look: Path) -> Result:
    return result(read_study(first_look))


@pytest.fixture(scope="module")
def figures(found: Result) -> list[Plot]:
    manifest = found.study.manifest
    return [ccdf(found.samples, manifest), matrix(found.moved), heat(watched(found))]


@pytest.fixture(scope="module")
def text(found: Result, figures: list[Plot]) -> str:
    return page(found, figures, {each.name: svg(each) for each in figures})


@pytest.fixture(scope="module")
def outline(text: str) -> Outline:
    parsed = Outline()
    parsed.feed(text)
    return parsed


def test_no_name_stands_twice_and_every_reference_has_its_target(
    outline: Outline, text: str
) -> None:
    names = [attrs["id"] for _, attrs in outline.found if "id" in attrs]
    assert len(names) == len(set(names))
    inside = set(re.findall(r"url\(#([^)]*)\)", text))
    inside |= {str(a["href"])[1:] for a in outline.all("a")}
    inside |= {str(a["xlink:href"])[1:] for a in outline.all("use")}
    assert inside <= set(names)


def test_figures_take_the_colours_of_the_page(text: str) -> None:
    drawn = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    assert len(drawn) == 3
    for each in drawn:
        assert "var(--ink)" in each
        assert not re.search(r": #(222222|000000|ffffff|dddddd)[;\"]", each)
        assert "<style" not in each
    style = text.split("<style>")[1].split("</style>")[0]
    for variable in ("--ink", "--plot", "--grid", "--soft"):
        assert style.count(f"{variable}:") == 2, variable
    assert "@media print" in style
    assert "screen and (prefers-color-scheme: dark)" in style


def test_a_screen_reader_finds_language_landmarks_and_heads(outline: Outline) -> None:
    assert outline.all("html") == [{"lang": "en"}]
    assert len(outline.all("main")) == len(outline.all("h1")) == 1
    assert outline.all("nav")[0]["aria-label"] == "Sections"
    assert all("scope" in attrs for attrs in outline.all("th"))
    draw = [attrs for attrs in outline.all("div") if attrs.get("class") == "draw"]
    assert all(attrs["role"] == "img" and attrs["aria-label"] for attrs in draw)


def test_what_scrolls_can_be_reached_by_keyboard(outline: Outline) -> None:
    wide = [attrs for attrs in outline.all("div") if attrs.get("class") == "wide"]
    assert len(wide) > 8
    assert all(attrs["tabindex"] == "0" and attrs["aria-label"] for attrs in wide)
    assert outline.all("a")[0] == {"class": "skip", "href": "#decision"}


def test_every_alternative_and_curve_is_marked_with_its_policy(
    outline: Outline, found: Result
) -> None:
    places = {attrs["data-policy"] for _, attrs in outline.found if "data-policy" in attrs}
    assert places == {str(place) for place in range(len(found.study.manifest.policies))}
    curves = [str(a["id"]) for a in outline.all("g") if ".".join(str(a.get("id")).split(".")[1:])
              == "" and "of-policy-" in str(a.get("id"))]  # fmt: skip
    # 4 panels x 5 policies x 2 parts, but for the one that cannot run
    assert len(curves) == 38


def test_the_grid_of_links_lies_where_its_panels_are_drawn(figures: list[Plot]) -> None:
    links = figures[2]
    svg(links)
    found = grids(links)
    assert len(found) == 8
    for grid in found:
        left, top, width, height = grid["box"]
        assert 0 <= left < left + width <= 1
        assert 0 <= top < top + height <= 1
        assert len({len(row) for row in grid["texts"]}) == 1
    texts = [text for row in found[0]["texts"] for text in row if text]
    assert len(texts) == len(set(texts)) == 152
    assert texts[0].startswith("spine0:0: utilisation ")
    upper, lower = found[0]["box"], found[1]["box"]
    assert upper[1] + upper[3] <= lower[1]


def test_too_many_links_are_left_to_the_table(
    figures: list[Plot], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analysis.plot.inline.MOST_CELLS", 100)
    assert grids(figures[2]) == []


def test_an_inlined_figure_keeps_its_words(figures: list[Plot]) -> None:
    drawn = svg(figures[0])
    plain = inline(figures[0], drawn)
    words = re.findall(rb">([^<>\n]+)</text>", drawn)
    assert words
    assert all(word.decode() in plain for word in words)


def test_a_curve_of_a_million_keeps_its_tail_and_every_place_is_its_own() -> None:
    places = kept(1_000_000)
    assert len(places) <= 2200
    assert places[0] == 0
    assert places[-200:].tolist() == list(range(999_800, 1_000_000))
    # one step of the share that is longer is at most half a per cent of that share
    longer = 1_000_000 - places[:-200]
    assert (longer[:-1] / longer[1:]).max() < 1.01


def test_the_curve_in_the_table_is_exact(found: Result, figures: list[Plot]) -> None:
    rows = [row for row in figures[0].rows if row[:2] == ("full mesh", "random")]
    assert len(rows) == 150
    assert [row[4] for row in rows] == pytest.approx([1 - (k + 1) / 150 for k in range(150)])


def test_a_study_whose_tail_is_the_median_shows_it_once(found: Result, figures: list[Plot]) -> None:
    rows = tuple(
        replace(row, q=0.5 if row.q is not None else None, ttft_tail=row.ttft_median)
        for row in found.summaries
    )
    chosen = next(row for row in rows if row.over is not None)
    shallow = replace(found, summaries=rows, verdict=replace(found.verdict, choice=chosen))
    text = page(shallow, figures, {each.name: svg(each) for each in figures})
    heads = re.findall(r">(P50|slowdown P50|TTFT P50)</th>", text[text.index('id="tails"') :])
    assert heads.index("slowdown P50") == 1
    assert heads.count("slowdown P50") == 1
    assert requirements(shallow)[1][2].count("P50") == 1


def test_requirements_are_numbered_and_answered_by_the_choice(found: Result) -> None:
    rows = requirements(found)
    assert [key.split()[0] for key, _, _ in rows] == [f"R{k}" for k in range(1, len(rows) + 1)]
    assert rows[0][1] == "5 ms, 5.0 % may exceed it"
    assert rows[1][:2] == ("R2 TTFT", "500 ms")
    assert rows[-1][1] == "32 prefill + 32 decode GPUs"


def test_the_load_asked_for_is_what_the_scenario_says_and_the_load_drawn_stands_beside_it(
    found: Result,
) -> None:
    def load(said: str) -> tuple[str, str]:
        manifest = msgspec.structs.replace(found.study.manifest, load=said)
        study = replace(found.study, manifest=manifest)
        ((_, asked, got),) = [
            row for row in requirements(replace(found, study=study)) if row[0].endswith("load")
        ]
        return asked, got

    asked, got = load("400 requests/s")
    assert asked == "400 requests/s"
    assert re.fullmatch(r"[0-9.,]+ requests/s arrived, median seed", got)
    assert load("") == ("n/a", got)


def test_the_tables_have_a_row_for_every_alternative_that_ran(found: Result) -> None:
    made = (
        service(found.samples, found.study.manifest),
        gpus(found.samples),
        movements(found.samples, found.moved),
    )
    for part in made:
        assert len(part.rows) == 19, part.title
        assert {len(row) for row in part.rows} == {len(part.columns)}
    shown = ports(watched(found))
    assert [row[2] for row in shown.rows] == ["busiest", "most paused"] * 4


@pytest.mark.parametrize(("most", "top"), [(0.14, 0.2), (0.003, 0.01), (0.6, 1.0), (0.2, 0.2)])
def test_the_scale_of_the_links_ends_where_the_port_with_most_needs(
    found: Result, most: float, top: float
) -> None:
    def busy(cell: Cell) -> Cell:
        ports = cell.ports | {"busy_ps": np.zeros(len(cell.ports["port"]), np.int64)}
        ports["busy_ps"][0] = int(most * window_ps(cell))
        return replace(cell, ports=ports)

    (first, *_) = watched(found)
    drawn = heat([replace(first, cells=tuple(map(busy, first.cells)))])
    assert drawn.figure.axes[0].get_images()[0].get_clim() == (0, top)


def test_the_matrix_holds_every_byte(found: Result, figures: list[Plot]) -> None:
    rows = [row for row in figures[1].rows if row[:2] == ("fat tree", "random")]
    moved = found.moved["fat tree", "random"].matrix
    assert sum(int(str(row[4])) for row in rows) == int(moved.sum()) == 150 * 25_000_000


def test_the_brief_is_one_page_of_tables_that_markdown_reads(found: Result) -> None:
    told = brief(found)
    assert told.startswith("## first look\n")
    open_ = re.sub(r"<details>.*?</details>", "", told, flags=re.DOTALL)
    assert len(open_.splitlines()) < 50
    for line in (each for each in told.splitlines() if each.startswith("|")):
        assert line.endswith("|")
    heads = [line for line in told.splitlines() if line.startswith("| --- |")]
    assert len(heads) == 3  # required, alternatives, policies against the base
    alternatives = told.split("| n |\n")[1].split("\n\n")[0].splitlines()[1:]
    assert len(alternatives) == 20
    assert [line.split("|")[1].strip().split(",")[0] for line in alternatives] == sorted(
        (line.split("|")[1].strip().split(",")[0] for line in alternatives),
        key=("pass", "undecided", "fail", "impossible").index,
    )


def test_the_brief_of_a_study_that_has_not_run_says_so(
    make_question: Callable[..., StudyManifest], tmp_path: Path
) -> None:
    from analysis.record import write_study

    write_study(tmp_path, make_question())
    assert "No alternative has run" in brief(result(read_study(tmp_path)))
