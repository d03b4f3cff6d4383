"""Cut-through: a frame goes on when its header is in, if nothing stands in its way."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulate import _engine
from emulate.discipline import Discipline
from emulate.fault import Fault
from emulate.packet import PacketEmulator
from emulate.transport import Transport
from topo.route import equal_cost

G = 10**9
US = 10**6
FRAME = (4096 + 82) * 80
HEADER = (8 + 64) * 80
"""Preamble and 64 bytes at 100 Gbit/s, ps."""

CUT = Discipline(ecn="off", headroom=100_000, cut_through=True)
FREE = Transport(control="none")
RATES = st.sampled_from([10 * G, 25 * G, 100 * G, 400 * G, 800 * G, 3600 * G, 7 * G, 4321 * 10**6])


def run(lab, fabric, discipline, *rows, transport=FREE, faults=(), **more):
    emulator = PacketEmulator(
        fabric, equal_cost(fabric), discipline, transport, seed=1, faults=faults
    )
    emulator.submit(lab.flows(*rows, **more))
    return emulator


def recurrence(payloads, rates, delays):
    """Frame by frame and hop by hop, with 16 fractional bits of a picosecond a byte."""
    per_byte = [((8 * 10**12 << 16) + r // 2) // r for r in rates]
    end, rest = [-1] * len(rates), [0] * len(rates)
    whole = 0
    for payload in payloads:
        whole, header = 0, None
        for hop, delay in enumerate(delays):
            idle = header is not None and end[hop] <= header
            start = max(whole, end[hop])
            if idle and per_byte[hop] >= per_byte[hop - 1]:
                start = header
            if start != end[hop]:
                rest[hop] = 0
            total = (payload + 82) * per_byte[hop] + rest[hop]
            header = start + (72 * per_byte[hop] >> 16) + delay
            end[hop], rest[hop] = start + (total >> 16), total & 0xFFFF
            whole = end[hop] + delay
    return whole


@pytest.mark.parametrize("hops", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("frames", [1, 10])
def test_a_lone_flow_on_equal_rates_pays_a_header_and_not_a_frame_a_hop(lab, hops, frames):
    fabric = lab.chain([100 * G] * hops, [50_000] * hops)
    a, b = lab.hosts(fabric)
    emulator = run(lab, fabric, CUT, (a, b, frames * 4096, 0))
    wired = hops * 50_000 + (hops - 1) * 600_000
    expected = wired + (hops - 1) * HEADER + frames * FRAME
    assert lab.finish(emulator)[0] == expected == emulator.telemetry().flows["ideal_ps"][0]
    stored = run(lab, fabric, Discipline(ecn="off", headroom=100_000), (a, b, frames * 4096, 0))
    assert lab.finish(stored)[0] - expected == (hops - 1) * (FRAME - HEADER)


@settings(max_examples=80, deadline=None)
@given(
    size=st.integers(1, 100_000),
    hops=st.lists(st.tuples(RATES, st.integers(0, 2 * US)), min_size=1, max_size=5),
)
def test_a_lone_flow_on_any_rates_takes_the_time_of_the_recurrence(lab, size, hops):
    rates, delays = zip(*hops, strict=True)
    fabric = lab.chain(rates, delays)
    a, b = lab.hosts(fabric)
    emulator = run(lab, fabric, CUT, (a, b, size, 0))
    payloads = [4096] * (size // 4096) + [size % 4096] * (size % 4096 > 0)
    through = [d + 600_000 * (i > 0) for i, d in enumerate(delays)]
    by_hand = recurrence(payloads, rates, through)
    assert lab.finish(emulator)[0] == by_hand == emulator.telemetry().flows["ideal_ps"][0]


@given(
    size=st.integers(1, 60_000),
    share=st.integers(1, 9),
    rate=RATES,
    delays=st.lists(st.integers(0, 2 * US), min_size=1, max_size=5),
)
def test_the_short_form_on_equal_rates_is_the_recurrence(size, share, rate, delays):
    both = [
        _engine.ideal_ps(
            bytes=size,
            descriptors=min(share, size),
            mtu=1024,
            issue_ps=0,
            rates_bps=[rate] * len(delays),
            delays_ps=delays,
            recurrence=recurrent,
            cut_through=True,
        )
        for recurrent in (False, True)
    ]
    assert both[0] == both[1]


@pytest.mark.parametrize("rate", [10**6, 10**9, 100 * G, 300 * G])
@pytest.mark.parametrize("seconds", [139, 142, 1_000])
def test_the_short_form_holds_for_flows_of_many_seconds(rate, seconds):
    size = rate // 8 * seconds
    wire = size + 82 * -(-size // 9216)
    ideal = _engine.ideal_ps(
        bytes=size,
        descriptors=1,
        mtu=9216,
        issue_ps=0,
        rates_bps=[rate] * 2,
        delays_ps=[0, 0],
        recurrence=False,
        cut_through=True,
    )
    assert ideal == pytest.approx((wire + 72) * 8 * 10**12 / rate, rel=1e-6)


def test_a_faster_egress_stores_the_frame_first(lab):
    fabric = lab.chain([100 * G, 400 * G], [0, 0], latency=0)
    a, b = lab.hosts(fabric)
    emulator = run(lab, fabric, CUT, (a, b, 4096, 0))
    assert lab.finish(emulator)[0] == FRAME + FRAME // 4
    slower = lab.chain([400 * G, 100 * G], [0, 0], latency=0)
    emulator = run(lab, slower, CUT, (a, b, 4096, 0))
    assert lab.finish(emulator)[0] == HEADER // 4 + FRAME


@pytest.mark.parametrize(("link", "cuts"), [(0, False), (1, True)])
def test_a_degraded_rate_counts_as_the_rate(lab, link, cuts):
    # Half the rate on the way in: the egress is too fast. Half on the way out: it may cut.
    fabric = lab.chain([100 * G] * 2, [0, 0], latency=0)
    a, b = lab.hosts(fabric)
    fault = Fault("degraded", link, 0, share=0.5)
    emulator = run(lab, fabric, CUT, (a, b, 4096, 0), faults=[fault])
    assert lab.finish(emulator)[0] == (HEADER + 2 * FRAME if cuts else 3 * FRAME)


def test_a_frame_that_meets_a_busy_egress_waits_until_it_is_whole(lab):
    # The second sender starts a little later: its header meets the first one's frame in service.
    fabric = lab.star(3, delay=0, latency=0)
    a, b, sink = lab.hosts(fabric)
    late = 10 * HEADER
    emulator = run(lab, fabric, CUT, (a, sink, 4096, 0), (b, sink, 4096, late))
    finish = lab.finish(emulator)
    assert finish[0] == HEADER + FRAME
    # Whole at the switch when the first has just left.
    assert finish[1] == late + FRAME + FRAME


def test_a_paused_egress_is_not_cut_through(lab):
    fabric = lab.star(2)
    a, b = lab.hosts(fabric)
    storm = Fault("storm", 1, 0, 100 * US, direction="forward")
    emulator = run(lab, fabric, CUT, (a, b, 4096, 20 * US), faults=[storm])
    response = 394 * 512 * 10 - 600_000
    obeyed = 100 * US + 84 * 80 + 50_000 + response
    assert lab.finish(emulator)[0] == obeyed + FRAME + 650_000


@st.composite
def loads(draw):
    flow = st.tuples(
        st.integers(0, 5), st.integers(1, 5), st.integers(1, 300_000), st.integers(0, 60 * US)
    )
    return draw(st.lists(flow, min_size=1, max_size=12))


@settings(max_examples=50, deadline=None)
@given(
    load=loads(),
    cuts=st.lists(st.integers(0, 400 * US), max_size=8),
    gbps=st.sampled_from([25, 100, 400]),
    credits=st.booleans(),
    faulty=st.booleans(),
)
def test_cut_through_conserves_bytes_and_keeps_every_law(lab, load, cuts, gbps, credits, faulty):
    fabric = lab.leaf_spine(3, 2, 2, gbps=gbps)
    hosts = lab.hosts(fabric)
    faults = [Fault("lossy", 3, 0, 300 * US, 0.05), Fault("degraded", 6, 0, 90 * US, 0.5)]
    transport = (
        Transport(kind="infiniband", control="none", rto_ps=10**9, credits=20_000)
        if credits
        else Transport(rto_ps=10**9, ack_every=2)
    )
    rows = [(hosts[a], hosts[(a + d) % 6], size, at) for a, d, size, at in load]

    def fresh():
        discipline = Discipline(ecn="dctcp", alpha=1 / 16, cut_through=True)
        used = faults if faulty else ()
        return run(lab, fabric, discipline, *rows, transport=transport, faults=used)

    whole, sliced = fresh(), fresh()
    finish = lab.finish(whole, until=10**12)
    parts = {}
    for until in [*sorted(cuts), 10**12]:
        while len(step := sliced.advance(until).completions):
            parts.update({int(r["flow"]): int(r["finish_ps"]) for r in step})
        t = sliced.telemetry().totals
        assert t["bytes_sent"] == (
            t["bytes_delivered"] + t["bytes_discarded"] + t["bytes_dropped"] + t["bytes_in_flight"]
        )
    assert parts == finish
    assert len(finish) == len(load)
    telemetry = whole.telemetry()
    assert telemetry.totals == sliced.telemetry().totals
    assert telemetry.totals["drops_lossless"] == telemetry.totals["bytes_in_flight"] == 0
    assert lab.blame_adds_up(telemetry.flows)
    if not faulty:
        # All rates are equal: nothing beats the ideal.
        assert all(
            finish[i] - at >= telemetry.flows["ideal_ps"][i] for i, (*_, at) in enumerate(load)
        )
