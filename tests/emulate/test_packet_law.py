"""Laws of the packet emulator: bytes are conserved, slices change nothing, a seed repeats."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulate.discipline import Discipline
from emulate.packet import OBSERVATION_TICK_PS, FlowError, PacketEmulator
from emulate.transport import Transport
from topo.error import KvfabricError
from topo.fabric import Fabric
from topo.route import equal_cost
from traffic.emulator import FLOW

G = 10**9
US = 10**6

BLAME = [
    f"blame_{part}_ps"
    for part in [
        "wire",
        "queued",
        "paused",
        "source",
        "issue",
        "pacing",
        "window",
        "retransmission",
    ]
]
DISCIPLINES = [
    Discipline(ecn="off"),
    Discipline(ecn="dctcp", alpha=1 / 8),
    Discipline(ecn="dctcp", marking="dequeue", lossless=(3, 4), weights=(1, 2, 3, 4, 5, 6, 7, 8)),
    Discipline(pfc=False, ecn="hpcc", egress_alpha=1 / 8),
    Discipline(ecn="off", headroom="hpcc", alpha=1 / 32),
]


@st.composite
def cases(draw):
    """A small fabric of mixed rates, a discipline, a transport and a load."""
    leaves, per_leaf, spines = draw(
        st.tuples(st.integers(1, 3), st.integers(2, 3), st.integers(1, 2))
    )
    rates = st.sampled_from([25 * G, 100 * G, 400 * G, 3600 * G // 9])
    delays = st.sampled_from([0, 25_000, 1_000_000])
    buffer = draw(st.sampled_from([3, 16])) * 2**20
    edges = [(draw(rates), draw(delays)) for _ in range(leaves * (spines + per_leaf))]
    discipline = draw(st.sampled_from(DISCIPLINES))
    transport = Transport(
        control=draw(st.sampled_from(["none", "dcqcn"])),
        preset=draw(st.sampled_from(["connectx", "hpcc"])),
        ack_priority=draw(st.sampled_from([None, 5])),
        ack_every=draw(st.sampled_from([1, 16])),
        window=draw(st.sampled_from([0, 32])),
        issue_ps=draw(st.sampled_from([0, 0, 400_000])),
        issuers=draw(st.sampled_from([0, 1])),
        **draw(st.sampled_from([{}, {}, {"send_queue": 2, "ack_message": True}])),
        mtu=draw(st.sampled_from([1024, 4096])),
        rto_ps=2_000 * US,
    )
    count = leaves * per_leaf
    pairs = st.tuples(st.integers(0, count - 1), st.integers(1, count - 1))
    flow = st.tuples(
        pairs, st.integers(1, 400_000), st.integers(0, 100 * US), st.sampled_from([0, 3])
    )
    return (
        leaves,
        per_leaf,
        spines,
        buffer,
        edges,
        discipline,
        transport,
        draw(st.lists(flow, min_size=1, max_size=14)),
    )


def build(lab, case, seed=1):
    leaves, per_leaf, spines, buffer, edges, discipline, transport, load = case
    fabric = Fabric("leaf_spine")
    model = lab.switch(buffer=buffer)
    tops = [fabric.add_switch(f"t{s}", tier=2, switch=model) for s in range(spines)]
    left = iter(edges)
    for leaf in range(leaves):
        node = fabric.add_switch(f"l{leaf}", tier=1, switch=model)
        ends = [*tops, *(fabric.add_host(f"h{leaf}.{i}") for i in range(per_leaf))]
        for end in ends:
            rate, delay = next(left)
            fabric.connect(node, end, rate_bps=rate, delay_ps=delay)
    hosts = lab.hosts(fabric)
    rows = [
        (hosts[a], hosts[(a + d) % len(hosts)], size, release) for (a, d), size, release, _ in load
    ]
    table = lab.flows(*rows)
    table["priority"] = [priority for *_, priority in load]
    table["descriptors"] = [1 + size // 20_000 for _, size, *_ in load]
    emulator = PacketEmulator(fabric, equal_cost(fabric), discipline, transport, seed=seed)
    emulator.submit(table)
    return emulator


def same(a, b):
    assert a.totals == b.totals
    tables = ("flows", "ports", "hops", "pauses", "stops", "occupancy", "series")
    for left, right in ((getattr(a, name), getattr(b, name)) for name in tables):
        assert left.keys() == right.keys()
        for name in left:
            assert (left[name] == right[name]).all(), name


@settings(max_examples=100, deadline=None)
@given(case=cases())
def test_blame_parts_the_time_of_every_flow_to_the_picosecond(lab, case):
    emulator = build(lab, case)
    lab.finish(emulator)
    telemetry = emulator.telemetry()
    flows, hops = telemetry.flows, telemetry.hops
    parts = np.array([flows[name] for name in BLAME])
    assert (parts >= 0).all()
    assert (parts.sum(axis=0) == flows["finish_ps"] - flows["release_ps"]).all()
    # Every frame is on the wire for no longer than the whole flow alone.
    assert (flows["blame_wire_ps"] <= flows["ideal_ps"]).all()
    assert (hops["queued_ps"] >= 0).all()
    assert (hops["paused_ps"] >= 0).all()
    for number in flows["flow"]:
        mine = hops["flow"] == number
        path = emulator.path(int(number))
        assert [path[hop] for hop in hops["hop"][mine]] == list(hops["port"][mine])
        assert hops["paused_ps"][mine].sum() == flows["blame_paused_ps"][number]
        behind = mine & (hops["hop"] > 0)
        assert hops["queued_ps"][behind].sum() == flows["blame_queued_ps"][number]


@settings(max_examples=60, deadline=None)
@given(case=cases(), instants=st.lists(st.integers(0, 400 * US), max_size=8))
def test_bytes_are_conserved_at_every_moment(lab, case, instants):
    emulator = build(lab, case)
    ends = [*sorted(instants), 10**12]
    for until in ends:
        while len(emulator.advance(until).completions):
            pass
        telemetry = emulator.telemetry()
        t = telemetry.totals
        assert t["bytes_sent"] == (
            t["bytes_delivered"] + t["bytes_discarded"] + t["bytes_dropped"] + t["bytes_in_flight"]
        )
        for table in (telemetry.flows, telemetry.ports):
            for name, column in table.items():
                open_ended = name in ("finish_ps", "sender_done_ps", "last_mark_port", *BLAME)
                assert (column >= (-1 if open_ended else 0)).all(), name
    flows = telemetry.flows
    assert (flows["finish_ps"] >= 0).all()
    assert t["bytes_delivered"] == flows["bytes"].sum()
    assert t["bytes_in_flight"] == 0
    assert (flows["finish_ps"] - flows["release_ps"] >= flows["ideal_ps"]).all()
    assert (flows["sender_done_ps"] >= flows["finish_ps"]).all()
    if case[5].pfc and case[5].headroom == "sonic":
        assert t["drops_lossless"] == 0


@settings(max_examples=40, deadline=None)
@given(case=cases(), cuts=st.lists(st.integers(0, 300 * US), max_size=30))
def test_slicing_the_advance_changes_no_byte(lab, case, cuts):
    whole, sliced = build(lab, case), build(lab, case)
    finish = lab.finish(whole, until=10**11)
    parts = {}
    for until in [*sorted(cuts), 10**11]:
        while len(step := sliced.advance(until).completions):
            parts.update({int(r["flow"]): int(r["finish_ps"]) for r in step})
    assert parts == finish
    same(whole.telemetry(), sliced.telemetry())
    for name, column in whole.observe().items():
        assert (column == sliced.observe()[name]).all(), name


@settings(max_examples=15, deadline=None)
@given(case=cases(), order=st.randoms(use_true_random=False))
def test_the_order_of_submission_changes_no_byte(lab, case, order):
    # The same flows, handed over in another order and in pieces.
    forward, shuffled = build(lab, case), build(lab, (*case[:7], []))
    table = flows_of(lab, forward, case)
    rows = list(range(len(table)))
    order.shuffle(rows)
    for row in rows:
        shuffled.submit(table[row : row + 1])
    assert lab.finish(forward, until=10**11) == lab.finish(shuffled, until=10**11)
    same(forward.telemetry(), shuffled.telemetry())


def flows_of(lab, emulator, case):
    hosts = lab.hosts(emulator.fabric)
    load = case[7]
    table = lab.flows(
        *((hosts[a], hosts[(a + d) % len(hosts)], size, at) for (a, d), size, at, _ in load)
    )
    table["priority"] = [priority for *_, priority in load]
    table["descriptors"] = [1 + size // 20_000 for _, size, *_ in load]
    return table


def busy(lab, seed):
    fabric = lab.leaf_spine(3, 4, 2)
    hosts = lab.hosts(fabric)
    rng = np.random.default_rng(3)
    rows = [
        (hosts[a], hosts[b], int(rng.integers(10_000, 3_000_000)), int(rng.integers(0, 200 * US)))
        for a in range(12)
        for b in rng.permutation(12)[:4].tolist()
        if a != b
    ]
    discipline = Discipline(ecn="dctcp")
    emulator = PacketEmulator(fabric, equal_cost(fabric), discipline, Transport(), seed=seed)
    emulator.submit(lab.flows(*rows))
    lab.finish(emulator, until=10**12)
    return emulator.telemetry()


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(lab):
    same(busy(lab, 5), busy(lab, 5))
    assert (busy(lab, 5).flows["finish_ps"] != busy(lab, 6).flows["finish_ps"]).any()


def test_advance_returns_all_completions_of_the_first_instant_in_flow_order(lab):
    fabric = lab.star(9)
    hosts = lab.hosts(fabric)
    emulator = PacketEmulator(fabric, equal_cost(fabric), seed=1)
    emulator.submit(lab.flows(*((hosts[i], hosts[i + 4], 5_000, 70) for i in (3, 1, 0, 2))))
    step = emulator.advance(10**12)
    assert step.completions["flow"].tolist() == [0, 1, 2, 3]
    assert step.completions["handoff"].tolist() == [0, 1, 2, 3]
    assert set(step.completions["finish_ps"].tolist()) == {step.now_ps}
    assert not len(emulator.advance(10**12).completions)
    assert emulator.now_ps == 10**12


def test_completions_may_lead_to_new_flows_at_the_same_instant(lab):
    fabric = lab.star(3)
    a, b, c = lab.hosts(fabric)
    emulator = PacketEmulator(fabric, equal_cost(fabric), seed=1)
    emulator.submit(lab.flows((a, b, 100_000, 0)))
    now = emulator.advance(10**12).now_ps
    emulator.submit(lab.flows((b, c, 100_000, now), first=1))
    finish = lab.finish(emulator)
    # The ACK of the last packet is on its way out of the same port: 86 bytes come first.
    assert finish[1] - now == emulator.telemetry().flows["ideal_ps"][1] + 86 * 80


def test_observation_shows_the_last_tick_only(lab):
    fabric = lab.star(3, buffer=2**30)
    a, b, sink = lab.hosts(fabric)
    discipline, free = Discipline(ecn="off"), Transport(control="none")
    emulator = PacketEmulator(fabric, equal_cost(fabric), discipline, free, seed=1)
    emulator.submit(lab.flows((a, sink, 50_000_000, 0), (b, sink, 50_000_000, 0)))
    emulator.advance(OBSERVATION_TICK_PS - 1)
    assert emulator.observe()["queued_bytes"].sum() == 0
    emulator.advance(50 * OBSERVATION_TICK_PS + 777)
    seen = emulator.observe()
    port = int(fabric.ports.reverse[fabric.ports.first[sink]])
    # 200 Gbit/s in, 100 out: 12.5 kB wait more for each microsecond, from the first frame on.
    first = 2 * (4178 * 80) / US
    assert seen["queued_bytes"][port] == pytest.approx(12_500 * (500 - first), abs=3 * 4178)
    assert seen["utilisation"][port] == pytest.approx(1.0)
    assert seen["utilisation"][int(fabric.ports.first[a])] == pytest.approx(1.0)
    lab.finish(emulator)
    emulator.advance(emulator.now_ps + 10**9)
    assert emulator.observe()["utilisation"].sum() == 0


def test_link_counters_add_up(lab):
    telemetry = busy(lab, 1)
    hops = (telemetry.flows["hops"] * telemetry.flows["packets"]).sum()
    assert telemetry.totals["packet_hops"] >= hops
    assert telemetry.ports["tx_packets"].sum() >= hops
    assert telemetry.ports["marked"].sum() >= telemetry.flows["marked"].sum() > 0
    # 100 Gbit/s is 80 ps a byte.
    assert (telemetry.ports["tx_bytes"] * 80 == telemetry.ports["busy_ps"]).all()


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("source", 0, "not a host"),
        ("destination", 99, "not a host"),
        ("destination", -1, "not a host"),
        ("bytes", 0, "at least 1"),
        ("descriptors", 0, "descriptors"),
        ("descriptors", 10**9, "descriptors"),
        ("priority", 8, "0 to 7"),
        ("release_ps", -5, "present time"),
        ("flow", -1, "dense"),
        ("flow", 2**40, "dense"),
    ],
)
def test_a_flow_that_cannot_be_is_refused_in_one_line(lab, field, value, word):
    fabric = lab.star(3)
    a, b, _ = lab.hosts(fabric)
    emulator = PacketEmulator(fabric, equal_cost(fabric), seed=1)
    flow = lab.flows((a, b, 1000, 0))
    flow[field] = value
    with pytest.raises(FlowError, match=word) as refusal:
        emulator.submit(flow)
    assert "\n" not in str(refusal.value)
    assert len(emulator.telemetry().flows["flow"]) == 0


def test_a_flow_to_itself_or_twice_or_in_another_shape_is_refused(lab):
    fabric = lab.star(3)
    a, b, _ = lab.hosts(fabric)
    emulator = PacketEmulator(fabric, equal_cost(fabric), seed=1)
    with pytest.raises(FlowError, match="its source"):
        emulator.submit(lab.flows((a, a, 1000, 0)))
    emulator.submit(lab.flows((a, b, 1000, 0)))
    with pytest.raises(FlowError, match="twice"):
        emulator.submit(lab.flows((a, b, 1000, 0)))
    with pytest.raises(FlowError, match="FLOW"):
        emulator.submit(np.zeros(1, np.dtype([("flow", np.int64)])))
    emulator.submit(np.zeros(0, FLOW))
    with pytest.raises(FlowError, match="not submitted"):
        emulator.path(7)


def test_a_missing_route_names_both_ends_and_takes_nothing(lab):
    fabric = Fabric("islands")
    ends = [fabric.add_host(f"h{i}") for i in range(4)]
    for left, right in ((0, 1), (2, 3)):
        fabric.connect(ends[left], ends[right], rate_bps=100 * G)
    emulator = PacketEmulator(fabric, equal_cost(fabric), seed=1)
    with pytest.raises(FlowError, match="'h0' to 'h2'"):
        emulator.submit(lab.flows((ends[0], ends[1], 10, 0), (ends[0], ends[2], 10, 0)))
    emulator.submit(lab.flows((ends[0], ends[1], 10, 0)))
    assert len(lab.finish(emulator)) == 1


def test_time_never_goes_back(lab):
    fabric = lab.star(3)
    emulator = PacketEmulator(fabric, equal_cost(fabric), seed=1)
    emulator.advance(1000)
    with pytest.raises(KvfabricError, match="never goes back"):
        emulator.advance(999)
    with pytest.raises(KvfabricError, match="seed"):
        PacketEmulator(fabric, equal_cost(fabric), seed=-1)
    with pytest.raises(KvfabricError, match="tick"):
        PacketEmulator(fabric, equal_cost(fabric), seed=1, tick_ps=0)
