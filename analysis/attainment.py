"""The page of a search for goodput: table, plot and how it was found, in one HTML file.

``goodput.html`` stands in the search's folder, with ``goodput.csv`` and, in ``plots/``, the figure
as SVG, PNG and CSV. As in the report nothing is fetched and every label is escaped.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.error import RecordError
from analysis.export import csv_text
from analysis.goodput import COLUMNS, Search, row, sentences
from analysis.wording import percent


def method(searches: Sequence[Search]) -> str:
    """How the numbers were found, in a few sentences."""
    goal, precision = searches[0].goal, searches[0].precision
    seeds = max((len(p.trials) for s in searches for p in s.points), default=0)
    return (
        f"Goodput is the highest rate at which {percent(goal)} of the requests meet their "
        "objectives for TTFT and TPOT, as DistServe defines it (Zhong et al., OSDI 2024, section "
        "2); a request that was rejected or had not finished met none. Rates were doubled or "
        "halved from the first one and then bisected until the one that met the goal and the one "
        f"that missed it lay within {percent(precision)}; attainment in brackets is the 95 % "
        f"interval over {seeds} seed{'s' * (seeds != 1)}, the same for every alternative and rate. "
        "At another rate the same requests come closer together. GPUs are those of both pools. A "
        "seed has a fixed number of requests: above capacity, a longer run attains less."
    )


def write_goodput(
    directory: Path, searches: Sequence[Search], *, about: dict[str, str], reproduce: str
) -> Path:
    """Write the page of a search and return its path.

    ``about`` has the ``name``, the ``question`` and the ``scenario`` as text. Raises `RecordError`
    when the directory cannot be written.
    """
    from importlib.resources import files

    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    from analysis.plot.attainment import attainment
    from analysis.plot.inline import inline
    from analysis.plot.style import png, svg

    rows = [row(one) for one in searches]
    plot = attainment(searches)
    drawn = svg(plot)
    home = files("analysis")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(home.joinpath("goodput.html.j2").read_text("utf-8"))
    # our own files, and a figure whose labels the drawing library has escaped
    trusted: dict[str, Any] = {
        "style": Markup(home.joinpath("report.css").read_text("utf-8")),  # noqa: S704
        "drawing": Markup(inline(plot, drawn)),  # noqa: S704
    }
    page = template.render(
        **trusted,
        **about,
        columns=COLUMNS,
        rows=rows,
        sentences=sentences(searches),
        method=method(searches),
        says=plot.says,
        reproduce=reproduce,
    )
    try:
        place = directory / "plots" / plot.name
        place.parent.mkdir(exist_ok=True)
        place.with_suffix(".svg").write_bytes(drawn)
        place.with_suffix(".png").write_bytes(png(plot))
        place.with_suffix(".csv").write_text(csv_text(plot.columns, plot.rows), "utf-8")
        (directory / "goodput.csv").write_text(csv_text(COLUMNS, rows), "utf-8")
        part = directory / ".goodput.html.part"
        part.write_text(page, "utf-8")
        return part.replace(directory / "goodput.html")
    except OSError as error:
        raise RecordError(f"{directory}: {error.strerror}; choose another place") from None
