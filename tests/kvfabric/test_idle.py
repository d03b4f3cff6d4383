"""A setting that another makes idle is refused, if it can never have been meant."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kvfabric.build import network_of, stage
from kvfabric.load import Study, load
from kvfabric.source import ScenarioError

Write = Callable[..., Path]
LANES = "kind: infiniband"
OVERRIDES = "overrides: [{node: leaf0, headroom: 40KiB}]"


def read(write: Write, more: str, *, compare: bool = True) -> Study:
    study = load(write(more, placement="{prefill: 4, decode: 4}"), compare=compare)
    for one in study.alternatives:
        stage(one.scenario, one.source)
    return study


@pytest.mark.parametrize(
    ("network", "told"),
    [
        ("transport: {receive_buffer: 2MiB}",
         "transport.receive_buffer: of hosts that take data at a rate of their own; leave"),
        ("transport: {drain: 0Gbps}", "transport.drain: 0bps: no hand-off would end; write e.g."),
        ("transport: {credits: 1MiB}", "transport.credits: of infiniband only; leave them"),
        ("transport: {control: none, preset: hpcc}", "preset: of DCQCN only; leave it out, or"),
        ("transport: {preset: hpcc}, discipline: {ecn: off}", "preset: of DCQCN, which never acts"),
        (f"transport: {{{LANES}, control: dcqcn}}", "control: not of infiniband; leave it"),
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
    write: Write, network: str, told: str
) -> None:
    with pytest.raises(ScenarioError) as refused:
        read(write, f"network: {{{network}}}\n")
    assert "s.yaml:7: network." in str(refused.value)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("requests: {arrivals: {cv: 2}}\n", "of gamma arrivals only; leave it out, or write proc"),
        ("requests: {arrivals: {process: gamma, burst: 2s}}\n", "of on_off arrivals only;"),
        ("compare: {fabric: [{family: host_mesh}]}\n", "fabric.switch: host_mesh has no switches"),
    ],
)
def test_so_is_a_key_of_another_process_or_family(write: Write, more: str, told: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        read(write, more)
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
    write: Write, network: str, compare: str
) -> None:
    more = f"network: {{{network}}}\ncompare:\n  {compare}\n"
    assert len(read(write, more).alternatives) == 2
    assert len(read(write, more, compare=False).alternatives) == 1


SWITCH = "fabric: [{family: host_mesh}, {family: leaf_spine, switch: {ports: 16}}]"


@pytest.mark.parametrize(
    ("base", "compare"),
    [
        ("", SWITCH),
        ("network: {discipline: {headroom: sonic}}",
         "network.discipline: [{pfc: true, headroom: mlx5}, {pfc: false}]"),
        ("network: {discipline: {alpha: 1/8}}",
         "network.discipline: [{pfc: true, alpha: 1/4}, {pfc: false}]"),
        ("network: {discipline: {watchdog: {detect: 100ms, restore: 100ms}}}",
         "network.discipline: [{watchdog: {detect: 10ms}}, {pfc: false}]"),
        ("network: {discipline: {ecn: {kmin: 100KiB, kmax: 400KiB, pmax: 10%}}}",
         "network: [{discipline: {ecn: {kmin: 50KiB}}}, {transport: {kind: infiniband}}]"),
        ("network: {transport: {preset: connectx}}",
         "network.transport: [{preset: hpcc}, {control: none}]"),
        ("network: {transport: {credits: 64KiB}}",
         "network.transport: [{kind: infiniband, credits: 128KiB}, {kind: rocev2}]"),
        (f"network: {{{OVERRIDES}}}",
         "network: [{overrides: [{node: leaf0, headroom: 30KiB}]}, {discipline: {pfc: false}}]"),
        ("requests: {arrivals: {process: gamma, cv: 2}}",
         "requests.arrivals: [{cv: 4}, {process: poisson}]"),
    ],
)  # fmt: skip
def test_the_base_may_have_what_one_alternative_overrides_and_another_does_not_use(
    write: Write, base: str, compare: str
) -> None:
    assert len(read(write, f"{base}\ncompare: {{{compare}}}\n").alternatives) == 2


@pytest.mark.parametrize("between", [", ", ",\n    "])
def test_alternatives_may_be_told_apart_by_one_key_alone_however_they_are_broken_into_lines(
    write: Write, between: str
) -> None:
    both = f"{{pfc: true, alpha: 1/2}}{between}{{pfc: false, alpha: 1/2}}"
    more = f"compare:\n  network.discipline: [{both}]\n"
    assert len(read(write, more).alternatives) == 2


STORM = "faults: [{kind: storm, link: [h0, leaf0], until: 1ms}]\n"


@pytest.mark.parametrize(
    "compare",
    [
        "network.transport.kind: [rocev2, infiniband]",
        "network: [{}, {transport: {kind: infiniband}}]",
    ],
)
def test_the_control_of_rocev2_may_stand_beside_an_alternative_on_infiniband(
    write: Write, compare: str
) -> None:
    more = f"network: {{transport: {{control: dcqcn}}}}\ncompare: {{{compare}}}\n"
    study = read(write, more)
    sent = [network_of(one.scenario, one.source)[1] for one in study.alternatives]
    assert [one.control for one in sent] == ["dcqcn", "none"]


@pytest.mark.parametrize(
    "compare",
    ["network.discipline.pfc: [true, false]", "network.transport.kind: [rocev2, infiniband]"],
)
def test_a_storm_finds_nothing_to_stop_in_the_alternative_without_pauses(
    write: Write, compare: str
) -> None:
    study = read(write, f"{STORM}compare: {{{compare}}}\n")
    storms = [len(stage(one.scenario, one.source).faults) for one in study.alternatives]
    assert storms == [1, 0]


@pytest.mark.parametrize("network", ["discipline: {pfc: false}", "transport: {kind: infiniband}"])
def test_a_storm_that_stops_nothing_anywhere_is_refused(write: Write, network: str) -> None:
    with pytest.raises(ScenarioError, match=r"s\.yaml:8: faults\.0: storm: no class is under PFC"):
        read(write, f"network: {{{network}}}\n{STORM}")


def test_what_an_alternative_says_of_itself_alone_has_to_act_there(write: Write) -> None:
    more = "compare:\n  network.discipline:\n    - {pfc: true}\n    - {pfc: false, alpha: 1/2}\n"
    with pytest.raises(ScenarioError, match=r"s\.yaml:10: network\.discipline\.alpha: no class"):
        read(write, more)
