"""The pause watchdog: it gives a stuck queue up after its time, and takes it back after another."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulate import _engine
from emulate.discipline import Discipline, DisciplineError, Watchdog
from emulate.fault import Fault
from emulate.packet import PacketEmulator
from emulate.transport import Transport
from topo.route import equal_cost

G = 10**9
US = 10**6
MS = 10**9
FRAME = (4096 + 82) * 80


def star(lab, hosts, discipline, faults, transport, **model):
    fabric = lab.star(hosts, 100, 50_000, **model)
    emulator = PacketEmulator(
        fabric, equal_cost(fabric), discipline, transport, seed=1, faults=faults
    )
    return emulator, lab.hosts(fabric)


def stormed(lab, detect, restore):
    """Ten frames for a receiver that storms from 1 ms until 6 ms, released at 2 ms."""
    discipline = Discipline(ecn="off", watchdog=Watchdog(detect, restore))
    storm = Fault("storm", 1, 1 * MS, 6 * MS, direction="forward")
    transport = Transport(control="none", rto_ps=2 * MS)
    emulator, (a, b) = star(lab, 2, discipline, [storm], transport)
    emulator.submit(lab.flows((a, b, 10 * 4096, 2 * MS)))
    return emulator


def test_a_stuck_queue_is_dropped_to_the_picosecond_and_what_comes_later_too(lab):
    emulator = stormed(lab, detect=1 * MS, restore=2 * MS)
    # The first frame waits from the moment at which it is whole at the switch.
    due = 2 * MS + FRAME + 50_000 + 1 * MS
    emulator.advance(due - 1)
    assert emulator.telemetry().totals["drops_watchdog"] == 0
    assert emulator.telemetry().totals["bytes_in_flight"] == 10 * 4096
    emulator.advance(due)
    t = emulator.telemetry().totals
    assert (t["drops_watchdog"], t["bytes_dropped"], t["bytes_in_flight"]) == (10, 40_960, 0)
    # Sent again at 4 and 6 ms: dropped on arrival. XOFF was sent last 29 x half of 65,535 quanta
    # after 1 ms, so that the queue is taken back 2 ms after that, at 7.9 ms.
    emulator.advance(8 * MS - 1)
    assert emulator.telemetry().totals["drops_watchdog"] == 30
    finish = lab.finish(emulator)[0]
    telemetry = emulator.telemetry()
    assert finish == 8 * MS + telemetry.flows["ideal_ps"][0]
    assert telemetry.totals["drops_watchdog"] == telemetry.flows["lost_packets"][0] == 30
    assert telemetry.totals["drops_lossless"] == telemetry.totals["drops_fault"] == 0
    assert (telemetry.flows["timeouts"][0], telemetry.flows["spurious_timeouts"][0]) == (3, 0)
    assert lab.blame_adds_up(telemetry.flows)


def test_a_queue_is_taken_back_when_no_xoff_has_come_for_the_time(lab):
    # The last XOFF before 6 ms is sent 29 x 167.8 us after 1 ms, obeyed one pause frame, cable and
    # response later.
    restore = 2_500_000_000
    last = 1 * MS + 29 * (65_535 * 512 * 10 // 2) + 84 * 80 + 50_000 + 394 * 5_120 - 600_000
    emulator = stormed(lab, detect=1 * MS, restore=restore)
    a, b = lab.hosts(emulator.fabric)
    back = last + restore
    # At the very instant an arrival comes before the timer.
    early = back - 83 * 80 - 50_000
    emulator.submit(lab.flows((a, b, 1, early), (a, b, 1, early + 1), first=1))
    lab.finish(emulator, until=20 * MS)
    lost = emulator.telemetry().flows["lost_packets"].tolist()
    # The first flow's fourth try, at 8 ms, is half a millisecond early as well.
    assert lost == [40, 1, 0]


def test_a_pause_that_ends_in_time_drops_nothing(lab):
    emulator = stormed(lab, detect=5 * MS, restore=1 * MS)
    lab.finish(emulator)
    assert emulator.telemetry().totals["drops_watchdog"] == 0
    assert emulator.telemetry().flows["timeouts"][0] > 0


def test_the_short_pauses_of_an_incast_never_wake_the_watchdog(lab):
    discipline = Discipline(ecn="off", alpha=1 / 32, watchdog=Watchdog(2 * MS, 2 * MS))
    transport = Transport(control="none")
    emulator, hosts = star(lab, 5, discipline, [], transport, buffer=4 * 2**20)
    emulator.submit(lab.flows(*((s, hosts[4], 10_000_000, 0) for s in hosts[:4])))
    lab.finish(emulator)
    telemetry = emulator.telemetry()
    assert telemetry.totals["pause_frames"] > 0
    assert telemetry.totals["drops_watchdog"] == 0


@settings(max_examples=30, deadline=None)
@given(
    load=st.lists(
        st.tuples(
            st.integers(0, 3), st.integers(1, 3), st.integers(1, 300_000), st.integers(0, 3 * MS)
        ),
        min_size=1,
        max_size=8,
    ),
    victim=st.integers(0, 3),
    cuts=st.lists(st.integers(0, 9 * MS), max_size=6),
    cut_through=st.booleans(),
)
def test_a_watched_storm_loses_no_byte_unaccounted(lab, load, victim, cuts, cut_through):
    def fresh():
        discipline = Discipline(
            ecn="dctcp", marking="dequeue", cut_through=cut_through,
            watchdog=Watchdog(300 * US, 2 * MS),
        )  # fmt: skip
        storm = Fault("storm", victim, 1 * MS, 3 * MS, direction="forward")
        emulator, hosts = star(lab, 4, discipline, [storm], Transport(rto_ps=MS))
        emulator.submit(lab.flows(*((hosts[a], hosts[(a + d) % 4], n, at) for a, d, n, at in load)))
        return emulator

    whole, sliced = fresh(), fresh()
    finish = lab.finish(whole, until=10**12)
    for until in [*sorted(cuts), 10**12]:
        while len(sliced.advance(until).completions):
            pass
        t = sliced.telemetry().totals
        assert t["bytes_sent"] == (
            t["bytes_delivered"] + t["bytes_discarded"] + t["bytes_dropped"] + t["bytes_in_flight"]
        )
    telemetry = sliced.telemetry()
    assert len(finish) == len(load)
    assert telemetry.totals == whole.telemetry().totals
    assert telemetry.totals["drops_watchdog"] == telemetry.ports["drops"].sum()
    assert lab.blame_adds_up(telemetry.flows)


def test_the_watchdog_acts_by_its_table():
    verdict = _engine.Watchdog.Verdict
    dog = _engine.Watchdog(detect_ps=100, restore_ps=50)
    dog.stopped(now_ps=5)
    dog.watch(now_ps=10, stuck=True)
    dog.watch(now_ps=60, stuck=True)
    assert (dog.next_ps, dog.expire(now_ps=109)) == (110, verdict.none)
    dog.watch(now_ps=109, stuck=False)
    dog.watch(now_ps=109, stuck=True)
    assert dog.expire(now_ps=110) == verdict.none
    dog.stopped(now_ps=200)
    assert (dog.expire(now_ps=209), dog.dropping, dog.next_ps) == (verdict.drop, True, 250)
    dog.stopped(now_ps=220)
    dog.watch(now_ps=230, stuck=True)
    assert dog.expire(now_ps=269) == verdict.none
    assert (dog.expire(now_ps=270), dog.dropping) == (verdict.restore, False)


def test_a_watchdog_without_pauses_or_without_time_is_refused(lab):
    for make, word in (
        (lambda: Watchdog(detect_ps=0), "detect 0ps: must be above 0"),
        (lambda: Watchdog(restore_ps=-1), "restore -1ps"),
        (lambda: Discipline(pfc=False, watchdog=Watchdog()), "nothing to watch"),
    ):
        with pytest.raises(DisciplineError, match=word) as refusal:
            make()
        assert "\n" not in str(refusal.value)
    fabric = lab.star(2)
    lanes = Transport(kind="infiniband", control="none")
    with pytest.raises(DisciplineError, match="infiniband has not"):
        PacketEmulator(fabric, equal_cost(fabric), Discipline(watchdog=Watchdog()), lanes, seed=1)
