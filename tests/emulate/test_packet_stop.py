"""Stop and go of one sender, to the picosecond: when, for what, and by which port's frames."""

import pytest

from emulate.discipline import Discipline
from emulate.fault import Fault
from emulate.packet import PacketEmulator
from emulate.transport import Transport
from topo.fabric import Fabric
from topo.route import equal_cost

G = 10**9
MS = 10**9
WIRE = 4096 + 82
STORED = WIRE - 20
FRAME = WIRE * 80
"""A full frame at 100 Gbit/s, ps."""
PAUSE = 84 * 80
DELAY = 50_000
HEADROOM = 100_000

FREE = Transport(control="none", rto_ps=50 * MS)


@pytest.fixture(params=["core", "reference"])
def engine(request):
    return request.param


def switch(lab, engine, rates, *, stop, go, faults=()):
    """Hosts of these Gbit/s around a switch whose groups stop and go on at so many frames."""
    above, below = round(stop * STORED), round(go * STORED)
    fabric = Fabric("star")
    # Next to nothing of this memory is used: the dynamic threshold stands still.
    model = lab.switch(buffer=len(rates) * HEADROOM + (above << 16), latency=0)
    middle = fabric.add_switch("s", tier=1, switch=model)
    hosts = [fabric.add_host(f"h{i}") for i in range(len(rates))]
    for host, gbps in zip(hosts, rates, strict=True):
        fabric.connect(host, middle, rate_bps=gbps * G, delay_ps=DELAY)
    discipline = Discipline(
        ecn="off", alpha=2**-16, reserve_bytes=0, headroom=HEADROOM,
        xon_offset_bytes=above - below, response_ps=0,
    )  # fmt: skip
    emulator = PacketEmulator(
        fabric, equal_cost(fabric), discipline, FREE, seed=1, engine=engine, faults=faults
    )
    return emulator, hosts


def ten_and_one(lab, engine, faults=()):
    """When a frame of host 0 is in that could not start until its group was let go on.

    Ten frames for a slow port, one for a quick one that puts the group over its threshold, and
    nothing that follows: only the slow port's frames, which leave, can let the sender go on.
    """
    emulator, (a, slow, quick) = switch(
        lab, engine, (100, 25, 100), stop=8.5, go=5.5, faults=faults
    )
    emulator.submit(
        lab.flows(
            (a, slow, 10 * 4096, 0),
            (a, quick, 4096, 10 * FRAME + 1_000),
            (a, quick, 4096, 15 * FRAME),
        )
    )
    return lab.finish(emulator)[2]


def test_a_group_goes_on_when_its_frames_have_left_by_another_port_than_the_last_came_for(
    lab, engine
):
    # The slow port lets a frame go at 5, 9, 13, 17 and 21 frame times: 9 frames stop, 5 go on.
    resumed = 21 * FRAME + DELAY + PAUSE + DELAY
    assert ten_and_one(lab, engine) == resumed + 2 * (FRAME + DELAY)


def test_a_group_goes_on_when_a_frame_that_followed_the_stop_has_left(lab, engine):
    emulator, (a, slow, quick, late) = switch(lab, engine, (100, 25, 100, 25), stop=8.5, go=7.5)
    at = 10 * FRAME + 1_000
    emulator.submit(
        lab.flows(
            (a, slow, 10 * 4096, 0),  # leave at 5, 9, 13 and 17 frame times
            (a, quick, 4096, at),  # is the ninth
            (a, late, 4096, at),  # has begun before its sender stops, and leaves four times later
            (a, quick, 4096, 15 * FRAME),
        )
    )
    resumed = at + 6 * FRAME + DELAY + PAUSE + DELAY
    assert lab.finish(emulator)[3] == resumed + 2 * (FRAME + DELAY)


def test_a_stop_whose_end_is_lost_on_the_way_ends_with_its_quanta(lab, engine):
    dark = Fault("down", 0, 15 * FRAME, 25 * FRAME, direction="back")
    stopped = 11 * FRAME + 1_000 + DELAY + PAUSE + DELAY
    over = stopped + 65_535 * 512 * 10  # bit times of 10 ps
    assert ten_and_one(lab, engine, [dark]) == over + 2 * (FRAME + DELAY)


def test_of_two_ports_that_hold_as_much_of_a_stopped_group_the_first_is_the_cause(lab, engine):
    emulator, (a, first, second) = switch(lab, engine, (100, 1, 1), stop=7.5, go=5.5)
    emulator.submit(lab.flows((a, first, 4 * 4096, 0), (a, second, 4 * 4096, 4 * FRAME)))
    lab.finish(emulator)
    ports = emulator.fabric.ports
    causes = emulator.telemetry().stops["cause_port"].tolist()
    assert causes == [int(ports.reverse[ports.first[first]])]


def test_an_ack_waits_for_its_class_even_at_an_idle_nic(lab, engine):
    storm = Fault("storm", 1, 0, direction="back")
    emulator, (a, b) = switch(lab, engine, (100, 100), stop=100, go=90, faults=[storm])
    emulator.submit(lab.flows((a, b, 4096, 0)))
    assert lab.finish(emulator, until=MS)[0] == 2 * (FRAME + DELAY)
    assert emulator.telemetry().flows["sender_done_ps"].tolist() == [-1]
