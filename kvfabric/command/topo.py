"""``kvfabric topo``: which fabric families there are, and what a fabric has, costs and carries."""

from pathlib import Path
from typing import Any

import click

from topo.error import KvfabricError


@click.group()
def command() -> None:
    """List fabric families; show what one has, costs and can carry."""


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
    epilog="""\b
Examples:
  kvfabric topo show scenarios/first-look.yaml
  kvfabric topo show leaf_spine --prefill 32 --decode 32 --nic 400Gbps --set oversubscription=2
  kvfabric topo show scenarios/first-look.yaml --draw out/drawings
"""
)
@click.argument("what", metavar="SCENARIO|FAMILY")
@click.option("--prefill", type=click.IntRange(1), default=32, show_default=True, help="Hosts.")
@click.option("--decode", type=click.IntRange(1), default=32, show_default=True, help="Hosts.")
@click.option("--nic", default="400Gbps", show_default=True, help="NIC and switch port rate.")
@click.option("--ports", type=click.IntRange(2), default=64, show_default=True, help="Of a switch.")
@click.option("--set", "keys", multiple=True, metavar="KEY=NUMBER", help="A key of the family.")
@click.option(
    "--draw",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="Write a drawing of each fabric (SVG and PNG) into this folder.",
)
def show(what: str, draw: Path | None, **facts: Any) -> None:
    """Show the fabrics of a scenario, or one of a family by name, side by side."""
    from kvfabric.build import fabric_of
    from kvfabric.table import print_table
    from topo.family.registry import FAMILIES
    from topo.summary import describe

    alternatives = _of_family(what, **facts) if what in FAMILIES else _of_scenario(what)
    fabrics = [(label, fabric_of(scenario, source)) for label, scenario, source in alternatives]
    tables = [describe(fabric) for _, fabric in fabrics]
    labels = list(dict.fromkeys(label for table in tables for label in table))
    rows = [[label, *(table.get(label, "-") for table in tables)] for label in labels[1:]]
    print_table("Fabrics", ["", *(label for label, _ in fabrics)], rows, wide=40 + 26 * len(tables))
    if draw is not None:
        for label, fabric in fabrics:
            click.echo(f"drawing: {_draw(draw, label, fabric)}")


def _of_scenario(path: str) -> list[tuple[str, Any, Any]]:
    from kvfabric.load import load

    found: dict[str, tuple[str, Any, Any]] = {}
    for a in load(path).alternatives:
        found.setdefault(a.fabric, (a.fabric, a.scenario, a.source))
    return list(found.values())


def _of_family(
    family: str, *, prefill: int, decode: int, nic: str, ports: int, keys: tuple[str, ...]
) -> list[tuple[str, Any, Any]]:
    from kvfabric.load import check
    from kvfabric.source import Source

    fabric: dict[str, Any] = {
        "family": family,
        "nic": nic,
        "switch": {"ports": ports, "rate": nic},
    }
    for key in keys:
        name, _, value = key.partition("=")
        try:
            fabric[name] = int(value) if value.isdigit() else float(value)
        except ValueError:
            raise KvfabricError(f"--set {key}: write KEY=NUMBER, as oversubscription=2") from None
    source = Source(
        "topo show",
        {
            "name": family,
            "fabric": fabric,
            "placement": {"prefill": prefill, "decode": decode},
            "model": "-",
            "gpu": "-",
            "budget": {"handoff": "1s"},
        },
    )
    return [(family, check(source), source)]


def _draw(folder: Path, label: str, fabric: Any) -> Path:
    import re

    from topo.draw import draw

    name = re.sub(r"[^A-Za-z0-9]+", "-", label).strip("-") or "fabric"
    path = folder / f"{name}.svg"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        figure = draw(fabric)
        figure.savefig(path, metadata={"Date": None})
        figure.savefig(path.with_suffix(".png"), dpi=150)
    except OSError as error:
        raise KvfabricError(f"{folder}: {error.strerror}; write another --draw folder") from None
    return path
