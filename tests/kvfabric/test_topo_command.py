"""``kvfabric topo``: every verb does its work, and what is wrong is one line and exit code 2."""

from pathlib import Path

import pytest

from kvfabric.cli import main
from topo.format.registry import FORMATS, read_fabric

VERBS = ("list", "show", "design", "compare", "draw", "export", "import", "check")
SMALL = ("--prefill", "8", "--decode", "8", "--ports", "16")


def topo(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as left:
        main(["topo", *(str(a) for a in arguments)])
    assert isinstance(left.value.code, int)
    return left.value.code


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_explained_by_example(verb, capsys):
    assert topo(verb, "--help") == 0
    assert f"kvfabric topo {verb}" in capsys.readouterr().out


def test_a_comparison_has_a_row_for_each_family_and_a_reason_for_the_rest(capsys):
    asked = ("--family", "leaf_spine", "--family", "three_tier")
    assert topo("compare", "--prefill", "8", "--decode", "8", "--ports", "4", *asked) == 0
    told = capsys.readouterr().out
    assert "leaf_spine: does not fit: 16 hosts do not fit two tiers" in told
    assert any(line.split()[:1] == ["three_tier"] for line in told.splitlines())


@pytest.mark.parametrize(("by", "left"), [("rack", "100.0%"), ("separate", "87.5%")])
def test_planes_are_missed_where_whole_servers_serve_one_pool(by, left, capsys):
    asked = ("rail_only", "--prefill", "32", "--decode", "32", "--by", by)
    assert topo("compare", *asked) == 0
    last = [r for r in capsys.readouterr().out.splitlines() if r.split()[:1] == ["rail_only"]][-1]
    assert left in last
    assert topo("show", *asked) == 0
    told = capsys.readouterr().out
    assert any("plane lost" in row and left in row for row in told.splitlines())


def test_a_comparison_of_nothing_that_fits_fails(capsys):
    asked = ("--prefill", "512", "--decode", "512", "--family", "host_mesh")
    assert topo("compare", *asked) == 1
    assert capsys.readouterr().out.count("\n") == 1


def test_a_comparison_tells_one_over_r_of_a_leaf_spine(capsys):
    asked = ("--family", "leaf_spine", "--oversubscription", "2")
    assert topo("compare", "--prefill", "64", "--decode", "64", "--ports", "48", *asked) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if "leaf_spine" in line]
    assert ["0.500" in row for row in rows] == [False, True, False]


def test_a_design_names_the_switches_or_says_why_none_fits(capsys):
    assert topo("design", "--prefill", "512", "--decode", "512") == 0
    told = capsys.readouterr().out
    assert "32 leaf, 16 spine" in told
    assert "host_mesh" in told


def test_of_a_scenario_with_several_fabrics_the_export_writes_the_one_that_is_named(
    tmp_path, capsys
):
    scenario, file = "scenarios/first-look.yaml", tmp_path / "one.json"
    assert topo("export", scenario, "--to", file) == 2
    assert "4 fabrics (full-mesh, fat-tree" in (told := capsys.readouterr().err)
    assert "write --fabric 'full-mesh'" in told
    assert topo("export", scenario, "--fabric", "nope", "--to", file) == 2
    assert "no fabric 'nope'; write one of full-mesh" in capsys.readouterr().err
    assert not file.exists()
    assert topo("export", scenario, "--fabric", "fat-tree", "--to", file) == 0
    assert max(node.tier for node in read_fabric(file).nodes) == 3


def test_an_export_is_imported_again(tmp_path, capsys):
    file = tmp_path / "fabric.json"
    assert topo("export", "leaf_spine", *SMALL, "--to", file) == 0
    assert len(read_fabric(file).hosts) == 16
    assert topo("import", file, "--to", tmp_path / "again.json") == 0
    assert (tmp_path / "again.json").read_bytes() == file.read_bytes()
    assert topo("export", "leaf_spine", *SMALL, "--to", file) == 2
    assert "exists" in capsys.readouterr().err
    assert topo("show", file) == 0


@pytest.mark.parametrize("family", ["leaf_spine", "dragonfly", "rail_only", "bipartite_direct"])
@pytest.mark.parametrize("form", [f.name for f in FORMATS.values() if f.read and f.write])
def test_what_is_exported_is_imported_and_has_the_same_hosts_and_cables(family, form, tmp_path):
    place, back = tmp_path / "there", tmp_path / "back.json"
    assert topo("export", family, *SMALL, "--to", place, "--format", form) == 0
    assert topo("import", place, "--format", form, "--to", back) == 0
    assert topo("export", family, *SMALL, "--to", tmp_path / "first.json") == 0
    one, other = read_fabric(tmp_path / "first.json"), read_fabric(back)
    assert len(one.hosts) == len(other.hosts)
    rates = [sorted(link.rate_bps for link in fabric.links) for fabric in (one, other)]
    assert rates[0] == rates[1]


SILENT = """name: lab
topology:
  nodes:
    leaf1: {kind: nokia_srlinux}
    leaf2: {kind: nokia_srlinux}
    spine1: {kind: nokia_srlinux}
    srv1: {kind: linux}
    srv2: {kind: linux}
  links:
    - endpoints: ["leaf1:e1-49", "spine1:e1-1"]
    - endpoints: ["leaf2:e1-49", "spine1:e1-2"]
    - endpoints: ["srv1:eth1", "leaf1:e1-1"]
    - endpoints: ["srv2:eth1", "leaf2:e1-1"]
"""


@pytest.mark.parametrize("verb", ["show", "compare", "check", "import"])
def test_a_lab_without_rates_is_completed_by_options(verb, tmp_path, capsys):
    lab = tmp_path / "theirs.clab.yml"
    lab.write_text(SILENT)
    assert topo(verb, lab) == 2
    assert "--nic" in capsys.readouterr().err
    asked = ("--nic", "100Gbps", "--switch-rate", "200Gbps", "--prefill", "1", "--decode", "1")
    assert topo(verb, lab, *asked) == 0
    assert "100 Gbps" in capsys.readouterr().out or verb == "check"


def test_what_completes_a_file_is_kept_in_the_import(tmp_path):
    lab = tmp_path / "theirs.clab.yml"
    lab.write_text(SILENT)
    asked = (
        "--nic",
        "100Gbps",
        "--ports",
        "32",
        "--cable",
        "5m",
        "--prefill",
        "1",
        "--decode",
        "1",
    )
    assert topo("import", lab, *asked, "--to", tmp_path / "own.json") == 0
    fabric = read_fabric(tmp_path / "own.json")
    assert [str(host.role) for host in fabric.hosts] == ["prefill", "decode"]
    assert {link.length_m for link in fabric.links} == {5.0}
    assert {node.switch.ports for node in fabric.switches if node.switch} == {32}


@pytest.mark.parametrize("verb", ["show", "compare", "check", "import"])
@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--nic", "100Gbps", "is not silent"),
        ("--switch-rate", "100Gbps", "is not silent"),
        ("--ports", "8", "is not silent"),
        ("--prefill", "4", "says the roles"),
    ],
)
def test_an_option_that_a_file_answers_itself_is_refused(
    verb, option, value, told, tmp_path, capsys
):
    file = tmp_path / "fabric.json"
    assert topo("export", "leaf_spine", *SMALL, "--to", file) == 0
    assert topo(verb, file, option, value) == 2
    err = capsys.readouterr().err
    assert told in err
    assert f"leave out {option}" in err


def test_an_option_that_a_scenario_or_file_does_not_take_is_refused(tmp_path, capsys):
    file = tmp_path / "fabric.json"
    assert topo("export", "leaf_spine", *SMALL, "--to", file) == 0
    for asked in (
        ("show", file, "--set", "spines=3"),
        ("compare", file, "--breakout", "2"),
        ("compare", "scenarios/first-look.yaml", "--ports", "32"),
        ("show", "scenarios/first-look.yaml", "--nic", "100Gbps"),
    ):
        assert topo(*asked) == 2
        assert f"leave out {asked[2]}" in capsys.readouterr().err


def test_families_are_compared_by_their_bare_names(capsys):
    assert topo("compare", "leaf_spine", "full_mesh", *SMALL) == 0
    told = capsys.readouterr().out
    first = [line.split()[0] for line in told.splitlines() if line.strip()]
    assert first.count("leaf_spine") == first.count("full_mesh") == 3
    assert topo("compare", "leaf_spine", "a.json") == 2
    assert "one or the other" in capsys.readouterr().err


def test_files_of_one_name_are_told_apart(tmp_path, capsys):
    for name in ("a.json", "b.json"):
        assert topo("export", "leaf_spine", *SMALL, "--to", tmp_path / name) == 0
    capsys.readouterr()
    assert topo("compare", tmp_path / "a.json", tmp_path / "b.json") == 0
    told = capsys.readouterr().out
    assert "a.json" in told
    assert "b.json" in told


def test_a_check_fails_where_pfc_can_deadlock(capsys):
    assert topo("check", "leaf_spine", *SMALL) == 0
    assert "cannot deadlock" in capsys.readouterr().out
    assert topo("check", "torus", "--ports", "16") == 1
    told = capsys.readouterr().out
    assert "PFC can deadlock on shortest paths" in told
    assert "dateline on 2 channels" in told


def test_a_check_of_one_routing_fails_by_that_routing(capsys):
    asked = ("check", "torus", "--ports", "16", "--set", "shape=4,4,4", "--routing")
    assert topo(*asked, "dateline") == 0
    assert topo(*asked, "dimension") == 1
    assert topo(*asked, "group") == 2
    assert "write another routing" in capsys.readouterr().err


def test_a_fabric_shows_what_a_loss_leaves_and_how_much_was_tried(capsys):
    planes = ("--prefill", "32", "--decode", "32", "--ports", "16", "--set", "planes=4")
    assert topo("show", "multi_plane", *planes, "--set", "attach=every") == 0
    told = capsys.readouterr().out
    rows = {line[:34].strip(): line[34:].strip() for line in told.splitlines()}
    assert rows["mu left, worst plane lost"].startswith("75.0%")
    assert rows["theta hot"] == "1.000"
    assert rows["rack units"].endswith("of switches")


def test_a_bill_has_its_lines_and_their_sum(capsys):
    assert topo("show", "leaf_spine", *SMALL, "--bill") == 0
    told = capsys.readouterr().out.partition("Bill of leaf_spine")[2]
    items = [line.split()[0] for line in told.splitlines() if line.strip()]
    assert items[2:4] == ["switch", "nic"]
    assert "all" in items


def test_fabrics_whose_labels_make_one_file_name_are_drawn_into_two(tmp_path, capsys):
    scenario = tmp_path / "s.yaml"
    fabric = "{family: leaf_spine, nic: 100Gbps, switch: {ports: 8, rate: 100Gbps}}"
    scenario.write_text(
        f"name: s\nfabric: {fabric}\nplacement: {{prefill: 2, decode: 2}}\nmodel: gpt-oss-120b\n"
        "gpu: H100-SXM\nbudget: {handoff: 5ms}\n"
        "compare: {fabric: [{label: a b}, {label: a/b, spines: 1}]}\n"
    )
    assert topo("draw", scenario, "--out", tmp_path / "drawn") == 0
    drawn = sorted(path.name for path in (tmp_path / "drawn").iterdir())
    assert drawn == ["a-b-2.png", "a-b-2.svg", "a-b.png", "a-b.svg"]


def test_a_drawing_is_two_files(tmp_path):
    assert topo("draw", "dragonfly", *SMALL, "--out", tmp_path) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dragonfly.png", "dragonfly.svg"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("show", "nothing"), "no family and no file"),
        (("show", "leaf_spine", "--set", "spines"), "write KEY=VALUE"),
        (("show", "leaf_spine", "--set", "spines=2", "--set", "spines=3"), "set twice"),
        (("show", "leaf_spine", "--set", "spines=many"), "spines"),
        (("compare", "--family", "ring"), "unknown; write one of"),
        (("compare", "--prices", "no.csv"), "no such file"),
        (("compare", "--oversubscription", "nan"), "nan is not a number"),
        (("design", "--nic", "400G"), "unknown unit"),
        (("import", "no.json"), "no.json"),
        (("export", "leaf_spine", "--to", "x.unknown"), "ending"),
        (("check", "no.clab.yml"), "no family and no file"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(arguments, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert topo(*arguments) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert told in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1, 2",
        '{"nodes": 10000000}',
        '{"nodes": [{"id": "a\\nb"}], "links": []}',
        "\x00" * 20,
    ],
)
def test_a_hostile_file_is_one_line(text, tmp_path, capsys):
    file = tmp_path / "bad.json"
    file.write_text(text)
    for verb in ("import", "check", "show", "compare"):
        assert topo(verb, file) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["bad.json"]
