"""``kvfabric topo``: fabrics to list, show, design, compare, draw, export, import and check."""

from pathlib import Path
from typing import Any

import click

from kvfabric.command.topo_check import check
from kvfabric.command.topo_design import compare, design
from kvfabric.command.topo_file import draw, export, import_, save_drawings
from kvfabric.command.topo_loss import losses
from kvfabric.command.topo_source import fabrics_of, family_options


@click.group()
def command() -> None:
    """List, show, design, compare, draw, export, import and check fabrics; list their losses."""


@command.command("list", epilog="Example: kvfabric topo list")
def list_families() -> None:
    """List the fabric families and the keys that each takes."""
    from msgspec.structs import fields

    from kvfabric.table import print_table
    from topo.family.parameter import WRITTEN, Parameters
    from topo.family.registry import FAMILIES

    common = {field.name for field in fields(Parameters)}
    rows = []
    for family in FAMILIES.values():
        own = [f.name for f in fields(family.parameters) if f.name not in common]
        rows.append([family.name, family.summary, ", ".join(own) or "-"])
    print_table("Fabric families", ["family", "what it is", "its own keys"], rows)
    shared = sorted(WRITTEN.get(n, n) for n in common if n not in ("prefill", "decode"))
    click.echo(f"Every family also takes: {', '.join(shared)}.")
    click.echo("Look at one: kvfabric topo show leaf_spine --prefill 32 --decode 32")


@command.command(
    short_help="Show fabrics side by side.",
    epilog="""\b
Examples:
  kvfabric topo show scenarios/first-look.yaml
  kvfabric topo show leaf_spine --prefill 32 --decode 32 --nic 400Gbps --set oversubscription=2
  kvfabric topo show torus --prefill 32 --decode 32 --set shape=4,4,4
  kvfabric topo show scenarios/first-look.yaml --draw out/drawings
  kvfabric topo show leaf_spine --prefill 512 --decode 512 --bill --prices quotes.csv
""",
)
@click.argument("what", metavar="SCENARIO|FAMILY|FILE")
@click.option(
    "--draw",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="Write a drawing of each fabric (SVG and PNG) into this folder.",
)
@click.option("--bill", "itemised", is_flag=True, help="Show the priced bill, line by line.")
@click.option("--prices", type=click.Path(path_type=Path), default=None, help="A price file, CSV.")
@family_options
def show(what: str, folder: Path | None, itemised: bool, prices: Path | None, **facts: Any) -> None:
    """Show the fabrics of a scenario or file, or one of a family by name, side by side.

    Losses and disjoint paths tell how many of all were tried, where not all were; theta is the
    share of a demand that the best routing carries for all pairs at once.
    """
    from kvfabric.progress import stages, under
    from kvfabric.table import print_table
    from topo.price import prices as price_table
    from topo.summary import describe

    table = price_table(prices)
    with stages("topo show") as tell:
        tell("building")
        fabrics = fabrics_of(what, **facts)
        tables = [
            describe(fabric, prices=table, tell=under(tell, label)) for label, fabric in fabrics
        ]
    labels = list(dict.fromkeys(label for table in tables for label in table))
    rows = [[label, *(table.get(label, "-") for table in tables)] for label in labels[1:]]
    print_table("Fabrics", ["", *(label for label, _ in fabrics)], rows, wide=45 + 32 * len(tables))
    for label, fabric in fabrics if itemised else []:
        show_bill(label, fabric, table)
    if folder is not None:
        save_drawings("topo show", folder, fabrics)


def show_bill(label: str, fabric: Any, table: Any) -> None:
    """Print the lines of the priced bill, their sums, and what the prices rest on."""
    from kvfabric.table import print_lines, print_table
    from topo.price import quote
    from topo.unit import show_rate

    bill = quote(fabric, table)
    rows = [
        [
            entry.item,
            f"{entry.count:,}",
            show_rate(entry.rate_bps),
            f"{entry.most_m:.0f}" if entry.most_m else "-",
            entry.usd.text(1e3) + _mark(entry.usd_assumed),
            entry.watt.text(1e3) + _mark(entry.watt_assumed),
        ]
        for entry in bill.entries
    ]
    rows.append(["all", "", "", "", bill.usd.text(1e3), bill.watt.text(1e3)])
    heads = ["item", "count", "rate", "up to m", "k$", "kW"]
    print_table(f"Bill of {label}", heads, rows, wide=110)
    print_lines(
        f"Rack units of switches: {bill.rack_units.text()}. *: an assumption. Figures, dates "
        "and sources: topo/price.csv; give quotes of your own with --prices."
    )


def _mark(assumed: bool) -> str:
    return " *" if assumed else ""


for verb in (design, compare, draw, export, import_, check, losses):
    command.add_command(verb)
