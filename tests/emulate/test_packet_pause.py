"""Priority flow control: nothing is lost with enough headroom, and something is without."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulate.discipline import Discipline, DisciplineError
from emulate.headroom import mlx5, response_ps, sonic
from emulate.packet import PacketEmulator
from emulate.transport import Transport, TransportError
from topo.error import KvfabricError
from topo.fabric import Fabric, Switch
from topo.route import equal_cost

G = 10**9
US = 10**6
MS = 10**9
FREE = Transport(control="none", rto_ps=50 * MS)
METRE = 5_050


def incast(
    lab, discipline, *, senders, gbps, metres, size, transport=FREE, buffer=4 * 2**20, back=0
):
    """All send to the last host, which sends so many bytes to each of them."""
    fabric = lab.star(senders + 1, gbps, metres * METRE, buffer=buffer)
    *sources, sink = lab.hosts(fabric)
    emulator = PacketEmulator(fabric, equal_cost(fabric), discipline, transport, seed=1)
    rows = [(s, sink, size, 0) for s in sources] + [(sink, s, back, 0) for s in sources if back]
    emulator.submit(lab.flows(*rows))
    return emulator


def needed(gbps, metres, frames, mtu):
    """What comes in after the decision: two cables, the response, the pause frame, and frames."""
    way = (2 * metres * METRE + response_ps(gbps * G)) * gbps * G // (8 * 10**12)
    return way + 84 + frames * (mtu + 82)


@settings(max_examples=25, deadline=None)
@given(
    senders=st.integers(2, 12),
    gbps=st.sampled_from([100, 200, 400, 800]),
    metres=st.sampled_from([1, 5, 40, 100, 300]),
    alpha=st.sampled_from([1 / 64, 1 / 16, 1 / 4, 1.0]),
    rule=st.sampled_from([("sonic", 1024), ("sonic", 4096), (None, 4096), (None, 9216)]),
    back=st.sampled_from([0, 400_000]),
)
def test_no_incast_loses_a_frame_with_formula_headroom(
    lab, senders, gbps, metres, alpha, rule, back
):
    # The frame that crosses the threshold, kept whole, and the one begun at the sender; where data
    # goes both ways also what comes in while a pause frame waits behind one.
    headroom, mtu = rule
    if headroom is None:
        headroom = needed(gbps, metres, 3 if back else 2, mtu)
    discipline = Discipline(ecn="off", headroom=headroom, alpha=alpha)
    transport = Transport(control="none", mtu=mtu)
    buffer = 2 * 2**20 + 14 * 450_000
    emulator = incast(
        lab, discipline, senders=senders, gbps=gbps, metres=metres, size=1_500_000,
        transport=transport, buffer=buffer, back=back,
    )  # fmt: skip
    lab.finish(emulator)
    telemetry = emulator.telemetry()
    assert telemetry.totals["drops_lossless"] == telemetry.totals["drops_buffer"] == 0
    assert (telemetry.flows["finish_ps"] > 0).all()
    assert telemetry.flows["resent_bytes"].sum() == 0


@pytest.mark.parametrize("metres", [0, 5, 40, 100, 300, 1000])
@pytest.mark.parametrize(
    ("rule", "mtu", "short"),
    [
        (sonic, 4096, set()),
        (sonic, 9216, {100, 200, 400}),
        (mlx5, 4096, {10}),
        (mlx5, 9216, {10, 25}),
    ],
)
def test_the_rules_have_room_for_three_frames_but_at_the_rates_told(metres, rule, mtu, short):
    rates = (10, 25, 40, 50, 100, 200, 400, 800)
    tight = {
        gbps for gbps in rates if rule(gbps * G, metres * METRE, mtu) < needed(gbps, metres, 3, mtu)
    }
    assert tight <= short
    assert metres != 5 or tight == short


@pytest.mark.parametrize(("frames", "lost"), [(2, True), (3, False)])
def test_two_frames_of_headroom_are_too_few_where_data_goes_both_ways(lab, frames, lost):
    discipline = Discipline(ecn="off", alpha=1 / 64, headroom=needed(100, 40, frames, 4096))
    emulator = incast(
        lab, discipline, senders=5, gbps=100, metres=40, size=1_500_000,
        buffer=2 * 2**20 + 14 * 450_000, back=400_000,
    )  # fmt: skip
    lab.finish(emulator)
    assert (emulator.telemetry().totals["drops_lossless"] > 0) == lost


def test_the_short_headroom_of_the_simulators_loses_frames(lab):
    # 3 * C * d at 100G and 40 m is 7.6 kB; the response alone is 2.02 us, 25 kB.
    emulator = incast(
        lab, Discipline(ecn="off", headroom="hpcc"), senders=4, gbps=100, metres=40, size=4_000_000
    )
    lab.finish(emulator, until=2 * 10**12)
    telemetry = emulator.telemetry()
    assert telemetry.totals["drops_lossless"] > 0
    assert telemetry.totals["drops_lossless"] == telemetry.ports["drops"].sum()
    assert telemetry.totals["naks"] > 0
    assert telemetry.flows["resent_bytes"].sum() > 0
    assert (telemetry.flows["finish_ps"] > 0).all()


def test_lost_frames_are_sent_again_until_all_has_arrived(lab):
    lossy = Discipline(pfc=False, ecn="off")
    emulator = incast(lab, lossy, senders=4, gbps=100, metres=10, size=6_000_000)
    lab.finish(emulator, until=10**12)
    telemetry = emulator.telemetry()
    totals, flows = telemetry.totals, telemetry.flows
    assert totals["drops_buffer"] > 0
    assert totals["drops_lossless"] == totals["pause_frames"] == 0
    assert (flows["finish_ps"] > 0).all()
    assert totals["bytes_delivered"] == flows["bytes"].sum()
    assert flows["resent_bytes"].sum() == totals["bytes_sent"] - totals["bytes_delivered"]


def test_a_ring_of_pauses_comes_to_rest_and_advance_still_returns(lab):
    fabric, routes, hosts = lab.ring()
    discipline = Discipline(ecn="off", headroom=40_000, alpha=1 / 8)
    emulator = PacketEmulator(fabric, routes, discipline, FREE, seed=1)
    pairs = [(hosts[i], hosts[(i + 2) % 3]) for i in range(3)]
    emulator.submit(lab.flows(*((s, d, 50_000_000, 0) for s, d in pairs)))
    assert emulator.path(0) == [p for p in emulator.path(0) if p >= 0]
    assert len(emulator.path(0)) == 4
    step = emulator.advance(5 * MS)
    assert (step.now_ps, len(step.completions)) == (5 * MS, 0)
    before = emulator.telemetry()
    assert not len(emulator.advance(40 * MS).completions)
    after = emulator.telemetry()
    assert before.totals["bytes_delivered"] == after.totals["bytes_delivered"] > 0
    assert after.totals["bytes_in_flight"] > 0
    assert after.totals["drops_lossless"] == 0
    # Every link of the ring stays paused: refreshed without end.
    ring_ports = [int(fabric.ports.first[link.a]) + link.a_port for link in fabric.links[:3]]
    waited = after.ports["paused_ps"][ring_ports] - before.ports["paused_ps"][ring_ports]
    assert (waited == 35 * MS).all()
    # The retransmission timers run on while everything stands still.
    emulator.advance(120 * MS)
    flows = emulator.telemetry().flows
    assert (flows["timeouts"] > 0).all()
    assert (flows["spurious_timeouts"] == flows["timeouts"]).all()


def test_a_standing_pause_is_refreshed_at_half_its_quanta(lab):
    fabric, routes, hosts = lab.ring()
    discipline = Discipline(ecn="off", headroom=40_000, alpha=1 / 8)
    emulator = PacketEmulator(fabric, routes, discipline, FREE, seed=1)
    emulator.submit(lab.flows(*((hosts[i], hosts[(i + 2) % 3], 50_000_000, 0) for i in range(3))))
    emulator.advance(5 * MS)
    before = emulator.telemetry().ports["pauses"]
    half = 65_535 * 512 * 10 // 2  # ps at 100G: 10 ps a bit
    emulator.advance(5 * MS + 100 * half)
    after = emulator.telemetry().ports["pauses"]
    ring_ports = [int(fabric.ports.first[link.a]) + link.a_port for link in fabric.links[:3]]
    assert ((after - before)[ring_ports] == 100).all()


def test_paused_time_is_the_time_that_a_sender_lacks(lab):
    emulator = incast(lab, Discipline(ecn="off"), senders=2, gbps=100, metres=10, size=20_000_000)
    lab.finish(emulator)
    telemetry = emulator.telemetry()
    ports = emulator.fabric.ports
    for source in lab.hosts(emulator.fabric)[:2]:
        port = int(ports.first[source])
        busy = int(telemetry.ports["busy_ps"][port])
        paused = int(telemetry.ports["paused_ps"][port])
        assert paused > 0
        assert telemetry.ports["pauses"][port] > 0
        # From the first frame to the last, a NIC at line rate is sending or paused; a frame that
        # had begun when the pause came is in both.
        span = int(telemetry.flows["finish_ps"].max())
        assert busy + paused < span + (4178 * 80) * int(telemetry.ports["pauses"][port])


def test_a_pause_that_is_obeyed_at_once_stops_the_sender_a_flight_and_a_pause_frame_later(lab):
    # Two at 100 Gbit/s into one; what a switch holds over its threshold is what was under way.
    delay = 1_000_000
    peaks = {}
    for response in (0, 2_000_000):
        fabric = lab.star(3, 100, delay, buffer=2 * 2**20, latency=0)
        a, b, sink = lab.hosts(fabric)
        discipline = Discipline(ecn="off", alpha=1 / 32, headroom=100_000, response_ps=response)
        emulator = PacketEmulator(fabric, equal_cost(fabric), discipline, FREE, seed=1)
        emulator.submit(lab.flows((a, sink, 4_000_000, 0), (b, sink, 4_000_000, 0)))
        lab.finish(emulator)
        peaks[response] = max(emulator.telemetry().ports["max_queue_bytes"])
    # Each of the two senders goes on for 2 us more, 25 kB, of which the sink takes half.
    assert peaks[2_000_000] - peaks[0] == pytest.approx(25_000, abs=2 * 4178)


def test_acks_in_a_class_of_their_own_pass_a_pause(lab):
    # b's data is stopped by an incast; the ACKs for a's flow to b leave by the same port.
    late = {}
    for ack_priority in (None, 6):
        fabric = lab.star(6, 100, 50_000, buffer=2 * 2**20)
        a, b, c, d, e, sink = lab.hosts(fabric)
        transport = Transport(control="none", ack_priority=ack_priority)
        discipline = Discipline(ecn="off", alpha=1 / 32)
        emulator = PacketEmulator(fabric, equal_cost(fabric), discipline, transport, seed=1)
        rows = [(s, sink, 10_000_000, 0) for s in (b, c, d, e)]
        emulator.submit(lab.flows(*rows, *((a, b, 4096, t * 100 * US) for t in range(1, 21))))
        lab.finish(emulator)
        flows = emulator.telemetry().flows
        late[ack_priority] = (flows["sender_done_ps"] - flows["finish_ps"])[4:]
    # An ACK alone: two hops, two cables and the pipeline, and at each hop one frame in service.
    alone = 2 * 86 * 80 + 2 * 50_000 + 600_000
    assert max(late[6]) <= alone + 2 * 4178 * 80
    assert max(late[None]) > alone + 2 * 4178 * 80


def test_an_unpaused_class_overtakes_a_paused_one(lab):
    # One source, two classes: the lossless one is stopped by an incast, the other goes on.
    fabric = lab.star(5, 100, 50_000, buffer=2 * 2**20)
    a, b, c, hot, cold = lab.hosts(fabric)
    emulator = PacketEmulator(fabric, equal_cost(fabric), Discipline(ecn="off"), FREE, seed=1)
    emulator.submit(lab.flows(*((s, hot, 10_000_000, 0) for s in (a, b, c))))
    emulator.advance(1 * MS)
    emulator.submit(lab.flows((a, cold, 1_000_000, 1 * MS), priority=0, first=3))
    finish = lab.finish(emulator)
    ideal = emulator.telemetry().flows["ideal_ps"][3]
    assert finish[3] < min(finish[i] for i in range(3))
    assert finish[3] - 1 * MS < 2 * ideal


def test_cnps_pass_a_paused_class(lab):
    emulator = incast(
        lab, Discipline(ecn="dctcp", alpha=1 / 32), senders=4, gbps=100, metres=10, size=8_000_000,
        transport=Transport(),
    )  # fmt: skip
    lab.finish(emulator)
    telemetry = emulator.telemetry()
    assert telemetry.totals["cnps"] > 0
    assert (telemetry.flows["cnps"] > 0).all()
    assert telemetry.totals["drops_lossless"] == 0


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        ({"headroom": "cisco"}, "sonic, mlx5, hpcc"),
        ({"headroom": -1}, "negative"),
        ({"alpha": 0.0}, "above 0"),
        ({"alpha": float("nan")}, "above 0"),
        ({"egress_alpha": 100.0}, "at most 64"),
        ({"alpha": 7e-6}, "write 1/65536"),
        ({"egress_alpha": 2.2e-5}, "write 1/65536"),
        ({"alpha": 1 / 7000}, "write 9/65536"),
        ({"xon_offset_bytes": -1}, "negative"),
        ({"reserve_bytes": -1}, "negative"),
        ({"response_ps": -1}, "negative"),
        ({"ecn": "red"}, "hpcc"),
        ({"marking": "later"}, "enqueue or dequeue"),
        ({"lossless": (8,)}, "0 to 7"),
        ({"weights": (1, 2)}, "eight"),
    ],
)
def test_an_impossible_discipline_is_refused_in_one_line(bad, word):
    with pytest.raises(DisciplineError, match=word) as refusal:
        Discipline(**bad)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("switch", "discipline", "transport", "error", "word"),
    [
        ({"buffer": 100_000}, {}, {}, DisciplineError, "larger buffer"),
        ({"buffer": 4_000}, {"pfc": False}, {}, TransportError, "smaller mtu"),
        (
            {"buffer": 300_000},
            {"headroom": 0, "xon_offset_bytes": 300_000},
            {},
            DisciplineError,
            "not above xon_offset",
        ),
    ],
)
def test_a_switch_too_small_for_its_settings_is_refused(
    lab, switch, discipline, transport, error, word
):
    fabric = lab.star(4, **switch)
    with pytest.raises(error, match=word) as refusal:
        PacketEmulator(
            fabric, equal_cost(fabric), Discipline(**discipline), Transport(**transport), seed=1
        )
    assert "'s'" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_rate_that_picoseconds_cannot_tell_is_refused():
    fabric = Fabric("pair")
    a, b = fabric.add_host("a"), fabric.add_host("b")
    fabric.connect(a, b, rate_bps=10**13)
    with pytest.raises(KvfabricError, match="8Tbps"):
        PacketEmulator(fabric, equal_cost(fabric), seed=1)
    assert Switch().ports == 64
