"""The Prescriptive Topology Manager's topology.dot: which cable belongs where, checked by LLDP.

An undirected DOT graph of ``"leaf0":"swp1" -- "spine0":"swp3"``: names and ports always quoted, as
ptmd fails without. ptmd reads the file with Graphviz and asks for the attributes that it knows by
name (CumulusNetworks/ptm src/ptm_conf.c); others are left alone, and hold here what the format has
no place for. ``function`` (leaf, spine, superspine, host) is that of Cumulus's topology_converter,
``role`` (leaf, spine, super_spine) that of NVIDIA UFM's cable validation; both are read, and what
ptmd itself is set to (LLDP, BFD, hostnametype and their templates) is passed over.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import asdict

from topo.fabric import Fabric, Role
from topo.format.attribute import (
    TIERS,
    LinkAttributes,
    NodeAttributes,
    add_node,
    made,
    of_nodes,
)
from topo.format.draft import Assumed, Draft
from topo.format.text import FormatError, content, shown
from topo.format.written import Written, interface, plural, told_inside

_TOKEN: Final = re.compile(
    r"""
    (?P<blank>\s+|//[^\n]*|\#[^\n]*|/\*.*?\*/)
    | (?P<quoted>"(?:[^"\\]|\\.)*")
    | (?P<edge>--|->)
    | (?P<mark>[{}\[\];:,=])
    | (?P<word>[^\s"{}\[\];:,=\#/-]+(?:[-/.][^\s"{}\[\];:,=\#/-]+)*)
    """,
    re.VERBOSE | re.DOTALL,
)
_PTMD: Final = re.compile(r"(?:LLDP|BFD)\w*|hostnametype|hostidtype", re.IGNORECASE)
_ROLES: Final = frozenset(role.value for role in Role)
"""What ``role`` may also say here of a host."""
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,62}")


def read(path: Path, assume: Assumed | None = None) -> Fabric:
    """A fabric from topology.dot. Ports are numbered in the order of the file, not by name.

    Errors: `FormatError` with the line: a directed graph, a subgraph, an edge without ports, an
    attribute that is neither ptmd's nor one of those written here.
    """
    return _Parser(Draft(path, assume=assume), content(path)).fabric()


class _Parser:
    """Statements of the DOT subset that ptmd documents, one after the other."""

    def __init__(self, draft: Draft, text: str) -> None:
        self.draft = draft
        self.tokens = list(_tokens(draft, text))
        self.at = 0

    def fabric(self) -> Fabric:
        self._take("graph")
        if not self._sees("{"):
            line = self._next()[0]
            self.draft.title(line, family="file", name=self._name("the graph's name"))
        self._take("{")
        while not self._sees("}"):
            self._statement()
        self._take("}")
        if self.at < len(self.tokens):
            line, text, _ = self.tokens[self.at]
            raise self.draft.error(line, f"{shown(text)} after the graph's end; drop it")
        return self.draft.fabric()

    def _statement(self) -> None:
        line = self._next()[0]
        for word in ("subgraph", "{", "graph", "node", "edge"):
            if self._sees(word):
                raise self.draft.error(line, f"{word}: not read; write plain nodes and edges")
        name = self._name("a node")
        if self._sees("="):
            self._take("=")
            value = self._name("a value")
            if name == "family":
                self.draft.title(line, family=value, name=self.draft.name or "fabric")
            elif not _PTMD.fullmatch(name):
                raise self.draft.error(line, f"{shown(name)} {shown(value)}: no setting of ptmd")
        elif self._sees(":"):
            a = (name, self._port())
            if self._sees("->"):
                raise self.draft.error(line, "a directed edge; write -- between the two ports")
            self._take("--")
            b = (self._name("a node"), self._port())
            self._edge(line, a, b, self._attributes())
        elif self._sees("--"):
            raise self.draft.error(line, f'{shown(name)} has no port; write "{name}":"swp1"')
        else:
            self._node(line, name, self._attributes())
        if self._sees(";"):
            self._take(";")

    def _node(self, line: int, name: str, given: dict[str, str]) -> None:
        facts = {key: value for key, value in given.items() if key not in ("label", "os")}
        for key in ("function", "role"):
            value = facts.get(key)
            if value is None or (key == "role" and value in _ROLES):
                continue
            if value != "host" and value not in TIERS:
                raise self.draft.error(
                    line, f"{key} {shown(value)}: write host, leaf, spine or superspine"
                )
            del facts[key]
            facts["kind"] = "host" if value == "host" else "switch"
            facts.setdefault("tier", str(TIERS.get(value, 0)))
        add_node(self.draft, made(self.draft, line, NodeAttributes, {**facts, "id": name}), line)

    def _edge(
        self, line: int, a: tuple[str, str], b: tuple[str, str], given: dict[str, str]
    ) -> None:
        facts = {key: value for key, value in given.items() if not _PTMD.fullmatch(key)}
        link = made(self.draft, line, LinkAttributes, {**facts, "source": a[0], "target": b[0]})
        self.draft.cable(
            a, b, line, rate_bps=link.rate_bps, delay_ps=link.delay_ps, length_m=link.length_m
        )

    def _attributes(self) -> dict[str, str]:
        found: dict[str, str] = {}
        while self._sees("["):
            self._take("[")
            while not self._sees("]"):
                line = self._next()[0]
                key = self._name("an attribute")
                self._take("=")
                if key in found:
                    raise self.draft.error(line, f"attribute {shown(key)} stands twice")
                found[key] = self._name("a value")
                if self._sees(",") or self._sees(";"):
                    self.at += 1
            self._take("]")
        return found

    def _next(self) -> tuple[int, str, bool]:
        if self.at == len(self.tokens):
            line = self.tokens[-1][0] if self.tokens else 1
            raise self.draft.error(line, "ends too early; close the graph with }")
        return self.tokens[self.at]

    def _sees(self, mark: str) -> bool:
        """Whether a mark or a word comes next; the same text in quotes is a name."""
        _, text, quoted = self._next()
        return not quoted and text == mark

    def _name(self, what: str) -> str:
        line, text, quoted = self._next()
        if not quoted and (text in ("--", "->") or text in "{}[];:,="):
            raise self.draft.error(line, f"{shown(text)} where {what} should stand")
        self.at += 1
        return text

    def _port(self) -> str:
        self._take(":")
        return self._name("a port")

    def _take(self, text: str) -> None:
        if not self._sees(text):
            line, found, _ = self._next()
            raise self.draft.error(line, f"{shown(found)} where {text} should stand")
        self.at += 1


def _tokens(draft: Draft, text: str) -> Iterator[tuple[int, str, bool]]:
    line, at = 1, 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise draft.error(
                line, f"{shown(text[at])}: not read here; quote names with double quotes"
            )
        if found["quoted"] is not None:
            yield line, found["quoted"][1:-1].replace('\\"', '"'), True
        elif found["blank"] is None:
            yield line, found[0], False
        line += found[0].count("\n")
        at = found.end()


def write(fabric: Fabric) -> Written:
    """A fabric as topology.dot; hosts have ports eth1, eth2 ..., switches swp1, swp2 ...

    Errors: a name with a backslash, for which a DOT string has no spelling.
    """
    tiers = {0: "leaf", 1: "leaf", 2: "spine"}
    lines = [
        f"graph {_quoted(fabric.name)} {{",
        '  hostnametype="hostname"',
        '  LLDP="match_type=ifname"',
        f"  family={_quoted(fabric.family)}",
    ]
    for node in of_nodes(fabric):
        facts = {k: v for k, v in asdict(node).items() if k not in ("id", "kind") and v is not None}
        if node.kind == "host":
            function = "host"
            del facts["tier"]
        else:
            function = tiers.get(node.tier or 0, "superspine")
            del facts["role"], facts["server"]
        lines.append(f"  {_quoted(node.id)} [{_listed({'function': function, **facts})}]")
    for link in fabric.links:
        a, b = (
            f"{_quoted(node.name)}:" + _quoted(interface(node.kind, port))
            for node, port in (
                (fabric.nodes[link.a], link.a_port),
                (fabric.nodes[link.b], link.b_port),
            )
        )
        facts = {"rate_bps": link.rate_bps, "delay_ps": link.delay_ps, "length_m": link.length_m}
        lines.append(f"  {a} -- {b} [{_listed(facts)}]")
    notes = [
        "All but names and ports stands in attributes that ptmd passes over.",
        "Ports are named swp1, swp2 ... on switches and eth1, eth2 ... on hosts; rename them to "
        "those of the devices before ptmd checks anything.",
        *told_inside(fabric),
    ]
    strange = sum(_HOST_NAME.fullmatch(node.name) is None for node in fabric.nodes)
    if strange:
        notes.append(f"{plural(strange, 'name')} cannot be host names; ptmd never matches them.")
    return Written({"": "\n".join([*lines, "}", ""])}, notes)


def _quoted(text: str) -> str:
    if "\\" in text:
        raise FormatError(
            f"name {shown(text)} has a backslash, which a DOT string cannot spell; rename it"
        )
    escaped = text.replace('"', '\\"')
    return f'"{escaped}"'


def _listed(facts: Mapping[str, object]) -> str:
    return ", ".join(f'{key}="{value}"' for key, value in facts.items())
