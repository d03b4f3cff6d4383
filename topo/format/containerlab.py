"""Containerlab's topology files, ``*.clab.yml``: nodes of a kind, links of two endpoints.

The format has no rates, delays or lengths (srl-labs/containerlab issue 1398), tiers or roles. They
stand in labels here, which containerlab keeps and passes on without a meaning of its own:
``kvfabric-rate_bps`` of a link, ``kvfabric-role`` of a node, and so on, named as in
`topo.format.attribute`. To have the rates in a running lab, `impairments` writes the
commands; they shape egress only, which is both directions when both ends are set.

Interfaces are eth1, eth2 ... as of kind linux (eth0 is containerlab's own); other kinds have other
names and renumber what does not follow them (netreplica/nrx issue 174). No name exceeds the 15
characters that Linux allows. Containers cannot have every name: those that do not fit become n0,
n1 ... with the name in a label.
"""

import json
import re
from pathlib import Path
from typing import Any, Final

import yaml
from msgspec.structs import asdict

from topo.fabric import Fabric, Link
from topo.format.attribute import (
    TIERS,
    LinkAttributes,
    NodeAttributes,
    add_node,
    made,
    of_nodes,
)
from topo.format.draft import Assumed, Draft
from topo.format.text import shown
from topo.format.written import Written, plural, told_inside
from topo.format.yamltree import MOST_MIB, line, mapping, scalar, sequence, tree

PREFIX: Final = "kvfabric-"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_HOSTS: Final = frozenset({"host", "hosts", "server", "servers", "client", "clients"})
_UNTOLD: Final = frozenset({"", "linux", "host"})
"""Kinds that a host or a switch may have."""


def read(path: Path, assume: Assumed | None = None) -> Fabric:
    """A fabric from a topology file.

    A node is what its labels say, else what its group says (host, server, client; leaf, spine,
    superspine), else a switch when its kind is that of a network system; of kind linux, the one
    with a single cable is a host. Images, configurations and addresses are passed over.

    Errors: `FormatError` with the line: an endpoint of no node, a link type other than veth, an
    unknown label that starts with kvfabric-.
    """
    draft = Draft(path, assume=assume)
    top = mapping(path, tree(path), "the file")
    if "topology" not in top:
        raise draft.error(1, "no topology; write name, topology.nodes and topology.links")
    part = mapping(path, top["topology"], "topology")
    common = mapping(path, part["defaults"], "topology.defaults") if "defaults" in part else {}
    kind = scalar(path, common["kind"], "topology.defaults.kind") if "kind" in common else ""
    heads = _labels(draft, common, "topology.defaults")
    name = scalar(path, top["name"], "name") if "name" in top else "fabric"
    draft.title(1, family=heads.pop("family", "file"), name=heads.pop("fabric", name))
    if heads:
        raise draft.error(1, f"label {PREFIX}{next(iter(heads))} of all nodes: unknown; drop it")
    names: dict[str, str] = {}
    for called, node in mapping(path, part["nodes"], "nodes").items() if "nodes" in part else ():
        names[called] = _node(draft, called, node, kind)
    for node in sequence(path, part["links"], "links") if "links" in part else ():
        _link(draft, node, names)
    return draft.fabric()


def _node(draft: Draft, called: str, node: yaml.Node, kind: str) -> str:
    """Declare a node and return its name in the fabric."""
    what = f"node {shown(called)}"
    empty = isinstance(node, yaml.ScalarNode) and node.value in ("", "~", "null")
    given = {} if empty else mapping(draft.path, node, what)
    facts = _labels(draft, given, what)
    group = scalar(draft.path, given["group"], what).lower() if "group" in given else ""
    kind = scalar(draft.path, given["kind"], what) if "kind" in given else kind
    if "kind" not in facts:
        if group in _HOSTS:
            facts["kind"] = "host"
        elif group in TIERS:
            facts["kind"] = "switch"
            facts.setdefault("tier", str(TIERS[group]))
        elif kind not in _UNTOLD:
            facts["kind"] = "switch"
    name = facts.pop("name", called)
    facts["id"] = name
    add_node(draft, made(draft, line(node), NodeAttributes, facts), line(node))
    return name


def _link(draft: Draft, node: yaml.Node, names: dict[str, str]) -> None:
    where = line(node)
    given = mapping(draft.path, node, "a link")
    sort = scalar(draft.path, given["type"], "type") if "type" in given else "veth"
    if sort != "veth":
        raise draft.error(where, f"link type {shown(sort)}: only veth joins two nodes of a fabric")
    ends: list[tuple[str, str]] = []
    for end in (
        sequence(draft.path, given["endpoints"], "endpoints") if "endpoints" in given else ()
    ):
        if isinstance(end, yaml.MappingNode):
            two = mapping(draft.path, end, "an endpoint")
            told = [
                scalar(draft.path, two[key], key) if key in two else ""
                for key in ("node", "interface")
            ]
            called, port = told
        else:
            called, _, port = scalar(draft.path, end, "an endpoint").rpartition(":")
        if called not in names:
            raise draft.error(line(end), f"node {shown(called)}: no such node; declare it in nodes")
        ends.append((names[called], port))
    if len(ends) != 2:
        raise draft.error(where, f'{len(ends)} endpoints; write two, as ["h0:eth1", "leaf0:eth1"]')
    facts = _labels(draft, given, "a link") | {"source": ends[0][0], "target": ends[1][0]}
    link = made(draft, where, LinkAttributes, facts)
    draft.cable(
        ends[0],
        ends[1],
        where,
        rate_bps=link.rate_bps,
        delay_ps=link.delay_ps,
        length_m=link.length_m,
    )


def _labels(draft: Draft, given: dict[str, yaml.Node], what: str) -> dict[str, str]:
    """The labels that are meant for us, without their prefix."""
    if "labels" not in given:
        return {}
    labels = mapping(draft.path, given["labels"], f"labels of {what}")
    return {
        key.removeprefix(PREFIX): scalar(draft.path, value, f"label {shown(key)}")
        for key, value in labels.items()
        if key.startswith(PREFIX)
    }


def write(fabric: Fabric) -> Written:
    """A fabric as a topology file of kind linux."""
    called = _container_names(fabric)
    lab = fabric.name if _NAME.fullmatch(fabric.name) else "fabric"
    heads = {"fabric": fabric.name, "family": fabric.family}
    lines = [
        "# Rates, delays, lengths and roles are labels: containerlab does not act on them.",
        f"name: {json.dumps(lab)}",
        "topology:",
        f"  defaults: {{kind: linux, image: 'alpine:3', labels: {_labelled(heads)}}}",
        "  nodes:",
    ]
    groups = {0: "inner", 1: "leaf", 2: "spine"}
    for node, name in zip(of_nodes(fabric), called, strict=True):
        facts = asdict(node)
        if facts.pop("id") != name:
            facts["name"] = node.id
        group = "host" if node.kind == "host" else groups.get(node.tier or 0, "superspine")
        lines.append(f"    {json.dumps(name)}: {{group: {group}, labels: {_labelled(facts)}}}")
    lines.append("  links:" if fabric.links else "  links: []")
    for link in fabric.links:
        a, b = (json.dumps(f"{called[n]}:{_interface(p)}") for n, p in _ends(link))
        facts = {"rate_bps": link.rate_bps, "delay_ps": link.delay_ps, "length_m": link.length_m}
        lines.append(f"    - {{endpoints: [{a}, {b}], labels: {_labelled(facts)}}}")
    notes = [
        "Rates, delays and lengths are labels, since the format has none; a running lab has the "
        "speed of its machine until `containerlab tools netem set` shapes it.",
        "Every node is of kind linux with the image alpine:3; choose kinds and images, and mind "
        "that interfaces must follow the names of the kind.",
        *told_inside(fabric),
    ]
    renamed = sum(node.name != name for node, name in zip(fabric.nodes, called, strict=True))
    if renamed:
        notes.append(f"{plural(renamed, 'name')} cannot name a container; written as n0, n1 ...")
    text = "\n".join([*lines, ""])
    if len(text) > MOST_MIB << 20:
        notes.append(f"Larger than the {MOST_MIB} MiB of YAML that are read back here.")
    return Written({"": text}, notes)


def impairments(fabric: Fabric, slower: int = 1) -> str:
    """A shell script that shapes both ends of every link with ``containerlab tools netem set``.

    ``slower`` divides the rates and multiplies the delays, for rates that software cannot reach:
    products of the two, and with them buffers and thresholds in bytes, stay the same. Delays are
    in whole microseconds, at least 1, and rates in kbit/s, since netem takes no finer ones.
    """
    called = _container_names(fabric)
    lab = fabric.name if _NAME.fullmatch(fabric.name) else "fabric"
    lines = ["#!/bin/sh", f"# Rates / {slower}, delays x {slower}.", "set -e"]
    for link in fabric.links:
        micros = max(1, round(link.delay_ps * slower / 1_000_000))
        kbps = max(1, round(link.rate_bps / slower / 1000))
        lines += [
            f"containerlab tools netem set -n clab-{lab}-{called[n]} -i {_interface(p)} "
            f"--delay {micros}us --rate {kbps}"
            for n, p in _ends(link)
        ]
    return "\n".join([*lines, ""])


def _ends(link: Link) -> tuple[tuple[int, int], tuple[int, int]]:
    return (link.a, link.a_port), (link.b, link.b_port)


def _interface(port: int) -> str:
    return f"eth{port + 1}"


def _container_names(fabric: Fabric) -> list[str]:
    kept = [node.name if _NAME.fullmatch(node.name) else "" for node in fabric.nodes]
    taken, number = set(kept), 0
    for i, name in enumerate(kept):
        if not name:
            while f"n{number}" in taken:
                number += 1
            kept[i] = f"n{number}"
            number += 1
    return kept


def _labelled(facts: dict[str, Any]) -> str:
    told = ", ".join(
        f"{PREFIX}{key}: {json.dumps(str(value), ensure_ascii=False)}"
        for key, value in facts.items()
        if value is not None
    )
    return f"{{{told}}}"
