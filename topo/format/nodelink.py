"""Node-link JSON: the canonical form, which holds everything that a fabric holds.

The shape is that of networkx ``node_link_data(graph, edges="links")``, so that
``node_link_graph(json.load(file), edges="links")`` reads it; the name of the list is pinned, since
networkx changed its default. ``graph.schema_version`` counts changes of meaning; a file by hand, or
by networkx, that tells none has the present one. One node or link
stands on a line, so that two fabrics can be compared line by line.
"""

from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from topo.fabric import Fabric
from topo.format.attribute import (
    LinkAttributes,
    NodeAttributes,
    add_links,
    add_node,
    of_links,
    of_nodes,
)
from topo.format.draft import Assumed, Draft
from topo.format.text import content, located
from topo.format.written import Written
from topo.mistake import told

SCHEMA_VERSION: Final = 1


class Head(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file says of the whole fabric."""

    schema_version: int = SCHEMA_VERSION
    name: str = "fabric"
    family: str = "file"


class NodeLink(Struct, kw_only=True, forbid_unknown_fields=True):
    """The file: networkx writes ``links`` or, since 3.6, ``edges``; either is read."""

    nodes: list[NodeAttributes]
    graph: Head = Head()
    directed: Literal[False] = False
    multigraph: bool = True
    links: list[LinkAttributes] | None = None
    edges: list[LinkAttributes] | None = None


def read(path: Path, assume: Assumed | None = None) -> Fabric:
    """A fabric from node-link JSON.

    Errors: `FormatError` with the line of broken JSON, or the path of a wrong value.
    """
    file: NodeLink = _decoded(path, content(path), NodeLink)
    draft = Draft(path, assume=assume)
    if file.graph.schema_version != SCHEMA_VERSION:
        raise draft.error(
            "graph.schema_version",
            f"{file.graph.schema_version}: unknown; this version reads {SCHEMA_VERSION}",
        )
    if (file.links is None) == (file.edges is None):
        raise draft.error(None, "write the cables as one list, links")
    draft.title("graph", family=file.graph.family, name=file.graph.name)
    cables, called = (file.links, "links") if file.edges is None else (file.edges, "edges")
    draft.expect("nodes", nodes=len(file.nodes), links=len(cables or ()))
    for i, node in enumerate(file.nodes):
        add_node(draft, node, f"nodes[{i}]")
    add_links(draft, [(f"{called}[{i}]", link) for i, link in enumerate(cables or ())])
    return draft.fabric()


def _decoded(path: Path, text: str, kind: Any) -> Any:
    """JSON as a ``kind``; what does not fit is told by the path of its value."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        place, words = told(str(error), NodeLink, _decoded(path, text, Any))
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
        raise located(path, "".join(steps).lstrip(".") or None, words) from None
    except msgspec.DecodeError as error:
        raise located(path, _line(text, str(error)), str(error)) from None
    except RecursionError:
        raise located(path, None, "nested too deeply to be a fabric") from None


def write(fabric: Fabric) -> Written:
    """A fabric as node-link JSON; nothing is left out."""
    head = Head(schema_version=SCHEMA_VERSION, name=fabric.name, family=fabric.family)
    nodes = ",\n".join(_line_of(node) for node in of_nodes(fabric))
    links = ",\n".join(_line_of(link) for link in of_links(fabric))
    text = (
        f'{{"directed": false, "multigraph": true,\n"graph": {_line_of(head)},\n'
        f'"nodes": [\n{nodes}\n],\n"links": [\n{links}\n]}}\n'
    )
    return Written({"": text}, [])


def _line_of(value: Struct) -> str:
    return msgspec.json.encode(value).decode()


def _line(text: str, told: str) -> int:
    _, _, place = told.partition("(byte ")
    count = place.partition(")")[0]
    if not count.isdecimal():
        return text.count("\n") + 1
    return text.encode()[: int(count)].count(b"\n") + 1
