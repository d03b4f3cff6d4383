"""``kvfabric topo design`` and ``compare``: families sized for two pools, and their measures."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import click

from kvfabric.command.topo_source import by_option, fabrics_of
from kvfabric.progress import Tell
from topo.error import KvfabricError


def _a_number(
    _context: click.Context, option: click.Parameter, value: float | None
) -> float | None:
    """Refuse nan, which lies in every range."""
    if value is not None and math.isnan(value):
        raise click.BadParameter("nan is not a number; write a ratio as 2", param=option)
    return value


def pool_options(function: Any) -> Any:
    """The question that designs answer."""
    for option in reversed(
        (
            click.option(
                "--prefill",
                type=click.IntRange(1, 65536),
                default=32,
                show_default=True,
                help="GPUs, one NIC each.",
            ),
            click.option(
                "--decode",
                type=click.IntRange(1, 65536),
                default=32,
                show_default=True,
                help="GPUs, one NIC each.",
            ),
            by_option,
            click.option(
                "--gpus-per-server", type=click.IntRange(1, 64), default=None, help="GPUs a server."
            ),
            click.option("--nic", default="400Gbps", show_default=True, help="NIC rate."),
            click.option(
                "--ports",
                type=click.IntRange(2, 65536),
                default=64,
                show_default=True,
                help="Ports of the switch.",
            ),
            click.option(
                "--switch-rate", default=None, help="Rate of a port; that of the NIC if not."
            ),
            click.option("--buffer", default="64MiB", show_default=True, help="Of the switch."),
            click.option(
                "--breakout", type=click.IntRange(1, 8), default=None, help="Ports of one."
            ),
            click.option(
                "--oversubscription",
                type=click.FloatRange(0.001, 1000),
                callback=_a_number,
                default=None,
                help="The most a leaf may have.",
            ),
            click.option(
                "--family",
                "families",
                multiple=True,
                help="A family of `kvfabric topo list`; again for more. All if not.",
            ),
        )
    ):
        function = option(function)
    return function


def _designs(
    *,
    prefill: int,
    decode: int,
    by: str,
    gpus_per_server: int | None,
    nic: str,
    ports: int,
    switch_rate: str | None,
    buffer: str,
    breakout: int | None,
    oversubscription: float | None,
    families: tuple[str, ...],
    tell: Tell,
) -> list[Any]:
    from topo.design import Spec, design
    from topo.fabric import Switch
    from topo.family.registry import FAMILIES
    from topo.unit import rate, size

    spec = Spec(
        prefill=prefill,
        decode=decode,
        by=by,
        gpus_per_server=gpus_per_server,
        nic_bps=rate(nic),
        switch=Switch(ports=ports, rate_bps=rate(switch_rate or nic), buffer_bytes=size(buffer)),
        breakout=breakout,
        other={"oversubscription": oversubscription},
    )
    found: list[Any] = []
    for family in families or FAMILIES:
        tell(f"designing {family}")
        found += design(spec, [family])
    return found


@click.command(
    short_help="Find a fabric of every family for the pools.",
    epilog="""\b
Examples:
  kvfabric topo design --prefill 512 --decode 512
  kvfabric topo design --prefill 96 --decode 32 --ports 32 --switch-rate 800Gbps --breakout 2
""",
)
@pool_options
def design(**facts: Any) -> None:
    """Find, for every family, a fabric that holds the pools, or say why there is none."""
    from kvfabric.progress import stages
    from kvfabric.table import print_table
    from topo.bom import TIER_NAMES, bom

    rows = []
    with stages("topo design") as tell:
        designs = _designs(**facts, tell=tell)
    for found in designs:
        if found.fabric is None:
            rows.append([found.family, "-", "-", "-", found.reason])
            continue
        parts = bom(found.fabric)
        tiers = ", ".join(
            f"{count} {TIER_NAMES.get(tier, f'tier {tier}')}"
            for tier, count in parts.switches.items()
        )
        own = ", ".join(f"{key}: {found.values[key]}" for key in ("degree",) if key in found.values)
        cables = str(parts.switch_cables + parts.host_cables)
        rows.append(
            [found.family, tiers or "no switch", cables, f"{parts.cost_usd / 1e3:,.0f}", own or "-"]
        )
    print_table(
        "Designs", ["family", "switches", "cables", "cost k$", "keys, or why not"], rows, wide=130
    )


@click.command(
    short_help="Tabulate fabrics: cost, capacity, losses.",
    epilog="""\b
Examples:
  kvfabric topo compare scenarios/first-look.yaml
  kvfabric topo compare --prefill 512 --decode 512 --family leaf_spine --family fat_tree
  kvfabric topo compare --prefill 512 --decode 512 rail_optimised multi_plane
  kvfabric topo compare mine.json theirs.clab.yml
""",
)
@click.argument("what", nargs=-1, metavar="[SCENARIO|FAMILY|FILE]...")
@click.option("--prices", type=click.Path(path_type=Path), default=None, help="A price file, CSV.")
@pool_options
def compare(what: tuple[str, ...], prices: Path | None, **facts: Any) -> int:
    """Tabulate fabrics: the alternatives of a scenario, files, or families sized for the pools.

    Exit with 1 where no family fits.
    """
    from kvfabric.progress import stages, under
    from kvfabric.table import print_lines, print_table
    from topo.carry import LOST
    from topo.family.registry import FAMILIES
    from topo.measure import BUILT, REACHED, measure
    from topo.price import prices as price_table

    table = price_table(prices)
    refused: list[tuple[str, str]] = []
    named = tuple(name for name in what if name in FAMILIES)
    what = tuple(name for name in what if name not in FAMILIES)
    facts["families"] = tuple(dict.fromkeys(facts["families"] + named))
    if what and facts["families"]:
        raise KvfabricError("topo compare: files and families together; write one or the other")
    with stages("topo compare") as tell:
        tell("building")
        if what:
            fabrics = _told_apart([(n, *pair) for n in what for pair in fabrics_of(n, **facts)])
        else:
            found = _designs(**facts, tell=tell)
            fabrics = [(each.family, each.fabric) for each in found if each.fabric is not None]
            refused = [(each.family, each.reason) for each in found if each.fabric is None]
        rows: list[tuple[str, dict[str, str]]] = []
        for number, (label, fabric) in enumerate(fabrics, 1):
            place = f"{label} ({number} of {len(fabrics)})"
            rows.append((label, measure(fabric, table, under(tell, place))))
    if rows:
        for title, columns in (
            ("What it takes to build", BUILT),
            ("What it carries", REACHED),
            ("What is left of mu after the worst loss, and which", LOST),
        ):
            cells = [[label, *(row[column] for column in columns)] for label, row in rows]
            print_table(title, ["fabric", *columns], cells, wide=140)
    for family, reason in refused:
        click.echo(f"{family}: does not fit: {reason.removeprefix(f'{family}: ')}")
    if not rows:
        return 1
    print_lines(
        "cost: model of switches and links between them; bill (with NICs and host cables) and kW: "
        "ranges of the price file, which says what is assumed. longest, mean: links of shortest "
        "paths. theta: share of a demand "
        "carried for all pairs at once; a..b: bounds. bisection: least found, misleads."
    )
    return 0


def _told_apart(found: list[tuple[str, str, Any]]) -> list[tuple[str, Any]]:
    """Labels and fabrics; a label that two files share gets the file beside it."""
    shared = Counter(label for _, label, _ in found)
    return [
        (f"{label} ({file})" if shared[label] > 1 else label, fabric)
        for file, label, fabric in found
    ]
