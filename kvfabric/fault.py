"""The ``faults`` of a scenario: links and nodes that are out of order for a while, by name.

What befalls instances stands in the same list: `kvfabric.hazard`.
"""

from collections.abc import Sequence
from typing import Literal

from emulate.fault import FOREVER, Fault, FaultError, node_down
from kvfabric.scenario import FaultPart
from topo.error import FabricError
from topo.fabric import Fabric
from topo.unit import show_duration


def faults_of(part: FaultPart, fabric: Fabric) -> list[Fault]:
    """The faults of the fabric's links that one entry stands for, none if it is of an instance."""
    kind = part.kind
    if kind == "fail" or kind == "drain" or kind == "join":
        return []
    if part.instance or part.mtbf or part.mttr:
        raise FaultError(
            f"kind {kind}: of links and nodes; an instance can fail, drain or join: write one of "
            "these, or remove instance, mtbf and mttr"
        )
    end = FOREVER if part.until is None else int(part.until)
    if (part.link is None) == (part.node is None):
        raise FaultError("a fault needs either `link: [leaf0, spine0]` or `node: spine0`")
    if part.node is not None:
        if kind != "down" or part.direction != "both" or part.share is not None:
            raise FaultError(f"node {part.node!r}: a node can only be down; write `kind: down`")
        node = _known(fabric, part.node)
        return node_down(fabric, node, int(part.start), end)
    assert part.link is not None
    first, second = (_known(fabric, name) for name in part.link)
    turned: dict[str, Literal["both", "forward", "back"]] = {"forward": "back", "back": "forward"}
    found = [
        Fault(
            kind,
            link.index,
            int(part.start),
            end,
            None if part.share is None else float(part.share),
            part.direction if link.a == first else turned.get(part.direction, "both"),
        )
        for link in fabric.links
        if {link.a, link.b} == {first, second}
    ]
    if not found:
        raise FaultError(
            f"link {part.link[0]!r} to {part.link[1]!r}: not joined by a cable; "
            "`kvfabric topo show` names what is"
        )
    return found


def faults_told(parts: Sequence[FaultPart]) -> str:
    """The faults as the report names them."""
    return "; ".join(_told(part) for part in parts) or "none"


def _told(part: FaultPart) -> str:
    joint = {"both": "-", "forward": ">", "back": "<"}[part.direction]
    words = [part.instance or part.node or f" {joint} ".join(part.link or ()), part.kind]
    if part.share is not None:
        words.append(f"{part.share * 100:g}%")
    means = (("MTBF", part.mtbf), ("MTTR", part.mttr))
    words += [f"{name} {show_duration(mean)}" for name, mean in means if mean is not None]
    if part.start:
        words.append(f"from {show_duration(part.start)}")
    if part.until is not None:
        words.append(f"until {show_duration(part.until)}")
    return " ".join(words)


def _known(fabric: Fabric, name: str) -> int:
    try:
        return fabric.node(name).index
    except FabricError:
        near = ", ".join(n.name for n in fabric.nodes[:3])
        raise FaultError(f"node {name!r}: not in the fabric; its names are {near}, ...") from None
