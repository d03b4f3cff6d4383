"""``kvfabric topo check``: is a fabric whole, and which of its routings are free of deadlock?"""

from typing import Any

import click

from kvfabric.command.topo_source import fabrics_of, family_options


@click.command(
    short_help="Check that fabrics are whole and free of deadlock.",
    epilog="""\b
Examples:
  kvfabric topo check scenarios/first-look.yaml
  kvfabric topo check torus --prefill 32 --decode 32 --ports 16 --set shape=4,4,4
  kvfabric topo check torus --ports 16 --set shape=4,4,4 --routing dateline
  kvfabric topo check theirs.clab.yml
""",
)
@click.argument("what", metavar="SCENARIO|FAMILY|FILE")
@click.option(
    "--routing",
    default=None,
    help="Check this one only: shortest, up-down, dimension, dateline, group, hop, valiant, "
    "spanning.",
)
@family_options
def check(what: str, routing: str | None, **facts: Any) -> int:
    """Check that fabrics are whole, and which routings are free of deadlock with how many channels.

    Exit with 1 where the routing asked for can deadlock; without one, where PFC can deadlock on all
    shortest paths in one class, which is what scenarios run. ACKs go back by the same rules and
    count; without roles all hosts talk to all.
    """
    from kvfabric.progress import stages
    from kvfabric.table import print_table
    from topo.check import check as check_fabric
    from topo.freedom import ROUTINGS, freedoms

    failed = False
    with stages("topo check") as tell:
        tell("building")
        found = []
        for label, fabric in fabrics_of(what, **facts):
            check_fabric(fabric)
            tell(f"{label}: routings")
            found.append((label, freedoms(fabric, routing)))
    for label, ways in found:
        rows = [
            [
                way.routing,
                str(way.channels),
                str(way.longest),
                f"{way.mean:.2f}",
                f"{way.tried:,}" if way.tried == way.total else f"{way.tried:,} of {way.total:,}",
                way.verdict,
            ]
            for way in ways
        ]
        heads = ["routing", "channels", "longest", "mean", "pairs", "deadlock"]
        print_table(label, heads, rows, wide=130)
        first = ways[0]
        failed = failed or not first.free
        click.echo(f"{label}: whole; {_conclusion(first, ways[1:])}")
    shown = {way.routing for _, ways in found for way in ways}
    for name in ROUTINGS:
        if name in shown:
            click.echo(f"  {name}: {ROUTINGS[name]}")
    return int(failed)


def _conclusion(first: Any, others: list[Any]) -> str:
    lossless = "PFC" if first.routing == "shortest" else first.routing
    if first.free:
        need = f" with {first.channels} channels" if first.channels > 1 else ""
        return f"{lossless} cannot deadlock{need}"
    free = [
        f"{way.routing} on {way.channels} channel{'s' * (way.channels > 1)}"
        for way in others
        if way.free
    ]
    ways = f"; free of it: {', '.join(free)}" if free else ""
    return f"{lossless} can deadlock on {first.routing} paths{ways}"
