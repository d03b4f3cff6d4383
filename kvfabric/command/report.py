"""``kvfabric report``: the report of a results folder, again, from the results alone."""

from pathlib import Path

import click

from kvfabric.command.study import tell


@click.command(epilog="Example: kvfabric report out/first-look")
@click.argument("results", type=click.Path(path_type=Path))
def command(results: Path) -> None:
    """Write the report of a RESULTS folder and print its table and verdict; nothing is run."""
    tell(results)
