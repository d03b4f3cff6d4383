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
from topo.family.dragonfly import Dragonfly, dragonfly
from topo.family.dragonflyplus import DragonflyPlus, dragonfly_plus
from topo.family.dualtor import DualTor, dual_tor
from topo.family.expander import BipartiteRandom, bipartite_random
from topo.family.jellyfish import Jellyfish, jellyfish
from topo.family.lattice import HyperX, Torus, hyperx, torus
from topo.family.mesh import FullMesh, full_mesh
from topo.family.middle import BipartiteMiddle, bipartite_middle
from topo.family.parameter import WRITTEN, Parameters, refuse_outside
from topo.family.plane import MultiPlane, multi_plane
from topo.family.rail import RailOnly, RailOptimised, rail_only, rail_optimised
from topo.family.single import SingleSwitch, single_switch
from topo.family.slimfly import SlimFly, slim_fly
from topo.family.switchless import BipartiteDirect, HostMesh, bipartite_direct, host_mesh
from topo.family.threetier import ThreeTier, three_tier
from topo.mistake import told
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
        Family("single_switch", "every host on one switch", SingleSwitch, single_switch),
        Family("full_mesh", "every switch linked to every other", FullMesh, full_mesh),
        Family("fat_tree", "three-tier k-ary Clos of small switches", FatTree, fat_tree),
        Family("leaf_spine", "two-tier Clos with chosen oversubscription", LeafSpine, leaf_spine),
        Family("bipartite", "prefill leaves wired to decode leaves", Bipartite, bipartite),
        Family(
            "bipartite_random",
            "prefill leaves wired to decode leaves at random",
            BipartiteRandom,
            bipartite_random,
        ),
        Family(
            "bipartite_middle",
            "prefill and decode leaves over shared spines",
            BipartiteMiddle,
            bipartite_middle,
        ),
        Family(
            "bipartite_direct",
            "prefill hosts cabled to decode hosts",
            BipartiteDirect,
            bipartite_direct,
        ),
        Family("host_mesh", "every host cabled to every other", HostMesh, host_mesh),
        Family("three_tier", "pods of leaves and spines, joined by cores", ThreeTier, three_tier),
        Family(
            "rail_optimised",
            "a leaf a rail and unit, one Clos above",
            RailOptimised,
            rail_optimised,
        ),
        Family("rail_only", "a Clos a rail, joined inside servers", RailOnly, rail_only),
        Family("multi_plane", "separate two-tier networks over all", MultiPlane, multi_plane),
        Family("dual_tor", "two ports a NIC on leaves of two planes", DualTor, dual_tor),
        Family("dragonfly", "groups of routers, linked all to all", Dragonfly, dragonfly),
        Family(
            "dragonfly_plus", "leaf-spine groups, linked by spines", DragonflyPlus, dragonfly_plus
        ),
        Family("hyperx", "a box, every line a full mesh", HyperX, hyperx),
        Family("torus", "a box, every line a ring", Torus, torus),
        Family("slim_fly", "any two switches at most two hops apart", SlimFly, slim_fly),
        Family("jellyfish", "switches joined at random", Jellyfish, jellyfish),
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
    for name, value in given.items():
        if name not in allowed:
            names = ", ".join(WRITTEN.get(n, n) for n in allowed)
            raise FabricError(
                f"{WRITTEN.get(name, name)}: not a parameter of {family}; it takes {names}"
            )
        refuse_outside(name, value)
    try:
        spec = msgspec.convert(given, known.parameters)
    except msgspec.ValidationError as error:
        place, words = told(str(error), known.parameters, given)
        name = str(place[0]) if place else family
        raise FabricError(f"{WRITTEN.get(name, name)}: {words}") from None
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
