"""``kvfabric doctor``: what this machine has of what real frames need, and what to install."""

import click


@click.command(
    epilog="""\b
Examples:
  kvfabric doctor
  sudo -E kvfabric doctor
"""
)
def command() -> int:
    """Look at everything that `kvfabric emulate` needs and likes; say what to install.

    Creates nothing that stays. Exits 1 when a run is not possible here.
    """
    from emulate.mininet.doctor import probes
    from emulate.mininet.support import kernel
    from kvfabric.table import print_table

    found = probes()
    rows = [
        (
            probe.what,
            "ok" if probe.good else "MISSING" if probe.needed else "no",
            probe.found,
            "" if probe.good else probe.remedy,
        )
        for probe in found
    ]
    print_table(f"kernel {kernel()}", ("what", "", "found", "what to do"), rows)
    missing = [probe.what for probe in found if probe.needed and not probe.good]
    if missing:
        click.echo(f"real frames are not possible here: {', '.join(missing)}")
        return 1
    click.echo("real frames are possible here; whether they are on time, each run's guard says")
    return 0
