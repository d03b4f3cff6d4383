"""Formats that are only written: what a reader of each would find in them."""

import ast
import csv
import io
import json
import re
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from topo.error import FabricError
from topo.fabric import Fabric, Kind, Role, Switch
from topo.family.registry import build
from topo.format.containerlab import impairments
from topo.format.hpcc import HpccFlow, flow_file
from topo.format.registry import FORMATS, read_fabric, write_fabric
from topo.format.sonic import Thresholds
from topo.format.sonic import write as sonic

GBPS = 10**9


def small(name: str = "h0") -> Fabric:
    """Two hosts on one leaf, 400G over 3 m and 100G over 40 m."""
    fabric = Fabric("drawer", name="small")
    hosts = fabric.add_host(name, rack=0, role=Role.PREFILL), fabric.add_host("h1", rack=0)
    leaf = fabric.add_switch("leaf0", tier=1, switch=Switch(4), rack=0)
    fabric.connect(hosts[0], leaf, rate_bps=400 * GBPS, length_m=3)
    fabric.connect(hosts[1], leaf, rate_bps=100 * GBPS, length_m=40)
    return fabric


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def wired(text: str) -> dict[str, int]:
    """What htsim makes of its file: the arithmetic of FatTreeTopology::set_custom_params."""
    head: dict[str, int] = {}
    tiers: list[dict[str, int]] = []
    for key, value in (line.split() for line in text.splitlines() if line):
        if key == "Tier":
            tiers.append({})
        elif tiers:
            tiers[-1][key] = int(value)
        else:
            head[key] = int(value)
    leaf, mid = tiers[0], tiers[1]
    pods = head["Nodes"] // head["Podsize"]
    assert leaf["Radix_Down"] // leaf["Radix_Up"] == leaf["Oversubscribed"]
    up = head["Nodes"] * leaf["Downlink_speed_Gbps"]
    up //= mid["Downlink_speed_Gbps"] * leaf["Oversubscribed"]
    mids = up // (pods * mid["Radix_Down"])
    assert mids * mid["Bundle"] == leaf["Radix_Up"]
    cores = 0
    if head["Tiers"] == 3:
        core = tiers[2]
        up = up * mid["Downlink_speed_Gbps"]
        up //= core["Downlink_speed_Gbps"] * mid["Oversubscribed"]
        cores = up // core["Radix_Down"]
        assert cores % mids == 0
        assert cores * core["Bundle"] // mids == mid["Radix_Up"]
    leaves = pods * head["Podsize"] // leaf["Radix_Down"]
    return {"hosts": head["Nodes"], "leaf": leaves, "mid": mids * pods, "core": cores}


@pytest.mark.parametrize(
    ("family", "values"),
    [
        ("leaf_spine", {"hosts": 32, "switch": Switch(16)}),
        ("leaf_spine", {"hosts": 64, "leaves": 4, "spines": 2, "trunk": 4, "oversubscription": 2}),
        ("fat_tree", {"k": 4}),
        ("fat_tree", {"k": 8}),
        ("fat_tree", {"k": 8, "hosts": 64}),
    ],
)
def test_htsim_wires_the_same_numbers_of_switches_from_its_file(family, values, tmp_path):
    fabric = build(family, values)
    path = tmp_path / "tree.topo"
    notes = write_fabric(fabric, path)
    tiers = Counter(node.tier for node in fabric.switches)
    assert wired(path.read_text()) == {
        "hosts": len(fabric.hosts),
        "leaf": tiers[1],
        "mid": tiers[2],
        "core": tiers[3],
    }
    assert any("rounded to whole nanoseconds" in note for note in notes)


@pytest.mark.parametrize(
    ("family", "values", "why"),
    [
        ("full_mesh", {"hosts": 16}, r"switches in tiers \[1\]"),
        ("leaf_spine", {"hosts": 9, "leaves": 2}, "2 kinds of radix down and up in tier 1"),
        (
            "leaf_spine",
            {"hosts": 16, "nic_bps": 100 * GBPS},
            "the speeds must agree",
        ),
        ("leaf_spine", {"hosts": 16, "nic_bps": 25 * GBPS // 10}, r"2\.5Gbps in tier 1: must be"),
    ],
)
def test_what_is_no_regular_tree_is_refused_for_htsim(family, values, why, tmp_path):
    with pytest.raises(FabricError, match=why):
        write_fabric(build(family, values), tmp_path / "a.topo")
    assert list(tmp_path.iterdir()) == []


def rewired(tiers: set[int]) -> Fabric:
    """A fat tree of k = 4 with the upper ends of two cables between those tiers exchanged."""
    whole = build("fat_tree", {"k": 4})
    tier = [n.tier for n in whole.nodes]
    between = [k for k in whole.links if {tier[k.a], tier[k.b]} == tiers]
    first, second = between[0], between[-1]
    swapped = {first.index: second.b, second.index: first.b}
    other = Fabric("fat_tree")
    for n in whole.nodes:
        if n.switch is None:
            other.add_host(n.name)
        else:
            other.add_switch(n.name, tier=n.tier, switch=n.switch)
    for k in whole.links:
        other.connect(k.a, swapped.get(k.index, k.b), rate_bps=k.rate_bps, length_m=k.length_m)
    return other


@pytest.mark.parametrize(
    ("tiers", "why"),
    [
        ({1, 2}, "are not linked to the same switches"),
        ({2, 3}, "is not linked to the same place of each of 4 pods"),
    ],
)
def test_a_rewired_tree_with_the_same_counts_is_refused_for_htsim(tiers, why, tmp_path):
    with pytest.raises(FabricError, match=why):
        write_fabric(rewired(tiers), tmp_path / "a.topo")


def test_the_cable_map_has_a_row_a_cable_and_all_columns(tmp_path):
    write_fabric(small(), tmp_path / "map.csv", "cable-map")
    found = rows((tmp_path / "map.csv").read_text())
    assert [(r["a_device"], r["a_port"], r["b_device"], r["b_port"]) for r in found] == [
        ("h0", "eth1", "leaf0", "swp1"),
        ("h1", "eth1", "leaf0", "swp2"),
    ]
    assert [(r["rate_gbps"], r["media"], r["length_m"]) for r in found] == [
        ("400", "DAC", "3"),
        ("100", "SMF-DR4", "40"),
    ]
    assert ",".join(found[0]) == (
        "cable_id,a_rack,a_u,a_device,a_port,a_lane,b_rack,b_u,b_device,b_port,b_lane,rate_gbps,"
        "media,length_m,plane,rail,tier,label_a,label_b,status"
    )


def test_a_name_that_a_spreadsheet_would_run_is_defused_and_told(tmp_path):
    notes = write_fabric(small('=HYPERLINK("x")'), tmp_path / "map.csv", "cable-map")
    assert rows((tmp_path / "map.csv").read_text())[0]["a_device"] == '\'=HYPERLINK("x")'
    assert any("formula" in note for note in notes)


def test_the_bill_counts_what_there_is_to_buy(tmp_path):
    write_fabric(build("fat_tree", {"k": 4}), tmp_path / "bom.csv", "bom")
    found = rows((tmp_path / "bom.csv").read_text())
    counts = [(r["item"], r["article"], r["remark"], r["count"]) for r in found]
    assert counts[:5] == [
        ("switch", "4 x 400Gbps", "leaf", "8"),
        ("switch", "4 x 400Gbps", "spine", "8"),
        ("switch", "4 x 400Gbps", "core", "4"),
        ("NIC port", "400Gbps", "of hosts", "16"),
        ("cable", "AOC", "", "48"),
    ]


def test_what_lies_inside_a_server_is_neither_cabled_nor_bought_nor_configured(tmp_path):
    fabric = build("rail_only", {"hosts": 16})
    outer = [k for k in fabric.links if fabric.nodes[k.b].tier == 1 or fabric.nodes[k.a].tier == 1]
    notes = write_fabric(fabric, tmp_path / "map.csv", "cable-map")
    assert len(rows((tmp_path / "map.csv").read_text())) == len(outer) < len(fabric.links)
    assert any("inside servers" in note for note in notes)
    write_fabric(fabric, tmp_path / "bom.csv", "bom")
    found = rows((tmp_path / "bom.csv").read_text())
    assert sum(int(r["count"]) for r in found if r["item"] == "NIC port") == 16
    assert sum(int(r["count"]) for r in found if r["item"] == "cable") == len(outer)
    for form in ("netbox", "ptm", "containerlab", "hpcc", "mininet", "sonic"):
        notes = write_fabric(fabric, tmp_path / form, form)
        assert any("inside servers" in note for note in notes)
    assert not list((tmp_path / "sonic").glob("scaleup*"))


def run(script: str) -> tuple[list[str], list[str], list[tuple[object, ...]]]:
    """Hosts, switches and links that a Mininet script adds, told by a stand-in for Mininet."""
    seen: tuple[list[str], list[str], list[tuple[object, ...]]] = ([], [], [])

    class Topo:
        def addHost(self, name: str) -> None:  # noqa: N802
            seen[0].append(name)

        def addSwitch(self, name: str) -> None:  # noqa: N802
            seen[1].append(name)

        def addLink(self, *ends: object, **options: object) -> None:  # noqa: N802
            seen[2].append((*ends, *options.values()))

    stand_in, package = ModuleType("mininet.topo"), ModuleType("mininet")
    stand_in.Topo = Topo  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "mininet", package)
        patch.setitem(sys.modules, "mininet.topo", stand_in)
        space: dict[str, object] = {}
        exec(compile(script, "script", "exec"), space)
        space["topos"]["fabric"]().build()  # type: ignore[index]
    return seen


def test_the_mininet_script_adds_every_node_and_cable_slowed_alike(tmp_path):
    fabric = build("leaf_spine", {"hosts": 8, "cable_m": 10.0})
    write_fabric(fabric, tmp_path / "fabric.py")
    hosts, switches, links = run((tmp_path / "fabric.py").read_text())
    assert (len(hosts), len(switches), len(links)) == (8, 4, len(fabric.links))
    assert all(len(f"{name}-eth64") <= 15 for name in hosts + switches)
    # 400 Gbit/s at 100 Mbit/s is 4,000 times slower: 50.5 ns become 202 us.
    assert {link[4:6] for link in links} == {(100.0, "202.000us")}
    assert all(end[2] >= 1 and end[3] >= 1 for end in links)  # type: ignore[operator]


def test_names_in_the_mininet_script_are_data_and_never_code(tmp_path):
    evil = '"""\nimport os'.replace("\n", " ") + "'); import os; os.abort(); {slower} \\"
    write_fabric(small(evil), tmp_path / "fabric.py")
    script = (tmp_path / "fabric.py").read_text()
    imports = [n for n in ast.walk(ast.parse(script)) if isinstance(n, ast.Import | ast.ImportFrom)]
    assert len(imports) == 1
    assert run(script)[0] == ["h1", "h2"]
    assert evil in [n.value for n in ast.walk(ast.parse(script)) if isinstance(n, ast.Constant)]


def test_a_sonic_candidate_says_what_it_is_and_has_a_profile_for_each_kind_of_port(tmp_path):
    made = sonic(small(), Thresholds(headroom=lambda rate, delay: rate // 10**7 + delay // 1000))
    assert list(made.files) == ["leaf0.candidate.json"]
    tables = json.loads(made.files["leaf0.candidate.json"])
    assert next(iter(tables)) == "CANDIDATE"
    assert tables["CABLE_LENGTH"]["AZURE"] == {"Ethernet0": "3m", "Ethernet8": "40m"}
    fabric = small()
    fabric.connect(0, 2, rate_bps=GBPS, length_m=3.2)
    tables = json.loads(sonic(fabric).files["leaf0.candidate.json"])
    assert tables["CABLE_LENGTH"]["AZURE"]["Ethernet16"] == "4m"
    tables = json.loads(made.files["leaf0.candidate.json"])
    assert tables["BUFFER_PROFILE"]["pg_lossless_400000_3m_profile"] == {
        "pool": "ingress_lossless_pool",
        "xon": "19456",
        "xoff": "40015",
        "size": "59471",
        "dynamic_th": "0",
    }
    assert tables["BUFFER_PG"]["Ethernet8|3-4"] == {"profile": "pg_lossless_100000_40m_profile"}
    assert tables["WRED_PROFILE"]["AZURE_LOSSLESS"]["green_min_threshold"] == "1048576"
    assert tables["PORT_QOS_MAP"]["Ethernet0"]["pfc_enable"] == "3,4"
    assert "candidates" in made.notes[0]


def test_without_a_headroom_sonic_is_left_to_compute_it(tmp_path):
    notes = write_fabric(small(), tmp_path / "out", "sonic")
    tables = json.loads((tmp_path / "out" / "leaf0.candidate.json").read_text())
    assert tables["BUFFER_PROFILE"]["lossless_dynamic"]["headroom_type"] == "dynamic"
    assert any("Headroom is left" in note for note in notes)


def test_a_switch_cannot_name_a_file_outside_the_folder(tmp_path):
    fabric = Fabric("any")
    fabric.add_switch("../../evil", tier=1, switch=Switch())
    with pytest.raises(FabricError, match="a file is named for it"):
        write_fabric(fabric, tmp_path / "out", "sonic")
    assert list(tmp_path.iterdir()) == []


def test_thresholds_out_of_order_are_refused():
    with pytest.raises(FabricError, match="kmin 2kB, kmax 1KiB: write 0 < kmin <= kmax"):
        Thresholds(kmin_bytes=2000, kmax_bytes=1024)


def test_a_flow_file_counts_flows_and_orders_them_by_start():
    fabric = small()
    text, notes = flow_file(
        fabric, [HpccFlow(0, 1, 25_000_000, 2 * 10**12), HpccFlow(1, 0, 1, 1_500_400)]
    )
    assert text == "2\n1 0 3 100 1 0.000001500\n0 1 3 100 25000000 2.000000000\n"
    assert notes == ["The starts of 1 flow are rounded to ns."]
    for flow in (HpccFlow(0, 2, 1, 0), HpccFlow(0, 0, 1, 0), HpccFlow(0, 1, 2**32, 0)):
        with pytest.raises(FabricError):
            flow_file(fabric, [flow])
    with pytest.raises(FabricError, match=r"flow of 4GiB at 1us: .* below 4GiB"):
        flow_file(fabric, [HpccFlow(0, 1, 2**32, 10**6)])


def test_names_that_are_marks_of_a_language_are_names(tmp_path):
    marks = ["{", "}", "[", "]", "--", "graph", "=", ":", ";", "node", "]]>", "&amp;", "~", "null"]
    fabric = Fabric("}", name="{")
    nodes = [fabric.add_host(mark) for mark in [*marks, "- a", "#", "//", "'", '"', "*a", "%s"]]
    for a, b in pairwise(nodes):
        fabric.connect(a, b, rate_bps=GBPS)
    for form in ("json", "graphml", "containerlab", "ptm", "netbox"):
        write_fabric(fabric, tmp_path / form, form)
        found = read_fabric(tmp_path / form, form)
        assert found.links == fabric.links
        assert [n.name for n in found.nodes] == [n.name for n in fabric.nodes]


def test_impairments_shape_both_ends_of_every_cable():
    lines = impairments(small(), slower=4000).splitlines()[3:]
    assert lines[:2] == [
        "containerlab tools netem set -n clab-small-h0 -i eth1 --delay 61us --rate 100000",
        "containerlab tools netem set -n clab-small-leaf0 -i eth1 --delay 61us --rate 100000",
    ]
    assert len(lines) == 4


def test_a_containerlab_file_is_plain_yaml_of_short_interfaces(tmp_path):
    write_fabric(small("ö: [x]"), tmp_path / "a.clab.yml")
    file = yaml.safe_load((tmp_path / "a.clab.yml").read_text())
    assert set(file) == {"name", "topology"}
    assert list(file["topology"]["nodes"]) == ["n0", "h1", "leaf0"]
    assert file["topology"]["links"][0]["endpoints"] == ["n0:eth1", "leaf0:eth1"]
    assert read_fabric(tmp_path / "a.clab.yml").nodes == small("ö: [x]").nodes


def test_every_format_says_what_it_lacks_and_what_it_is_for():
    for form in FORMATS.values():
        assert form.read or form.write
        assert form.summary
        assert form.lacks
    assert {n for n, f in FORMATS.items() if f.lacks == "nothing"} == {"json", "graphml"}


def test_a_format_of_several_files_is_written_as_a_folder_or_not_at_all(tmp_path):
    (tmp_path / "cables.csv").write_text("mine")
    with pytest.raises(FabricError, match=r"cables\.csv: exists"):
        write_fabric(small(), tmp_path, "netbox")
    assert [p.name for p in tmp_path.iterdir()] == ["cables.csv"]
    write_fabric(small(), tmp_path / "in", "netbox")
    assert sorted(p.name for p in (tmp_path / "in").iterdir()) == [
        "cables.csv",
        "devices.csv",
        "interfaces.csv",
    ]
    assert [n.kind for n in read_fabric(tmp_path / "in").nodes] == [
        Kind.HOST,
        Kind.HOST,
        Kind.SWITCH,
    ]


def test_the_book_tells_of_every_format():
    book = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    for name, form in FORMATS.items():
        row = next(line for line in book.splitlines() if line.startswith(f"| `{name}` |"))
        ways = [cell.strip() for cell in row.split("|")[3:5]]
        assert ways == ["yes" if form.read else "", "yes" if form.write else ""]
        assert all(f"`{suffix}`" in row for suffix in form.suffixes[:1])


def test_the_examples_of_the_book_are_read(tmp_path):
    book = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    blocks = re.findall(r"```(json|yaml|dot|text)\n(.*?)```", book, re.DOTALL)
    blocks = [block for block in blocks if not block[1].startswith("fabric:")]  # of a scenario
    forms = {"json": "json", "yaml": "containerlab", "dot": "ptm", "text": "hpcc"}
    assert sorted(kind for kind, _ in blocks) == sorted(forms)
    for kind, text in blocks:
        (tmp_path / kind).write_text(text)
        fabric = read_fabric(tmp_path / kind, forms[kind])
        assert fabric.links[0].rate_bps == 400 * GBPS
        if kind != "text":
            assert fabric.hosts_with(Role.PREFILL) == [fabric.node("h0").index]
