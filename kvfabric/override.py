"""The ``network.overrides`` of a scenario: single switches or ports that are set otherwise."""

from collections.abc import Iterator, Sequence

from emulate.discipline import Discipline, DisciplineError
from kvfabric.scenario import OverridePart
from topo.error import FabricError
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


def _ports(part: OverridePart, fabric: Fabric) -> Iterator[int]:
    node = _known(part.node, fabric)
    if fabric.nodes[node].switch is None:
        raise DisciplineError(f"node {part.node!r}: a host, which has no headroom; name a switch")
    far = None if part.towards is None else _known(part.towards, fabric)
    ports = fabric.ports
    mine = range(int(ports.first[node]), int(ports.first[node + 1]))
    found = [port for port in mine if far is None or int(ports.node[ports.reverse[port]]) == far]
    if not found:
        raise DisciplineError(
            f"towards {part.towards!r}: not joined to {part.node!r} by a cable; "
            "`kvfabric topo show` names what is"
        )
    yield from found


def _known(name: str, fabric: Fabric) -> int:
    try:
        return fabric.node(name).index
    except FabricError:
        near = ", ".join(node.name for node in fabric.nodes[:3])
        raise DisciplineError(
            f"node {name!r}: not in the fabric; its names are {near}, ..."
        ) from None
