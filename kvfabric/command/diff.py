"""``kvfabric diff``: what changed between two results, in the scenario and in the numbers."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kvfabric.account import Account


@click.command(
    epilog="""\b
Examples:
  kvfabric diff out/before out/after
  kvfabric diff out/main out/branch --markdown diff.md --fail-if worse
"""
)
@click.argument("first", type=click.Path(path_type=Path), metavar="A")
@click.argument("second", type=click.Path(path_type=Path), metavar="B")
@click.option(
    "--markdown",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help="Write the same as Markdown, for a pull request.",
)
@click.option(
    "--fail-if",
    type=click.Choice(["worse", "any"]),
    default=None,
    help="Exit 1 when a number is found to be worse in B, or any to differ.",
)
@click.option(
    "--rows",
    type=click.IntRange(1, 1000),
    default=12,
    show_default=True,
    help="Rows a table, at most.",
)
def command(
    first: Path, second: Path, markdown: Path | None, fail_if: str | None, rows: int
) -> int:
    """Tell what changed from results A to results B: scenario, numbers, links, and how sure.

    Numbers are compared seed by seed over the common seeds. Nothing is run.
    """
    from analysis.record import read_study
    from kvfabric.account import account
    from kvfabric.progress import stages
    from topo.error import KvfabricError

    with stages("diff") as say:
        say(f"reading {first}")
        one = read_study(first)
        say(f"reading {second}")
        other = read_study(second)
        say("comparing")
        told = account(one, other, (str(first), str(second)), rows)
    _print(told)
    if markdown is not None:
        try:
            markdown.write_text(told.markdown(), encoding="utf-8")
        except OSError as error:
            raise KvfabricError(f"{markdown}: cannot be written: {error.strerror}") from None
    failed = {"any": told.found, "worse": told.worse, None: False}[fail_if]
    return int(failed)


def _print(told: "Account") -> None:
    from analysis.wording import printable
    from kvfabric.table import print_table

    click.echo(printable(told.headline))
    for section in told.sections:
        if section.rows:
            click.echo()
            rows = [[printable(cell) for cell in row] for row in section.rows]
            print_table(section.title, section.columns, rows)
        for line in section.lines:
            click.echo(printable(line))
