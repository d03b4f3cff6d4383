"""InfiniBand's credits: nothing is ever lost, and a buffer below the delay sets the throughput."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulate import _engine
from emulate.discipline import Discipline
from emulate.fault import Fault, FaultError
from emulate.packet import PacketEmulator
from emulate.transport import Transport, TransportError
from topo.fabric import Fabric
from topo.route import equal_cost

G = 10**9
US = 10**6
MS = 10**9
FRAME = (4096 + 82) * 80
BLOCKS = 65
"""A full frame without preamble and gap is 4158 bytes: 65 blocks of 64."""
RETURN = 8 * 80
"""A flow control packet at 100 Gbit/s, ps."""


def infiniband(credits=128 * 2**10, **more):
    return Transport(kind="infiniband", control="none", credits=credits, **more)


def run(lab, fabric, transport, *rows, faults=(), **more):
    emulator = PacketEmulator(
        fabric, equal_cost(fabric), transport=transport, seed=1, faults=faults
    )
    emulator.submit(lab.flows(*rows, **more))
    return emulator


@settings(max_examples=40, deadline=None)
@given(
    size=st.integers(1, 200_000),
    hops=st.lists(
        st.tuples(st.sampled_from([25 * G, 100 * G, 400 * G, 7 * G]), st.integers(0, 1 * US)),
        min_size=1,
        max_size=5,
    ),
)
def test_a_lone_flow_with_credits_enough_takes_the_ideal_time(lab, size, hops):
    rates, delays = zip(*hops, strict=True)
    fabric = lab.chain(rates, delays)
    a, b = lab.hosts(fabric)
    # The slowest link fills the buffers before it; all of the flow fits in.
    emulator = run(lab, fabric, infiniband(2 * 2**20), (a, b, size, 0))
    assert lab.finish(emulator)[0] == emulator.telemetry().flows["ideal_ps"][0]
    assert emulator.telemetry().ports["paused_ps"].sum() == 0


@pytest.mark.parametrize("frames", [1, 2, 3, 7])
def test_a_buffer_below_the_round_trip_sets_the_throughput_of_a_link(lab, frames):
    # The receiving host frees a frame when it is in: its credits are back one frame, two delays
    # and a flow control packet after its start. So many frames start in each such period.
    delay, rounds = 3 * US, 50
    fabric = lab.chain([100 * G], [delay])
    a, b = lab.hosts(fabric)
    count = rounds * frames
    transport = infiniband(frames * BLOCKS * 64)
    emulator = run(lab, fabric, transport, (a, b, count * 4096, 0))
    period = FRAME + 2 * delay + RETURN
    assert frames * FRAME < period
    finish = lab.finish(emulator)[0]
    assert finish == (rounds - 1) * period + frames * FRAME + delay
    assert 4096 * count / finish == pytest.approx(frames * 4096 / period, rel=0.05)
    ports = emulator.telemetry().ports
    out = int(fabric.ports.first[a])
    assert ports["paused_ps"][out] == (rounds - 1) * (period - frames * FRAME)
    assert ports["pauses"][out] == rounds - 1


@pytest.mark.parametrize("latency", [0, 600_000])
def test_a_frame_in_the_switch_keeps_its_credits_until_its_last_bit_is_out(lab, latency):
    # One frame time after it came in; the second link pays the pipeline instead. The longer round
    # trip of the two holds.
    delay, rounds = 1 * US, 40
    fabric = lab.star(2, delay=delay, latency=latency)
    a, b = lab.hosts(fabric)
    emulator = run(lab, fabric, infiniband(2 * BLOCKS * 64), (a, b, 2 * rounds * 4096, 0))
    period = FRAME + max(FRAME, latency) + 2 * delay + RETURN
    # The last frame starts one frame after the last period's start; then two links.
    end = (rounds - 1) * period + FRAME + 2 * FRAME + 2 * delay + latency
    assert lab.finish(emulator)[0] == end


def test_credits_beyond_the_round_trip_give_the_full_rate(lab):
    delay = 3 * US
    need = -(-(FRAME + 2 * delay + RETURN) // FRAME)
    fabric = lab.chain([100 * G], [delay])
    a, b = lab.hosts(fabric)
    emulator = run(lab, fabric, infiniband(need * BLOCKS * 64), (a, b, 1000 * 4096, 0))
    assert lab.finish(emulator)[0] == 1000 * FRAME + delay
    short = run(lab, fabric, infiniband((need - 1) * BLOCKS * 64), (a, b, 1000 * 4096, 0))
    assert lab.finish(short)[0] > 1000 * FRAME + delay


def sent(emulator, ports):
    """Wire bytes that some ports have sent."""
    return np.asarray(emulator.telemetry().ports["tx_bytes"], np.int64)[ports]


@pytest.mark.parametrize("n", [2, 4])
def test_credits_make_a_victim_as_slow_as_the_flow_that_it_shares_a_lane_with(lab, n):
    # As under pause: A and n - 1 others fill a receiver, V shares only the uplink with A.
    fabric = Fabric("dumbbell")
    left = fabric.add_switch("a", tier=1, switch=lab.switch())
    right = fabric.add_switch("b", tier=1, switch=lab.switch())
    fabric.connect(left, right, rate_bps=40 * G, delay_ps=50_000)
    names = ["v", "a0", "hot", "cold", *(f"o{i}" for i in range(n - 1))]
    node = {}
    for name in names:
        node[name] = fabric.add_host(name)
        side = left if name in ("v", "a0") else right
        fabric.connect(node[name], side, rate_bps=40 * G, delay_ps=50_000)
    others = [node[f"o{i}"] for i in range(n - 1)]
    pairs = [("v", "cold"), ("a0", "hot")]
    rows = [(node[s], node[d], 10**9, 0) for s, d in pairs]
    rows += [(other, node["hot"], 10**9, 0) for other in others]
    # Large buffers: what is on the cables does not count against what waits.
    emulator = run(lab, fabric, infiniband(2**20), *rows)
    sources = [int(fabric.ports.first[row[0]]) for row in rows]
    emulator.advance(5 * MS)
    before = sent(emulator, sources)
    emulator.advance(15 * MS)
    rates = (sent(emulator, sources) - before) * 8 * 100
    assert rates.tolist() == pytest.approx([40 * G / n] * (n + 1), rel=0.03)
    assert sum(emulator.telemetry().ports["drops"]) == 0
    # The uplink waits for credits for what the victim cannot use; nobody marks or pauses.
    uplink = int(fabric.ports.first[left])
    stalled = emulator.telemetry().ports["paused_ps"][uplink] / (15 * MS)
    assert stalled == pytest.approx(1 - 2 / n, abs=0.05)
    assert emulator.telemetry().totals["pause_frames"] == 0


def test_lanes_have_credits_of_their_own(lab):
    # Three senders fill lane 3 of a receiver; a flow on lane 0 of one of them passes.
    fabric = lab.star(5)
    a, b, c, hot, cold = lab.hosts(fabric)
    emulator = run(lab, fabric, infiniband(), *((s, hot, 10_000_000, 0) for s in (a, b, c)))
    emulator.advance(1 * MS)
    emulator.submit(lab.flows((a, cold, 1_000_000, 1 * MS), priority=0, first=3))
    finish = lab.finish(emulator)
    assert finish[3] - 1 * MS < 2 * emulator.telemetry().flows["ideal_ps"][3]
    assert finish[3] < min(finish[i] for i in range(3))


@settings(max_examples=40, deadline=None)
@given(
    load=st.lists(
        st.tuples(
            st.integers(0, 5), st.integers(1, 5), st.integers(1, 400_000), st.integers(0, 100 * US)
        ),
        min_size=1,
        max_size=14,
    ),
    credits=st.sampled_from([BLOCKS * 64, 10_000, 128 * 2**10]),
    dark=st.booleans(),
    cuts=st.lists(st.integers(0, 500 * US), max_size=6),
)
def test_no_frame_is_dropped_under_any_load_and_no_credit_is_lost(lab, load, credits, dark, cuts):
    fabric = lab.leaf_spine(3, 2, 2)
    hosts = lab.hosts(fabric)
    faults = [Fault("down", 0, 50 * US, 90 * US), Fault("lossy", 7, 0, 200 * US, 0.2)]
    rows = [(hosts[a], hosts[(a + d) % 6], size, at) for a, d, size, at in load]
    transport = infiniband(credits, rto_ps=MS)
    emulator = run(lab, fabric, transport, *rows, faults=faults if dark else ())
    done = {}
    for until in [*sorted(cuts), 10**12]:
        while len(step := emulator.advance(until).completions):
            done.update({int(r["flow"]): int(r["finish_ps"]) for r in step})
        t = emulator.telemetry().totals
        assert t["bytes_sent"] == (
            t["bytes_delivered"] + t["bytes_discarded"] + t["bytes_dropped"] + t["bytes_in_flight"]
        )
    assert len(done) == len(load)
    t = emulator.telemetry().totals
    assert lab.blame_adds_up(emulator.telemetry().flows)
    assert t["drops_buffer"] == t["drops_lossless"] == t["pause_frames"] == 0
    assert dark or t["drops_fault"] == 0
    # Everything is at rest: a flow now finds all credits back and takes its ideal time.
    later = 2 * 10**12
    emulator.submit(lab.flows((hosts[0], hosts[5], 40_960, later), first=len(load)))
    small = credits < 128 * 2**10
    taken = lab.finish(emulator, until=3 * 10**12)[len(load)] - later
    assert small or taken == emulator.telemetry().flows["ideal_ps"][-1]
    whole = run(lab, fabric, transport, *rows, faults=faults if dark else ())
    assert lab.finish(whole, until=10**12) == done


def test_credits_that_meet_a_dark_link_come_back_when_it_is_lit(lab):
    # The way back is dark when the first window's credits are due.
    delay, lit = 3 * US, 100 * US
    fabric = lab.chain([100 * G], [delay])
    a, b = lab.hosts(fabric)
    dark = Fault("down", 0, 1 * US, lit, direction="back")
    transport = infiniband(2 * BLOCKS * 64, rto_ps=50 * MS)
    emulator = run(lab, fabric, transport, (a, b, 4 * 4096, 0), faults=[dark])
    assert lab.finish(emulator)[0] == lit + delay + RETURN + 2 * FRAME + delay


def test_the_lane_counts_its_blocks():
    lane = _engine.CreditSender(blocks=130)
    assert lane.may(now_ps=0, frame=4158)
    lane.take(frame=4158)
    lane.take(frame=4158)
    assert lane.blocks == 0
    assert not lane.may(now_ps=10, frame=66)
    assert not lane.may(now_ps=20, frame=66)
    lane.give(now_ps=30, blocks=1)
    assert lane.stalled
    lane.give(now_ps=40, blocks=1)
    assert (lane.stalled, lane.spent(now_ps=99), lane.stalls) == (False, 30, 1)
    assert lane.may(now_ps=50, frame=66)
    assert not lane.may(now_ps=60, frame=129)


def test_impossible_credits_are_refused_in_one_line(lab):
    fabric = lab.star(4, buffer=2**20)
    for transport, error, word in (
        (infiniband(4159), TransportError, "below the 4160B of one frame"),
        (infiniband(64 * 2**10), TransportError, "8 virtual lanes of 4 ports"),
    ):
        with pytest.raises(error, match=word) as refusal:
            PacketEmulator(fabric, equal_cost(fabric), Discipline(), transport, seed=1)
        assert "\n" not in str(refusal.value)
    with pytest.raises(FaultError, match="no class is under PFC"):
        PacketEmulator(
            fabric,
            equal_cost(fabric),
            Discipline(),
            infiniband(8192),
            seed=1,
            faults=[Fault("storm", 0, 0)],
        )
    with pytest.raises(TransportError, match="not of infiniband"):
        Transport(kind="infiniband")
