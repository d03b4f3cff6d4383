"""The guard tells a run that kept up from one that did not, by literal numbers."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulate.discipline import Discipline
from emulate.mininet.control import PACKETS, controls
from emulate.mininet.guard import (
    Control,
    Limits,
    Measured,
    Verdict,
    bridge_ps,
    late_quantile,
    verdict,
)
from emulate.mininet.machine import Reading, between, reading
from emulate.mininet.setup import Setup
from emulate.transport import Transport
from topo.fabric import Fabric, Switch
from topo.route import equal_cost
from topo.unit import PS_PER_MS
from traffic.emulator import Table

G = 10**9
DILATION = 10_000
FRAME_NS = 83_560 * DILATION / 1000  # 4,178 bytes at 400 Gbps


def _late(*rows: tuple[float, int]) -> Table:
    """Rows of (lateness in frame times, frames), at 400 Gbps."""
    to = [round(share * FRAME_NS) for share, _ in rows]
    return {
        "rate_bps": np.full(len(rows), 400 * G),
        "from_ns": np.array([t // 2 for t in to]),
        "to_ns": np.array(to),
        "frames": np.array([n for _, n in rows]),
    }


def _counters(**more: int) -> dict[str, dict[str, int]]:
    calm = {"realtime": 1, "longest_stall_ns": 1000, "waited_ns": 0}
    return {"switch": {**calm, **more}, "agent": dict(calm)}


CALM = Measured(_late((0.05, 995), (0.2, 5)), _counters(), 10**9, 0.0, 0)


def _judge(measured: Measured, *found: Control) -> Verdict:
    return verdict(measured, list(found), dilation=DILATION, mtu=4096, bridge_ps=PS_PER_MS)


def test_a_run_that_kept_up_is_valid() -> None:
    assert _judge(CALM, Control("the lone flow", 1_020, 1_000)).text() == "valid"


def test_quantiles_of_lateness_are_shares_of_a_frame_time() -> None:
    late = _late((0.1, 980), (0.5, 15), (2.0, 5))
    assert late_quantile(late, 0.97, DILATION, 4096) == pytest.approx(0.1, abs=1e-6)
    assert late_quantile(late, 0.99, DILATION, 4096) == pytest.approx(0.5, abs=1e-6)
    assert late_quantile(late, 0.999, DILATION, 4096) == pytest.approx(2.0, abs=1e-6)


def test_the_same_lateness_weighs_more_on_a_faster_link() -> None:
    slow = _late((0.2, 100))
    fast = {**slow, "rate_bps": slow["rate_bps"] * 4}
    ratio = late_quantile(fast, 0.99, DILATION, 4096) / late_quantile(slow, 0.99, DILATION, 4096)
    assert ratio == pytest.approx(4)


def test_without_frames_nothing_was_late() -> None:
    empty = {name: column[:0] for name, column in _late((1, 1)).items()}
    assert late_quantile(empty, 0.99, DILATION, 4096) == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"late": _late((0.1, 980), (0.3, 20))}, "1 in 100 frames left 0.3 frame times late"),
        ({"counters": _counters(longest_stall_ns=11 * 10**9)}, "stood still for 1.1e+04 ms"),
        ({"counters": _counters(socket_drops=1)}, "1 frame(s) were lost in sockets"),
        ({"counters": _counters(oversized=2)}, "2 frame(s) were above the MTU"),
        ({"counters": _counters(late_submissions=1)}, "1 flow(s) came after their release"),
        ({"softnet_drops": 3}, "3 frame(s) were lost by the kernel's backlog"),
        ({"late_notices": 1}, "1 completion(s) came too late"),
        ({"overran": True}, "took far longer than it must"),
    ],
)
def test_each_of_these_makes_it_invalid(change: dict[str, object], reason: str) -> None:
    found = _judge(replace(CALM, **change))  # type: ignore[arg-type]
    assert found.standing == "invalid"
    assert reason in found.text()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"late": _late((0.1, 995), (1.5, 5))}, "tails beyond P99 are not honest"),
        ({"counters": _counters(waited_ns=2 * 10**7)}, "switch process waited 2 % of the time"),
        ({"counters": _counters(realtime=0)}, "SCHED_FIFO was not granted to the switch"),
        ({"stolen": 0.3}, "the hypervisor took 30 % of the processors' time"),
    ],
)
def test_each_of_these_is_a_warning(change: dict[str, object], reason: str) -> None:
    found = _judge(replace(CALM, **change))  # type: ignore[arg-type]
    assert found.standing == "warn"
    assert reason in found.text()


@pytest.mark.parametrize("found_ps", [-1, 940, 1_060])
def test_a_control_that_is_off_makes_it_invalid(found_ps: int) -> None:
    found = _judge(CALM, Control("the lone flow", found_ps, 1_000))
    assert found.standing == "invalid"
    assert ("the lone flow did not end" if found_ps < 0 else "6 % off") in found.text()


def test_the_gravest_reason_comes_first() -> None:
    found = _judge(replace(CALM, stolen=0.3, softnet_drops=1))
    assert [reason.split()[0] for reason in found.reasons] == ["1", "the"]


def test_a_verdict_is_stored_with_its_thresholds() -> None:
    found = _judge(CALM)
    back = msgspec.json.decode(msgspec.json.encode(found), type=Verdict)
    assert back == found
    assert back.limits == Limits()


@given(st.integers(0, 2000), st.floats(0, 3))
def test_more_lateness_never_makes_a_run_better(frames: int, share: float) -> None:
    order = ("valid", "warn", "invalid")
    base = _late((0.05, 1000))
    worse = _late((0.05, 1000), (max(share, 0.05), frames))
    a, b = (order.index(_judge(replace(CALM, late=late)).standing) for late in (base, worse))
    assert b >= a


def test_what_queues_bridge_is_the_lowest_threshold_over_the_rate() -> None:
    fabric = Fabric("one")
    switch = fabric.add_switch("s", tier=1, switch=Switch(buffer_bytes=1_000_000))
    for i in range(4):
        fabric.connect(fabric.add_host(f"h{i}"), switch, rate_bps=100 * G)
    rules = Discipline(headroom=0, reserve_bytes=5_000, xon_offset_bytes=3_000)
    kept = np.zeros(8, np.int64)
    # (1,000,000 - 4 x 5,000) / (1 + 4) + 5,000 - 3,000 bytes at 80 ps a byte.
    assert bridge_ps(fabric, rules, kept) == 198_000 * 80


class TestControls:
    def _setup(self, hosts: int) -> Setup:
        fabric = Fabric("one")
        switch = fabric.add_switch("s", tier=1, switch=Switch())
        for i in range(hosts):
            host = fabric.add_host(f"h{i}")
            fabric.connect(host, switch, rate_bps=100 * G, delay_ps=50_000)
        # Four frame times are below any marking threshold that would slow the flows down.
        return Setup(fabric, equal_cost(fabric), Discipline(), Transport(control="none"), 0)

    def test_the_lone_flow_must_take_its_ideal_and_two_twice_the_wire(self) -> None:
        setup = self._setup(3)
        found = controls(setup.fabric, setup.routes, setup.twin())
        wire = PACKETS * 4178 * 80
        assert found.lone_ps == pytest.approx(wire, rel=0.02)
        assert found.queued_ps == pytest.approx(2 * wire, rel=0.02)
        assert found.end_ps > found.lone_ps + found.queued_ps

    def test_what_they_gave_is_set_beside_it(self) -> None:
        setup = self._setup(3)
        found = controls(setup.fabric, setup.routes, setup.twin())
        release = found.flows["release_ps"]
        good = release + np.array([found.lone_ps, found.queued_ps // 2, found.queued_ps])
        assert [c.off for c in found.judged(good)] == [0, 0]
        assert [c.off for c in found.judged(np.array([-1, -1, -1]))] == [np.inf, np.inf]

    def test_two_hosts_cannot_queue(self) -> None:
        setup = self._setup(2)
        assert len(controls(setup.fabric, setup.routes, setup.twin()).flows) == 1


def test_stolen_time_is_a_share_of_all_ticks() -> None:
    assert between(Reading(100, 5, 1), Reading(300, 15, 4)) == (0.05, 3)
    assert between(Reading(100, 5, 1), Reading(100, 5, 1)) == (0.0, 0)


def test_a_reading_only_grows() -> None:
    first, second = reading(), reading()
    assert second.ticks >= first.ticks > 0
