"""What the verbs of ``kvfabric topo`` work on: a scenario, a family by name, or a fabric file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from topo.error import KvfabricError
from topo.fabric import Fabric


def family_options(function: Callable[..., object]) -> Callable[..., object]:
    """The options by which a family is sized."""
    for option in reversed(
        (
            click.option(
                "--prefill", type=click.IntRange(1), default=32, show_default=True, help="Hosts."
            ),
            click.option(
                "--decode", type=click.IntRange(1), default=32, show_default=True, help="Hosts."
            ),
            click.option("--nic", default="400Gbps", show_default=True, help="NIC rate."),
            click.option(
                "--switch-rate", default=None, help="Rate of a switch port; that of the NIC if not."
            ),
            click.option(
                "--ports",
                type=click.IntRange(2),
                default=64,
                show_default=True,
                help="Ports of a switch.",
            ),
            click.option(
                "--set", "keys", multiple=True, metavar="KEY=VALUE", help="A key of the family."
            ),
        )
    ):
        function = option(function)
    return function


def fabrics_of(what: str, **facts: Any) -> list[tuple[str, Fabric]]:
    """Labels and fabrics of a scenario file, of a family, or of a fabric file."""
    from topo.family.registry import FAMILIES

    name = what.lower()
    if what in FAMILIES:
        return [(what, family_fabric(what, **facts))]
    if name.endswith((".yaml", ".yml")) and not name.endswith((".clab.yaml", ".clab.yml")):
        return _of_scenario(what)
    if not Path(what).exists():
        raise KvfabricError(
            f"{what[:80]!r}: no family and no file; write a scenario, a fabric file, or a family "
            "of `kvfabric topo list`"
        )
    from topo.format.registry import read_fabric

    fabric = read_fabric(what)
    return [(fabric.name, fabric)]


def family_fabric(
    family: str,
    *,
    prefill: int,
    decode: int,
    nic: str,
    ports: int,
    keys: tuple[str, ...],
    switch_rate: str | None = None,
) -> Fabric:
    """A fabric of a family with its roles placed, read as a scenario would be."""
    from kvfabric.build import fabric_of
    from kvfabric.load import check
    from kvfabric.source import Source

    part: dict[str, Any] = {
        "family": family,
        "nic": nic,
        "switch": {"ports": ports, "rate": switch_rate or nic},
    }
    for key in keys:
        name, equal, value = key.partition("=")
        if not name or not equal or not value:
            raise KvfabricError(f"--set {key}: write KEY=VALUE, as oversubscription=2")
        part[name] = _value(value)
    source = Source(
        "command line",
        {
            "name": family,
            "fabric": part,
            "placement": {"prefill": prefill, "decode": decode},
            "model": "-",
            "gpu": "-",
            "budget": {"handoff": "1s"},
        },
    )
    return fabric_of(check(source), source)


def _value(text: str) -> object:
    """A number, a list of numbers as 4,4,4, or a word."""
    if "," in text:
        return [_value(part) for part in text.split(",")]
    try:
        return int(text) if text.isascii() and text.isdigit() else float(text)
    except ValueError:
        return text


def _of_scenario(path: str) -> list[tuple[str, Fabric]]:
    from kvfabric.build import fabric_of
    from kvfabric.load import load

    found: dict[str, Fabric] = {}
    for a in load(path).alternatives:
        if a.fabric not in found:
            found[a.fabric] = fabric_of(a.scenario, a.source)
    return list(found.items())
