"""The key `faults`: read with its units, matched to links by names, told, and refused in a line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from emulate.fault import FOREVER
from kvfabric.build import stage
from kvfabric.compare import jobs_of
from kvfabric.limit import not_modelled
from kvfabric.load import load
from kvfabric.run import fabric_fact, settings_of
from kvfabric.source import ScenarioError
from topo.unit import PS_PER_MS

NIC_BPS = 100 * 10**9
Write = Callable[..., Path]


def scenario_of(write: Write, faults: str, emulator: str = "packet", more: str = "") -> Path:
    requests = "{arrivals: {rate: 400/s}, count: 6}"
    run = f"{{seeds: 1, emulator: {emulator}}}"
    return write(f"faults: {faults}\n{more}", requests=requests, run=run)


def staged(write: Write, faults: str, emulator: str = "packet"):
    study = load(scenario_of(write, faults, emulator))
    return study.scenario, stage(study.scenario, study.source)


def test_a_link_is_named_by_its_ends_in_either_order(write: Write) -> None:
    for pair, direction in (("leaf0, spine0", "forward"), ("spine0, leaf0", "back")):
        faults = f"[{{kind: down, link: [{pair}], from: 1ms, until: 3ms, direction: forward}}]"
        _, ready = staged(write, faults)
        (fault, *_) = ready.faults
        link = ready.fabric.links[fault.link]
        ends = {ready.fabric.nodes[link.a].name, ready.fabric.nodes[link.b].name}
        assert ends == {"leaf0", "spine0"}
        assert (fault.from_ps, fault.until_ps) == (PS_PER_MS, 3 * PS_PER_MS)
        turned = {"forward": "back", "back": "forward"}
        first = ready.fabric.nodes[link.a].name == "leaf0"
        assert fault.direction == (direction if first else turned[direction])


def test_a_node_that_is_down_takes_all_its_links_and_an_open_end_lasts(write: Write) -> None:
    scenario, ready = staged(write, "[{kind: down, node: spine0, from: 2ms}]")
    spine = ready.fabric.node("spine0").index
    ports = ready.fabric.ports
    assert len(ready.faults) == ports.first[spine + 1] - ports.first[spine]
    assert {f.until_ps for f in ready.faults} == {FOREVER}
    told = settings_of(scenario, ready)["faults"]
    assert told == "spine0 down from 2ms"


def test_faults_are_told_with_their_share_and_span(write: Write) -> None:
    scenario, ready = staged(
        write, "[{kind: lossy, link: [leaf0, spine0], share: 0.1%, until: 1ms}]"
    )
    assert settings_of(scenario, ready)["faults"] == "leaf0 - spine0 lossy 0.1% until 1ms"
    assert any("Routes do not change" in line for line in not_modelled(scenario))
    scenario, ready = staged(write, "[]")
    assert settings_of(scenario, ready)["faults"] == "none"


@pytest.mark.parametrize(
    ("faults", "word"),
    [
        ("[{kind: down}]", "faults.0: a fault needs either"),
        ("[{kind: down, link: [leaf0, leaf1]}]", "'leaf0' to 'leaf1': no cable of fabric"),
        (
            "[{kind: down, link: [leaf0, spine99]}]",
            "'spine99': not in fabric 'leaf-spine'; it has h0, leaf0, spine0, ...",
        ),
        ("[{kind: lossy, node: spine0, share: 1%}]", "can only be down"),
        ("[{kind: lossy, link: [leaf0, spine0]}]", "above 0% and below 100%"),
        ("[{kind: flaky, link: [leaf0, spine0]}]", "unknown"),
        ("[{kind: down, link: [leaf0, spine0], since: 1ms}]", "known here: kind, link, node, from"),
        (
            "[{kind: lossy, link: [leaf0, spine0], share: 1%}, "
            "{kind: lossy, link: [spine0, leaf0], share: 2%}]",
            "faults: .* do not overlap",
        ),
    ],
)
def test_a_fault_that_cannot_be_is_refused_with_its_place(
    write: Write, faults: str, word: str
) -> None:
    with pytest.raises(ScenarioError, match=word) as refusal:
        staged(write, faults)
    assert "\n" not in str(refusal.value)
    assert ":9: " in str(refusal.value)


@pytest.mark.parametrize(
    ("compare", "told"),
    [
        (
            "fabric: [{family: leaf_spine}, {family: full_mesh}]",
            "node 'spine0': not in fabric 'full-mesh'; it has h0, leaf0, ...",
        ),
        (
            "fabric: [{leaves: 4, label: wide}, {family: bipartite_middle, label: apart}]",
            "node 'leaf0': not in fabric 'apart'; it has h0, pleaf0, middle0, ...",
        ),
    ],
)
def test_of_several_fabrics_a_refusal_names_the_one_that_lacks_what_a_fault_names(
    write: Write, compare: str, told: str
) -> None:
    gone = "[{kind: removed, link: [leaf0, spine0]}]"
    path = scenario_of(write, gone, more=f"compare: {{{compare}}}\n")
    with pytest.raises(ScenarioError) as refusal:
        jobs_of(load(path))
    assert f"s.yaml:9: faults.0: {told}" in str(refusal.value)


def test_a_fault_between_two_that_no_cable_joins_is_told_what_the_first_is_joined_to(
    write: Write,
) -> None:
    told = "those of 'leaf0' lead to spine0, spine1, h0, h1, ...$"
    with pytest.raises(ScenarioError, match=told):
        staged(write, "[{kind: down, link: [leaf0, leaf1]}]")


def test_the_fluid_refuses_faults(write: Write) -> None:
    with pytest.raises(ScenarioError, match="knows no faults; write packet"):
        staged(write, "[{kind: down, node: spine0}]", emulator="fluid")


def test_what_is_removed_is_gone_from_the_fabric_and_from_its_routes(write: Write) -> None:
    scenario, ready = staged(write, "[{kind: removed, node: spine0}]")
    assert ready.whole is not None
    gone = ready.fabric.node("spine0").index
    assert len(ready.fabric.nodes) == len(ready.whole.nodes)
    assert not [link for link in ready.fabric.links if gone in (link.a, link.b)]
    assert not ready.faults
    source, sink = (ready.fabric.hosts[i].index for i in (0, -1))
    crossed = {
        int(ready.routes.owner[port]) for path in ready.routes.paths(source, sink) for port in path
    }
    assert gone not in crossed
    assert crossed
    assert settings_of(scenario, ready)["faults"] == "spine0 removed"


def test_a_fabric_with_something_removed_costs_what_it_did_and_carries_less(write: Write) -> None:
    scenario, ready = staged(write, "[{kind: removed, link: [leaf0, spine0]}]")
    _, sound = staged(write, "[]")
    left, whole = (fabric_fact(each, scenario.fabric) for each in (ready, sound))
    assert (left.cost_usd, left.switch_cables) == (whole.cost_usd, whole.switch_cables)
    assert len(ready.fabric.links) < len(sound.fabric.links)
    assert left.mu_bps == whole.mu_bps - 2 * NIC_BPS  # two cables


def test_removals_are_said_to_have_rerouted_and_outages_not(write: Write) -> None:
    scenario, _ = staged(write, "[{kind: removed, node: spine0}]")
    told = " ".join(not_modelled(scenario))
    assert "Routes go round what was removed" in told
    assert "Routes do not change" not in told
    assert "No link or switch fails" not in told
    both = "[{kind: removed, node: spine0}, {kind: down, node: spine1}]"
    scenario, _ = staged(write, both)
    told = " ".join(not_modelled(scenario))
    assert "Routes go round" in told
    assert "Routes do not change" in told


def test_the_fluid_knows_a_fabric_with_something_removed(write: Write) -> None:
    _, ready = staged(write, "[{kind: removed, node: spine0}]", emulator="fluid")
    assert ready.emulator("fluid", 1) is not None


@pytest.mark.parametrize(
    ("faults", "word"),
    [
        ("[{kind: removed, node: leaf0}]", "removed cuts hosts off .* instance: prefill 0"),
        ("[{kind: removed, link: [leaf0, h0]}]", "removed cuts hosts off"),
        ("[{kind: removed, node: spine0, from: 1ms}]", "gone for the whole run"),
        ("[{kind: removed, link: [leaf0, spine0], share: 5%}]", "gone for the whole run"),
        ("[{kind: removed, link: [leaf0, leaf1]}]", "'leaf0' to 'leaf1': no cable of fabric"),
    ],
)
def test_a_removal_that_cannot_be_is_refused_with_its_place(
    write: Write, faults: str, word: str
) -> None:
    with pytest.raises(ScenarioError, match=word) as refusal:
        staged(write, faults)
    assert "\n" not in str(refusal.value)
    assert ":9: " in str(refusal.value)
