"""What the verbs of ``kvfabric topo`` work on: a scenario, a family by name, or a fabric file.

An option that would change nothing is refused: a scenario says everything itself, and of a file
rates, ports and roles are settled by options only where it is silent.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from topo.error import KvfabricError
from topo.fabric import Fabric, Role, Switch

by_option = click.option(
    "--by",
    type=click.Choice(["separate", "rack", "interleaved", "rail"]),
    default="rack",
    show_default=True,
    help="Where the pools are placed.",
)
"""How `topo.placement` gives roles to hosts."""


def family_options(function: Callable[..., object]) -> Callable[..., object]:
    """The options by which a family is sized, and a file completed."""
    key = click.option(
        "--set", "keys", multiple=True, metavar="KEY=VALUE", help="A key of the family."
    )
    return file_options(key(function))


def file_options(function: Callable[..., object]) -> Callable[..., object]:
    """The options that complete a file: roles, rates, ports and lengths that it does not tell."""
    for option in reversed(
        (
            click.option(
                "--prefill", type=click.IntRange(1), default=32, show_default=True, help="Hosts."
            ),
            click.option(
                "--decode", type=click.IntRange(1), default=32, show_default=True, help="Hosts."
            ),
            by_option,
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
            click.option("--cable", default=None, help="Length of a cable, as 10m."),
        )
    ):
        function = option(function)
    return function


_SILENT = ("nic", "switch_rate", "ports", "cable")
"""What is taken where a file is silent."""
_POOLS = ("prefill", "decode", "by")
"""What gives roles to a file that has none."""
_SHAPING = ("fabric", "placement")
"""The keys of a scenario that make its fabric."""
_SIZING = (
    *(*_SILENT, *_POOLS, "keys", "gpus_per_server", "buffer", "breakout", "oversubscription"),
)


def fabrics_of(what: str, **facts: Any) -> list[tuple[str, Fabric]]:
    """Labels and fabrics of a scenario file, of a family, or of a fabric file."""
    from topo.family.registry import FAMILIES

    name = what.lower()
    if what in FAMILIES:
        return [(what, family_fabric(what, **facts))]
    if name.endswith((".yaml", ".yml")) and not name.endswith((".clab.yaml", ".clab.yml")):
        _refuse(what, "a scenario says everything itself", _given())
        return _of_scenario(what)
    if not Path(what).exists():
        raise KvfabricError(
            f"{what[:80]!r}: no family and no file; write a scenario, a fabric file, or a family "
            "of `kvfabric topo list`"
        )
    fabric = file_fabric(what, **facts)
    return [(fabric.name, fabric)]


def file_fabric(path: str | Path, form: str | None = None, **facts: Any) -> Fabric:
    """The fabric of a file; the options that were given settle what it leaves out.

    Errors: what the reader refuses; an option that would change nothing or that files do not take.
    """
    from topo.format.registry import read_fabric
    from topo.placement import place

    given = _given()
    others = {name: option for name, option in given.items() if name not in _SILENT + _POOLS}
    _refuse(path, "a file has a shape of its own", others)
    silent = {name: option for name, option in given.items() if name in _SILENT}
    assume = _assumed(**facts) if silent else None
    fabric = read_fabric(path, form, assume=assume)
    for name, option in silent.items():
        other = read_fabric(path, form, assume=_changed(assume, name, facts["switch_rate"]))
        if (other.nodes, other.links) == (fabric.nodes, fabric.links):
            _refuse(path, f"the file is not silent on what {option} says", {name: option})
    pools = {name: option for name, option in given.items() if name in _POOLS}
    if not pools:
        return fabric
    if fabric.hosts_with(Role.PREFILL, Role.DECODE, Role.BOTH, Role.STORAGE):
        _refuse(path, "the file says the roles of its hosts", pools)
    return place(fabric, prefill=facts["prefill"], decode=facts["decode"], by=facts["by"])


def _assumed(
    *, nic: str, ports: int, switch_rate: str | None, cable: str | None = None, **_: Any
) -> Any:
    from topo.format.draft import Assumed
    from topo.unit import length, rate

    model = Switch(ports=ports, rate_bps=rate(switch_rate or nic))
    return Assumed(rate(nic), model, length(cable or "0m"))


def _changed(assume: Any, name: str, switch_rate: str | None) -> Any:
    """The same with another value of one option, to see whether the file leaves room for it."""
    switch, more = assume.switch, {"nic": 0, "switch_rate": 0, "ports": 0, "cable": 0} | {name: 1}
    if name == "nic" and switch_rate is None:
        more["switch_rate"] = 1
    ports, speed = switch.ports + more["ports"], switch.rate_bps + more["switch_rate"]
    model = replace(switch, ports=ports, rate_bps=speed)
    return replace(
        assume,
        nic_bps=assume.nic_bps + more["nic"],
        switch=model,
        cable_m=assume.cable_m + more["cable"],
    )


def _given() -> dict[str, str]:
    """The sizing options on the command line: name of the fact -> how the option is written."""
    context = click.get_current_context(silent=True)
    if context is None:
        return {}
    return {
        option.name: option.opts[0]
        for option in context.command.params
        if option.name in _SIZING
        and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    }


def _refuse(what: str | Path, why: str, given: dict[str, str]) -> None:
    if given:
        options = ", ".join(given.values())
        raise KvfabricError(f"{str(what)[:80]}: {why}; leave out {options}")


def family_fabric(
    family: str,
    *,
    prefill: int,
    decode: int,
    nic: str,
    ports: int,
    keys: tuple[str, ...],
    by: str = "rack",
    switch_rate: str | None = None,
    cable: str | None = None,
) -> Fabric:
    """A fabric of a family with its roles placed, read as a scenario would be."""
    from kvfabric.fabric import fabric_of
    from kvfabric.load import check
    from kvfabric.source import Source

    part: dict[str, Any] = {
        "family": family,
        "nic": nic,
        "switch": {"ports": ports, "rate": switch_rate or nic},
    }
    if cable is not None:
        part["cable"] = cable
    told = {"cable"} & part.keys()
    for key in keys:
        name, equal, value = key.partition("=")
        if not name or not equal or not value:
            raise KvfabricError(f"--set {key}: write KEY=VALUE, as oversubscription=2")
        if name in told:
            raise KvfabricError(f"--set {key}: {name} is set twice; write it once")
        told.add(name)
        part[name] = _value(value)
    source = Source(
        "command line",
        {
            "name": family,
            "fabric": part,
            "placement": {"prefill": prefill, "decode": decode, "by": by},
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
    from kvfabric.fabric import fabric_of
    from kvfabric.load import load

    found: dict[str, Fabric] = {}
    for a in load(path).alternatives:
        # what faults, loads and other settings change is not the fabric
        told = (text for key, text in a.varied.items() if key.partition(".")[0] in _SHAPING)
        label = " ".join(told)
        if label not in found:
            found[label] = fabric_of(a.scenario, a.source)
    return list(found.items())
