"""The report: one self-contained HTML file made from the results on disk alone.

It stands in the study's directory as ``report.html``, with ``summary.csv`` and, in ``plots/``,
every figure as SVG, PNG and CSV. Nothing in it is fetched from a network, and every label is
escaped, since labels come from strangers' files.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from analysis.breakdown import breakdowns
from analysis.error import RecordError
from analysis.export import csv_text, summary_csv
from analysis.record import Cell, FabricFact, Study, read_study
from analysis.summary import Sample, Summary, common_quantile, emulated, samples, summary
from analysis.verdict import Verdict, verdict
from analysis.verdict import budget as budget_text

if TYPE_CHECKING:
    from analysis.plot.style import Plot


_SPARE: Final = (
    ("never finished", "not_finished"),
    ("prefill not ended", "not_due"),
    ("rejected", "rejected"),
    ("no hand-off needed", "local"),
)
"""Counts that have a column only where one of them is not zero."""


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """Everything that the numbers of a study say, computed once."""

    study: Study
    samples: tuple[Sample, ...]
    summaries: tuple[Summary, ...]
    verdict: Verdict


def result(study: Study) -> Result:
    """Samples, summaries and verdict of a study."""
    parts = samples(study)
    q = common_quantile(parts)
    rows = [summary(part, q, study.manifest.allowed) for part in parts]
    return Result(study, tuple(parts), tuple(rows), verdict(study, parts, rows))


def write_report(directory: Path, found: Result | None = None) -> Path:
    """Write the report of the study in a directory and return the path of the HTML file.

    ``found`` spares reading the study again. Raises `RecordError` for damaged results or when the
    directory cannot be written.
    """
    found = found or result(read_study(directory))
    figures = plots(found)
    from analysis.plot.style import png, svg

    images = {each.name: svg(each) for each in figures}
    try:
        (directory / "plots").mkdir(exist_ok=True)
        for each in figures:
            place = directory / "plots" / each.name
            place.with_suffix(".svg").write_bytes(images[each.name])
            place.with_suffix(".png").write_bytes(png(each))
            place.with_suffix(".csv").write_text(csv_text(each.columns, each.rows), "utf-8")
        (directory / "summary.csv").write_text(summary_csv(found.summaries), "utf-8")
        part = directory / ".report.html.part"
        part.write_text(page(found, figures, images), "utf-8")
        return part.replace(directory / "report.html")
    except OSError as error:
        raise RecordError(f"{directory}: {error.strerror}; choose another place") from None


def plots(found: Result) -> list["Plot"]:
    """The figures of a study that its results can fill."""
    from analysis.plot.budget import budget
    from analysis.plot.ccdf import ccdf
    from analysis.plot.cost import cost as cost_plot
    from analysis.plot.estimate import estimate
    from analysis.plot.heat import heat

    rows, manifest = found.summaries, found.study.manifest
    made = []
    if any(row.n for row in rows):
        made.append(ccdf(found.samples, manifest))
    if any(row.parts for row in rows):
        made.append(budget(rows))
    shown = watched(found)
    if shown:
        made.append(heat(shown))
    if any(row.tail is not None and row.facts is not None for row in rows):
        made.append(cost_plot(rows, manifest))
    if any(row.bandwidth is not None or row.maxmin is not None for row in rows):
        made.append(estimate(rows, emulated(found.study)))
    return made


def watched(found: Result, most: int = 4) -> list[Sample]:
    """The alternatives whose links are drawn: of each fabric the one with the least over budget."""
    best: dict[str, tuple[float, Sample]] = {}
    for sample, row in zip(found.samples, found.summaries, strict=True):
        if row.over is None or not row.n:
            continue
        if row.fabric not in best or row.over.value < best[row.fabric][0]:
            best[row.fabric] = (row.over.value, sample)
    return [sample for _, sample in best.values()][:most]


def page(found: Result, figures: Sequence["Plot"], images: dict[str, bytes]) -> str:
    """The HTML text."""
    from importlib.resources import files

    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    from analysis import wording

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(
        files("analysis").joinpath("report.html.j2").read_text("utf-8")
    )
    # the drawing library escapes the labels inside a figure
    inline = {
        name: Markup(content[content.index(b"<svg") :].decode())  # noqa: S704
        for name, content in images.items()
    }
    manifest = found.study.manifest
    held = {(row.fabric, row.policy): row for row in found.summaries}
    return template.render(
        manifest=manifest,
        budget=budget_text(manifest),
        verdict=found.verdict,
        rows=found.summaries,
        held=held,
        q=next((wording.name(row.q) for row in found.summaries if row.q is not None), "tail"),
        fabrics=facts(found),
        figures={each.name: each for each in figures},
        inline=inline,
        settings=settings(found.study.cells),
        notes=notes(found.study),
        missing=found.study.missing,
        w=wording,
        moved=emulated(found.study),
        breakdowns=breakdowns(found.samples),
        spare=[
            (title, key)
            for title, key in _SPARE
            if any(getattr(row, key) for row in found.summaries)
        ],
        engines=sorted({cell.manifest.emulator for cell in found.study.cells}),
    )


def facts(found: Result) -> dict[str, FabricFact]:
    """What each fabric consists of, in the study's order."""
    return {row.fabric: row.facts for row in reversed(found.summaries) if row.facts is not None}


def settings(cells: Sequence[Cell]) -> dict[str, list[str]]:
    """Every emulator setting with the values that the cells used."""
    used: dict[str, list[str]] = {}
    for cell in cells:
        for key, value in cell.manifest.settings.items():
            values = used.setdefault(key, [])
            if value not in values:
                values.append(value)
    return used


def notes(study: Study) -> list[str]:
    """The notes of the study and of its cells, each once."""
    every = [*study.manifest.notes, *(note for c in study.cells for note in c.manifest.notes)]
    return list(dict.fromkeys(every))
