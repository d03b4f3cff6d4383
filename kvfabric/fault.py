"""The ``faults`` of a scenario: links and nodes that are out of order for a while, by name.

What befalls instances stands in the same list: `kvfabric.hazard`.
"""

from collections.abc import Sequence
from typing import Literal

from emulate.fault import FOREVER, Fault, FaultError, node_down
from kvfabric.scenario import FaultPart
from topo.check import check
from topo.error import FabricError
from topo.fabric import Fabric, Link
from topo.unit import duration_text


def faults_of(part: FaultPart, fabric: Fabric) -> list[Fault]:
    """The faults of the fabric's links that one entry stands for, none if it is of an instance."""
    kind = part.kind
    if kind == "fail" or kind == "drain" or kind == "join" or kind == "removed":
        return []
    links = _links(part, fabric)
    end = FOREVER if part.until is None else int(part.until)
    if part.node is not None:
        if kind != "down" or part.direction != "both" or part.share is not None:
            raise FaultError(
                f"node {part.node!r}: a node can only be down or removed; write `kind: down`"
            )
        return node_down(fabric, fabric.node(part.node).index, int(part.start), end)
    first = fabric.node((part.link or ("", ""))[0]).index
    turned: dict[str, Literal["both", "forward", "back"]] = {"forward": "back", "back": "forward"}
    return [
        Fault(
            kind,
            link.index,
            int(part.start),
            end,
            None if part.share is None else float(part.share),
            part.direction if link.a == first else turned.get(part.direction, "both"),
        )
        for link in links
    ]


def standing(part: FaultPart, fabric: Fabric) -> Fabric:
    """The fabric without what one entry removes from it; itself for every other kind.

    Refuses what cuts a host off: its instance fails, which is a kind of its own.
    """
    if part.kind != "removed":
        return fabric
    if part.start or part.until is not None or part.share is not None or part.direction != "both":
        raise FaultError(
            "removed: gone for the whole run, in both directions; remove from, until, share and "
            "direction, or write `kind: down`"
        )
    left = fabric.without({link.index for link in _links(part, fabric)})
    try:
        check(left)
    except FabricError as error:
        raise FaultError(
            f"{_place(part)} removed cuts hosts off ({error}); write the failure of their "
            "instances, as {kind: fail, instance: prefill 0}"
        ) from None
    return left


def _links(part: FaultPart, fabric: Fabric) -> list[Link]:
    """The cables that an entry names, by both ends or by one node."""
    if part.instance or part.mtbf or part.mttr:
        raise FaultError(
            f"kind {part.kind}: of links and nodes; an instance can fail, drain or join: write one "
            "of these, or remove instance, mtbf and mttr"
        )
    if (part.link is None) == (part.node is None):
        raise FaultError("a fault needs either `link: [leaf0, spine0]` or `node: spine0`")
    if part.node is not None:
        node = fabric.node(part.node).index
        return [link for link in fabric.links if node in (link.a, link.b)]
    return fabric.cables(*(part.link or ("", "")))


def faults_told(parts: Sequence[FaultPart]) -> str:
    """The faults as the report names them."""
    return "; ".join(_told(part) for part in parts) or "none"


def _told(part: FaultPart) -> str:
    words = [_place(part), part.kind]
    if part.share is not None:
        share = f"{part.share * 100:.12g}%"
        words.append(f"to {share} of its rate" if part.kind == "degraded" else share)
    means = (("MTBF", part.mtbf), ("MTTR", part.mttr))
    words += [f"{name} {duration_text(mean)}" for name, mean in means if mean is not None]
    if part.start:
        words.append(f"from {duration_text(part.start)}")
    if part.until is not None:
        words.append(f"until {duration_text(part.until)}")
    return " ".join(words)


def _place(part: FaultPart) -> str:
    joint = {"both": "-", "forward": ">", "back": "<"}[part.direction]
    return part.instance or part.node or f" {joint} ".join(part.link or ())
