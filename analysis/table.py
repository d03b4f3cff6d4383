"""The terminal's table: fabrics down, policies across, one verdict a cell, within 100 columns.

With more policies than fit, alternatives are listed one a row instead. Labels come from strangers'
files and are shown as plain text.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from analysis.choice import price
from analysis.record import StudyManifest
from analysis.shown import PANELS, Alternative, rows_shown, shown, told
from analysis.summary import MET, MISSED, NOT_LOSSLESS, UNDECIDED, Summary
from analysis.wording import duration, milliseconds, name, percent

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_ACROSS: Final = 5
_STYLE: Final = {MET: "bold green", MISSED: "red", UNDECIDED: "yellow"}


def table(
    rows: Sequence[Summary], study: StudyManifest, first: Sequence[Alternative] = ()
) -> "Table":
    """A rich table of the summaries of a study; print it with a rich console.

    Of very many alternatives it has those that come first in ``first``.
    """
    q = next((name(row.q) for row in rows if row.q is not None), "P50")
    title = f"{q} hand-off in ms, and share over budget"
    if len(study.policies) <= _ACROSS:
        return _matrix(rows, study, title, first)
    return _list(rows, title, first)


def _empty(title: str, *, collapse_padding: bool = False) -> "Table":
    from rich import box
    from rich.table import Table

    return Table(
        title=title,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=collapse_padding,
    )


def _matrix(
    rows: Sequence[Summary], study: StudyManifest, title: str, first: Sequence[Alternative]
) -> "Table":
    from rich.text import Text

    made = _empty(title, collapse_padding=True)
    made.add_column("fabric", overflow="fold", max_width=20)
    for policy in study.policies:
        made.add_column(Text(policy), overflow="fold", max_width=15)
    held = {(row.fabric, row.policy): row for row in rows}
    fabrics = shown(study.fabrics, (fabric for fabric, _ in first), PANELS)
    made.caption = told(len(fabrics), len(study.fabrics), "fabrics", "the report").strip() or None
    for fabric in fabrics:
        line = [held[fabric, policy] for policy in study.policies]
        head = Text(fabric)
        if paid := next(filter(None, map(price, line)), ""):
            head.append(f"\n{paid}", style="dim")
        made.add_row(head, *(_cell(row) for row in line))
    return made


def _cell(row: Summary) -> "Text":
    from rich.text import Text

    if row.over is None:
        served = f"\nTTFT P50 {duration(row.ttft_median)}" if row.local else ""
        return Text(row.verdict + served, style="dim")
    tail = row.tail.value if row.tail is not None else row.median
    text = Text(f"{row.verdict} {milliseconds(tail)}", style=_STYLE[row.verdict])
    text.append(f"\n{percent(row.over.value)} over", style="dim")
    return text.append(f"\n{NOT_LOSSLESS}", style="bold red") if row.lossless else text


def _list(rows: Sequence[Summary], title: str, first: Sequence[Alternative]) -> "Table":
    from rich.text import Text

    made = _empty(title)
    for column in ("fabric", "policy", "cost", "result"):
        made.add_column(column, overflow="fold", max_width=34)
    some = rows_shown(rows, first)
    made.caption = told(len(some), len(rows), "alternatives", "the report").strip() or None
    for row in some:
        made.add_row(
            Text(row.fabric),
            Text(row.policy),
            price(row),
            Text(" ").join(_cell(row).split()),
        )
    return made
