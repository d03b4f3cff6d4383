"""The one style sheet of the plots, and how a figure becomes deterministic bytes.

Colours are those of Okabe and Ito (Color Universal Design, 2008), which colour-blind readers tell
apart; line styles repeat the distinction for print. Labels come from strangers' files: they are
shown as plain text, without mathematics, line breaks or control characters.
"""

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

BLUE: Final = "#0072B2"
ORANGE: Final = "#E69F00"
GREEN: Final = "#009E73"
RED: Final = "#D55E00"
PINK: Final = "#CC79A7"
SKY: Final = "#56B4E9"
BLACK: Final = "#000000"
GREY: Final = "#999999"
INK: Final = "#222222"

SERIES: Final = (BLUE, RED, GREEN, ORANGE, PINK, SKY, BLACK)
DASHES: Final = ("-", (0, (5, 1.5)), (0, (2, 1)), (0, (6, 1.5, 1.5, 1.5)))
MARKS: Final = "osD^vP*X"

STANDING: Final = {"pass": GREEN, "fail": RED, "undecided": ORANGE}

_RC: Final[Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.5,
    "figure.facecolor": "white",
    "text.parse_math": False,
    "axes.unicode_minus": False,
    "svg.hashsalt": "kvfabric",
    "svg.fonttype": "none",
}


@dataclass(frozen=True, slots=True, eq=False)
class Plot:
    """A figure, what it says in words, and the numbers that it shows."""

    name: str
    says: str
    figure: "Figure"
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...] = field(repr=False)
    fields: tuple["Field", ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A panel of a figure that is a grid of links: for each cell its name, and what it shows.

    ``texts`` is rows x columns, "" where the grid has no link.
    """

    axes: "Axes"
    texts: tuple[tuple[str, ...], ...]


@contextmanager
def styled() -> Iterator[None]:
    """The style sheet, for as long as a figure is drawn or written."""
    import matplotlib

    with matplotlib.rc_context(_RC), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def blank(width: float, height: float) -> "Figure":
    """An empty figure, inches, with constrained layout and no link to global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def svg(plot: Plot) -> bytes:
    """The figure as SVG, the same bytes for the same figure; its layout is settled by then."""
    sink = io.BytesIO()
    with styled():
        metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
        plot.figure.savefig(sink, format="svg", metadata=metadata)
        plot.figure.set_layout_engine("none")
    return sink.getvalue()


def png(plot: Plot, dpi: int = 110) -> bytes:
    """The figure as PNG."""
    sink = io.BytesIO()
    with styled():
        # text is wider at this resolution than in the SVG that the layout was settled for
        plot.figure.set_layout_engine("constrained")
        plot.figure.savefig(sink, format="png", dpi=dpi, metadata={"Software": None})
        plot.figure.set_layout_engine("none")
    return sink.getvalue()


def label(text: str, most: int = 28) -> str:
    """A stranger's label, printable and short.

    >>> label("a\\nb"), label("x" * 40)
    ('a b', 'xxxxxxxxxxxxxxxxxxxxxxxxxxx...')
    """
    plain = "".join(c if c.isprintable() else " " for c in text)
    return plain if len(plain) <= most else plain[: most - 1].rstrip() + "..."


def colour(place: int) -> str:
    """The colour of the series at this place."""
    return SERIES[place % len(SERIES)]


def dash(place: int) -> Any:
    """The line style of the series at this place; differs where colours repeat."""
    return DASHES[(place + place // len(SERIES)) % len(DASHES)]


def of_policy(place: int, part: str) -> str:
    """What names a part of a figure, and marks it as the policy's at this place of the study.

    >>> of_policy(2, "tail")
    'tail-of-policy-2.'
    """
    return f"{part}-of-policy-{place}."


def policy_keys(policies: Sequence[str], of: Sequence[str], size: float) -> "list[Line2D]":
    """Legend keys of policies by line, dash and mark; the look is by the place among all ``of``.

    size: of the marks, in points.
    """
    from matplotlib.lines import Line2D

    named = labels(policies)
    return [
        Line2D(
            [],
            [],
            color=colour(place),
            linestyle=dash(place),
            marker=MARKS[place % len(MARKS)],
            markersize=size,
            label=named[policy],
        )
        for policy in policies
        for place in (of.index(policy),)
    ]


def hide_rest(grid: "Sequence[Axes]", used: int, across: int) -> None:
    """Hide the panels that a grid has too many; those above them get the ticks' numbers of theirs.

    grid: row by row, ``across`` panels in each, of which the first ``used`` are drawn.
    """
    for axes in grid[used:]:
        axes.set_visible(False)
    for axes in grid[max(0, used - across) : used]:
        axes.tick_params(labelbottom=True)


def plain_log(axes: "Axes", which: str, decades: Sequence[float] = (1, 2, 5)) -> None:
    """Log scale with ticks at 1, 2, 5 written as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=tuple(decades), numticks=30))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def labels(texts: Sequence[str], most: int = 28) -> dict[str, str]:
    """The labels of different things, cut so that they stay different: wherever texts part ways
    each goes on with what it has of its own, and what is too long in front of it is left out.

    >>> list(labels(["tree buffer=16MiB, ecn=off", "tree buffer=32MiB, ecn=off"], 18).values())
    ['tree buf...16MiB, e...', 'tree buf...32MiB, e...']
    """
    whole = {text: label(text, len(text)) for text in texts}
    found: dict[str, str] = {}
    for pattern in (r"[^ =,]*[ =,]*", "."):  # by words, or else by letters
        parts = {text: re.findall(pattern, plain) for text, plain in whole.items()}
        fork: dict[str, Any] = {}
        for each in parts.values():
            at = fork
            for part in (*each, ""):
                at = at.setdefault(part, {})
        found = {
            text: plain if len(plain) <= most else _fitted(_edges(parts[text], fork), most)
            for text, plain in whole.items()
        }
        if len(set(found.values())) == len(set(whole.values())):
            break
    return found


def _edges(parts: Sequence[str], fork: dict[str, Any]) -> list[str]:
    """A text, split where others part from it."""
    edges = [""]
    for part in parts:
        if len(fork) > 1 and edges[-1]:
            edges.append("")
        edges[-1] += part
        fork = fork[part]
    return edges


def _fitted(edges: Sequence[str], most: int) -> str:
    """The edges in a row, the longest of them cut until they fit; a cut counts as one letter."""
    sizes = [len(edge) for edge in edges]
    while sum(sizes) > most and max(sizes) > 1 + 1:
        sizes[sizes.index(max(sizes))] -= 1
    pairs = zip(edges, sizes, strict=True)
    return "".join(edge if len(edge) == n else f"{edge[: n - 1].rstrip()}..." for edge, n in pairs)
