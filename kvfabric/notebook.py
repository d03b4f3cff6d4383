"""Results in a notebook: Arrow tables, pandas frames where pandas is installed, figures to restyle.

    import kvfabric
    found = kvfabric.results("out/first-look")
    found.plot("handoff-ccdf")

Nothing is run, and nothing is drawn or converted before it is asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topo.error import KvfabricError

if TYPE_CHECKING:
    import pyarrow
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.plot.style import Plot
    from analysis.result import Result
    from kvfabric.account import Account


@dataclass(frozen=True)
class Drawing:
    """A figure of the report with its panels; notebooks show it as it stands when they do."""

    plot: "Plot"

    @property
    def figure(self) -> "Figure":
        """The matplotlib figure."""
        return self.plot.figure

    @property
    def axes(self) -> "list[Axes]":
        """Its visible panels, to be restyled."""
        return [axes for axes in self.plot.figure.axes if axes.get_visible()]

    @property
    def table(self) -> "pyarrow.Table":
        """The numbers that it shows."""
        from analysis.arrow import listed

        return listed(self.plot.columns, self.plot.rows)

    def save(self, path: str | Path) -> None:
        """Write it, in the format of the name's ending (svg, png, pdf)."""
        from analysis.plot.style import styled

        try:
            with styled():
                self.plot.figure.savefig(path)
        except (OSError, ValueError) as error:
            raise KvfabricError(f"{path}: cannot be drawn: {error}; write a .svg or .png") from None

    def _repr_svg_(self) -> str:
        from analysis.plot.style import svg

        return svg(self.plot).decode()


class Results:
    """A results folder, read whole."""

    def __init__(self, path: str | Path) -> None:
        from analysis.record import read_study

        self.path = Path(path)
        self.study = read_study(self.path)

    @cached_property
    def result(self) -> "Result":
        """Samples, summaries and verdict, as the report has them."""
        from analysis.result import result

        return result(self.study, self.path)

    @property
    def verdict(self) -> str:
        """The decision in words."""
        return self.result.verdict.text()

    @property
    def tables(self) -> tuple[str, ...]:
        """The names that `table` and `frame` take."""
        from analysis.arrow import CELLS

        return ("summary", "measures", *CELLS)

    def table(self, name: str = "summary") -> "pyarrow.Table":
        """A table by its name: ``summary`` has a row an alternative, ``measures`` a row a number
        with its interval, the others (`analysis.arrow.CELLS`) the rows of every cell.

        Raises `SummaryError` for an unknown name.
        """
        from analysis.arrow import cells, listed
        from analysis.economics import bills
        from analysis.export import measure_rows, summary_rows

        if name == "summary":
            paid = bills(self.result.samples, self.study.manifest)
            return listed(*summary_rows(self.result.summaries, paid))
        if name == "measures":
            return listed(*measure_rows(self.result.samples, self.study.manifest))
        return cells(self.study, name)

    def frame(self, name: str = "summary") -> Any:
        """The same as a pandas DataFrame. Raises `KvfabricError` where pandas is not installed."""
        try:
            return self.table(name).to_pandas()
        except ImportError:
            raise KvfabricError(
                f"frame({name!r}): pandas is not installed; pip install pandas, or use table()"
            ) from None

    @cached_property
    def _plots(self) -> "dict[str, Plot]":
        from analysis.report import plots

        return {each.name: each for each in plots(self.result)}

    @property
    def plots(self) -> tuple[str, ...]:
        """The names that `plot` takes."""
        return tuple(self._plots)

    def plot(self, name: str = "handoff-ccdf") -> Drawing:
        """A figure of the report by its name. Raises `KvfabricError` for an unknown one."""
        if name not in self._plots:
            known = ", ".join(self.plots) or "none, since nothing has run"
            raise KvfabricError(f"plot {name[:40]!r}: unknown; these results have {known}")
        return Drawing(self._plots[name])

    def holds(self, condition: str) -> bool:
        """Whether a condition as of ``--assert`` holds; undecided does not.

        Raises `SummaryError` for what is not a condition.
        """
        from analysis.assertion import HOLDS, assertion, decide

        chosen = self.result.verdict.choice
        choice = (chosen.fabric, chosen.policy) if chosen is not None else None
        asked = assertion(condition)
        return decide(asked, self.result.samples, self.study.manifest, choice).standing == HOLDS

    def diff(self, other: "Results", rows: int = 12) -> "Account":
        """What changed from these results to others."""
        from kvfabric.account import account

        return account(self.study, other.study, (str(self.path), str(other.path)), rows)

    def __repr__(self) -> str:
        cells: Sequence[object] = self.study.cells
        return f"Results({str(self.path)!r}: {self.study.manifest.name!r}, {len(cells)} cells)"

    def _repr_markdown_(self) -> str:
        from analysis.brief import brief

        return brief(self.result)


def results(path: str | Path) -> Results:
    """Read a results folder. Raises `RecordError` in one line where it is not one."""
    return Results(path)
