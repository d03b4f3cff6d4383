"""Node-link JSON and GraphML: whatever a fabric holds comes back, through networkx too."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from topo.error import FabricError
from topo.fabric import Fabric, Kind, Link, Node, Role, Switch
from topo.family.registry import FAMILIES, build
from topo.format.attribute import LinkAttributes, NodeAttributes
from topo.format.registry import read_fabric, write_fabric

EXACT = ("json", "graphml")
GBPS = 10**9


def facts(fabric: Fabric) -> tuple[object, ...]:
    """Everything a fabric holds."""
    return fabric.family, fabric.name, fabric.nodes, fabric.links


@pytest.mark.parametrize("form", EXACT)
@pytest.mark.parametrize("family", list(FAMILIES))
def test_a_fabric_of_a_family_comes_back(form, family, tmp_path):
    try:
        fabric = build(family, {"prefill": 16, "decode": 16})
    except FabricError as refusal:
        pytest.skip(f"{family} has no 16 + 16 hosts: {refusal}")
    path = tmp_path / f"any.{form}"
    write_fabric(fabric, path)
    assert facts(read_fabric(path)) == facts(fabric)


def test_every_field_of_a_node_a_link_and_a_switch_has_its_attribute():
    def fields(kind: Any) -> set[str]:
        return {field.name for field in dataclasses.fields(kind)}

    of_switch = {f"switch_{name}" for name in fields(Switch)}
    assert fields(Node) - {"index", "name", "switch"} | {"id"} | of_switch == set(
        NodeAttributes.__struct_fields__
    )
    graph_terms = {"source", "target", "key"}
    assert (fields(Link) - {"b"}) | graph_terms == set(LinkAttributes.__struct_fields__)


def test_json_passes_through_networkx_unharmed(tmp_path):
    fabric = build("bipartite", {"prefill": 6, "decode": 4, "switch": Switch(8)})
    path, again = tmp_path / "a.json", tmp_path / "b.json"
    write_fabric(fabric, path)
    graph = nx.node_link_graph(json.loads(path.read_text()), edges="links")
    assert graph.number_of_edges() == len(fabric.links)
    again.write_text(json.dumps(nx.node_link_data(graph.copy(), edges="links")))
    assert facts(read_fabric(again)) == facts(fabric)


def test_the_name_that_networkx_now_gives_the_list_of_cables_is_read_too(tmp_path):
    fabric = build("leaf_spine", {"hosts": 8})
    path = tmp_path / "a.json"
    write_fabric(fabric, path)
    graph = nx.node_link_graph(json.loads(path.read_text()), edges="links")
    path.write_text(json.dumps(nx.node_link_data(graph, edges="edges")))
    assert facts(read_fabric(path)) == facts(fabric)


@pytest.mark.parametrize("trunk", [1, 2])
def test_graphml_passes_through_networkx_unharmed(trunk, tmp_path):
    fabric = build("full_mesh", {"hosts": 9, "leaves": 3, "trunk": trunk, "oversubscription": 4.0})
    path, again = tmp_path / "a.graphml", tmp_path / "b.graphml"
    write_fabric(fabric, path)
    graph: Any = nx.read_graphml(path)
    assert graph.number_of_edges() == len(fabric.links)
    assert {data["kind"] for _, data in graph.nodes(data=True)} == {Kind.HOST, Kind.SWITCH}
    nx.write_graphml_xml(graph, again)
    assert facts(read_fabric(again)) == facts(fabric)


def test_swapped_ends_and_shuffled_links_come_back_in_order(tmp_path):
    fabric = build("leaf_spine", {"hosts": 8})
    path = tmp_path / "a.json"
    write_fabric(fabric, path)
    file = json.loads(path.read_text())
    for link in file["links"]:
        link["source"], link["target"] = link["target"], link["source"]
    file["links"].reverse()
    path.write_text(json.dumps(file))
    assert facts(read_fabric(path)) == facts(fabric)


def test_json_in_a_drawer_is_one_line_a_node_and_a_link(tmp_path):
    fabric = Fabric("drawer", name="two")
    host = fabric.add_host("h0", rack=0, server=3, role=Role.PREFILL)
    leaf = fabric.add_switch("leaf0", tier=1, switch=Switch(2, 400 * GBPS, 1000, 600_000))
    fabric.connect(host, leaf, rate_bps=400 * GBPS, length_m=10.0)
    write_fabric(fabric, tmp_path / "two.json")
    assert (tmp_path / "two.json").read_text() == (
        '{"directed": false, "multigraph": true,\n'
        '"graph": {"schema_version":1,"name":"two","family":"drawer"},\n'
        '"nodes": [\n'
        '{"id":"h0","kind":"host","tier":0,"rack":0,"server":3,"role":"prefill"},\n'
        '{"id":"leaf0","kind":"switch","tier":1,"rack":-1,"server":-1,"role":"none",'
        '"switch_ports":2,"switch_rate_bps":400000000000,"switch_buffer_bytes":1000,'
        '"switch_latency_ps":600000}\n'
        "],\n"
        '"links": [\n'
        '{"source":"h0","target":"leaf0","index":0,"a":"h0","a_port":0,"b_port":0,'
        '"rate_bps":400000000000,"delay_ps":50500,"length_m":10.0}\n'
        "]}\n"
    )


@pytest.mark.parametrize("head", ['"graph": {"schema_version": 1},', '"graph": {},', ""])
def test_a_short_file_by_hand_is_enough(head, tmp_path):
    path = tmp_path / "short.json"
    path.write_text(
        "{"
        + head
        + """"nodes": [{"id": "a"}, {"id": "b"}, {"id": "leaf", "kind": "switch"}],
        "links": [
          {"source": "leaf", "target": "a", "rate_bps": 100000000000, "length_m": 2},
          {"source": "leaf", "target": "b", "rate_bps": 400000000000, "length_m": 2}]}"""
    )
    fabric = read_fabric(path)
    assert [(n.name, n.kind, n.tier, n.rack) for n in fabric.nodes] == [
        ("a", Kind.HOST, 0, 0),
        ("b", Kind.HOST, 0, 0),
        ("leaf", Kind.SWITCH, 1, 0),
    ]
    assert fabric.node("leaf").switch == Switch(64, 400 * GBPS)
    assert [link.delay_ps for link in fabric.links] == [10_100, 10_100]


def test_a_graph_of_networkx_is_a_fabric(tmp_path):
    graph = nx.MultiGraph()
    graph.add_edge("leaf", "a", rate_bps=100 * GBPS)
    graph.add_edge("leaf", "b", rate_bps=100 * GBPS)
    (tmp_path / "a.json").write_text(json.dumps(nx.node_link_data(graph, edges="links")))
    fabric = read_fabric(tmp_path / "a.json")
    assert [node.name for node in fabric.hosts] == ["a", "b"]


def test_existing_files_are_kept_unless_asked(tmp_path):
    fabric = build("leaf_spine", {"hosts": 4})
    path = tmp_path / "a.json"
    path.write_text("mine")
    with pytest.raises(FabricError, match=r"a\.json: exists"):
        write_fabric(fabric, path)
    assert path.read_text() == "mine"
    write_fabric(fabric, path, overwrite=True)
    assert len(read_fabric(path).nodes) == len(fabric.nodes)
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_a_refused_export_leaves_nothing_behind(tmp_path):
    fabric = Fabric("any")
    fabric.add_host("new\nline")
    with pytest.raises(FabricError, match=r"node name 'new\\nline' has the character U\+000A"):
        write_fabric(fabric, tmp_path / "a.json")
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(FabricError, match="write another path"):
        write_fabric(build("leaf_spine", {"hosts": 4}), blocked / "a.json")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    (tmp_path / "a.json").mkdir()
    with pytest.raises(FabricError, match="write another path"):
        write_fabric(build("leaf_spine", {"hosts": 4}), tmp_path / "a.json", overwrite=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "file"]


def test_a_format_nobody_knows_is_refused_with_those_there_are(tmp_path):
    with pytest.raises(FabricError, match="format 'grapml': unknown; did you mean graphml"):
        read_fabric(tmp_path / "a", "grapml")
    with pytest.raises(FabricError, match="its ending tells no format"):
        read_fabric(Path("fabric.docx"))
