"""The report as one HTML text: styles, figures and the little script it can do without, inside."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from analysis import wording
from analysis.baseline import SAME, baseline
from analysis.breakdown import breakdowns
from analysis.breakeven import breakeven
from analysis.caching import caching
from analysis.culprit import ranking
from analysis.decision import table as decisions
from analysis.deed import deeds
from analysis.economics import token_costs
from analysis.failure import failures
from analysis.latency import latency
from analysis.loss import table as losses
from analysis.memory import memory
from analysis.pathology import pauses, spreads
from analysis.record import Cell, Study
from analysis.result import Result, closest, requirements, watched
from analysis.review import capacity, elsewhere
from analysis.segment import classes
from analysis.signal import signals
from analysis.stratum import requests_by_class
from analysis.summary import NOT_LOSSLESS, emulated, unknown
from analysis.sweep import knees, loads
from analysis.tally import tallies
from analysis.throughput import throughputs
from analysis.use import gpus, movements, ports, service
from analysis.verdict import budget
from analysis.waterfall import bandwidths

if TYPE_CHECKING:
    from analysis.plot.style import Plot

_SPARE: Final = (
    ("never finished", "not_finished"),
    ("prefill not ended", "not_due"),
    ("rejected", "rejected"),
    ("failed", "failed"),
    ("no hand-off needed", "local"),
)
"""Counts that have a column only where one of them is not zero."""


def page(found: Result, figures: Sequence["Plot"], images: Mapping[str, bytes]) -> str:
    """The HTML text; ``images`` holds the SVG of every figure by its name."""
    from importlib.resources import files

    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    from analysis.plot.inline import grids, inline

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    home = files("analysis")
    texts = {kind: home.joinpath(f"report.{kind}").read_text("utf-8") for kind in ("css", "js")}
    template = environment.from_string(home.joinpath("report.html.j2").read_text("utf-8"))
    # our own files, and figures whose labels the drawing library has escaped
    trusted: dict[str, Any] = {
        "style": Markup(texts["css"]),  # noqa: S704
        "script": Markup(texts["js"]),  # noqa: S704
        "inline": {p.name: Markup(inline(p, images[p.name])) for p in figures},  # noqa: S704
    }
    manifest = found.study.manifest
    waited = [one for one in (latency(found.samples),) if one.rows]
    served = (
        *(tallies(found.samples), service(found.samples, manifest), throughputs(found.samples)),
        *(token_costs(found.samples, manifest), breakeven(found.samples, manifest)),
        *(gpus(found.samples), memory(found.samples)),
        *(caching(found.samples), failures(found), deeds(found.samples)),
        *(requests_by_class(sample, manifest) for sample in closest(found)),
    )
    return template.render(
        **trusted,
        manifest=manifest,
        budget=budget(manifest),
        verdict=found.verdict,
        requirements=requirements(found),
        policies=baseline(found.samples, manifest, found.base),
        rows=found.summaries,
        held={(row.fabric, row.policy): row for row in found.summaries},
        q=found.tail_name(),
        deep=found.tail_name() != "P50",
        fabrics=found.facts(),
        figures={each.name: each for each in figures},
        grids={each.name: grids(each) for each in figures},
        settings=settings(found.study.cells),
        notes=notes(found.study),
        missing=found.study.missing,
        not_lossless=NOT_LOSSLESS,
        w=wording,
        numeric=numeric,
        moved=emulated(found.study),
        unknown=unknown(found.study),
        breakdowns=[*breakdowns(found.samples), *waited],
        service=[part for part in served if part.rows],
        movement=movements(found.samples, found.moved),
        ports=ports(watched(found)),
        pathologies=(
            pauses(found.samples, found.place),
            spreads(found.samples, found.place),
            signals(found.samples, found.place),
        ),
        bandwidths=bandwidths(found.samples, found.place),
        capacity=capacity(found.samples),
        decisions=decisions(found.decisions),
        knees=knees(found.curves),
        loads=loads(found.curves),
        losses=losses(found.losses),
        elsewhere=elsewhere(manifest),
        blamed=ranking(found.blames),
        classes=[classes(sample) for sample in closest(found)],
        spare=[
            (title, key)
            for title, key in _SPARE
            if any(getattr(row, key) for row in found.summaries)
        ],
        engines=sorted({cell.manifest.emulator for cell in found.study.cells}),
    )


def numeric(text: str) -> bool:
    """Whether a cell of a table is a number with what belongs to it, to be set to the right.

    >>> [numeric(text) for text in ("+1.3 ms (one seed)", "< 0.1 %", "n/a", "spine0:1 > h1:0")]
    [True, True, True, False]
    """
    return (
        text[:1].isdigit()
        or text[:1] in ("+", "-", "<", "$")
        or text.partition(" (")[0] in (wording.NONE, SAME)
    )


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
