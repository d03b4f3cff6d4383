"""``kvfabric report``: the report of a results folder, again, from the results alone."""

from pathlib import Path

import click

from kvfabric.command.gate import assert_option
from kvfabric.command.study import judge, tell
from topo.error import KvfabricError


@click.command(
    epilog="""\b
Examples:
  kvfabric report out/first-look
  kvfabric report out/first-look --base least_loaded
  kvfabric report out/first-look --assert 'choice: over_budget<1%'
"""
)
@click.argument("results", type=click.Path(path_type=Path))
@click.option(
    "--base", metavar="POLICY", help="Hold the other policies against this one.  [default: first]"
)
@assert_option
def command(results: Path, base: str | None, asserted: tuple[str, ...]) -> int:
    """Write the report of a RESULTS folder and print its table and verdict; nothing is run.

    With --assert the conditions alone are told, and the report stays as it is.
    """
    if (results / "goodput.key").is_file():
        raise KvfabricError(
            f"{results}: holds a search for goodput, whose report is goodput.html; open it, or run "
            "`kvfabric goodput` again to write it anew"
        )
    if asserted and base is not None:
        raise KvfabricError(
            "--base: is of the report, which --assert leaves as it is; write one of the two"
        )
    return judge(results, asserted) if asserted else tell(results, base=base)
