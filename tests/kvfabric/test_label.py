"""Labels of alternatives: short, in words, and taken apart again in the study's manifest."""

from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.condition import HEALTHY, conditions
from kvfabric.compare import jobs_of, manifest_of
from kvfabric.limit import limits_of
from kvfabric.load import load
from kvfabric.source import ScenarioError

Write = Callable[..., Path]


def studied(write: Write, compare: str):
    fabric = "{family: leaf_spine, label: tree, nic: 100Gbps, switch: {ports: 8, rate: 100Gbps}}"
    few = {"requests": "{count: 6}", "run": "{seeds: 1}"}
    return load(write(f"compare: {{{compare}}}\n", fabric=fabric, **few))


@pytest.mark.parametrize(
    ("compare", "labels"),
    [
        (
            "faults: [[], [{kind: down, node: spine0, from: 2ms, until: 9ms}]]",
            ["tree no faults", "tree spine0 down from 2ms until 9ms"],
        ),
        (
            "faults: [[{kind: removed, link: [leaf0, spine1]}, {kind: removed, node: spine0}]]",
            ["tree leaf0 - spine1 removed; spine0 removed"],
        ),
        (
            "faults: [[{kind: down, node: spine0, from: 200.1ms}], "
            "[{kind: down, node: spine0, from: 200.2ms}], "
            "[{kind: lossy, link: [leaf0, spine0], share: 0.12345671%}], "
            "[{kind: lossy, link: [leaf0, spine0], share: 0.12345672%}]]",
            [
                "tree spine0 down from 200.1ms",
                "tree spine0 down from 200.2ms",
                "tree leaf0 - spine0 lossy 0.12345671%",
                "tree leaf0 - spine0 lossy 0.12345672%",
            ],
        ),
        (
            "failover.breaker: [false, {failures: 3}]",
            ["tree no breaker", "tree breaker={failures: 3}"],
        ),
        (
            "network.discipline: [{pfc: true, alpha: 1/4}, {pfc: false, alpha: 1/4}, "
            "{pfc: false, alpha: 1/4, ecn: {kmin: 1KiB, kmax: 4KiB, pmax: 1%}}, "
            "{label: bare, pfc: false, alpha: 1/4, ecn: off}]",
            [
                "tree pfc",
                "tree no pfc",
                "tree no pfc ecn={kmin: 1KiB, kmax: 4KiB, pmax: 1%}",
                "tree bare",
            ],
        ),
        (
            "network.discipline: [{cut_through: true}, {}]",
            ["tree cut_through", "tree default cut_through"],
        ),
        (
            "network: [{transport: {control: dcqcn, mtu: 2KiB}, discipline: {ecn: sonic}}, "
            "{transport: {control: none, mtu: 2KiB}, discipline: {ecn: off}}]",
            ["tree control=dcqcn ecn=sonic", "tree control=none no ecn"],
        ),
        (
            "instance: [{prefill: {tp: 1}, decode: {tp: 2}}, {prefill: {tp: 2}, decode: {tp: 1}}]",
            ["tree prefill.tp=1 decode.tp=2", "tree prefill.tp=2 decode.tp=1"],
        ),
        (
            "instance.prefill.tp: [1, 2], instance.decode.tp: [2]",
            ["tree prefill.tp=1 decode.tp=2", "tree prefill.tp=2 decode.tp=2"],
        ),
        ("network.discipline.watchdog: [true, false]", ["tree watchdog", "tree no watchdog"]),
        ("requests.arrivals.rate: [9/s, 20/s]", ["tree rate=9/s", "tree rate=20/s"]),
        ("policy.order: [joint], policy: [random]", ["tree"]),
    ],
)
def test_what_sets_an_alternative_apart_is_told_in_words(
    write: Write, compare: str, labels: list[str]
) -> None:
    assert [each.fabric for each in studied(write, compare).alternatives] == labels


def test_a_compared_mapping_is_told_by_what_differs_from_the_rest_of_the_file(
    write: Write,
) -> None:
    axis = "compare: {network.discipline: [{ecn: sonic}, {pfc: false, ecn: sonic}]}\n"
    found = load(write(f"network: {{discipline: {{pfc: true}}}}\n{axis}")).alternatives
    assert [each.fabric.split(" ", 1)[1] for each in found] == ["pfc", "no pfc"]


def test_a_label_that_is_no_text_is_refused(write: Write) -> None:
    with pytest.raises(ScenarioError, match=r"compare.network.discipline.0.label: must be text"):
        studied(write, "network.discipline: [{pfc: true, label: 5}, {pfc: false}]")


def test_a_manifest_tells_what_a_label_is_made_of(write: Write) -> None:
    compare = (
        "requests.arrivals.rate: [9/s, 20/s], fabric.switch.buffer: [1MiB], "
        "faults: [[], [{kind: removed, node: spine0}]]"
    )
    study = studied(write, compare)
    manifest = manifest_of(study, jobs_of(study), "")
    where = conditions(manifest)
    assert {one.design for one in where.values()} == {"tree buffer=1MiB"}
    assert [(one.load, one.loss) for one in where.values()] == [
        ("rate=9/s", HEALTHY),
        ("rate=9/s", "spine0 removed"),
        ("rate=20/s", HEALTHY),
        ("rate=20/s", "spine0 removed"),
    ]


def test_what_is_left_out_is_told_of_every_fault_compared(write: Write) -> None:
    compare = (
        "faults: [[], [{kind: removed, node: spine0}], "
        "[{kind: degraded, link: [leaf0, spine0], share: 50%}]]"
    )
    study = studied(write, compare)
    told = " ".join(manifest_of(study, jobs_of(study), "").limits)
    assert "Routes go round what was removed" in told
    assert "Routes do not change" in told
    assert "No link or switch fails" not in told


@pytest.mark.parametrize(
    ("compare", "lines"),
    [
        (
            "run.emulator: [packet, fluid]",
            [
                "emulator=fluid: The fluid has no queues, pauses, marks, losses or congestion",
                "emulator=packet: Switches forward over equal-cost shortest paths;",
                "Cost is a model of switches",
            ],
        ),
        (
            "network.transport.kind: [rocev2, infiniband]",
            [
                "kind=infiniband: InfiniBand's frames are counted with RoCEv2's overhead;",
                "kind=rocev2: DCQCN's settings decide",
                "Switches forward over equal-cost shortest paths;",
            ],
        ),
        (
            "fabric: [{label: a}, {label: b, spines: 2}], handoff.staging: [none, gpu, host]",
            [
                "staging=gpu: Staging copies take time",
                "staging=none: One NIC a GPU; no PCIe, memory-copy or host",
                "staging=gpu and staging=host: One NIC a GPU; no PCIe, host",
            ],
        ),
    ],
)
def test_what_is_left_out_of_some_alternatives_is_told_with_their_names(
    write: Write, compare: str, lines: list[str]
) -> None:
    limits = limits_of(studied(write, compare).alternatives)
    for line in lines:
        assert sum(told.startswith(line) for told in limits) == 1
    assert len(limits) == len(set(limits))


def test_what_no_axis_tells_apart_is_counted(write: Write) -> None:
    waits = ("dispatch", "handshake")
    compare = ", ".join(f"handoff.orchestration.{each}: [0us, 1ms]" for each in waits)
    told = limits_of(studied(write, compare).alternatives)
    assert sum(line.startswith("1 of 4 alternatives: Hand-offs wait for the") for line in told) == 1
