"""The ``network.overrides`` of a scenario: single switches or ports that are set otherwise."""

from collections.abc import Sequence

from emulate.discipline import Discipline, DisciplineError
from kvfabric.scenario import OverridePart
from topo.fabric import Fabric
from topo.unit import show_size


def headrooms_of(
    parts: Sequence[OverridePart], fabric: Fabric, discipline: Discipline
) -> dict[int, int]:
    """Bytes of headroom of a lossless class, by port, where a switch has its own.

    Of several entries for a port the last holds. Raises `DisciplineError` for a node that is no
    switch of the fabric and a neighbour that it does not have. Nothing where no class is under PFC.
    """
    found = {port: int(part.headroom) for part in parts for port in _ports(part, fabric)}
    return found if discipline.protected else {}


def overrides_told(parts: Sequence[OverridePart]) -> str:
    """The overrides as the report names them."""
    return "; ".join(
        part.node
        + (f" towards {part.towards}" if part.towards is not None else "")
        + f": headroom {show_size(int(part.headroom))}"
        for part in parts
    )


def _ports(part: OverridePart, fabric: Fabric) -> range | list[int]:
    node = fabric.node(part.node)
    if node.switch is None:
        raise DisciplineError(f"node {part.node!r}: a host, which has no headroom; name a switch")
    first, end = fabric.ports.first[node.index : node.index + 2].tolist()
    if part.towards is None:
        return range(first, end)
    cables = fabric.cables(part.node, part.towards)
    return [first + (c.a_port if c.a == node.index else c.b_port) for c in cables]
