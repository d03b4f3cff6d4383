"""A setting that another makes idle is refused, if it can never have been meant."""

from pathlib import Path

import pytest

from kvfabric.build import stage
from kvfabric.load import Study, load
from kvfabric.source import ScenarioError

TEXT = """\
name: idle
fabric:
  {family: leaf_spine, nic: 100Gbps, switch: {ports: 8, rate: 100Gbps}}
placement: {prefill: 4, decode: 4}
model: gpt-oss-120b
gpu: H100-SXM
budget: {handoff: 5ms, allowed: 10%}
"""
LANES = "kind: infiniband"
OVERRIDES = "overrides: [{node: leaf0, headroom: 40KiB}]"


def read(tmp_path: Path, more: str, *, compare: bool = True) -> Study:
    path = tmp_path / "s.yaml"
    path.write_text(TEXT + more, encoding="utf-8")
    study = load(path, compare=compare)
    for one in study.alternatives:
        stage(one.scenario, one.source)
    return study


@pytest.mark.parametrize(
    ("network", "told"),
    [
        ("transport: {receive_buffer: 2MiB}",
         "transport.receive_buffer: 2MiB: of hosts that take data at a rate of their own; leave"),
        ("transport: {drain: 0Gbps}", "transport.drain: 0bps: no hand-off would end; write e.g."),
        ("transport: {credits: 1MiB}", "transport.credits: 1MiB: of infiniband only; leave them"),
        ("transport: {control: none, preset: hpcc}", "preset: of DCQCN only; leave it out, or"),
        ("transport: {preset: hpcc}, discipline: {ecn: off}", "preset: of DCQCN, which never acts"),
        (f"transport: {{{LANES}, preset: hpcc}}", "leave it out, or write kind: rocev2"),
        (f"transport: {{{LANES}}}, {OVERRIDES}", "network.overrides: infiniband has credits,"),
        (f"transport: {{{LANES}}}, discipline: {{headroom: mlx5}}", "discipline.headroom: infinib"),
        (f"transport: {{{LANES}}}, discipline: {{pfc: true}}", "discipline.pfc: infiniband"),
        (f"transport: {{{LANES}}}, discipline: {{ecn: dctcp}}", "discipline.ecn: infiniband"),
        (f"transport: {{{LANES}}}, discipline: {{watchdog: true}}", "discipline.watchdog: inf"),
        ("discipline: {pfc: false, headroom: mlx5}", "headroom: no class is under PFC; leave out"),
        ("discipline: {pfc: false, alpha: 1/4}", "discipline.alpha: no class is under PFC; leave"),
        ("discipline: {pfc: false, watchdog: true}", "discipline.watchdog: no class is under"),
        (f"discipline: {{pfc: false}}, {OVERRIDES}", "network.overrides: no class is under PFC;"),
    ],
)  # fmt: skip
def test_what_does_nothing_is_refused_with_what_to_write(
    tmp_path: Path, network: str, told: str
) -> None:
    with pytest.raises(ScenarioError) as refused:
        read(tmp_path, f"network: {{{network}}}\n")
    assert "s.yaml:8: network." in str(refused.value)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("requests: {arrivals: {cv: 2}}\n", "of gamma arrivals only; leave it out, or write proc"),
        ("requests: {arrivals: {process: gamma, burst: 2s}}\n", "of on_off arrivals only;"),
        ("compare: {fabric: [{family: host_mesh}]}\n", "fabric.switch: host_mesh has no switches"),
    ],
)
def test_so_is_a_key_of_another_process_or_family(tmp_path: Path, more: str, told: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        read(tmp_path, more)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("network", "compare"),
    [
        ("transport: {receive_buffer: 2MiB}", "network.transport.drain: [null, 50Gbps]"),
        ("transport: {credits: 64KiB}", "network.transport.kind: [rocev2, infiniband]"),
        ("transport: {preset: hpcc}", "network.transport.control: [dcqcn, none]"),
        ("transport: {preset: hpcc}", "network.discipline.ecn: [sonic, off]"),
        (f"discipline: {{alpha: 1/4, headroom: mlx5, watchdog: true}}, {OVERRIDES}",
         "network.discipline.pfc: [true, false]"),
        (f"discipline: {{alpha: 1/4, ecn: dctcp, watchdog: true}}, {OVERRIDES}",
         "network.transport.kind: [rocev2, infiniband]"),
        ("transport: {mtu: 4KiB}", "fabric: [{family: leaf_spine}, {family: host_mesh}]"),
    ],
)  # fmt: skip
def test_what_one_alternative_needs_may_be_idle_in_the_others(
    tmp_path: Path, network: str, compare: str
) -> None:
    more = f"network: {{{network}}}\ncompare:\n  {compare}\n"
    assert len(read(tmp_path, more).alternatives) == 2
    assert len(read(tmp_path, more, compare=False).alternatives) == 1


def test_what_an_alternative_says_of_itself_alone_has_to_act_there(tmp_path: Path) -> None:
    more = "compare:\n  network.discipline:\n    - {pfc: true}\n    - {pfc: false, alpha: 1/2}\n"
    with pytest.raises(ScenarioError, match=r"s\.yaml:11: network\.discipline\.alpha: no class"):
        read(tmp_path, more)
