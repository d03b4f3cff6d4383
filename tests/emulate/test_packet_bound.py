"""What the engines cannot count is refused, and at the largest that they can they agree."""

import math

import pytest

from emulate.bound import MOST_BYTES, MOST_COUNT, MOST_WAIT_PS, MOST_WAY_PS
from emulate.discipline import Discipline, Watchdog
from emulate.marking import Threshold
from emulate.packet import PacketEmulator
from emulate.transport import Transport
from topo.error import KvfabricError
from topo.route import equal_cost

G = 10**9
WIRE_PS = 4178 * 80
FREE = Transport(control="none")
BEYOND = "(write|one of) at most"
NUMBERS = {
    Transport: {
        "rto_ps": MOST_WAIT_PS,
        "issue_ps": MOST_WAIT_PS,
        "cnp_interval_ps": MOST_WAIT_PS,
        "receive_buffer": MOST_BYTES,
        "credits": MOST_BYTES,
        "ack_every": MOST_COUNT,
        "window": MOST_COUNT,
        "send_queue": MOST_COUNT,
    },
    Discipline: {
        "headroom": MOST_BYTES,
        "xon_offset_bytes": MOST_BYTES,
        "reserve_bytes": MOST_BYTES,
        "response_ps": MOST_WAY_PS,
        "deadlock_ps": MOST_WAIT_PS,
    },
    Watchdog: {"detect_ps": MOST_WAIT_PS, "restore_ps": MOST_WAIT_PS},
}
FIELDS = [(kind, name, most) for kind, names in NUMBERS.items() for name, most in names.items()]


@pytest.fixture(params=["reference", "core"])
def engine(request):
    return request.param


@pytest.mark.parametrize(("kind", "name", "most"), FIELDS)
def test_a_number_that_is_not_whole_or_beyond_counting_is_refused(kind, name, most):
    for value in (most + 1, 2**63 - 1, 10**30, 1e30, 1.5, math.nan, math.inf):
        with pytest.raises(KvfabricError, match=BEYOND):
            kind(**{name: value})


def test_thresholds_of_marking_are_whole_and_within_counting():
    for value in (MOST_BYTES + 1, 10**30, 1.5, math.nan):
        with pytest.raises(KvfabricError, match=BEYOND):
            Threshold(0, value, 1.0)


@pytest.mark.parametrize("discipline", [Discipline(pfc=False), Discipline(headroom=4096)])
@pytest.mark.parametrize("ps", [MOST_WAY_PS + 1, 20 * 10**12, 2**62])
def test_a_way_that_takes_longer_than_instants_can_be_told_apart_is_refused(lab, discipline, ps):
    for fabric, name in (
        (lab.chain([G, G], [ps, 0]), "link 'a' to 's0' delay"),
        (lab.chain([G, G], [0, 0], latency=ps), "switch 's0' latency"),
    ):
        with pytest.raises(KvfabricError, match=f"{name} [0-9.]+s: cannot .* at most 1s"):
            PacketEmulator(fabric, equal_cost(fabric), discipline, FREE, seed=1)


def test_the_longest_way_is_the_same_sum_in_both_engines(lab, engine):
    far = MOST_WAY_PS
    fabric = lab.chain([100 * G, 100 * G], [far, far], latency=far)
    rules = Discipline(pfc=False)
    emulator = PacketEmulator(fabric, equal_cost(fabric), rules, FREE, seed=1, engine=engine)
    a, b = lab.hosts(fabric)
    emulator.submit(lab.flows((a, b, 40_960, 0)))
    assert lab.finish(emulator) == {0: 3 * far + 11 * WIRE_PS}


def test_the_longest_timer_does_not_run_out_before_it_starts(lab, engine):
    fabric = lab.star(2)
    transport = Transport(control="none", rto_ps=MOST_WAIT_PS)
    emulator = PacketEmulator(
        fabric, equal_cost(fabric), Discipline(), transport, seed=1, engine=engine
    )
    a, b = lab.hosts(fabric)
    emulator.submit(lab.flows((a, b, 40_960, 0)))
    assert lab.finish(emulator) == {0: 11 * WIRE_PS + 700_000}
    assert emulator.telemetry().flows["timeouts"].tolist() == [0]


def test_descriptors_whose_issue_takes_longer_than_a_timer_may_are_refused(lab, engine):
    fabric = lab.star(2)
    slow = Transport(control="none", issue_ps=MOST_WAIT_PS // 1000)
    emulator = PacketEmulator(fabric, equal_cost(fabric), Discipline(), slow, seed=1, engine=engine)
    a, b = lab.hosts(fabric)
    with pytest.raises(KvfabricError, match="descriptors 1001 of 10s each take more than 10,000 s"):
        emulator.submit(lab.flows((a, b, 4096, 0), descriptors=1001))
    emulator.submit(lab.flows((a, b, 4096, 0), descriptors=1000))


def test_a_switch_that_sends_before_it_receives_is_refused(lab):
    with pytest.raises(KvfabricError, match=r"switch latency -1ps: must not be negative"):
        lab.switch(latency=-1)


@pytest.mark.parametrize("alpha", [1.0, 64.0])
def test_the_largest_memory_stops_nobody_and_a_larger_one_is_refused(lab, engine, alpha):
    def three(memory: int) -> PacketEmulator:
        fabric = lab.star(4, buffer=memory)
        rules = Discipline(alpha=alpha, ecn="off")
        emulator = PacketEmulator(fabric, equal_cost(fabric), rules, FREE, seed=1, engine=engine)
        sink, *senders = lab.hosts(fabric)
        emulator.submit(lab.flows(*((sender, sink, 409_600, 0) for sender in senders)))
        return emulator

    most = int(MOST_BYTES / alpha)
    emulator = three(most)
    assert max(lab.finish(emulator).values()) == 301 * WIRE_PS + 700_000
    assert emulator.telemetry().ports["pauses"].sum() == 0
    with pytest.raises(KvfabricError, match=BEYOND if alpha == 1.0 else "largest threshold"):
        three(most + 1)


@pytest.mark.parametrize("tick", [MOST_WAIT_PS + 1, 10**30, 1e30, math.nan])
def test_a_tick_beyond_counting_is_refused(lab, tick):
    fabric = lab.star(2)
    with pytest.raises(KvfabricError, match=BEYOND):
        PacketEmulator(fabric, equal_cost(fabric), seed=1, tick_ps=tick)
