"""A scenario file is checked as a whole, and every complaint names its place in one line."""

from pathlib import Path

import pytest

from kvfabric.build import requests_of
from kvfabric.cli import main
from kvfabric.fabric import fabric_of
from kvfabric.load import load
from kvfabric.scenario import Scenario
from kvfabric.schema import scenario_schema
from kvfabric.source import MOST_MIB, ScenarioError, read_source
from kvfabric.starter import Facts, starter
from topo.error import KvfabricError
from topo.unit import PS_PER_MS, PS_PER_US

FIRST_LOOK = Path(__file__).parents[2] / "scenarios" / "first-look.yaml"

SMALL = """\
name: small
fabric:
  family: leaf_spine
  nic: 100Gbps
placement: {prefill: 4, decode: 4}
model: gpt-oss-120b
gpu: H100-SXM
requests:
  arrivals: {rate: 50/s}
  count: 20
budget: {handoff: 5ms, allowed: 5%}
run: {warmup: 2 requests}
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "s.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(tmp_path: Path, text: str) -> str:
    path = written(tmp_path, text)
    with pytest.raises(ScenarioError) as caught:
        load(path)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(str(path), "s.yaml")


def test_a_small_scenario_is_read_with_its_units_and_defaults(tmp_path: Path) -> None:
    study = load(written(tmp_path, SMALL))
    s: Scenario = study.scenario
    assert s.fabric.nic == 100_000_000_000
    assert s.budget.handoff == 5 * PS_PER_MS
    assert s.run.control_delay == 20 * PS_PER_US
    assert s.gpus == ("H100-SXM", "H100-SXM")
    assert s.warmup_requests == 2
    assert [(a.fabric, a.policy) for a in study.alternatives] == [("leaf-spine", "least_loaded")]


def test_the_first_look_compares_at_least_four_fabrics_with_five_policies() -> None:
    study = load(FIRST_LOOK)
    assert len({a.fabric for a in study.alternatives}) >= 4
    assert {a.policy for a in study.alternatives} == {
        "random",
        "round_robin",
        "least_loaded",
        "static_groups",
        "topology_aware",
    }
    assert len({a.scenario.placement for a in study.alternatives}) == 1
    assert study.scenario.requests.count * study.scenario.run.seeds >= 100


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("nic: 100Gbps", "nic: 100G", "s.yaml:4: fabric.nic: rate '100G': unknown unit 'G'"),
        (
            "nic: 100Gbps",
            "nic: 100",
            "s.yaml:4: fabric.nic: rate '100': a number needs its unit; write 100Gbps",
        ),
        ("warmup: 2 requests", "warmup: 2", "run.warmup: 2: must be text; write e.g. 2 requests"),
        ("nic: 100Gbps", "nic: -100Gbps", "s.yaml:4: fabric.nic: rate '-100Gbps'"),
        ("nic: 100Gbps", "nic: 0Gbps", "s.yaml:4: fabric.nic: must be above 0"),
        ("nic: 100Gbps", "nik: 1Gbps", "s.yaml:4: fabric.nik: unknown key; did you mean `nic`?"),
        ("rate: 50/s", "rate: .nan", "s.yaml:9: requests.arrivals.rate: nan"),
        ("rate: 50/s", "rate: 50/s, x: 1", "s.yaml:9: requests.arrivals.x: unknown key"),
        ("model: gpt-oss-120b\n", "", "s.yaml:1: `model` is missing"),
        ("prefill: 4", "prefill: 0", "s.yaml:5: placement.prefill: 0: must be a whole number"),
        ("prefill: 4", "prefill: 4, by: shelf", "s.yaml:5: placement.by: 'shelf' is unknown; "),
        ("name: small", "name: &a small", "s.yaml:1: anchors and aliases are not read"),
        ("name: small", "name: small\nname: twice", "s.yaml:2: name: stands twice"),
        ("count: 20", "count: 2", "s.yaml:12: run.warmup: 2 of 2 requests"),
        ("2 requests", "two", "s.yaml:12: run.warmup: 'two': write the number"),
        ("handoff: 5ms, ", "", "s.yaml:11: budget: needs `handoff: 25ms`, or slo.ttft"),
        ("gpu: H100-SXM", "gpu: H100-SXM\ninstance: {decode: {tp: 8}}", "instance.decode.tp: 8"),
        ("gpu: H100-SXM", "gpu: [", "not YAML"),
        ("name: small", "name: small\ncompare: {polcy: [a]}", "s.yaml:2: compare.polcy: unknown"),
        ("name: small", "name: small\ncompare: {policy: []}", "s.yaml:2: compare.policy: must be"),
        ("name: small", "name: small\ncompare: {policy: [a, a]}", "a stands twice"),
        ("name: small", "name: s\nrun: {seeds: 1}", "s.yaml:13: run: stands twice"),
    ],
)
def test_a_mistake_is_told_in_one_line_with_its_place(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    assert old in SMALL
    assert told in refusal(tmp_path, SMALL.replace(old, new))


def test_a_mistake_inside_an_alternative_names_the_alternatives_line(tmp_path: Path) -> None:
    text = SMALL + "compare:\n  fabric:\n    - {family: fat_tree}\n    - {nic: 3G}\n"
    assert refusal(tmp_path, text).startswith("s.yaml:16: fabric.nic: rate '3G'")


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"none\.yaml: no such file"):
        load(tmp_path / "none.yaml")


def test_a_huge_file_is_refused_without_being_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "bomb.yaml"
    with path.open("wb") as file:
        file.truncate(100 * 2**20)
    with pytest.raises(ScenarioError, match=f"larger than {MOST_MIB} MiB"):
        load(path)


def test_an_alias_bomb_is_refused(tmp_path: Path) -> None:
    lines = ["a: &a [x, x]"] + [
        f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]" for i in range(20)
    ]
    assert "anchors and aliases" in refusal(tmp_path, "\n".join(lines))


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    assert "nested deeper" in refusal(tmp_path, "a: " + "[" * 5000)


@pytest.mark.parametrize("text", ["", "- 1\n- 2\n", "42\n", "\x00", "a: !!python/object:os.x {}"])
def test_what_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    assert refusal(tmp_path, text).startswith("s.yaml:1:")


def test_latin1_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_bytes(b"name: caf\xe9\n")
    with pytest.raises(ScenarioError, match="not UTF-8"):
        load(path)


def test_overlaying_leaves_the_original_as_it_was(tmp_path: Path) -> None:
    source = read_source(written(tmp_path, SMALL))
    over = source.overlaid(("fabric",), {"family": "fat_tree"}, ("x",))
    assert source.value["fabric"]["family"] == "leaf_spine"
    assert over.value["fabric"] == {"family": "fat_tree", "nic": "100Gbps"}


def test_the_digest_changes_with_the_contents_but_not_with_the_seeds(tmp_path: Path) -> None:
    one = load(written(tmp_path, SMALL)).sha256
    assert load(written(tmp_path, SMALL.replace("5ms", "6ms"))).sha256 != one
    more = load(written(tmp_path, SMALL), overrides={("run", "seeds"): 9})
    assert more.sha256 == one
    assert more.scenario.run.seeds == 9


def test_the_schema_accepts_the_first_look_and_refuses_a_bare_number() -> None:
    import jsonschema

    schema = scenario_schema()
    value = read_source(FIRST_LOOK).value
    jsonschema.validate(value, schema)
    value["fabric"]["nic"] = 100
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, schema)


def test_what_init_writes_can_be_loaded(tmp_path: Path) -> None:
    for handoff in (None, "25ms"):
        facts = Facts(8, 16, "gpt-oss-120b", "H20", "100/s", handoff=handoff)
        study = load(written(tmp_path, starter(facts)))
        assert study.scenario.placement.decode == 16
        assert (study.scenario.budget.handoff is None) == (handoff is None)


@pytest.mark.parametrize(
    ("pool", "base", "fit"),
    [
        (16, "leaf_spine", ["single_switch", "full_mesh", "fat_tree", "leaf_spine", "bipartite"]),
        (1000, "leaf_spine", ["fat_tree", "leaf_spine", "bipartite"]),
        (1500, "fat_tree", ["fat_tree"]),
    ],
)
def test_init_offers_the_families_that_can_cable_so_many_hosts(
    pool: int, base: str, fit: list[str], tmp_path: Path
) -> None:
    text = starter(Facts(pool, pool, "Llama-3.1-8B", "H100-SXM", "9/s"))
    study = load(written(tmp_path, text))
    fabrics = {one.scenario.fabric.family: one for one in study.alternatives}
    assert list(fabrics) == fit
    assert f"  family: {base}\n" in text
    for one in fabrics.values():
        fabric_of(one.scenario, one.source)
    told = f"    # left out: single_switch: {2 * pool} hosts do not fit a switch of 64 ports\n"
    assert (told in text) == ("single_switch" not in fit)


def test_init_refuses_more_hosts_than_any_family_takes() -> None:
    with pytest.raises(KvfabricError, match=r"^init: fat_tree: 80000 hosts do not fit switches of"):
        starter(Facts(40_000, 40_000, "Llama-3.1-8B", "H100-SXM", "9/s"))


@pytest.mark.parametrize("objective", ["ttft", "tpot"])
def test_an_objective_of_nothing_is_refused(objective: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"{SMALL}slo: {{{objective}: 0ms}}\n")
    with pytest.raises(ScenarioError, match=rf"slo\.{objective}: must be above 0"):
        load(path)


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        (["--model", "Llama-3.1-405B"], "init: tp 1: 812 GB of Llama-3.1-405B weights do not fit"),
        (["--model", "Qwen3.5-397B-A17B", "--tp", "8"], "parameter counts are not known"),
        (["--ttft", "0ms"], "init: slo.ttft: must be above 0"),
    ],
)
def test_init_writes_no_scenario_that_cannot_run(
    asked: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yaml"
    with pytest.raises(SystemExit) as left:
        main(["init", *asked, "--file", str(path)])
    assert left.value.code == 2
    assert complaint in capsys.readouterr().err
    assert not path.exists()


def test_a_mistake_on_the_command_line_is_told_as_such(tmp_path: Path) -> None:
    path = written(tmp_path, SMALL)
    with pytest.raises(ScenarioError, match=r"^command line: budget\.handoff: duration '3'"):
        load(path, overrides={("budget", "handoff"): "3"})


@pytest.mark.parametrize("own", ["", "  trace: {file: good.csv}\n"])
def test_a_bad_trace_of_the_command_line_is_told_as_such(tmp_path: Path, own: str) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("hello\nworld\n", encoding="utf-8")
    path = written(tmp_path, SMALL.replace("  count: 20\n", f"  count: 20\n{own}"))
    study = load(path, overrides={("requests", "trace", "file"): str(bad)})
    told = rf"^command line: requests\.trace\.file: {bad}:1: not a known trace format"
    with pytest.raises(ScenarioError, match=told):
        requests_of(study.scenario, study.source, 1)


def test_what_holds_a_key_of_compare_alone_is_told_at_its_line(tmp_path: Path) -> None:
    text = SMALL + "compare:\n  fabric.oversubscription: [1]\n  network.transport.mtu: [4KiB]\n"
    source = load(written(tmp_path, text)).alternatives[0].source
    assert "s.yaml:15: network: no" in str(source.error(("network",), "no"))
    assert "s.yaml:2: fabric: no" in str(source.error(("fabric",), "no"))
