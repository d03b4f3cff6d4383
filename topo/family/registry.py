"""Families by name: what each takes, and one function that builds any of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

import msgspec
from msgspec.structs import fields, replace

from topo.check import check
from topo.error import FabricError
from topo.fabric import Fabric, Switch
from topo.family.bipartite import Bipartite, bipartite
from topo.family.clos import FatTree, LeafSpine, fat_tree, leaf_spine
from topo.family.mesh import FullMesh, full_mesh
from topo.family.parameter import WRITTEN, Parameters
from topo.unit import show_rate


@dataclass(frozen=True, slots=True)
class Family:
    """A family: its name, what it is in one line, its parameter struct, its build function."""

    name: str
    summary: str
    parameters: type[Parameters]
    build: Callable[[Any], Fabric]


FAMILIES: Final[dict[str, Family]] = {
    family.name: family
    for family in (
        Family("full_mesh", "every switch linked to every other", FullMesh, full_mesh),
        Family("fat_tree", "three-tier k-ary Clos of small switches", FatTree, fat_tree),
        Family("leaf_spine", "two-tier Clos with chosen oversubscription", LeafSpine, leaf_spine),
        Family("bipartite", "prefill leaves wired to decode leaves", Bipartite, bipartite),
    )
}
"""Family name -> family, in the order in which they are listed to people."""


def build(family: str, values: Mapping[str, object]) -> Fabric:
    """Build a fabric of the named family from values in base units, and check it.

    ``values`` holds fields of the family's parameter struct; one that is None counts as not
    given. ``switch`` may be a `Switch` or a mapping of its fields. Refused with a `FabricError`:
    an unknown family, a parameter that the family does not know, a value out of range, and
    a fabric that the switch model does not allow.

    >>> len(build("leaf_spine", {"hosts": 64}).switches)
    4
    """
    known = FAMILIES.get(family)
    if known is None:
        close = get_close_matches(family, FAMILIES, 1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise FabricError(f"family {family!r}: unknown; {hint}write one of {', '.join(FAMILIES)}")
    given = {name: value for name, value in values.items() if value is not None}
    allowed = [field.name for field in fields(known.parameters)]
    for name in given:
        if name not in allowed:
            names = ", ".join(WRITTEN.get(n, n) for n in allowed)
            raise FabricError(
                f"{WRITTEN.get(name, name)}: not a parameter of {family}; it takes {names}"
            )
    try:
        spec = msgspec.convert(given, known.parameters)
    except msgspec.ValidationError as error:
        raise FabricError(f"{family}: {_told(str(error), given)}") from None
    if spec.breakout is not None:
        spec = replace(spec, switch=split(spec.switch, spec.breakout))
    fabric = known.build(spec)
    check(fabric)
    return fabric


def split(switch: Switch, breakout: int) -> Switch:
    """The switch with every port split in ``breakout`` of equal rate; a `FabricError` if uneven.

    >>> split(Switch(ports=64, rate_bps=800_000_000_000), 2).ports
    128
    """
    if switch.rate_bps % breakout:
        raise FabricError(
            f"breakout {breakout}: does not divide the port rate of {show_rate(switch.rate_bps)}; "
            "write breakout: 2 or 4"
        )
    return Switch(
        switch.ports * breakout,
        switch.rate_bps // breakout,
        switch.buffer_bytes,
        switch.latency_ps,
    )


def _told(text: str, given: Mapping[str, object]) -> str:
    """A msgspec complaint with the parameter and its value in front, as a scenario writes it."""
    what, _, place = text.partition(" - at `$.")
    name = place.rstrip("`")
    shown = f" {given[name]!r}" if name in given else ""
    what = what[:1].lower() + what[1:]
    return f"{WRITTEN.get(name, name)}{shown}: {what}" if name else what
