"""The fabric that a scenario names: built, read from a file, and how oversubscribed it came out.

A family keeps ``oversubscription`` as the most that it may be; what it builds may have less.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from kvfabric.quantity import Rate
from kvfabric.scenario import FabricPart, PlacementPart, Scenario, SwitchPart
from kvfabric.source import Source, file_path, located
from topo.capacity import oversubscription
from topo.fabric import Fabric, Switch
from topo.family.registry import build
from topo.placement import place

_SHAPE: Final = (
    *("oversubscription", "breakout", "gpus_per_server"),
    *("k", "leaves", "spines", "degree", "groups", "trunk", "pods", "rails", "units"),
    *("planes", "attach", "a", "p", "h", "wiring", "shape", "q", "seed"),
)
"""The keys of a fabric that only some families know."""

_RATES: Final = {"scale_up": "scale_up_bps", "decode_nic": "decode_nic_bps"}
"""The same, written with the unit of a rate."""

FROM_FILE: Final = "file"
"""The family of a fabric that the user brings."""


def fabric_of(scenario: Scenario, source: Source) -> Fabric:
    """The fabric with its roles placed."""
    part, placed = scenario.fabric, scenario.placement
    with located(source, "fabric"):
        built = _read(part, source) if part.family == FROM_FILE else _built(part, placed)
    with located(source, "placement"):
        return place(
            built,
            prefill=placed.prefill,
            decode=placed.decode,
            storage=placed.storage,
            by=placed.by,
        )


@lru_cache(maxsize=256)
def ratio_of(part: FabricPart, placed: PlacementPart) -> float:
    """The oversubscription of what a family builds, as `topo.capacity.oversubscription` counts it.

    Errors: what the family refuses, without its place in the file.
    """
    return oversubscription(_built(part, placed))


def _built(part: FabricPart, placed: PlacementPart) -> Fabric:
    """The fabric of a family, without roles."""
    values: Mapping[str, object] = {
        "hosts": part.hosts or placed.prefill + placed.decode + placed.storage,
        "prefill": placed.prefill,
        "decode": placed.decode,
        "nic_bps": int(part.nic),
        "switch": _model(part.switch),
        "cable_m": float(part.cable),
        "host_cable_m": None if part.host_cable is None else float(part.host_cable),
        "file": part.file,
        **{key: getattr(part, key) for key in _SHAPE},
        **{name: _plain(getattr(part, key)) for key, name in _RATES.items()},
    }
    return build(part.family, values)


def _model(part: SwitchPart) -> Switch:
    return Switch(part.ports, int(part.rate), int(part.buffer), int(part.latency))


def _plain(rate: Rate | None) -> int | None:
    return None if rate is None else int(rate)


def _read(part: FabricPart, source: Source) -> Fabric:
    """The user's own fabric, checked."""
    for key in (*_SHAPE, *_RATES, "hosts"):
        if getattr(part, key) is not None:
            raise source.error(("fabric", key), "not a key of family file; remove it")
    if part.file is None:
        raise source.error(("fabric", "file"), "is missing; write the path of a fabric file")
    from topo.check import check
    from topo.format.draft import Assumed
    from topo.format.registry import read_fabric

    assumed = Assumed(int(part.nic), _model(part.switch), float(part.cable))
    fabric = read_fabric(file_path(part.file, source), assume=assumed)
    check(fabric)
    return fabric
