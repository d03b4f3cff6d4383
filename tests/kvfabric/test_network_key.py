"""The key `network`: what switches and NICs run, told in the report, refused in a line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.summary import UNKNOWN
from kvfabric.build import stage
from kvfabric.limit import not_modelled
from kvfabric.load import load
from kvfabric.run import settings_of
from kvfabric.source import ScenarioError

Write = Callable[..., Path]
RUN = {"requests": "{arrivals: {rate: 400/s}, count: 6}", "run": "{seeds: 1}"}


def staged(write: Write, network: str):
    study = load(write(f"network: {network}\n", **RUN))
    return study.scenario, stage(study.scenario, study.source)


def test_roce_is_the_default_and_has_dcqcn(write: Write) -> None:
    scenario, ready = staged(write, "{}")
    told = settings_of(scenario, ready)
    assert told["transport"].startswith("rocev2, MTU 4KiB, control dcqcn preset connectx")
    assert told["PFC"].startswith("on")
    assert "credits" not in told
    assert any("DCQCN" in line for line in not_modelled(scenario))


def test_infiniband_has_credits_and_neither_dcqcn_nor_pauses_nor_marks(write: Write) -> None:
    scenario, ready = staged(write, "{transport: {kind: infiniband, credits: 96KiB}}")
    assert (ready.transport.control, ready.transport.credits) == ("none", 96 * 1024)
    told = settings_of(scenario, ready)
    assert told["transport"].startswith("infiniband, MTU 4KiB, control none")
    assert told["credits"] == "98.3 kB for each of 8 virtual lanes of a link"
    assert (told["PFC"], told["ECN"]) == ("none: credits", "none")
    lines = not_modelled(scenario)
    assert any("InfiniBand" in line for line in lines)
    assert not any("DCQCN" in line for line in lines)


def test_forwarding_is_store_and_forward_unless_asked_otherwise(write: Write) -> None:
    for keys, told in (("{}", "store and forward"), ("{cut_through: true}", "cut-through")):
        scenario, ready = staged(write, f"{{discipline: {keys}}}")
        assert settings_of(scenario, ready)["forwarding"].startswith(told)
        assert ready.discipline.cut_through == ("cut" in told)


def test_a_watchdog_has_the_usual_times_unless_given_others(write: Write) -> None:
    for keys, told in (
        ("{}", "none"),
        ("{watchdog: true}", "drops after 200 ms, restores after 200 ms"),
        ("{watchdog: {detect: 20ms}}", "drops after 20 ms, restores after 200 ms"),
    ):
        scenario, ready = staged(write, f"{{discipline: {keys}}}")
        assert settings_of(scenario, ready)["pause watchdog"] == told


@pytest.mark.parametrize(
    ("network", "word"),
    [
        ("{transport: {kind: infiniband, control: dcqcn}}", "not of infiniband; leave it"),
        ("{transport: {kind: infiniband, credits: 4KiB}}", "4160B of one frame"),
        ("{transport: {kind: infiniband, credits: 2MiB}}", "above the buffer of switch"),
        ("{transport: {credits: 1MiB}}", "of infiniband only"),
        ("{discipline: {watchdog: {detect: 0ms}}}", "must be above 0; write 200ms"),
        ("{discipline: {pfc: false, watchdog: true}}", "no class is under PFC; leave out"),
        (
            "{transport: {kind: infiniband}, discipline: {watchdog: true}}",
            "infiniband has credits, and neither",
        ),
        ("{transport: {kind: token_ring}}", "write rocev2 or infiniband"),
    ],
)
def test_a_network_that_cannot_be_is_refused_with_its_place(
    write: Write, network: str, word: str
) -> None:
    with pytest.raises(ScenarioError, match=word) as refusal:
        staged(write, network)
    assert "\n" not in str(refusal.value)
    assert ":9: network" in str(refusal.value)


def test_a_nic_may_issue_by_one_thread_into_send_queues_of_limited_depth(write: Write) -> None:
    keys = "{transport: {issuers: 1, send_queue: 128, ack_message: true}}"
    scenario, ready = staged(write, keys)
    assert (ready.transport.issuers, ready.transport.send_queue) == (1, 128)
    told = settings_of(scenario, ready)
    assert told["send queue"] == "128 unacknowledged descriptors a flow"
    assert told["issue"] == "one thread a NIC posts the descriptors of all its flows"
    assert told["transport"].endswith("an ACK every 16 packets and descriptor")


def test_a_host_may_drain_its_nics_at_a_rate_of_its_own(write: Write) -> None:
    scenario, ready = staged(write, "{transport: {drain: 50Gbps, receive_buffer: 512KiB}}")
    assert (ready.transport.drain_bps, ready.transport.receive_buffer) == (50 * 10**9, 2**19)
    told = settings_of(scenario, ready)
    assert told["hosts"].startswith("take 50 Gbps from each NIC port")


def test_what_the_estimates_know_nothing_of_is_told_where_there_is_any(write: Write) -> None:
    assert UNKNOWN not in settings_of(*staged(write, "{}"))
    gone = "{}\nfaults: [{kind: removed, link: [leaf0, spine0]}]"
    assert UNKNOWN not in settings_of(*staged(write, gone))
    slow = "{transport: {drain: 50Gbps}}\nfaults: [{kind: down, link: [leaf0, spine0]}]"
    told = settings_of(*staged(write, slow))[UNKNOWN]
    assert told == "receivers that drain slowly, faults of links"
