"""Files from strangers: one clear line with its place, or a fabric; never harm."""

import json
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from topo.error import KvfabricError
from topo.fabric import Fabric, Kind, Role, Switch
from topo.family.registry import build
from topo.format.draft import Assumed
from topo.format.registry import FORMATS, read_fabric, write_fabric
from topo.format.text import MOST_MIB, MOST_NAME

GBPS = 10**9
XML = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
KEYS = '<key id="k" for="edge" attr.name="rate_bps" attr.type="long"/>'
GRAPH = f'{XML}{KEYS}\n<graph edgedefault="undirected">\n'
RACK = (
    f'{XML}<key id="k" for="node" attr.name="rack" attr.type="long"/>\n'
    '<graph edgedefault="undirected">\n'
)
END = "</graph></graphml>"
RATE = '<data key="k">400000000000</data>'


def refusal(tmp_path, name: str, text: str | bytes) -> str:
    """The one line with which a file is refused."""
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(KvfabricError) as caught:
        read_fabric(path)
    told = str(caught.value)
    assert "\n" not in told
    assert told.isprintable()
    assert len(told) <= 503
    return told.replace(f"{tmp_path}/", "")


def node_link(nodes: list[str], links: list[dict[str, object]]) -> str:
    return json.dumps(
        {
            "graph": {"schema_version": 1},
            "nodes": [{"id": name} for name in nodes],
            "links": [{"rate_bps": 1, **link} for link in links],
        }
    )


def clab(nodes: str, links: str) -> str:
    return f"name: x\ntopology:\n  nodes:\n{nodes}\n  links:\n{links}\n"


CABLES = (
    "side_a_device,side_a_type,side_a_name,side_b_device,side_b_type,side_b_name,status,length,"
    "length_unit\n"
)
LABEL = 'labels: {kvfabric-rate_bps: "1"}'


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        # more than is ever read, before anything is built of it
        ("a.txt", "10000000 20 30\n", r"a.txt:1: 10000000 nodes: more than the 400000"),
        ("a.txt", f"5 1 {10**9}\n", r"a.txt:1: 1000000000 links: more than the 2000000"),
        ("a.json", node_link(["a" * (MOST_NAME + 1)], []), "has 101 characters; at most 100"),
        # a cable from a node to itself
        ("a.txt", "2 1 1\n1\n0 0 1Gbps 1us 0\n", "a.txt:3: a cable from 'h0' to itself"),
        ("a.dot", 'graph G {\n"a":"p" -- "a":"q"\n}', "a.dot:2: a cable from 'a' to itself"),
        (
            "a.json",
            node_link(["a"], [{"source": "a", "target": "a"}]),
            "a.json: links[0]: a cable from 'a' to itself",
        ),
        (
            "a.graphml",
            f'{GRAPH}<node id="a"/>\n<edge source="a" target="a">{RATE}</edge>{END}',
            "a.graphml:4: a cable from 'a' to itself",
        ),
        # two cables on one port
        (
            "a.dot",
            'graph G {\n"a":"p" -- "b":"p" [rate_bps=1]; "a":"p" -- "c":"p" [rate_bps=1]\n}',
            "a.dot:2: port 'p' of 'a' already has a cable, in line 2",
        ),
        (
            "a.clab.yml",
            clab(
                "    a:\n    b:",
                f'    - {{endpoints: ["a:e1", "b:e1"], {LABEL}}}\n'
                f'    - {{endpoints: ["b:e2", "a:e1"], {LABEL}}}',
            ),
            "a.clab.yml:8: port 'e1' of 'a' already has a cable, in line 7",
        ),
        (
            "a.csv",
            CABLES
            + "a,dcim.interface,e1,b,dcim.interface,e1,,,\n"
            + "c,dcim.interface,e1,b,dcim.interface,e1,,,\n",
            "a.csv:3: port 'e1' of 'b' already has a cable, in line 2",
        ),
        (
            "a.json",
            node_link(
                ["a", "b", "c"],
                [
                    {"source": "a", "target": "b", "a_port": 0},
                    {"source": "a", "target": "c", "a_port": 0},
                ],
            ),
            "a.json: links[1]: port 0 of 'a': already has a cable",
        ),
        # names
        ("a.json", node_link(["a\nb"], []), r"node name 'a\nb' has the character U+000A"),
        ("a.json", node_link(["a‮b"], []), r"node name 'a\u202eb' has the character U+202E"),
        ("a.dot", 'graph G {\n"a\x1b[31m" [function=host]\n}', "has the character U+001B"),
        ("a.json", node_link([""], []), "a.json: nodes[0]: node name '' is empty"),
        ("a.json", node_link(["a "], []), "has a blank at its start or end"),
        ("a.json", node_link(["a", "a"], []), "node 'a' is declared twice, first at nodes[0]"),
        (
            "a.clab.yml",
            clab("    a:\n    a:", "    []"),
            "a.clab.yml:5: nodes: key 'a' stands twice",
        ),
        (
            "a.csv",
            f'{CABLES}"a\nb",dcim.interface,e1,c,dcim.interface,e1,,,\n',
            r"a.csv:3: node name 'a\nb' has the character U+000A",
        ),
        # entity bombs and their like
        (
            "a.graphml",
            '<?xml version="1.0"?>\n<!DOCTYPE lolz [<!ENTITY lol "lol">]>\n<graphml/>',
            "a.graphml:2: a DOCTYPE: not read",
        ),
        (
            "a.graphml",
            f'<!DOCTYPE x SYSTEM "file:///etc/passwd">{GRAPH}{END}',
            "a.graphml:1: a DOCTYPE: not read",
        ),
        ("a.graphml", f'{GRAPH}<node id="&lol;"/>{END}', "a.graphml:3: broken XML: undefined"),
        ("a.json", "[" * 200_000, "a.json"),
        ("a.json", '{"graph": ' + '{"a":' * 100_000, "a.json"),
        ("a.clab.yml", "a: " + "[" * 900, "a.clab.yml:1: nested too deeply"),
        ("a.clab.yml", "a: &a [*a]", "a.clab.yml:1: no topology"),
        ("a.clab.yml", "topology: !!python/object/apply:os.system [id]", "not a mapping"),
        # the wrong thing altogether
        ("a.json", b"\x00\xff\x00", "a.json:1: byte 0xff is not UTF-8"),
        ("a.json", "", "a.json:1:"),
        ("a.json", "{}", "a.json: `nodes` is missing; write e.g. nodes: ["),
        ("a.json", '{\n"graph": {,', "a.json:2: JSON is malformed"),
        ("a.txt", "", "a.txt: empty; line 1 counts"),
        ("a.txt", "348 8 28 4 800 H100\n", "a.txt:1: '348 8 28 4 800 H100': not the three"),
        ("a.txt", "2 1 1\n1\n0 1 1Gbps 1us 0.01\n", "a.txt:3: error rate '0.01'"),
        ("a.txt", "2 1 1\n1\n0 1 1G 1us 0\n", "a.txt:3: rate '1G': unknown unit 'G'"),
        ("a.txt", "2 1 1\n1\n0 1 0Gbps 1us 0\n", "a.txt:3: link rate 0bps: must be above 0"),
        ("a.txt", "2 1 1\n1\n0 7 1Gbps 1us 0\n", "a.txt:3: node '7': not one of 0 .. 1"),
        ("a.txt", "2 1 2\n1\n0 1 1Gbps 1us 0\n", "a.txt:3: 6 values after line 1"),
        ("a.dot", "digraph G {}", "a.dot:1: 'digraph' where graph should stand"),
        ("a.dot", 'graph G {\n"a":"p" -- "b"', "a.dot:2: ends too early"),
        ("a.dot", 'graph G {\n"a" -- "b"\n}', 'a.dot:2: \'a\' has no port; write "a":"swp1"'),
        ("a.dot", 'graph G { "a', "a.dot:1: '\"': not read here"),
        ("a.dot", 'graph G { "a":"p" -- "b":"p" }', "has no rate; write one there"),
        ("a.clab.yml", "name: x", "a.clab.yml:1: no topology"),
        (
            "a.clab.yml",
            clab("    a:", '    - endpoints: ["a:e1", "host:e1"]'),
            "a.clab.yml:6: node 'host': no such node",
        ),
        (
            "a.clab.yml",
            clab("    a:\n    b:", '    - {type: dummy, endpoints: ["a:e1", "b:e1"]}'),
            "a.clab.yml:7: link type 'dummy': only veth",
        ),
        ("a.csv", "Side A,Side B\n", "a.csv:1: no single column side_a_device"),
        (
            "a.csv",
            f'{CABLES}a,dcim.interface,"e1,e2",b,dcim.interface,e1,,,\n',
            "a.csv:2: side_a_name 'e1,e2': several ends",
        ),
        ("a.csv", f"{CABLES}a,dcim.frontport,1,b,dcim.interface,e1,,,\n", "'dcim.frontport'"),
        ("a.csv", f"{CABLES}a,dcim.interface,e1\n", "a.csv:2: 3 fields under 9 columns"),
        ("a.csv", f"{CABLES}a,dcim.interface,e,b,dcim.interface,e,,3,furlong\n", "'furlong'"),
        (
            "a.json",
            '{"graph": {"schema_version": 1}, "nodes": [{"id": "a", "rate_gbps": 4}], "links": []}',
            "a.json: nodes[0].rate_gbps: unknown key; did you mean",
        ),
        (
            "a.json",
            '{"nodes": [{"id": 3}]}',
            'a.json: nodes[0].id: 3: must be text; write e.g. "3"',
        ),
        ("a.json", '{"nodes": [{"kind": "host"}]}', "a.json: nodes[0]: `id` is missing; add it"),
        ("a.json", '{"nodes": [{"id": "a", "kind": "x"}]}', "'x' is unknown; write host or switch"),
        ("a.json", '{"nodes": 3, "graph": {,', "a.json:1: JSON is malformed"),
        ("a.json", '{"nodes": 3, "graph": ' + "[" * 200_000, "a.json: nested too deeply"),
        ("a.json", "[]", "a.json: a list of 0: must be a mapping; write e.g. {nodes: [{id: ...}]}"),
        (
            "a.graphml",
            f'{RACK}<node id="a"><data key="k">two</data></node>{END}',
            "a.graphml:3: rack 'two': must be a whole number from -1 to 10000000; write e.g. 8",
        ),
        (
            "a.json",
            '{"graph": {"schema_version": 2}, "nodes": [], "links": []}',
            "a.json: graph.schema_version: 2: unknown; this version reads 1",
        ),
    ],
)
def test_a_bad_file_is_refused_in_one_line_with_its_place(name, text, told, tmp_path):
    begun = time.monotonic()
    assert told in refusal(tmp_path, name, text)
    assert time.monotonic() - begun < 2


def test_a_bomb_of_aliases_is_walked_no_further_than_the_format_is_deep(tmp_path):
    text = "a: &a [x, x, x]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True):
        text += f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
    assert "not a mapping" in refusal(tmp_path, "a.clab.yml", f"{text}topology: *i\n")


def test_a_file_beyond_the_limit_is_not_read(tmp_path):
    path = tmp_path / "a.json"
    with path.open("wb") as file:
        file.truncate((MOST_MIB << 20) + 1)
    with pytest.raises(KvfabricError, match="larger than 128 MiB"):
        read_fabric(path)


def test_a_missing_file_a_folder_and_a_device_are_refused(tmp_path):
    for path in (tmp_path / "no.json", tmp_path / "a\0b.json"):
        with pytest.raises(KvfabricError, match="write another"):
            read_fabric(path)
    (tmp_path / "dir.json").mkdir()
    with pytest.raises(KvfabricError):
        read_fabric(tmp_path / "dir.json", "json")
    with pytest.raises(KvfabricError, match="not a file"):
        read_fabric("/dev/zero", "json")


def test_a_file_beyond_any_fabric_is_refused_by_its_size(tmp_path):
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(KvfabricError, match="larger than 128 MiB"):
        read_fabric(tmp_path / "huge.json")


def test_a_format_that_is_only_written_is_not_read(tmp_path):
    with pytest.raises(
        KvfabricError, match="mininet can be written but not read; write one of json"
    ):
        read_fabric(tmp_path / "a.py", "mininet")


def test_a_name_that_is_a_path_is_just_a_name(tmp_path):
    fabric = Fabric("any")
    a, b = fabric.add_host("../../etc/passwd"), fabric.add_host("$(id)")
    fabric.connect(a, b, rate_bps=1)
    for name, form in FORMATS.items():
        if form.read and not form.folder:
            write_fabric(fabric, tmp_path / name, name)
            assert len(read_fabric(tmp_path / name, name).nodes) == 2
    assert {path.name for path in tmp_path.iterdir()} <= set(FORMATS)


def test_what_a_foreign_file_leaves_out_can_be_assumed(tmp_path):
    path = tmp_path / "topology.dot"
    path.write_text(
        'graph G { hostnametype="hostname"\n LLDP=""\n BFD1="upMinTx=200"\n'
        ' "leaf1" [function="leaf" os="x" ]\n'
        ' "h1":"eth0" -- "leaf1":"swp1" [BFD="bfdtmpl=BFD1", LLDP="match_type=portdescr"];\n'
        ' "h2":"eth0" -- "leaf1":"swp2" // second\n'
        ' "leaf1":"swp3" -- "spine1":"swp1"\n "leaf1":"swp4" -- "spine1":"swp2" }'
    )
    model = Switch(8, 400 * GBPS)
    fabric = read_fabric(path, assume=Assumed(100 * GBPS, model, cable_m=2.0))
    assert {n.name: (n.kind, n.tier, n.rack) for n in fabric.nodes} == {
        "leaf1": (Kind.SWITCH, 1, 0),
        "h1": (Kind.HOST, 0, 0),
        "h2": (Kind.HOST, 0, 0),
        "spine1": (Kind.SWITCH, 2, -1),
    }
    assert [link.rate_bps // GBPS for link in fabric.links] == [100, 100, 400, 400]
    assert [link.delay_ps for link in fabric.links] == [10_100] * 4
    assert fabric.node("spine1").switch == model


def test_a_lab_of_real_kinds_is_read_by_kind_and_group(tmp_path):
    path = tmp_path / "lab.clab.yml"
    path.write_text(
        "name: lab\nmgmt: {network: n}\ntopology:\n  kinds: {linux: {image: alpine}}\n"
        "  nodes:\n    srl: {kind: nokia_srlinux, image: x}\n    sp: {kind: ceos, group: spine}\n"
        "    c1: {kind: linux, labels: {owner: me}}\n    c2: {group: server}\n  links:\n"
        '    - endpoints: ["srl:e1-1", "c1:eth1"]\n      mtu: 9000\n'
        '    - endpoints: ["srl:e1-2", "c2:eth1"]\n'
        "    - type: veth\n      endpoints:\n"
        "        - {node: srl, interface: e1-3}\n        - {node: sp, interface: eth1}\n"
    )
    fabric = read_fabric(path, assume=Assumed())
    assert fabric.name == "lab"
    assert [(n.name, n.kind, n.tier) for n in fabric.nodes] == [
        ("srl", Kind.SWITCH, 1),
        ("sp", Kind.SWITCH, 2),
        ("c1", Kind.HOST, 0),
        ("c2", Kind.HOST, 0),
    ]


def test_a_lone_netbox_cable_table_of_newer_columns_is_read(tmp_path):
    path = tmp_path / "cables.csv"
    path.write_text(
        "side_a_site,side_a_device,side_a_type,side_a_name,side_b_site,side_b_device,side_b_type,"
        "side_b_name,profile,status,length,length_unit\n"
        "dc,h1,dcim.interface,eth0,dc,leaf,dcim.interface,Ethernet1,,connected,10,ft\n"
        "dc,h2,dcim.interface,eth0,dc,leaf,dcim.interface,Ethernet2,,planned,,\n"
    )
    fabric = read_fabric(path, assume=Assumed(cable_m=5.0))
    assert [link.length_m for link in fabric.links] == [pytest.approx(3.048), 5.0]
    assert [n.kind for n in fabric.nodes] == [Kind.HOST, Kind.SWITCH, Kind.HOST]


def test_speeds_of_netbox_come_from_the_interface_or_its_type_and_must_agree(tmp_path):
    (tmp_path / "cables.csv").write_text(
        f"{CABLES}h1,dcim.interface,e0,h2,dcim.interface,e0,,,\n"
        "h1,dcim.interface,e1,h3,dcim.interface,e0,,,\n"
    )
    table = "device,name,type,speed\nh1,e0,other,200000000\nh1,e1,400gbase-x-osfp,\n"
    (tmp_path / "interfaces.csv").write_text(table)
    assert [k.rate_bps // GBPS for k in read_fabric(tmp_path).links] == [200, 400]
    (tmp_path / "interfaces.csv").write_text(f"{table}h2,e0,100gbase-x-qsfp28,\n")
    with pytest.raises(KvfabricError, match=r"cables.csv:2: ends of 100Gbps and 200Gbps"):
        read_fabric(tmp_path)


SMALL = build("leaf_spine", {"hosts": 4, "prefill": 2, "decode": 2}).with_roles({0: Role.PREFILL})


@pytest.mark.parametrize("form", ["json", "graphml", "containerlab", "ptm", "hpcc"])
@settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused_in_one_line(form, data, tmp_path):
    path = tmp_path / "file"
    write_fabric(SMALL, path, form, overwrite=True)
    text = path.read_text()
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text) - 1))
        cut = data.draw(st.sampled_from([0, 1, 2, 9, 80]))
        put = data.draw(
            st.sampled_from(["", "\0", "\n", '"', "{", "}", "]", "-1", "9" * 30, "é", "&a;", "*a"])
            | st.text(max_size=4)
        )
        text = text[:start] + put + text[start + cut :]
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        told = str(read_fabric(path, form).name)
    except KvfabricError as error:
        told = str(error)
    assert told.isprintable()
