"""The report: one self-contained HTML file made from the results on disk alone.

It stands in the study's directory as ``report.html``, with ``summary.md`` (the same on one page of
Markdown), ``summary.csv``, ``measures.csv`` (every measure with its interval), ``classes.csv`` (the
same by class), ``policies.csv`` (paired differences) and, in ``plots/``, every figure as SVG, PNG
and CSV. Nothing in it is fetched from a network, it is whole without a script, and every label is
escaped, since labels come from strangers' files.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from analysis.baseline import rival_rows
from analysis.blame import slowest
from analysis.brief import brief
from analysis.condition import at, cases, conditions
from analysis.economics import bills
from analysis.error import RecordError
from analysis.explain import story
from analysis.export import csv_text, measure_rows, summary_rows
from analysis.page import page
from analysis.pathology import most_paused
from analysis.queue import longest
from analysis.record import read_study
from analysis.result import Result, closest, ranked, result, watched
from analysis.shown import PANELS, shown, told
from analysis.stratum import class_rows
from analysis.summary import emulated
from analysis.witness import Witness

if TYPE_CHECKING:
    from analysis.plot.style import Plot

_PORTS: Final = "ports.parquet of every cell"
_SERIES: Final = "series.parquet of every cell"


def write_report(directory: Path, found: Result | None = None) -> Path:
    """Write the report of the study in a directory and return the path of the HTML file.

    ``found`` spares reading the study again. Raises `RecordError` for damaged results or when the
    directory cannot be written.
    """
    found = found or result(read_study(directory), directory)
    figures = plots(found)
    from analysis.plot.style import png, svg

    images = {each.name: svg(each) for each in figures}
    # before the PNGs, which lay the figures out anew: the page points into the SVGs
    text = page(found, figures, images)
    try:
        (directory / "plots").mkdir(exist_ok=True)
        for each in figures:
            place = directory / "plots" / each.name
            place.with_suffix(".svg").write_bytes(images[each.name])
            place.with_suffix(".png").write_bytes(png(each))
            place.with_suffix(".csv").write_text(csv_text(each.columns, each.rows), "utf-8")
        paid = bills(found.samples, found.study.manifest)
        (directory / "summary.csv").write_text(
            csv_text(*summary_rows(found.summaries, paid)), "utf-8"
        )
        (directory / "measures.csv").write_text(
            csv_text(*measure_rows(found.samples, found.study.manifest)), "utf-8"
        )
        (directory / "classes.csv").write_text(
            csv_text(*class_rows(closest(found), found.study.manifest)), "utf-8"
        )
        (directory / "policies.csv").write_text(
            csv_text(*rival_rows(found.samples, found.study.manifest, found.base)), "utf-8"
        )
        (directory / "summary.md").write_text(brief(found), "utf-8")
        part = directory / ".report.html.part"
        part.write_text(text, "utf-8")
        return part.replace(directory / "report.html")
    except OSError as error:
        raise RecordError(f"{directory}: {error.strerror}; choose another place") from None


def plots(found: Result) -> list["Plot"]:
    """The figures of a study that its results can fill."""
    from analysis.plot.blame import blames
    from analysis.plot.budget import budget
    from analysis.plot.ccdf import ccdf
    from analysis.plot.cost import cost as cost_plot
    from analysis.plot.decision import decision
    from analysis.plot.estimate import estimate
    from analysis.plot.explain import waterfall as explained
    from analysis.plot.heat import heat
    from analysis.plot.load import load
    from analysis.plot.matrix import matrix
    from analysis.plot.pause import gantt
    from analysis.plot.queue import queues
    from analysis.plot.size import size
    from analysis.plot.tornado import tornado

    rows, manifest, first = found.summaries, found.study.manifest, ranked(found)
    made = []
    if any(row.n for row in rows):
        made.append(ccdf(found.samples, manifest, first))
    by_size = size(found.samples, manifest, first)
    if by_size is not None:
        made.append(by_size)
    if found.decisions:
        made.append(decision(found.decisions))
    if found.curves:
        made.append(load(found.curves, manifest, first))
    if found.losses:
        made.append(tornado(found.losses, manifest, first))
    if any(row.parts for row in rows):
        made.append(budget(rows, first))
    if found.blames:
        made.append(blames(found.blames, first))
        made += [explained(story(*each)) for each in _slowest(found)]
    if found.moved:
        made.append(matrix(found.moved, first))
    links = watched(found)
    if links:
        cut = told(len(links), len({row.fabric for row in rows if row.n}), "fabrics", _PORTS)
        made.append(heat(links, cut))
    stopped = most_paused(found.samples, found.place)
    if stopped is not None:
        made.append(gantt(stopped))
    ran = {(part.fabric, part.policy): part for part in found.samples if part.n}
    some = shown(ran, first, PANELS)
    waited = longest((ran[key] for key in some), found.place)
    if waited:
        cut = told(len(some), len(ran), "alternatives", _SERIES)
        made.append(queues(waited, cut))
    if any(row.tail is not None and row.facts is not None for row in rows):
        where = conditions(manifest)
        every = cases(rows, where)
        worst = [replace(one.worst, fabric=one.design, verdict=one.verdict) for one in every]
        designs = [(at(where, fabric).design, policy) for fabric, policy in first]
        made.append(cost_plot(worst, manifest, designs))
    if any(row.bandwidth is not None or row.maxmin is not None for row in rows):
        made.append(estimate(rows, emulated(found.study), first))
    return made


def _slowest(found: Result) -> list[tuple[Witness, int]]:
    """The slowest hand-off of the choice, or of what comes closest to the budget."""
    chosen = (slowest(sample, found.place) for sample in closest(found))
    return [each for each in chosen if each is not None]
