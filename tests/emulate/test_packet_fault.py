"""Links down, degraded, lossy or stormed: closed forms, and no byte is lost unaccounted."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulate.discipline import Discipline
from emulate.fault import Fault, FaultError, fault_settings, node_down
from emulate.packet import PacketEmulator
from emulate.transport import Transport
from topo.route import equal_cost

G = 10**9
US = 10**6
MS = 10**9
FRAME = (4096 + 82) * 80
"""A full frame at 100 Gbit/s, ps."""

QUIET = Discipline(ecn="off", headroom=100_000)
FREE = Transport(control="none", rto_ps=5 * MS)


def pair(lab, faults, delay=50_000, gbps=100, transport=FREE):
    """Two hosts and one cable."""
    fabric = lab.chain([gbps * G], [delay])
    return PacketEmulator(
        fabric, equal_cost(fabric), QUIET, transport, seed=1, faults=faults
    ), lab.hosts(fabric)


def star(lab, hosts, faults, discipline=QUIET, transport=FREE, **model):
    """Links in the order of the hosts, each from its host to the switch."""
    fabric = lab.star(hosts, 100, 50_000, **model)
    emulator = PacketEmulator(
        fabric, equal_cost(fabric), discipline, transport, seed=1, faults=faults
    )
    return emulator, lab.hosts(fabric)


def conserved(totals):
    return totals["bytes_sent"] == (
        totals["bytes_delivered"]
        + totals["bytes_discarded"]
        + totals["bytes_dropped"]
        + totals["bytes_in_flight"]
    )


@pytest.mark.parametrize("share", [0.5, 0.25, 0.8])
def test_a_lone_flow_over_a_degraded_link_takes_the_time_of_the_lower_rate(lab, share):
    emulator, (a, b) = pair(lab, [Fault("degraded", 0, 0, share=share)])
    emulator.submit(lab.flows((a, b, 100 * 4096, 0)))
    assert lab.finish(emulator)[0] == 100 * FRAME / share + 50_000


def test_frames_that_start_in_a_degraded_span_are_slow_and_no_others(lab):
    # At half rate from the start of the 11th frame until the end of the 15th.
    span = Fault("degraded", 0, 10 * FRAME, 20 * FRAME, share=0.5)
    emulator, (a, b) = pair(lab, [span])
    emulator.submit(lab.flows((a, b, 100 * 4096, 0)))
    assert lab.finish(emulator)[0] == (95 + 2 * 5) * FRAME + 50_000


@pytest.mark.parametrize(("direction", "factor"), [("forward", 4), ("back", 1)])
def test_the_way_back_is_not_degraded_with_the_way_there(lab, direction, factor):
    emulator, (a, b) = pair(lab, [Fault("degraded", 0, 0, share=0.25, direction=direction)])
    emulator.submit(lab.flows((a, b, 4096, 0)))
    assert lab.finish(emulator)[0] == factor * FRAME + 50_000


def test_a_link_that_is_down_loses_the_frames_that_are_on_it(lab):
    # Frame i is on the wire from i * FRAME to (i + 1) * FRAME + delay. The NAK for the gap reaches
    # the sender after the span, so that every frame that meets it is sent once within it.
    start, end, delay = 10 * FRAME + 50_000, 20 * FRAME, 50_000
    emulator, (a, b) = pair(lab, [Fault("down", 0, start, end, direction="forward")], delay)
    emulator.submit(lab.flows((a, b, 100 * 4096, 0)))
    met = [i for i in range(100) if i * FRAME < end and (i + 1) * FRAME + delay > start]
    assert met == list(range(10, 20))
    lab.finish(emulator)
    telemetry = emulator.telemetry()
    totals = telemetry.totals
    assert totals["drops_fault"] == len(met) == telemetry.flows["lost_packets"][0]
    assert totals["bytes_dropped"] == len(met) * 4096
    assert totals["drops_lossless"] == totals["drops_buffer"] == totals["bytes_in_flight"] == 0
    assert totals["naks"] == 1
    assert telemetry.flows["timeouts"][0] == 0
    assert conserved(totals)


def test_a_moment_of_darkness_loses_the_frames_on_the_wire_and_no_others(lab):
    # One picosecond in the middle of frame 50; with 2 us of cable the six before are on it too.
    moment = 50 * FRAME + FRAME // 2
    delay = 2 * US
    emulator, (a, b) = pair(lab, [Fault("down", 0, moment, moment + 1, direction="forward")], delay)
    emulator.submit(lab.flows((a, b, 100 * 4096, 0)))
    lab.finish(emulator)
    met = [i for i in range(100) if i * FRAME <= moment < (i + 1) * FRAME + delay]
    assert emulator.telemetry().totals["drops_fault"] == len(met) == 7


def test_a_flow_over_a_dead_link_never_ends_and_advance_returns(lab):
    emulator, hosts = star(lab, 3, [Fault("down", 1, 0)])
    emulator.submit(lab.flows((hosts[0], hosts[1], 100_000, 0), (hosts[0], hosts[2], 100_000, 0)))
    done = lab.finish(emulator, until=99 * MS)
    assert set(done) == {1}
    telemetry = emulator.telemetry()
    assert telemetry.flows["finish_ps"][0] == -1
    assert telemetry.flows["timeouts"][0] == 19
    assert telemetry.flows["spurious_timeouts"][0] == 0
    assert telemetry.totals["drops_fault"] == 20 * 25
    assert conserved(telemetry.totals)
    port = int(emulator.fabric.ports.reverse[emulator.fabric.ports.first[hosts[1]]])
    assert telemetry.ports["drops"][port] == telemetry.ports["drops"].sum() == 20 * 25


def test_a_node_without_power_takes_all_its_links_along(lab):
    fabric = lab.leaf_spine(2, 1, 2)
    a, b = lab.hosts(fabric)
    faults = node_down(fabric, fabric.node("spine1").index, 0, 40 * MS)
    assert [f.link for f in faults] == [1, 4]
    emulator = PacketEmulator(fabric, equal_cost(fabric), QUIET, FREE, seed=1, faults=faults)
    flows = lab.flows((a, b, 50_000, 0), (a, b, 50_000, 0))
    flows["path"] = [0, 1]
    emulator.submit(flows)
    finish = lab.finish(emulator)
    assert finish[0] < MS
    assert finish[1] > 40 * MS


def test_go_back_n_over_a_lossy_link_sends_again_what_theory_says(lab):
    # A frame lost at s shows when the next one is in, at s + 2 frames + delay; the NAK takes 86
    # bytes and the delay. Meanwhile the sender starts 3 frames, all sent again, or 4 when the next
    # one is lost too. There is one NAK for a gap: when the frame is lost again, the window of 4
    # fills and the timer sends all of it again, for each further loss.
    p, packets, delay, window = 0.05, 800_000, 50_000, 4
    assert -(-(2 * FRAME + 2 * delay + 86 * 80) // FRAME) == 3
    transport = Transport(control="none", rto_ps=MS, ack_every=1, window=window)
    fault = Fault("lossy", 0, 0, share=p, direction="forward")
    emulator, (a, b) = pair(lab, [fault], delay, transport=transport)
    emulator.submit(lab.flows((a, b, packets * 4096, 0)))
    lab.finish(emulator, until=10**15)
    telemetry = emulator.telemetry()
    again = p / (1 - p)
    cost = 3 + p + window * again
    spread = p * (1 - p) + window**2 * again / (1 - p)
    deviation = (packets * (p * (spread + cost**2) - (p * cost) ** 2)) ** 0.5
    expected = packets * p * cost
    assert 2 * 2.58 * deviation / expected < 0.03
    resent = telemetry.flows["resent_bytes"][0] / 4096
    assert abs(resent - expected) < 2.58 * deviation
    sent = telemetry.totals["bytes_sent"] / 4096
    drops = telemetry.totals["drops_fault"]
    assert abs(drops - p * sent) < 2.58 * (sent * p * (1 - p)) ** 0.5
    assert telemetry.flows["spurious_timeouts"][0] == 0


def test_lost_acknowledgements_cost_no_byte_of_the_way_there(lab):
    emulator, (a, b) = pair(lab, [Fault("lossy", 0, 0, share=0.3, direction="back")])
    emulator.submit(lab.flows((a, b, 1000 * 4096, 0)))
    finish = lab.finish(emulator)[0]
    telemetry = emulator.telemetry()
    assert finish == telemetry.flows["ideal_ps"][0]
    assert telemetry.totals["drops_fault"] > 0
    assert telemetry.totals["bytes_dropped"] == 0
    # An acknowledgement counts for all packets before it; only the last one can be missed.
    assert telemetry.flows["sender_done_ps"][0] > 0


def test_a_storm_stops_its_switch_for_as_long_as_it_lasts(lab):
    # The host's port is idle at both ends of the storm, so that both frames take the same time.
    start, end = 1 * MS, 3 * MS
    emulator, (a, b, c) = star(lab, 3, [Fault("storm", 1, start, end, direction="forward")])
    emulator.submit(lab.flows((a, b, 4096, 0), (a, b, 4096, 2 * MS), (a, c, 4096, 2 * MS)))
    finish = lab.finish(emulator)
    telemetry = emulator.telemetry()
    ports = emulator.fabric.ports
    stopped = int(ports.reverse[ports.first[b]])
    assert telemetry.ports["paused_ps"][stopped] == end - start
    assert telemetry.ports["paused_ps"].sum() == end - start
    # Refreshed at half of 65,535 quanta of 512 bits, 10 ps a bit.
    assert telemetry.ports["pauses"][stopped] == -(-(end - start) // (65_535 * 512 * 10 // 2))
    assert finish[2] - 2 * MS == telemetry.flows["ideal_ps"][2] + FRAME
    # The frame waits at the switch until the XON is obeyed, then has one link to go.
    response = 394 * 512 * 10 - 600_000
    assert finish[1] == end + 84 * 80 + 50_000 + response + FRAME + 50_000 + 600_000


def test_pause_frames_do_not_cross_a_link_that_is_down(lab):
    # With headroom by the rule nothing is lost, unless the XOFF never reaches one of the senders.
    for faults, lost in (([], False), ([Fault("down", 0, 0, direction="back")], True)):
        emulator, hosts = star(lab, 5, faults, discipline=Discipline(ecn="off"), buffer=2 * 2**20)
        emulator.submit(lab.flows(*((s, hosts[4], 4_000_000, 0) for s in hosts[:4])))
        lab.finish(emulator, until=20 * MS)
        totals = emulator.telemetry().totals
        assert (totals["drops_lossless"] > 0) == lost
        assert conserved(totals)


@st.composite
def troubles(draw):
    """A load on a leaf-spine of 2 x 2 hosts and 2 spines, and faults of its 8 links."""
    kinds = ["down", "degraded", "lossy", "storm"]
    faults = []
    for link in draw(st.lists(st.integers(0, 7), max_size=5, unique=True)):
        kind = draw(st.sampled_from(kinds))
        start = draw(st.integers(0, 300 * US))
        faults.append(
            Fault(
                kind,
                link,
                start,
                start + draw(st.integers(1, 400 * US)),
                draw(st.floats(0.01, 0.9)) if kind in ("degraded", "lossy") else None,
                draw(st.sampled_from(["both", "forward", "back"])),
            )
        )
    flow = st.tuples(
        st.integers(0, 3), st.integers(1, 3), st.integers(1, 300_000), st.integers(0, 200 * US)
    )
    return faults, draw(st.lists(flow, min_size=1, max_size=10))


def troubled(lab, trouble):
    faults, load = trouble
    fabric = lab.leaf_spine(2, 2, 2)
    hosts = lab.hosts(fabric)
    emulator = PacketEmulator(
        fabric,
        equal_cost(fabric),
        Discipline(ecn="dctcp"),
        Transport(rto_ps=MS, ack_every=4),
        seed=1,
        faults=faults,
    )
    emulator.submit(lab.flows(*((hosts[a], hosts[(a + d) % 4], n, at) for a, d, n, at in load)))
    return emulator


@settings(max_examples=60, deadline=None)
@given(trouble=troubles(), cuts=st.lists(st.integers(0, 900 * US), max_size=8))
def test_faults_lose_no_byte_unaccounted_and_slices_change_nothing(lab, trouble, cuts):
    whole, sliced = troubled(lab, trouble), troubled(lab, trouble)
    finish = lab.finish(whole, until=10**12)
    parts = {}
    for until in [*sorted(cuts), 10**12]:
        while len(step := sliced.advance(until).completions):
            parts.update({int(r["flow"]): int(r["finish_ps"]) for r in step})
            assert conserved(sliced.telemetry().totals)
        assert conserved(sliced.telemetry().totals)
    # The faults are over within a millisecond: everything arrives in the end.
    assert len(finish) == len(trouble[1])
    assert parts == finish
    a, b = whole.telemetry(), sliced.telemetry()
    assert a.totals == b.totals
    assert lab.blame_adds_up(a.flows)
    assert a.totals["drops_lossless"] == a.totals["bytes_in_flight"] == 0
    assert a.totals["drops_fault"] == a.ports["drops"].sum() == a.flows["lost_packets"].sum()
    if not any(f.kind in ("down", "lossy") for f in trouble[0]):
        assert a.totals["drops_fault"] == 0
    for left, right in ((a.flows, b.flows), (a.ports, b.ports)):
        assert all((left[name] == right[name]).all() for name in left)


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        ({"kind": "flaky"}, "down, degraded"),
        ({"direction": "up"}, "forward or back"),
        ({"from_ps": 5, "until_ps": 5}, "an end after it"),
        ({"from_ps": -1}, "0ms or later"),
        ({"kind": "degraded"}, "left of the rate"),
        ({"kind": "lossy", "share": 1.0}, "below 100%"),
        ({"kind": "degraded", "share": 0.0}, "above 0%"),
        ({"share": 0.5}, "leave it out"),
    ],
)
def test_an_impossible_fault_is_refused_in_one_line(bad, word):
    with pytest.raises(FaultError, match=word) as refusal:
        Fault(**{"kind": "down", "link": 0, "from_ps": 0, **bad})
    assert "\n" not in str(refusal.value)


def test_faults_that_the_fabric_cannot_have_are_refused(lab):
    fabric = lab.star(3)
    with pytest.raises(FaultError, match="has 3 links"):
        fault_settings(fabric, [Fault("down", 3, 0)])
    with pytest.raises(FaultError, match="do not overlap"):
        fault_settings(
            fabric,
            [Fault("lossy", 0, 0, 10, 0.1), Fault("lossy", 0, 9, 20, 0.2, direction="back")],
        )
    with pytest.raises(FaultError, match="1Mbps or more"):
        fault_settings(fabric, [Fault("degraded", 0, 0, share=1e-6)])
    joined = fault_settings(fabric, [Fault("down", 0, 0, 10), Fault("down", 0, 10, 20)])
    assert len(joined) == 2
