"""Design: for a switch and two pools, the parameters of each family that fit, or why none do.

A family that builds from its own defaults has one proposal: the pools and the switch, with all else
left to it. A family that needs a key of its own offers more in `PROPOSALS`; the cheapest fabric by
the model of `topo.bom` is taken, the first of equals. Pools are placed by rack, unless the family
pins them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from topo.bom import bom
from topo.error import FabricError
from topo.fabric import Fabric, Switch
from topo.family.registry import FAMILIES, build
from topo.placement import place


@dataclass(frozen=True, slots=True)
class Spec:
    """What is asked: pools, servers, NICs and the switch to build from.

    prefill, decode: hosts, one NIC each. storage: hosts beside them. by: a way of `place`. other:
    values for every family that takes them, as ``oversubscription``; a family that does not is
    refused with that reason.
    """

    prefill: int
    decode: int
    storage: int = 0
    nic_bps: int = 400_000_000_000
    switch: Switch = field(default_factory=Switch)
    breakout: int | None = None
    gpus_per_server: int | None = None
    by: str = "rack"
    other: dict[str, object] = field(default_factory=dict)

    @property
    def hosts(self) -> int:
        """All hosts."""
        return self.prefill + self.decode + self.storage

    @property
    def values(self) -> dict[str, object]:
        """What every family is asked for."""
        return {
            "hosts": self.hosts,
            "prefill": self.prefill,
            "decode": self.decode,
            "nic_bps": self.nic_bps,
            "switch": self.switch,
            "breakout": self.breakout,
            "gpus_per_server": self.gpus_per_server,
            **self.other,
        }


@dataclass(frozen=True, slots=True)
class Design:
    """A family's answer: a fabric with roles and the values it was built from, or the reason."""

    family: str
    values: dict[str, object]
    fabric: Fabric | None
    reason: str


def _degrees(spec: Spec) -> Iterable[dict[str, object]]:
    """Every host to all of the other pool, else to as few as a NIC has ports for."""
    choices: list[dict[str, object]] = [{}]
    return choices + [{"degree": degree} for degree in (8, 4, 2) if degree <= spec.decode]


PROPOSALS: Final[dict[str, Callable[[Spec], Iterable[dict[str, Any]]]]] = {
    "bipartite_direct": _degrees,
}
"""Family -> values of its own to try beside those of the spec, in order."""


def design(spec: Spec, families: Iterable[str] | None = None) -> list[Design]:
    """One design a family, in the order asked; all registered families when None.

    Errors: an unknown family, or a pool without hosts. What does not fit is no error: the design
    says why.

    >>> found = design(Spec(prefill=32, decode=32), ["leaf_spine", "host_mesh"])
    >>> [(d.family, d.fabric is not None) for d in found]
    [('leaf_spine', True), ('host_mesh', True)]
    """
    for name, count in (("prefill", spec.prefill), ("decode", spec.decode)):
        if count < 1:
            raise FabricError(f"design {name} {count}: a pool needs hosts; write 1 or more")
    names = list(FAMILIES) if families is None else list(families)
    for name in names:
        if name not in FAMILIES:
            raise FabricError(f"family {name!r}: unknown; write one of {', '.join(FAMILIES)}")
    return [_best(spec, name) for name in names]


def _best(spec: Spec, family: str) -> Design:
    propose = PROPOSALS.get(family)
    best: tuple[int, Design] | None = None
    reason = ""
    for own in propose(spec) if propose else [{}]:
        values = {**spec.values, **own}
        try:
            fabric = place(
                build(family, values),
                prefill=spec.prefill,
                decode=spec.decode,
                storage=spec.storage,
                by=spec.by,
            )
        except FabricError as error:
            reason = reason or str(error)
            continue
        cost = bom(fabric).cost_usd
        if best is None or cost < best[0]:
            shown = {k: v for k, v in values.items() if v is not None}
            best = (cost, Design(family, shown, fabric, ""))
    return Design(family, {}, None, reason) if best is None else best[1]
