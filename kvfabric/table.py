"""Tables on the terminal: aligned, wrapped to the window, nothing but text when piped."""

from collections.abc import Sequence


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
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console = Console(width=wide)
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    left = len(rows[most:]) if most is not None else 0
    rows = rows[:most]
    for number, column in enumerate(columns):
        widest = max((len(row[number]) for row in rows), default=0)
        kept = number == 0 and 3 * widest <= console.width
        table.add_column(Text(column), no_wrap=kept, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
    if left:
        console.print(f"and {left:,} more rows: see the report\n", highlight=False)
