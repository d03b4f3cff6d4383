"""Closed forms that one frame more or less would break: memory, marks, pauses, notifications."""

import itertools

import pytest

from emulate.discipline import Discipline
from emulate.fault import Fault
from emulate.headroom import response_ps
from emulate.marking import Threshold
from emulate.packet import PacketEmulator
from emulate.transport import Transport
from topo.route import equal_cost

G = 10**9
US = 10**6
MS = 10**9
WIRE = 4096 + 82
STORED = WIRE - 20
FRAME = WIRE * 80
"""A full frame at 100 Gbit/s, ps."""

FREE = Transport(control="none", rto_ps=50 * MS)


@pytest.fixture(params=["core", "reference"])
def engine(request):
    return request.param


def burst(lab, engine, senders, discipline, *, buffer=64 * 2**20, stagger=0, transport=FREE):
    """One frame from each host to the last, all released together or one after the other."""
    fabric = lab.star(senders + 1, 100, 50_000, buffer=buffer)
    *sources, sink = lab.hosts(fabric)
    emulator = PacketEmulator(
        fabric, equal_cost(fabric), discipline, transport, seed=1, engine=engine
    )
    emulator.submit(lab.flows(*((s, sink, 4096, i * stagger) for i, s in enumerate(sources))))
    return emulator


@pytest.mark.parametrize("senders", [3, 4, 7])
def test_a_frame_fills_memory_until_its_last_bit_has_left(lab, engine, senders):
    # Room for three frames, and all arrive at one instant: the one in service counts.
    lossy = Discipline(pfc=False, ecn="off", egress_alpha=64)
    emulator = burst(lab, engine, senders, lossy, buffer=3 * STORED + 100)
    emulator.advance(FRAME + 50_000)
    assert emulator.telemetry().totals["drops_buffer"] == senders - 3
    # A frame time later one place is free, and no more than one.
    emulator = burst(lab, engine, 5, lossy, buffer=3 * STORED + 100, stagger=FRAME // 3)
    emulator.advance(20 * FRAME)
    # In at 0, 1/3, 2/3: full. At 1 the first leaves, and the fourth, which comes at that instant,
    # finds its place; the fifth at 4/3 finds none.
    assert emulator.telemetry().totals["drops_buffer"] == 1


@pytest.mark.parametrize(("early", "dropped"), [(0, 0), (1, 1)])
def test_memory_that_another_port_frees_at_an_instant_is_free_at_that_instant(
    lab, engine, early, dropped
):
    # Three frames for one host fill the memory; the first is gone when one for another host comes,
    # or would be a picosecond later.
    lossy = Discipline(pfc=False, ecn="off", egress_alpha=64)
    fabric = lab.star(6, 100, 50_000, buffer=3 * STORED + 100)
    a, b, c, d, full, idle = lab.hosts(fabric)
    emulator = PacketEmulator(fabric, equal_cost(fabric), lossy, FREE, seed=1, engine=engine)
    rows = [(a, full, 4096, 1), (b, full, 4096, 1), (c, full, 4096, FRAME // 3)]
    emulator.submit(lab.flows(*rows, (d, idle, 4096, FRAME + 1 - early)))
    emulator.advance(10 * FRAME)
    assert emulator.telemetry().totals["drops_buffer"] == dropped


@pytest.mark.parametrize("marking", ["enqueue", "dequeue"])
@pytest.mark.parametrize("senders", [2, 3, 8])
def test_a_frame_is_marked_by_the_frames_before_it_and_by_them_alone(lab, engine, senders, marking):
    # Frame i of a burst meets i others, one of them in service; leaving, it leaves the rest behind.
    step = Threshold(3 * WIRE // 2, 3 * WIRE // 2, 1.0)
    emulator = burst(lab, engine, senders, Discipline(ecn=step, marking=marking))
    lab.finish(emulator)
    # The first of them starts at once and leaves nobody behind.
    met = range(senders) if marking == "enqueue" else [0, *range(senders - 1)]
    expected = sum(2 * others > 3 for others in met)
    telemetry = emulator.telemetry()
    assert telemetry.ports["marked"].sum() == telemetry.flows["marked"].sum() == expected


@pytest.mark.parametrize(("share", "marked"), [(0.3, 1), (0.7, 0)])
def test_of_the_frame_in_service_the_rest_counts(lab, engine, share, marked):
    # The second frame comes when half of the first has left.
    step = Threshold(int(share * WIRE), int(share * WIRE), 1.0)
    emulator = burst(lab, engine, 2, Discipline(ecn=step), stagger=FRAME // 2)
    lab.finish(emulator)
    assert emulator.telemetry().ports["marked"].sum() == marked


def test_a_frame_of_another_class_in_service_does_not_count(lab, engine):
    # Half of a frame of class 0 is left when one of class 3 comes and finds nobody of its own.
    step = Threshold(WIRE // 4, WIRE // 4, 1.0)
    fabric = lab.star(3, 100, 50_000)
    a, b, sink = lab.hosts(fabric)
    emulator = PacketEmulator(
        fabric, equal_cost(fabric), Discipline(ecn=step), FREE, seed=1, engine=engine
    )
    emulator.submit(lab.flows((a, sink, 4096, 0), priority=0))
    emulator.submit(lab.flows((b, sink, 4096, FRAME // 2), first=1))
    lab.finish(emulator)
    assert emulator.telemetry().ports["marked"].sum() == 0


def test_a_notification_passes_a_class_that_is_stopped_for_good(lab, engine):
    # The switch tells host b to stop its lossless class: its ACKs stand, its CNPs do not.
    fabric = lab.star(3, 100, 50_000)
    a, c, b = lab.hosts(fabric)
    storm = Fault("storm", 2, 0, direction="back")
    emulator = PacketEmulator(
        fabric, equal_cost(fabric), Discipline(ecn="dctcp"), Transport(preset="hpcc"), seed=1,
        engine=engine, faults=[storm],
    )  # fmt: skip
    emulator.submit(lab.flows((a, b, 4_000_000, 0), (c, b, 4_000_000, 0)))
    emulator.advance(300 * US)
    flows = emulator.telemetry().flows
    assert (flows["cnps"] > 0).all()
    assert (flows["rate_bps"] < 100 * G).all()
    lab.finish(emulator, until=5 * MS)
    flows = emulator.telemetry().flows
    assert (flows["finish_ps"] > 0).all()
    assert (flows["sender_done_ps"] == -1).all()


def test_a_pause_goes_before_the_frames_that_wait(lab, engine):
    # The port towards a is never idle, and headroom holds one frame's wait, not a queue's.
    metres = 5
    headroom = (2 * metres * 5_050 + response_ps(100 * G)) // 80 + 2 * WIRE + 84
    fabric = lab.star(5, 100, metres * 5_050, buffer=4 * 2**20)
    a, b, c, d, sink = lab.hosts(fabric)
    discipline = Discipline(ecn="off", headroom=headroom, alpha=1 / 16)
    emulator = PacketEmulator(fabric, equal_cost(fabric), discipline, FREE, seed=1, engine=engine)
    size = 6_000_000
    emulator.submit(
        lab.flows(*((s, t, size, 0) for s, t in ((c, a), (d, a), (a, sink), (b, sink))))
    )
    lab.finish(emulator)
    telemetry = emulator.telemetry()
    out = int(fabric.ports.first[a])
    assert telemetry.ports["pauses"][out] > 10
    assert telemetry.totals["drops_lossless"] == 0
    # At full rate from the first frame to the last: what came late would be sent again.
    assert telemetry.flows["resent_bytes"].sum() == 0


def test_a_retransmission_meets_another_draw(lab, engine):
    # Half of all frames are lost: a draw that forgot the attempt would lose one for ever.
    fabric = lab.chain([100 * G], [50_000])
    a, b = lab.hosts(fabric)
    emulator = PacketEmulator(
        fabric, equal_cost(fabric), Discipline(ecn="off", headroom=100_000),
        Transport(control="none", rto_ps=50 * US), seed=1, engine=engine,
        faults=[Fault("lossy", 0, 0, share=0.5, direction="forward")],
    )  # fmt: skip
    emulator.submit(lab.flows((a, b, 60 * 4096, 0)))
    assert 0 in lab.finish(emulator, until=10**12)


def test_a_paced_flow_sends_its_wire_bytes_at_its_rate(lab, engine):
    # Headers are a quarter of these frames: paced by payload alone, flows were as much faster.
    fabric = lab.star(3, 100, 50_000)
    a, c, b = lab.hosts(fabric)
    transport = Transport(preset="paper", mtu=256)
    emulator = PacketEmulator(
        fabric, equal_cost(fabric), Discipline(ecn="dctcp"), transport, seed=1, engine=engine
    )
    emulator.submit(lab.flows((a, b, 4_000_000, 0), (c, b, 4_000_000, 0)))
    port = int(fabric.ports.first[a])
    seen = []
    for now in range(20 * US, 600 * US, 10 * US):
        emulator.advance(now)
        telemetry = emulator.telemetry()
        rate = int(telemetry.flows["rate_bps"][0])
        seen.append((rate, int(telemetry.ports["tx_bytes"][port])))
    steady = [
        (rate, (sent - before) * 8 * 10**12 / (10 * US))
        for (past, before), (rate, sent) in itertools.pairwise(seen)
        if past == rate < 90 * G
    ]
    assert len(steady) > 10
    for rate, measured in steady:
        assert measured == pytest.approx(rate, abs=2 * 338 * 8 * 10**12 / (10 * US))
