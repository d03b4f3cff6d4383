"""A flow alone on an idle fabric takes its ideal time, to the picosecond."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from emulate import _engine
from emulate.discipline import Discipline
from emulate.packet import PacketEmulator
from emulate.path import Pathfinder
from emulate.transport import PRESETS, Transport
from topo.fabric import Switch
from topo.family.registry import build
from topo.route import equal_cost

G = 10**9
QUIET = Discipline(ecn="off", headroom=100_000)
RATES = st.sampled_from([10 * G, 25 * G, 100 * G, 400 * G, 800 * G, 3600 * G, 7 * G, 4321 * 10**6])
DELAYS = st.integers(0, 3_000_000)


def recurrence(payloads, rates, delays, issued):
    """Frame by frame and hop by hop: a picosecond count with 16 fractional bits a byte.

    The fraction is carried from a frame to the next one that follows without a pause.
    """
    per_byte = [((8 * 10**12 << 16) + r // 2) // r for r in rates]
    end, rest = [-1] * len(rates), [0] * len(rates)
    at = 0
    for payload, ready in zip(payloads, issued, strict=True):
        at = ready
        for hop, delay in enumerate(delays):
            start = max(at, end[hop])
            if start != end[hop]:
                rest[hop] = 0
            total = (payload + 82) * per_byte[hop] + rest[hop]
            end[hop], rest[hop] = start + (total >> 16), total & 0xFFFF
            at = end[hop] + delay
    return at


def cut(size, descriptors, mtu):
    """Payloads, and the work request that each belongs to."""
    payloads, owners = [], []
    for i in range(descriptors):
        left = size // descriptors + (i < size % descriptors)
        while left > 0:
            payloads.append(min(mtu, left))
            owners.append(i)
            left -= mtu
    return payloads, owners


@given(
    size=st.integers(1, 60_000),
    share=st.integers(1, 12),
    mtu=st.sampled_from([256, 1024, 4096]),
    issue=st.sampled_from([0, 0, 1_000, 700_000]),
    hops=st.lists(st.tuples(RATES, DELAYS), min_size=1, max_size=5),
)
def test_the_ideal_equals_the_recurrence_by_hand(size, share, mtu, issue, hops):
    descriptors = min(share, size)
    rates, delays = zip(*hops, strict=True)
    payloads, owners = cut(size, descriptors, mtu)
    by_hand = recurrence(payloads, rates, delays, [issue * (o + 1) for o in owners])
    for recurrent in (False, True):
        assert by_hand == _engine.ideal_ps(
            bytes=size,
            descriptors=descriptors,
            mtu=mtu,
            issue_ps=issue,
            rates_bps=rates,
            delays_ps=delays,
            recurrence=recurrent,
        )


def test_the_ideal_of_uniform_hops_is_the_closed_form():
    # Sum of (propagation + latency), one frame on every hop after the first, wire bytes / rate.
    size, hops, frame, ps = 10 * 4096, 3, 4096 + 82, 80
    ideal = _engine.ideal_ps(
        bytes=size,
        descriptors=1,
        mtu=4096,
        issue_ps=0,
        rates_bps=[100 * G] * hops,
        delays_ps=[650_000, 650_000, 50_000],
        recurrence=False,
    )
    assert ideal == 1_350_000 + (hops - 1) * frame * ps + 10 * frame * ps


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 200_000),
    share=st.integers(1, 9),
    issue=st.sampled_from([0, 0, 50_000]),
    hops=st.lists(st.tuples(RATES, DELAYS), min_size=1, max_size=5),
    release=st.integers(0, 10**9),
    preset=st.sampled_from([None, *PRESETS]),
)
# 7 Gbit/s is 1142.857 ps a byte: the gap of a rate must not be longer than the frame.
@example(size=200_000, share=1, issue=0, hops=[(7 * G, 0)], release=0, preset="hpcc")
def test_a_lone_flow_takes_the_ideal_time_on_any_chain(
    lab, size, share, issue, hops, release, preset
):
    rates, delays = zip(*hops, strict=True)
    fabric = lab.chain(rates, delays)
    control = {"control": "none"} if preset is None else {"preset": preset}
    transport = Transport(issue_ps=issue, **control)
    emulator = PacketEmulator(fabric, equal_cost(fabric), QUIET, transport, seed=3)
    source, destination = lab.hosts(fabric)
    descriptors = min(share, size)
    emulator.submit(lab.flows((source, destination, size, release), descriptors=descriptors))
    finish = lab.finish(emulator)[0]
    flows = emulator.telemetry().flows
    payloads, owners = cut(size, descriptors, transport.mtu)
    through = [d + 600_000 * (i > 0) for i, d in enumerate(delays)]
    by_hand = recurrence(payloads, rates, through, [issue * (o + 1) for o in owners])
    assert finish - release == by_hand == flows["ideal_ps"][0]
    assert flows["hops"][0] == len(rates)
    assert flows["packets"][0] == len(payloads)


def test_what_was_sent_before_does_not_change_the_time_of_a_lone_flow(lab):
    # 3.6 Tbit/s is 2.22 ps a byte: a remainder left behind would show.
    fabric = lab.chain([3600 * G, 3600 * G], [1_000, 1_000])
    emulator = PacketEmulator(fabric, equal_cost(fabric), QUIET, Transport(control="none"), seed=0)
    a, b = lab.hosts(fabric)
    for number, release in enumerate([0, 10**9, 2 * 10**9]):
        emulator.submit(lab.flows((a, b, 12_345, release), first=number))
    finish = lab.finish(emulator)
    assert {finish[i] - release for i, release in enumerate([0, 10**9, 2 * 10**9])} == {
        emulator.telemetry().flows["ideal_ps"][0]
    }


@pytest.mark.parametrize("engine", ["core", "reference"])
def test_a_transfer_of_twelve_seconds_takes_its_ideal_time(lab, engine):
    # Times may be counted from a new epoch every few seconds, with frames and ACKs in flight.
    rate, frames = 10**7, 3_600
    fabric = lab.chain([rate, rate], [3 * 10**9, 5 * 10**9], latency=0)
    transport = Transport(control="none", ack_every=1, rto_ps=10**12)
    emulator = PacketEmulator(fabric, equal_cost(fabric), QUIET, transport, seed=0, engine=engine)
    a, b = lab.hosts(fabric)
    emulator.submit(lab.flows((a, b, frames * 4096, 0)))
    frame = 4178 * 8 * 10**12 // rate
    assert lab.finish(emulator, until=10**14)[0] == (frames + 1) * frame + 8 * 10**9


def test_a_fast_link_does_not_drift(lab):
    # 450 GB/s is 2.222... ps a byte; rounding each frame down would lose 4.3e-5 of the time.
    size = 40_960_000
    wire = size + 82 * (size // 4096)
    ideal = _engine.ideal_ps(
        bytes=size,
        descriptors=1,
        mtu=4096,
        issue_ps=0,
        rates_bps=[3600 * G],
        delays_ps=[0],
        recurrence=False,
    )
    assert ideal == pytest.approx(wire * 8 / 3.6, rel=4e-6)


def test_each_descriptor_is_a_message_of_its_own(lab):
    fabric = lab.star(2)
    emulator = PacketEmulator(fabric, equal_cost(fabric), QUIET, Transport(control="none"), seed=0)
    a, b = lab.hosts(fabric)
    emulator.submit(lab.flows((a, b, 576 * 50, 0), descriptors=50))
    lab.finish(emulator)
    telemetry = emulator.telemetry()
    assert telemetry.flows["packets"][0] == 50
    out = int(fabric.ports.first[a])
    assert telemetry.ports["tx_bytes"][out] == 50 * (576 + 82)


def test_the_sender_is_done_one_ack_after_the_last_byte(lab):
    fabric = lab.star(2)
    emulator = PacketEmulator(fabric, equal_cost(fabric), QUIET, Transport(control="none"), seed=0)
    a, b = lab.hosts(fabric)
    emulator.submit(lab.flows((a, b, 1_000_000, 0)))
    finish = lab.finish(emulator)[0]
    done = emulator.telemetry().flows["sender_done_ps"][0]
    assert done - finish == 2 * 86 * 80 + 2 * 50_000 + 600_000


@given(seed=st.integers(0, 2**64 - 1), entropy=st.integers(0, 2**32 - 1), path=st.integers(-1, 99))
@settings(max_examples=50, deadline=None)
def test_packets_take_the_path_of_the_fluid(lab, seed, entropy, path):
    fabric = lab.leaf_spine(3, 2, 5)
    routes = equal_cost(fabric)
    a, *_, b = lab.hosts(fabric)
    emulator = PacketEmulator(fabric, routes, QUIET, seed=seed)
    flow = lab.flows((a, b, 1, 0))
    flow["entropy"], flow["path"] = entropy, path
    emulator.submit(flow)
    assert emulator.path(0) == Pathfinder(fabric, routes, seed).path(a, b, entropy, path)


def test_pinned_numbers_count_through_all_equal_paths(lab):
    fabric = lab.leaf_spine(2, 1, 8)
    a, b = lab.hosts(fabric)
    emulator = PacketEmulator(fabric, equal_cost(fabric), QUIET, seed=1)
    flow = lab.flows(*[(a, b, 1, 0)] * 8)
    flow["path"] = range(8)
    emulator.submit(flow)
    assert len({tuple(emulator.path(i)) for i in range(8)}) == 8


def test_hashed_flows_spread_over_all_equal_paths(lab):
    fabric = lab.leaf_spine(2, 1, 8)
    a, b = lab.hosts(fabric)
    emulator = PacketEmulator(fabric, equal_cost(fabric), QUIET, seed=1)
    emulator.submit(lab.flows(*[(a, b, 1, 0)] * 800))
    taken = [emulator.path(i)[1] for i in range(800)]
    counts = [taken.count(port) for port in set(taken)]
    assert len(counts) == 8
    # Eight bins of mean 100: each within five standard deviations of a fair draw.
    assert all(abs(count - 100) < 5 * (800 * 1 / 8 * 7 / 8) ** 0.5 for count in counts)


def test_hashed_flows_use_every_lane_of_two_tiers(lab):
    # Switches that hashed alike would choose alike, and leave half of the cores empty.
    model = Switch(4, 100 * G)
    fabric = build("fat_tree", {"k": 4, "nic_bps": 100 * G, "switch": model})
    a, *_, b = lab.hosts(fabric)
    emulator = PacketEmulator(fabric, equal_cost(fabric), QUIET, seed=1)
    emulator.submit(lab.flows(*[(a, b, 1, 0)] * 800))
    taken = [tuple(emulator.path(i)[1:3]) for i in range(800)]
    counts = [taken.count(lane) for lane in set(taken)]
    assert len(counts) == 4
    assert all(abs(count - 200) < 5 * (800 * 1 / 4 * 3 / 4) ** 0.5 for count in counts)


@pytest.mark.parametrize("window", [1, 2, 5])
@pytest.mark.parametrize("engine", ["core", "reference"])
def test_a_window_sends_so_many_frames_a_round_trip(lab, window, engine):
    # Packet i + W starts when the ACK of packet i is in: a frame, an ACK and two cables later.
    delay, frame, ack, rounds = 10_000_000, 4178 * 80, 86 * 80, 6
    fabric = lab.chain([100 * G], [delay])
    transport = Transport(control="none", window=window, ack_every=1)
    emulator = PacketEmulator(fabric, equal_cost(fabric), QUIET, transport, seed=1, engine=engine)
    a, b = lab.hosts(fabric)
    emulator.submit(lab.flows((a, b, window * rounds * 4096, 0)))
    trip = frame + delay + ack + delay
    assert lab.finish(emulator)[0] == (rounds - 1) * trip + window * frame + delay


@pytest.mark.parametrize("engine", ["core", "reference"])
def test_a_link_on_which_no_ack_comes_in_time_costs_the_packets_of_a_round_trip(lab, engine):
    # At 4 Mbps nine packets start before the timer of 8.03 packet times expires, and none of them
    # asks. The first one, again, does: it is answered two packet times after its start, with all
    # nine, and the third is on its way by then.
    frame = 4178 * 2_000_000
    fabric = lab.chain([4 * 10**6] * 2, [50_000] * 2)
    a, b = lab.hosts(fabric)
    emulator = PacketEmulator(fabric, equal_cost(fabric), QUIET, seed=1, engine=engine)
    emulator.submit(lab.flows((a, b, 12 * 4096, 0)))
    finish = lab.finish(emulator)
    flow = {name: column[0] for name, column in emulator.telemetry().flows.items()}
    assert (flow["timeouts"], flow["spurious_timeouts"]) == (1, 1)
    assert flow["resent_bytes"] == 3 * 4096
    assert finish[0] == flow["ideal_ps"] + 3 * frame
    # However long the flow, nothing else is lost.
    emulator = PacketEmulator(fabric, equal_cost(fabric), QUIET, seed=1, engine=engine)
    emulator.submit(lab.flows((a, b, 500 * 4096, 0)))
    finish = lab.finish(emulator, until=10**14)
    flow = {name: column[0] for name, column in emulator.telemetry().flows.items()}
    assert flow["timeouts"] > 10
    assert flow["resent_bytes"] <= 3 * 4096 * flow["timeouts"]
    assert finish[0] == flow["ideal_ps"] + flow["resent_bytes"] // 4096 * frame
