"""``kvfabric traffic``: what requests look like and weigh; public traces to use."""

import os
from pathlib import Path

import click


@click.group()
def command() -> None:
    """Show the requests of a scenario or trace; download public traces."""


@command.command(
    epilog="""\b
Examples:
  kvfabric traffic show scenarios/first-look.yaml
  kvfabric traffic show azure-code.csv --window 0s 60s --model Llama-3.1-70B
"""
)
@click.argument("file", type=click.Path(path_type=Path), metavar="SCENARIO|TRACE")
@click.option("--model", "name", default=None, help="Tell KV bytes of this model as well.")
@click.option("--window", nargs=2, metavar="FROM TO", default=None, help="As `0s 60s`.")
@click.option("--scale-rate", type=float, default=1.0, show_default=True, help="Times as fast.")
@click.option("--count", type=click.IntRange(1), default=None, help="The first requests only.")
@click.option("--jitter/--no-jitter", default=True, show_default=True, help="Inside coarse ticks.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
def show(
    file: Path,
    name: str | None,
    window: tuple[str, str] | None,
    scale_rate: float,
    count: int | None,
    jitter: bool,
    seed: int,
) -> None:
    """Show lengths, rate, burstiness and KV load of a scenario's requests or of a trace."""
    from kvfabric.table import print_table
    from topo import unit
    from traffic.model import model
    from traffic.summary import summary

    if file.suffix in (".yaml", ".yml"):
        from kvfabric.build import requests_of
        from kvfabric.load import load

        study = load(file)
        table, notes = requests_of(study.scenario, study.source, seed)
        name = name or study.scenario.model
    else:
        from traffic.trace.registry import trace

        span = (unit.duration(window[0]), unit.duration(window[1])) if window else None
        found = trace(
            file, window_ps=span, scale_rate=scale_rate, count=count, jitter=jitter, seed=seed
        )
        table, notes = found.requests, [found.source, *found.notes]
    told = summary(table, model(name) if name else None)
    print_table(f"Requests of {file.name}", ["", ""], [list(row) for row in told.rows()])
    for note in notes:
        click.echo(f"- {note}")


@command.command(
    epilog="""\b
Examples:
  kvfabric traffic get azure-code
  kvfabric traffic get mooncake --dir traces
"""
)
@click.argument("name", metavar="azure-code|azure-conv|mooncake")
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="Where to put it.  [default: $KVFABRIC_DATA, else traces]",
)
def get(name: str, folder: Path | None) -> None:
    """Download a public trace, check its SHA-256, and tell its licence and citation."""
    from traffic.download import get as fetch

    done = fetch(name, folder or Path(os.environ.get("KVFABRIC_DATA") or "traces"))
    click.echo(f"{'fetched' if done.fetched else 'already there'}: {done.path}")
    click.echo(f"licence: {done.trace.licence}")
    click.echo(f"cite:    {done.trace.citation}")
    click.echo(f"next:    kvfabric traffic show {done.path}")
