"""An axis of `compare` that a study cannot judge, or that changes nothing, is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvfabric.load import Study, load
from kvfabric.source import ScenarioError
from topo.mistake import Place

Write = Callable[..., Path]
OWN = (
    "lengths: {input: {kind: constant, mean: 100}, output: {kind: constant, mean: 9}}, "
    "arrivals: {rate: 40/s}"
)
TRACE: dict[Place, Any] = {("requests", "trace", "file"): "trace.csv"}


def read(
    write: Write, compare: str, requests: str = "", overrides: dict[Place, Any] | None = None
) -> Study:
    placement, requests = "{prefill: 4, decode: 4}", f"{{{requests}}}"
    path = write(f"compare:\n  {compare}\n", placement=placement, requests=requests)
    return load(path, overrides=overrides)


@pytest.mark.parametrize(
    ("compare", "told"),
    [
        ("budget.handoff: [1ms, 5ms]", "judges all alternatives by one budget; write it outside"),
        ("budget: [{allowed: 1%}, {allowed: 2%}]", "run the study once for each, as with --budget"),
        ("slo.ttft: [1ms, 1s]", "by the same objectives; write them outside compare, and a scen"),
        ("run.seeds: [1, 3]", "one number of seeds; write it outside compare, or --seeds 12"),
        ("run: [{seeds: 1}, {seeds: 3}]", "one number of seeds"),
        ("name: [a, b]", "a study has one name; write it outside compare"),
        ("question: [a, b]", "a study asks one question; write it outside compare"),
    ],
)
def test_what_a_study_has_one_of_is_no_axis(write: Write, compare: str, told: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        read(write, f"policy: [random, round_robin]\n  {compare}")
    assert f"s.yaml:10: compare.{compare.partition(':')[0]}: a study " in str(refused.value)
    assert told in str(refused.value)


def test_it_may_be_a_list_of_one_and_be_left_out_of_sight(write: Write) -> None:
    assert len(read(write, "budget.handoff: [1ms]").alternatives) == 1
    assert read(write, "run.seeds: [2]").scenario.run.seeds == 2


@pytest.mark.parametrize("compare", ["profile: [base, long_short]", "arrivals.rate: [1/s, 2/s]"])
def test_requests_that_a_trace_takes_the_place_of_are_no_axis(write: Write, compare: str) -> None:
    axis = compare.partition(":")[0]
    told = rf"s\.yaml:9: compare\.requests\.{axis}: .* again \(requests\.trace takes its place\);"
    for requests, overrides in (("trace: {file: trace.csv}", None), ("", TRACE)):
        with pytest.raises(ScenarioError, match=told):
            read(write, f"requests.{compare}", requests, overrides)


def test_a_profile_is_none_where_lengths_take_its_place(write: Write) -> None:
    profiles = "requests.profile: [base, long_short]"
    with pytest.raises(ScenarioError, match=r"again \(requests\.lengths takes its place\)"):
        read(write, profiles, OWN)
    half = "lengths: {input: {kind: constant, mean: 100}}"
    assert len(read(write, profiles, half).alternatives) == 2
    assert len(read(write, "requests.arrivals.rate: [1/s, 2/s]", OWN).alternatives) == 2


def test_what_acts_beside_a_trace_and_what_one_alternative_uses_are_axes(write: Write) -> None:
    assert len(read(write, "requests.trace.scale_rate: [1, 2]", "", TRACE).alternatives) == 2
    assert len(read(write, "policy: [random, round_robin]", OWN, TRACE).alternatives) == 2
    either = "requests: [{profile: long_short}, {trace: {file: trace.csv}}]"
    assert len(read(write, either).alternatives) == 2


@pytest.mark.parametrize(
    ("compare", "told"),
    [
        ("network.discipline.alpha: [1/8, 0.125]", "alpha: alpha=0.125 is alpha=1/8 again; leave"),
        ("fabric.nic: [50Gbps, 100Gbps, 0.1Tbps]", "nic: nic=0.1Tbps is nic=100Gbps again; leave"),
        ("fabric: [{nic: 50Gbps, label: a}, {label: b, nic: 0.05Tbps}]", "fabric: b is a again;"),
        ("fabric: [{leaves: 2}, {leaves: 2}]", "compare.fabric: leaf-spine leaves=2 stands twice;"),
        ("fabric: [{leaves: 2}, {leaves: 2, nic: 100Gbps}]", "leaf-spine leaves=2 stands twice;"),
        ("policy: [random, {kind: random, label: dice}]", "policy: dice is random again; leave"),
        ("policy: [random, random]", "compare.policy: random stands twice; leave one out"),
        ("policy.staleness: [1ms, 1000us]", "least_loaded staleness=1000us is least_loaded stal"),
        (
            "faults: [[], [], [{kind: down, node: leaf0}]]",
            "compare.faults: no faults stands twice;",
        ),
        ("requests.profile: [base, base]", "compare.requests.profile: profile=base stands twice"),
    ],
)
def test_what_is_written_twice_is_refused_by_what_it_is(
    write: Write, compare: str, told: str
) -> None:
    with pytest.raises(ScenarioError) as refused:
        read(write, compare)
    assert str(refused.value).partition("s.yaml:9: compare.")[1]
    assert told in str(refused.value)
    with pytest.raises(ScenarioError, match=r"s\.yaml:10: compare\."):
        read(write, f"run.control_delay: [20us, 30us]\n  {compare}")


def test_tokens_and_bytes_of_one_number_are_two_blocks(write: Write) -> None:
    assert len(read(write, "handoff.block: [256 tokens, 256B]").alternatives) == 2


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ("network.transport.kind: [rocev2, infiniband]", "network.discipline.pfc: [true, false]",
         "no pfc is pfc again (infiniband has credits, and neither pauses nor marks); leave this "
         "out of compare, or list what differs in one axis, network"),
        ("network.discipline.pfc: [true, false]", "network.discipline.alpha: [1/8, 1/4]",
         "alpha=1/4 is alpha=1/8 again (no class is under PFC); leave"),
        ("network.transport.control: [dcqcn, none]", "network.transport.preset: [connectx, hpcc]",
         "preset=hpcc is preset=connectx again (of DCQCN only); leave"),
        ("network.discipline.pfc: [true, false]",
         "faults: [[], [{kind: storm, link: [h0, leaf0], until: 1ms}]]",
         "until 1ms is no faults again (storm: no class is under PFC, nothing would stop); leave "
         "this out of compare"),
        ("run.emulator: [packet, fluid]", "network.discipline.ecn: [sonic, dctcp]",
         "ecn=dctcp is ecn=sonic again (run.emulator fluid knows nothing of the network but "),
        ("run.emulator: [fluid]", "fabric.switch.buffer: [8MiB, 16MiB]",
         "buffer=16MiB is buffer=8MiB again (run.emulator fluid has no queues); leave this out"),
        ("run.emulator: [fluid]", "handoff.per_descriptor: [0us, 5us]",
         "=0us again (run.emulator fluid issues no descriptors); leave this out of compare"),
        ("run.emulator: [fluid]", "network: [{}, {transport: {kind: infiniband}}]",
         "again (run.emulator fluid knows nothing of the network but transport.mtu); leave"),
    ],
)  # fmt: skip
def test_so_is_what_does_nothing_beside_a_value_of_another_axis(
    write: Write, one: str, other: str, told: str
) -> None:
    for number, compare in ((10, (one, other)), (9, (other, one))):
        with pytest.raises(ScenarioError) as refused:
            read(write, "\n  ".join(compare))
        assert f"s.yaml:{number}: compare.{other.partition(':')[0]}: " in str(refused.value)
        assert told in str(refused.value)


def test_the_same_may_stand_in_one_list_of_what_differs(write: Write) -> None:
    infiniband = "{transport: {kind: infiniband}}"
    listed = (
        f"network: [{{discipline: {{pfc: true}}}}, {{discipline: {{pfc: false}}}}, {infiniband}]"
    )
    assert len(read(write, listed).alternatives) == 3
    frames = "network.transport.mtu: [1KiB, 4KiB]"
    assert len(read(write, frames, "", {("run", "emulator"): "fluid"}).alternatives) == 2


@pytest.mark.parametrize("axis", ["faults.0.share", "faults.0"])
def test_a_part_of_a_list_is_no_axis(write: Write, axis: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        read(write, f"{axis}: [1%, 2%]")
    told = f"s.yaml:9: compare.{axis}: a list is compared as a whole; write faults: [[...], [...]]"
    assert told in str(refused.value)
