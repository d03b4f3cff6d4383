"""What is kept of queues and pauses: samples, series, stops with their cause, blocked ports."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulate import _engine
from emulate.discipline import Discipline
from emulate.fault import Fault
from emulate.marking import Threshold
from emulate.packet import PacketEmulator
from emulate.transport import Transport
from topo.route import equal_cost

US = 10**6
FREE = Transport(control="none")
PAUSES = Discipline(ecn="off", alpha=1 / 8)
FRAME = (4096 + 82) * 80  # at 100 Gbit/s


def incast(lab, senders=4, frames=400, tick_ps=10 * US, buffer=2**21):
    fabric = lab.star(senders + 1, buffer=buffer)
    emulator = PacketEmulator(fabric, equal_cost(fabric), PAUSES, FREE, seed=1, tick_ps=tick_ps)
    rows = [(s, senders + 1, frames * 4096, 0) for s in range(1, senders + 1)]
    emulator.submit(lab.flows(*rows))
    return emulator


def rows(table):
    return list(zip(*(column.tolist() for column in table.values()), strict=True))


def looked_at(emulator, ticks, tick_ps):
    """The bytes that wait at every port at every tick, by looking each time."""
    seen = []
    for tick in range(1, ticks + 1):
        while len(emulator.advance(tick * tick_ps).completions):
            pass
        seen.append(emulator.observe()["queued_bytes"])
    return np.array(seen).T


@settings(max_examples=12, deadline=None)
@given(
    tick_ps=st.sampled_from([FRAME // 7, FRAME, 3 * US]),
    ticks=st.sampled_from([1, 63, 512, 513, 1500]),
)
def test_histogram_and_series_are_those_of_looking_at_every_tick(lab, tick_ps, ticks):
    seen = looked_at(incast(lab, tick_ps=tick_ps), ticks, tick_ps)
    emulator = incast(lab, tick_ps=tick_ps)
    while len(emulator.advance(ticks * tick_ps).completions):
        pass
    telemetry = emulator.telemetry()
    bins = {}
    for port, queue in enumerate(seen.tolist()):
        for size in queue:
            key = (port, 2 ** (size.bit_length() - 1) if size else 0)
            bins[key] = bins.get(key, 0) + 1
    assert rows(telemetry.occupancy) == [(*key, bins[key]) for key in sorted(bins)]
    span = 1
    while -(-ticks // span) > 512:
        span *= 2
    series = []
    for port, queue in enumerate(seen.tolist()):
        for start in range(0, ticks, span):
            part = queue[start : start + span]
            if any(part):
                mean = sum(part) // len(part)
                series.append((port, start * tick_ps, len(part) * tick_ps, mean, max(part)))
    assert rows(telemetry.series) == series


@pytest.mark.parametrize("delay", [50_000, 400_000, 1_000_000, 2_000_000])
def test_what_is_read_at_a_completion_is_of_that_instant(lab, delay):
    # The last frame of the short flow left the switch a cable and a pipeline ago; of the long
    # one, which began with it, as many more have left as fit in between.
    fabric = lab.star(5, delay=delay)
    small = Transport(control="none", mtu=1024)
    frame, way = (1024 + 82) * 80, delay + 600_000
    emulator = PacketEmulator(fabric, equal_cost(fabric), PAUSES, small, seed=1)
    emulator.submit(lab.flows((1, 2, 20 * 1024, 0), (3, 4, 4096 * 1024, 0)))
    assert emulator.advance(10**12).completions["flow"].tolist() == [0]
    assert emulator.now_ps == 21 * frame + delay + way
    read, port = emulator.telemetry(), int(fabric.ports.first[0]) + 3
    assert read.ports["tx_packets"][port] == 20 + way // frame
    emulator.submit(lab.flows((5, 4, 1024, emulator.now_ps), first=2))
    assert emulator.telemetry().totals == read.totals  # the release is still to come


@pytest.mark.parametrize("delay", [50_000, 2_000_000])
def test_no_switch_has_passed_the_instant_of_a_completion(lab, delay):
    # Two flows of one frame, the second released ever later: at the first one's completion it has
    # crossed no cable, one, or is on its second.
    fabric = lab.star(4, delay=delay)
    first, second, way = FRAME + delay, 2 * FRAME + delay, 2 * FRAME + 2 * delay + 600_000
    port = int(fabric.ports.first[0]) + 3
    for later in range(1, 2 * way, way // 97):
        emulator = PacketEmulator(fabric, equal_cost(fabric), PAUSES, FREE, seed=1)
        emulator.submit(lab.flows((1, 2, 4096, 0), (3, 4, 4096, later)))
        assert emulator.advance(10**12).now_ps == way
        read = emulator.telemetry()
        assert read.totals["packet_hops"] == 2 + (later + first <= way)
        assert read.ports["tx_packets"][port] == (later + second <= way)


def test_a_flow_that_a_completion_leads_to_comes_after_all_of_that_instant(lab):
    # Host 3 begins to send one frame at the instant of a completion elsewhere. The flow that the
    # completion leads to is released then, too, and waits for that frame, though its number is
    # the lesser.
    fabric = lab.star(5)
    emulator = PacketEmulator(fabric, equal_cost(fabric), PAUSES, FREE, seed=1)
    way = FRAME + 2 * 50_000 + 600_000
    then = 20 * FRAME + way
    table = lab.flows((1, 2, 20 * 4096, 0), (3, 5, 4096, then), (3, 4, 4096, then))
    emulator.submit(table[[0, 2]])
    assert emulator.advance(10**12).now_ps == then
    emulator.submit(table[[1]])
    ends = [emulator.advance(10**12) for _ in range(2)]
    assert [end.completions["flow"].tolist() for end in ends] == [[2], [1]]
    assert [end.now_ps for end in ends] == [then + FRAME + way, then + 2 * FRAME + way]


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_the_mean_of_the_series_is_that_of_an_m_d_1_queue(lab, load):
    # Lq = rho^2 / (2 (1 - rho)) frames wait, from many sources with Poisson arrivals.
    rng = np.random.default_rng(11)
    fabric = lab.star(65, buffer=2**30)
    *sources, sink = lab.hosts(fabric)
    count = 40_000
    release = np.cumsum(rng.exponential(FRAME / load, count)).astype(np.int64)
    pairs = zip(rng.choice(sources, count).tolist(), release.tolist(), strict=True)
    emulator = PacketEmulator(fabric, equal_cost(fabric), PAUSES, FREE, seed=1, tick_ps=US)
    emulator.submit(lab.flows(*((s, sink, 4096, t) for s, t in pairs)))
    emulator.advance(int(release[0]))
    while len(emulator.advance(int(release[-1])).completions):
        pass
    series = emulator.telemetry().series
    port = int(fabric.ports.reverse[fabric.ports.first[sink]])
    mine = series["port"] == port
    span = int(series["span_ps"].max())
    waiting = np.zeros(int(release[-1]) // span)
    place = (series["from_ps"][mine] // span).astype(int)
    inside = place < len(waiting)
    waiting[place[inside]] = series["mean_bytes"][mine][inside] / 4178
    batches = waiting[: len(waiting) // 20 * 20].reshape(20, -1).mean(axis=1)
    error = batches.std(ddof=1) / 20**0.5
    expected = load**2 / (2 * (1 - load))
    assert abs(batches.mean() - expected) < 4 * error
    assert error < 0.1 * expected


@pytest.mark.parametrize("kind", ["rocev2", "infiniband"])
def test_bytes_over_time_in_a_queue_are_those_that_its_frames_waited(lab, kind):
    # Little's law, exact of any sample path: the integral of the queue is the sum of the waits.
    rng, tick = np.random.default_rng(3), 2_003
    fabric = lab.star(9)
    *sources, sink = lab.hosts(fabric)
    release = np.cumsum(rng.exponential(FRAME / 0.9, 2_000)).astype(int)
    rows = [(int(rng.choice(sources)), sink, 4096, int(at)) for at in release]
    free = Transport(kind=kind, control="none")
    emulator = PacketEmulator(fabric, equal_cost(fabric), PAUSES, free, seed=1, tick_ps=tick)
    emulator.submit(lab.flows(*rows))
    lab.finish(emulator, until=10**10)
    telemetry, port = emulator.telemetry(), int(fabric.ports.reverse[fabric.ports.first[sink]])
    series = {name: column[telemetry.series["port"] == port].astype(float)
              for name, column in telemetry.series.items()}  # fmt: skip
    here = telemetry.hops["port"] == port
    waited = telemetry.hops["queued_ps"][here] + telemetry.hops["paused_ps"][here]
    integral = (series["mean_bytes"] * series["span_ps"]).sum()
    assert integral == pytest.approx(4178.0 * waited.sum(), rel=1e-3)
    # The histogram's bins are a power of two wide.
    mine = telemetry.occupancy["port"] == port
    least = telemetry.occupancy["least_bytes"][mine] * telemetry.occupancy["samples"][mine]
    assert least.sum() * tick <= integral <= 2 * least.sum() * tick


def test_a_quiet_port_has_only_empty_samples_and_no_series(lab):
    emulator = incast(lab, tick_ps=US)
    lab.finish(emulator, until=5_000 * US)
    telemetry = emulator.telemetry()
    quiet = int(emulator.fabric.ports.first[5])  # of the sink, which sends ACKs only
    assert (quiet, 0, 5_000) in rows(telemetry.occupancy)
    totals = dict.fromkeys(range(len(emulator.fabric.ports.node)), 0)
    for port, _, samples in rows(telemetry.occupancy):
        totals[port] += samples
    assert set(totals.values()) == {5_000}
    assert telemetry.series["span_ps"].max() <= 16 * US


def test_every_stop_of_an_incast_is_caused_by_the_port_to_the_receiver(lab):
    emulator = incast(lab)
    lab.finish(emulator)
    telemetry, ports = emulator.telemetry(), emulator.fabric.ports
    stops = rows(telemetry.stops)
    assert len(stops) == telemetry.totals["stops"] > 100
    assert {row[4] for row in stops} == {int(ports.reverse[ports.first[5]])}
    assert {row[0] for row in stops} == {int(ports.first[s]) for s in range(1, 5)}
    assert [row[2] for row in stops] == sorted(row[2] for row in stops)
    for port in {row[0] for row in stops}:
        mine = [row for row in stops if row[0] == port]
        assert all(a[3] <= b[2] for a, b in itertools.pairwise(mine))
        (_, priority, paused, times, longest), *rest = [
            row for row in rows(telemetry.pauses) if row[0] == port
        ]
        assert (priority, rest) == (3, [])
        # A stop takes effect, and ends, one cable and one pause frame later, behind a frame.
        told = sum(until - start for _, _, start, until, _ in mine)
        assert paused == pytest.approx(told, abs=len(mine) * FRAME)
        assert paused == telemetry.ports["paused_ps"][port]
        assert times <= len(mine)
        assert paused / times <= longest <= max(e - s for _, _, s, e, _ in mine) + FRAME


def test_the_cause_of_a_stop_is_where_most_bytes_of_its_group_wait(lab):
    # Sender 1 feeds a port that three others fill; its few frames to the idle host wait nowhere.
    fabric = lab.star(6, buffer=2**21)
    emulator = PacketEmulator(fabric, equal_cost(fabric), PAUSES, FREE, seed=1)
    load = [(s, 5, 400 * 4096, 0) for s in (1, 2, 3, 4)] + [(1, 6, 400 * 4096, 0)]
    emulator.submit(lab.flows(*load))
    lab.finish(emulator)
    ports = fabric.ports
    assert set(emulator.telemetry().stops["cause_port"].tolist()) == {
        int(ports.reverse[ports.first[5]])
    }


def test_a_stop_that_has_not_ended_is_open(lab):
    emulator = incast(lab)
    while not len(emulator.telemetry().stops["port"]):
        emulator.advance(emulator.now_ps + US)
    assert emulator.telemetry().stops["until_ps"].tolist()[-1] == -1


def test_beyond_the_most_stops_are_only_counted_but_none_of_the_last_instant_is_cut_by_chance():
    log = _engine.PauseLog(ports=4, most=2)
    log.begin(port=3, priority=3, cause=9, now_ps=10)
    log.begin(port=2, priority=3, cause=9, now_ps=20)
    log.begin(port=1, priority=3, cause=9, now_ps=20)
    log.begin(port=0, priority=3, cause=9, now_ps=30)
    for port in range(4):
        log.end(port, 3, 40)
    assert log.spans() == [[3, 3, 10, 40, 9], [1, 3, 20, 40, 9]]
    assert log.count == 4


def test_a_nic_is_blocked_while_its_only_flow_is_paused(lab):
    emulator = incast(lab)
    lab.finish(emulator)
    telemetry, first = emulator.telemetry(), emulator.fabric.ports.first
    hops = telemetry.hops
    for flow in range(4):
        own = int(first[flow + 1])
        (paused,) = hops["paused_ps"][(hops["flow"] == flow) & (hops["hop"] == 0)]
        assert telemetry.ports["blocked_ps"][own] == paused > 0
    assert telemetry.ports["blocked_ps"][emulator.path(0)[1]] == 0


def test_a_pause_counts_once_however_often_it_is_refreshed():
    receiver = _engine.PauseReceiver()
    receiver.stop(10, 100)
    receiver.stop(60, 100)
    assert (receiver.times, receiver.longest(70)) == (1, 60)
    receiver.resume(80)
    receiver.stop(90, 100)
    assert (receiver.times, receiver.longest(120), receiver.longest(190)) == (2, 70, 100)


@pytest.mark.parametrize("engine", ["core", "reference"])
def test_a_rate_is_that_of_the_moment_at_which_it_is_read(lab, engine):
    # A collision marks the flow, and one CNP cuts its rate 4 us later, by half of alpha, which has
    # lost 1/256 four times. Then its NIC is stopped for 3 ms, and nothing happens to it: half of
    # what is missing comes back every 300 us all the same.
    fabric = lab.star(3)
    discipline = Discipline(ecn=Threshold(20_000, 20_000, 1.0))
    transport = Transport(preset="hpcc", cnp_interval_ps=10**12)
    storm = Fault("storm", 0, 30 * US, 3_030 * US, direction="back")
    emulator = PacketEmulator(
        fabric, equal_cost(fabric), discipline, transport, seed=1, faults=[storm], engine=engine
    )
    emulator.submit(lab.flows((1, 3, 5_000_000, 0), (2, 3, 200_000, 0)))
    read = []
    for slice_us in range(0, 3_000, 10):
        while len(emulator.advance(slice_us * US).completions):
            pass
        read.append(int(emulator.telemetry().flows["rate_bps"][0]))
    assert emulator.telemetry().flows["cnps"][0] == 1
    rates = [rate for rate, _ in itertools.groupby(read)]
    lasts = [len(list(same)) for _, same in itertools.groupby(read)]
    line, missing = 100 * 10**9, 50 * 10**9 * (255 / 256) ** 4
    assert rates[:4] == pytest.approx(
        [line, line - missing, line - missing / 2, line - missing / 4], rel=1e-5
    )
    assert lasts[1:-1] == [30] * (len(lasts) - 2)
    # When all is acknowledged nothing is sent at any rate: the last one stays.
    lab.finish(emulator, until=4_000 * US)
    last = emulator.telemetry().flows["rate_bps"].tolist()
    emulator.advance(40_000 * US)
    assert emulator.telemetry().flows["rate_bps"].tolist() == last
