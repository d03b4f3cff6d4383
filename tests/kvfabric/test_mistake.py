"""A mistake is told at the line of its key, in the words and the units of scenario files."""

from pathlib import Path

import pytest

from kvfabric.build import stage
from kvfabric.compare import jobs_of
from kvfabric.load import load
from kvfabric.source import ScenarioError

TEXT = """\
name: small
fabric:
  family: leaf_spine
  nic: 100Gbps
  switch:
    ports: 8
    rate: 100Gbps
    buffer: 64MiB
    latency: 600ns
placement: {prefill: 4, decode: 4}
model: gpt-oss-120b
gpu: H100-SXM
requests:
  arrivals: {rate: 50/s}
  count: 20
handoff: {block: 256KiB}
budget: {handoff: 5ms, allowed: 5%}
network:
  transport:
    kind: rocev2
    mtu: 4KiB
  discipline:
    pfc: true
    headroom: sonic
cost: {gpu_usd_per_hour: {H100-SXM: 3}}
"""


def staged(path: Path) -> None:
    study = load(path)
    stage(study.scenario, study.source)


def refusal(tmp_path: Path, old: str, new: str) -> str:
    """What is said of the scenario with one part written otherwise."""
    assert old in TEXT
    path = tmp_path / "s.yaml"
    path.write_text(TEXT.replace(old, new), encoding="utf-8")
    with pytest.raises(ScenarioError) as caught:
        staged(path)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(str(path), "s.yaml")


def test_a_whole_scenario_is_none(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(TEXT, encoding="utf-8")
    staged(path)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("ports: 8", "ports: many",
         "s.yaml:6: fabric.switch.ports: 'many': must be a whole number from 1 to 65536; "
         "write e.g. 64"),
        ("ports: 8", "ports: 1.5", "ports: 1.5: must be a whole number from 1 to 65536;"),
        ("  nic: 100Gbps", "  nic: [1]",
         "s.yaml:4: fabric.nic: a list of 1: must be a number with its unit; write 400Gbps"),
        ("  nic: 100Gbps", "  nic:", "fabric.nic: nothing: must be a number with its unit;"),
        ("pfc: true", "pfc: maybe",
         "s.yaml:23: network.discipline.pfc: 'maybe': write true or false"),
        ("family: leaf_spine", "family: torus\n  shape: 3",
         "fabric.shape: 3: must be a list of 1 to 6; write e.g. [8]"),
        ("family: leaf_spine", "family: torus\n  oversubscription: 0",
         "oversubscription: 0: must be a number above 0 and at most 1000000000; write e.g. 2"),
        ("leaf_spine", "torus\n  attach: 3", "fabric.attach: 3: write own or every"),
        ("{prefill: 4, decode: 4}", "3",
         "s.yaml:10: placement: 3: must be a mapping; write e.g. {prefill: 8, decode: 8}"),
        ("name: small", "name: 3", '80 characters that print; write e.g. "3"'),
        ("name: small", "name: ''", "name: '': must be text of 1 to 80 characters that print"),
        ("headroom: sonic", "headroom: 3", "headroom: 3: must be text; write e.g. sonic"),
        ("gpu: H100-SXM", "gpu: [a]", "gpu: a list of 1: must be text or a mapping; write e.g. {"),
        ("{block: 256KiB}", "{classes: [1, 2]}", "a list of 2: must be a list of 8; write e.g. ["),
        ("cost: ", "faults: [{kind: down, link: a}]\ncost: ",
         "faults.0.link: 'a': must be the names of two nodes, as [leaf0, spine0]"),
        ("cost: ", "models: 3\ncost: ", "models: 3: must be a list of 0 to 32; write e.g. [{"),
        ("{H100-SXM: 3}", "{H100-SXM: much}",
         "cost.gpu_usd_per_hour.H100-SXM: 'much': must be a number above 0"),
        ("{H100-SXM: 3}", "{H100-SXM: 3, H20: -1}", "cost.gpu_usd_per_hour.H20: -1: must be"),
        ("count: 20", "trace: {file: a.csv, window: [1s]}",
         "requests.trace.window: a list of 1: must be a start and an end, as [0s, 60s]"),
        ("mtu: 4KiB", "mtu: 0B", "network.transport.mtu: must be above 0; write e.g. 4KiB"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_told_with_what_to_write(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    message = refusal(tmp_path, old, new)
    assert told in message
    assert "`" not in message


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("ports: 8", "ports: 1", "s.yaml:5: fabric.switch: with 1 ports of 100Gbps,"),
        ("64MiB", "10KiB", "s.yaml:5: fabric.switch: 'leaf0': headrooms and reserves of 8 ports"),
        ("64MiB", "1B", "s.yaml:8: fabric.switch.buffer: 'leaf0' 1B: below a frame of 4158B"),
        ("64MiB", "100TB", "s.yaml:8: fabric.switch.buffer: 'leaf0' 100TB: cannot be counted;"),
        ("  nic: 100Gbps", "  nic: 1bps", "s.yaml:2: fabric: link 'h0' to 'leaf0' rate 1bps: the"),
        ("  nic: 100Gbps", "  nic: 400Gbps", "s.yaml:4: fabric.nic: 400 Gbps: faster than the"),
        ("leaf_spine", "leafspine", "s.yaml:3: fabric.family: 'leafspine': unknown; did you mean"),
        ("leaf_spine", "leaf_spine\n  k: 4", "s.yaml:4: fabric.k: not a parameter of leaf_spine;"),
        ("leaf_spine", "leaf_spine\n  leaves: 9",
         "s.yaml:4: fabric.leaves: 9: more than the 8 hosts; write leaves: 8 or fewer"),
        ("family: leaf_spine", "k: 3\n  family: fat_tree", "s.yaml:3: fabric.k: 3: must be even"),
        ("ports: 8", "ports: 2", "s.yaml:2: fabric: leaf_spine: 8 hosts do not fit two tiers of"),
        ("mtu: 4KiB", "mtu: 1B", "s.yaml:21: network.transport.mtu: 1B: write 256B to 9KiB"),
        ("sonic", "much", "s.yaml:24: network.discipline.headroom: 'much': no such rule; write"),
        ("sonic", "4XB", "s.yaml:24: network.discipline.headroom: size '4XB': unknown unit 'XB'"),
        ("sonic", "sonic\n    watchdog:\n      detect: 0ms",
         "s.yaml:26: network.discipline.watchdog.detect: 0ps: must be above 0; write 200ms"),
        ("prefill: 4, ", "prefill: 4, by: rail, ", "s.yaml:10: placement.by: 'rail': host 'h0'"),
        ("256KiB}", "256KiB, staging: host}", "s.yaml:16: handoff.staging: host with a copy rate"),
        ("gpt-oss-120b", "gpt", "s.yaml:11: model: 'gpt': not in the catalogue;"),
        ("cost: ", "background: [{kind: fetch, bytes: 0B, every: 1s}]\ncost: ",
         "s.yaml:25: background: fetch: 0 B every"),
    ],
)  # fmt: skip
def test_what_a_room_refuses_is_told_at_the_line_of_its_key_and_names_it_once(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    assert told in refusal(tmp_path, old, new)


def test_a_key_that_is_missing_is_told_with_an_example(tmp_path: Path) -> None:
    told = refusal(tmp_path, "{prefill: 4, decode: 4}", "{prefill: 4}")
    assert told == "s.yaml:10: placement: `decode` is missing; write e.g. decode: 8"


@pytest.mark.parametrize(
    ("axis", "told"),
    [
        ("fabric.leaves: [2, 9]", "s.yaml:27: fabric.leaves: 9: more than the 8 hosts;"),
        ("fabric:\n    - {leaves: 2}\n    - {family: fat_tree, k: 3}",
         "s.yaml:29: fabric.k: 3: must be even and at most the 8 ports of the switch; write k: 4,"),
        ("fabric:\n    - {leaves: 2}\n    - {family: three_tier,\n       pods: 1}",
         "s.yaml:30: fabric.pods: 1: cores join at least 2 pods; write family leaf_spine"),
    ],
)  # fmt: skip
def test_what_a_family_refuses_is_told_at_the_line_of_the_axis_that_sets_the_key(
    tmp_path: Path, axis: str, told: str
) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(f"{TEXT}compare:\n  {axis}\n", encoding="utf-8")
    with pytest.raises(ScenarioError) as caught:
        jobs_of(load(path))
    assert told in str(caught.value)
