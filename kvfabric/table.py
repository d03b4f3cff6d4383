"""Tables and sentences on the terminal: wrapped to the window, nothing but text when piped.

Without a window the width is that of ``COLUMNS``, or else what the caller says.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console


_ENDLESS: Final = 10**6


def console(wide: int = 100) -> "Console":
    """Where to print; ``wide`` is the width where neither a window nor ``COLUMNS`` tells one."""
    from rich.console import Console

    told = Console()
    return told if told.is_terminal or "COLUMNS" in os.environ else Console(width=wide)


def print_lines(*sentences: str) -> None:
    """Print sentences, one a line, wrapped between words; where no width is told they are not."""
    from rich.text import Text

    window = console(_ENDLESS)
    for each in sentences:
        window.print(Text(each))


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    wide: int = 100,
    most: int | None = None,
) -> None:
    """Print rows of text under column heads; the first column is not wrapped unless it would leave
    too little to the others. Of more rows than ``most`` it is said how many the report has more."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    window = console(wide)
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    left = len(rows[most:]) if most is not None else 0
    rows = rows[:most]
    for number, column in enumerate(columns):
        widest = max((len(row[number]) for row in rows), default=0)
        kept = number == 0 and 3 * widest <= window.width
        table.add_column(Text(column), no_wrap=kept, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    window.print(table)
    if left:
        window.print(f"and {left:,} more rows: see the report\n", highlight=False)
