"""GraphML, as networkx, Gephi and igraph read it: the attributes of `topo.format.attribute`.

One type for each attribute name and an id for each edge, since readers refuse or merge what
differs (networkx issues 3167 and 4347). Read with expat and one element at a time; a DOCTYPE is
refused where it starts, so that no entity is ever declared, let alone expanded.
"""

from pathlib import Path
from typing import Any, Final
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

import msgspec

from topo.fabric import Fabric
from topo.format.attribute import (
    LinkAttributes,
    NodeAttributes,
    add_links,
    add_node,
    made,
    of_links,
    of_nodes,
)
from topo.format.draft import Assumed, Draft
from topo.format.text import FormatError, content, located, shown
from topo.format.written import Written

NAMESPACE: Final = "http://graphml.graphdrawing.org/xmlns"
SCHEMA_VERSION: Final = 1

_TYPES: Final = {
    "graph": {"schema_version": "long", "name": "string", "family": "string"},
    "node": {
        "kind": "string",
        "tier": "long",
        "rack": "long",
        "server": "long",
        "role": "string",
        "switch_ports": "long",
        "switch_rate_bps": "long",
        "switch_buffer_bytes": "long",
        "switch_latency_ps": "long",
    },
    "edge": {
        "index": "long",
        "a": "string",
        "a_port": "long",
        "b_port": "long",
        "rate_bps": "long",
        "delay_ps": "long",
        "length_m": "double",
    },
}
_ENDS: Final = ("source", "target")
_INSIDE: Final = {
    "graphml": (),
    "key": ("graphml",),
    "graph": ("graphml",),
    "node": ("graph",),
    "edge": ("graph",),
    "data": ("graph", "node", "edge"),
}


def read(path: Path, assume: Assumed | None = None) -> Fabric:
    """A fabric from GraphML, of this module or any other with the same attribute names.

    Errors: `FormatError` with the line: a DOCTYPE, broken XML, an element or an attribute that has
    no meaning for a fabric, a value of the wrong kind.
    """
    text = content(path)
    reader = _Reader(path, assume)
    parser = expat.ParserCreate("utf-8")
    reader.parser = parser
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = reader.refuse_doctype
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        told = expat.ErrorString(error.code)
        raise located(path, error.lineno, f"broken XML: {told}") from None
    return reader.fabric()


class _Reader:
    """The state of one pass over a file."""

    def __init__(self, path: Path, assume: Assumed | None) -> None:
        self.path = path
        self.draft = Draft(path, assume=assume)
        self.parser: Any = None
        self.stack: list[str] = []
        self.keys: dict[str, tuple[str, str]] = {}
        self.graphs = 0
        self.head: dict[str, str] = {}
        self.item: dict[str, str] = {}
        self.line = 0
        self.links: list[tuple[int | str, LinkAttributes]] = []
        self.into: tuple[dict[str, str], str] | None = None
        self.data: list[str] = []

    @property
    def here(self) -> int:
        return int(self.parser.CurrentLineNumber)

    def refuse_doctype(self, *_: object) -> None:
        raise located(
            self.path, self.here, "a DOCTYPE: not read, since it may declare entities; delete it"
        )

    def start(self, name: str, given: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        parents = _INSIDE.get(name)
        parent = self.stack[-1] if self.stack else ""
        if parents is None or (parent not in parents if parents else self.stack):
            where = f"inside {parent}" if parent else "outermost"
            raise self._error(
                f"element {shown(name)} {where}: has no meaning for a fabric; drop it"
            )
        self.stack.append(name)
        if name == "key":
            target = self._needed(given, "for")
            self.keys[self._needed(given, "id")] = (target, self._needed(given, "attr.name"))
        elif name == "graph":
            self.graphs += 1
            if self.graphs > 1 or given.get("edgedefault") != "undirected":
                raise self._error('one graph with edgedefault="undirected" is read; write that')
        elif name == "node":
            self.line, self.item = self.here, {"id": self._needed(given, "id")}
        elif name == "edge":
            if given.get("directed", "false") != "false":
                raise self._error("a directed edge; a cable carries both ways")
            self.line, self.item = self.here, {k: self._needed(given, k) for k in _ENDS}
        elif name == "data":
            self._start_data(self._needed(given, "key"), parent)

    def _start_data(self, key: str, parent: str) -> None:
        if key not in self.keys:
            raise self._error(f"data of key {shown(key)}: no such key; declare it")
        target, attribute = self.keys[key]
        known = _TYPES[parent]
        if parent == "edge" and attribute == "id":
            # networkx writes the id of an edge a second time; the order is that of index.
            self.into, self.data = ({}, attribute), []
            return
        if target not in (parent, "all") or attribute not in known:
            raise self._error(
                f"{parent} attribute {shown(attribute)}: unknown; {parent}s have {', '.join(known)}"
            )
        into = self.head if parent == "graph" else self.item
        if attribute in into:
            raise self._error(f"{parent} attribute {shown(attribute)} stands twice; write it once")
        self.into, self.data = (into, attribute), []

    def text(self, data: str) -> None:
        if self.into is not None:
            self.data.append(data)
        elif data.strip():
            raise self._error(f"text {shown(data.strip())} outside a data element; drop it")

    def end(self, name: str) -> None:
        name = name.rpartition(":")[2]
        self.stack.pop()
        if name == "data" and self.into is not None:
            into, attribute = self.into
            into[attribute] = "".join(self.data)
            self.into = None
        elif name == "node":
            add_node(self.draft, made(self.draft, self.line, NodeAttributes, self.item), self.line)
        elif name == "edge":
            self.links.append((self.line, made(self.draft, self.line, LinkAttributes, self.item)))
            self.draft.expect(self.line, links=len(self.links))

    def fabric(self) -> Fabric:
        if not self.graphs:
            raise located(self.path, None, "no graph element; write the nodes and edges in one")
        version = self.head.get("schema_version", str(SCHEMA_VERSION))
        if version != str(SCHEMA_VERSION):
            raise self.draft.error(
                None, f"schema_version {shown(version)}: unknown; this reads {SCHEMA_VERSION}"
            )
        family, name = self.head.get("family", "file"), self.head.get("name", "fabric")
        self.draft.title(None, family=family, name=name)
        add_links(self.draft, self.links)
        return self.draft.fabric()

    def _needed(self, given: dict[str, str], name: str) -> str:
        if name not in given:
            raise self._error(f"a {self.stack[-1]} without {name}: write one")
        return given[name]

    def _error(self, message: str) -> FormatError:
        return located(self.path, self.here, message)


def write(fabric: Fabric) -> Written:
    """A fabric as GraphML; nothing is left out."""
    keys = {
        (target, name): f"d{number}"
        for number, (target, name) in enumerate(
            (target, name) for target, names in _TYPES.items() for name in names
        )
    }
    lines = ['<?xml version="1.0" encoding="utf-8"?>', f'<graphml xmlns="{NAMESPACE}">']
    lines += [
        f'  <key id="{key}" for="{target}" attr.name="{name}" attr.type="{_TYPES[target][name]}"/>'
        for (target, name), key in keys.items()
    ]
    lines.append('  <graph edgedefault="undirected">')

    def data(target: str, values: dict[str, Any]) -> str:
        return "".join(
            f'<data key="{keys[target, name]}">{escape(str(values[name]))}</data>'
            for name in _TYPES[target]
            if values.get(name) is not None
        )

    head = {"schema_version": SCHEMA_VERSION, "name": fabric.name, "family": fabric.family}
    lines.append(f"    {data('graph', head)}")
    for node in of_nodes(fabric):
        lines.append(
            f"    <node id={quoteattr(node.id)}>{data('node', msgspec.structs.asdict(node))}</node>"
        )
    for link in of_links(fabric):
        source, target = quoteattr(link.source), quoteattr(link.target)
        lines.append(
            f'    <edge id="e{link.index}" source={source} target={target}>'
            f"{data('edge', msgspec.structs.asdict(link))}</edge>"
        )
    lines += ["  </graph>", "</graphml>", ""]
    return Written({"": "\n".join(lines)}, [])
