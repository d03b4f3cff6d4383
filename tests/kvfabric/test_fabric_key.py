"""Scenario keys of fabrics: each family's own, with their units, and none of another's."""

from pathlib import Path

import pytest

from kvfabric.fabric import fabric_of
from kvfabric.load import load
from kvfabric.source import ScenarioError
from topo.fabric import Fabric, Role

GBPS = 10**9

TEXT = """\
name: keys
fabric: {%s}
placement: {%s}
model: gpt-oss-120b
gpu: H100-SXM
budget: {handoff: 5ms}
"""


def built(
    tmp_path: Path, fabric: str, placement: str = "prefill: 8, decode: 8"
) -> tuple[str, Fabric]:
    """The label and the fabric of a scenario with that fabric and placement."""
    path = tmp_path / "keys.yaml"
    path.write_text(TEXT % (fabric, placement), encoding="utf-8")
    study = load(path)
    (alternative,) = study.alternatives
    return alternative.fabric, fabric_of(alternative.scenario, alternative.source)


@pytest.mark.parametrize(
    ("fabric", "label", "switches"),
    [
        ("family: torus, shape: [2, 3, 3], p: 1", "torus p=1 shape=2x3x3", 18),
        ("family: dragonfly, a: 4, p: 2, h: 1, groups: 2, wiring: absolute",
         "dragonfly groups=2 a=4 p=2 h=1 wiring=absolute", 8),
        ("family: slim_fly, q: 3", "slim-fly q=3", 18),
        ("family: jellyfish, leaves: 8, degree: 3, seed: 0",
         "jellyfish leaves=8 degree=3 seed=0", 8),
        ("family: three_tier, pods: 2, switch: {ports: 8}", "three-tier pods=2", 10),
        ("family: multi_plane, planes: 2, attach: every, switch: {ports: 16}",
         "multi-plane planes=2 attach=every", 2),
        ("family: dual_tor, rails: 4, units: 1", "dual-tor rails=4 units=1", 8 + 2 * 2),
        ("family: leaf_spine, breakout: 2, gpus_per_server: 4, nic: 200Gbps",
         "leaf-spine breakout=2 gpus_per_server=4", 4),
    ],
)  # fmt: skip
def test_a_familys_own_keys_reach_it_and_its_label(tmp_path, fabric, label, switches):
    told, made = built(tmp_path, fabric)
    assert told == label
    assert len(made.switches) == switches


@pytest.mark.parametrize(
    ("fabric", "told"),
    [
        ("oversubscription: 2", "leaf-spine 2:1"),
        ("oversubscription: 3", "leaf-spine 2.67:1 (3:1 asked)"),
        ("oversubscription: 3, nic: 100Gbps", "leaf-spine 2:1 (3:1 asked)"),
        ("oversubscription: 3, leaves: 400", "leaf-spine 3:1 leaves=400"),
    ],
)
def test_a_label_tells_the_oversubscription_that_was_built(tmp_path, fabric, told):
    path = tmp_path / "keys.yaml"
    placed = "prefill: 8, decode: 24"
    path.write_text(TEXT % (f"family: leaf_spine, switch: {{ports: 32}}, {fabric}", placed))
    assert load(path).alternatives[0].fabric == told


def test_a_file_without_its_family_is_refused_with_what_to_write(tmp_path):
    with pytest.raises(
        ScenarioError, match=r"keys.yaml:2: fabric.file: to read a file, write `fam"
    ):
        built(tmp_path, "file: net.json")


def test_rates_of_a_family_are_written_with_their_unit(tmp_path):
    _, rail = built(tmp_path, "family: rail_only, scale_up: 1.6Tbps")
    assert 1_600 * GBPS in {link.rate_bps for link in rail.links}
    _, sides = built(tmp_path, "family: bipartite, decode_nic: 100Gbps")
    hosts = {sides.nodes[k.a].role: k.rate_bps for k in sides.links[:16]}
    assert hosts == {Role.PREFILL: 400 * GBPS, Role.DECODE: 100 * GBPS}
    with pytest.raises(ScenarioError, match=r"keys.yaml:2: fabric.scale_up: .*write 5Gbps$"):
        built(tmp_path, "family: rail_only, scale_up: 5")


def test_storage_and_rails_are_placed(tmp_path):
    where = "prefill: 4, decode: 8, storage: 4, by: rail"
    _, made = built(tmp_path, "family: rail_optimised, rails: 4", where)
    assert len(made.hosts) == 16
    assert len(made.hosts_with(Role.STORAGE)) == 4
    assert len(made.hosts_with(Role.PREFILL)) == 4


@pytest.mark.parametrize(
    ("fabric", "told"),
    [
        ("family: torus, q: 5", r"keys.yaml:2: fabric.q: not a parameter of torus; it takes"),
        ("family: fat_tree, scale_up: 1Tbps", r"scale_up: not a parameter of fat_tree"),
        ("family: torus, shape: []", r"keys.yaml:2: fabric.shape"),
        ("family: dragonfly, wiring: odd", r"keys.yaml:2: fabric.wiring: .*'odd'"),
        ("family: slim_fly, q: 6", r"keys.yaml:2: fabric.q: 6: .* write q: 7"),
    ],
)
def test_a_key_that_a_family_does_not_take_is_refused_with_its_place(tmp_path, fabric, told):
    with pytest.raises(ScenarioError, match=told) as refusal:
        built(tmp_path, fabric)
    assert "\n" not in str(refusal.value)
