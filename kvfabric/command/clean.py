"""``kvfabric clean``: remove what killed runs of ``kvfabric emulate`` left."""

import click

from topo.error import KvfabricError


@click.command(
    epilog="""\b
Examples:
  sudo -E kvfabric clean
"""
)
def command() -> int:
    """Remove processes, namespaces, interfaces and files of runs whose command is gone.

    Only what carries the mark or the prefix of such a run is touched. Runs under way are left
    alone.
    """
    import os

    from emulate.mininet.clean import clean
    from emulate.mininet.record import FOLDER

    if FOLDER.exists() and not os.access(FOLDER, os.W_OK):
        raise KvfabricError(f"{FOLDER}: only root may look there; write: sudo -E kvfabric clean")
    removed, running = clean()
    for one in removed:
        click.echo(
            f"{one.prefix} ({one.what}): removed {one.processes} process(es), "
            f"{len(one.interfaces)} interface(s), {one.files} file(s)"
        )
    for record in running:
        click.echo(f"{record.prefix} ({record.what}): is running, as process {record.pid}; kept")
    if not removed and not running:
        click.echo("nothing is left of any run")
    return 0
