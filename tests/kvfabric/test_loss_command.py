"""``kvfabric topo losses``: what it writes is read as a comparison of faults that can be run."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from kvfabric.build import stage
from kvfabric.cli import kvfabric
from kvfabric.command.topo_loss import _entries
from kvfabric.load import load
from topo.fabric import Fabric, Switch

TEXT = """\
name: losses
fabric: {family: fat_tree, k: 4, nic: 100Gbps, switch: {ports: 4, rate: 100Gbps}}
placement: {prefill: 8, decode: 8}
model: gpt-oss-120b
gpu: H100-SXM
requests: {count: 6}
budget: {handoff: 5ms, allowed: 10%}
run: {seeds: 1}
"""


def test_what_is_written_compares_one_loss_of_each_kind(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(TEXT, encoding="utf-8")
    done = CliRunner().invoke(kvfabric, ["topo", "losses", str(path)], catch_exceptions=False)
    assert done.exit_code == 0
    path.write_text(TEXT + done.output, encoding="utf-8")
    alternatives = load(path).alternatives
    assert [each.varied["faults"] for each in alternatives] == [
        "no faults",
        "edge0 - agg0 removed",
        "edge0 - agg0 degraded to 25% of its rate",
        "agg0 - core0 removed",
        "agg0 - core0 degraded to 25% of its rate",
        "agg0 removed",
        "core0 removed",
    ]
    assert "# edge0, one of 8: hosts go with it" in done.output
    for each in alternatives:
        stage(each.scenario, each.source)


@pytest.mark.parametrize("name", ["1", "null", "a: b", "[x", "spine 0", "on"])
def test_names_that_yaml_would_read_otherwise_are_quoted(name: str) -> None:
    fabric = Fabric("mine")
    switch = Switch(ports=8, rate_bps=10**11)
    leaves = [fabric.add_switch(f"leaf{n}", tier=1, switch=switch) for n in range(2)]
    spines = [fabric.add_switch(each, tier=2, switch=switch) for each in (name, "other")]
    for number, leaf in enumerate(leaves):
        fabric.connect(fabric.add_host(f"h{number}"), leaf, rate_bps=10**11)
        for spine in spines:
            fabric.connect(leaf, spine, rate_bps=10**11)
    (cable, _, node) = yaml.safe_load("\n".join(_entries(fabric)))
    assert cable == [{"kind": "removed", "link": ["leaf0", name]}]
    assert node == [{"kind": "removed", "node": name}]
