"""The fast engine and the reference give the same bytes, whatever is thrown at both."""

from dataclasses import dataclass, field, replace

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from emulate.discipline import Discipline, Watchdog
from emulate.fault import Fault
from emulate.marking import Threshold
from emulate.packet import PacketEmulator
from emulate.transport import Transport
from topo.error import KvfabricError
from topo.fabric import Fabric
from topo.route import Routes, equal_cost

G = 10**9
US = 10**6
END = 10**11


@dataclass
class Case:
    """A fabric, its settings and a load of (source, hops to the destination, bytes, release)."""

    fabric: Fabric
    discipline: Discipline
    transport: Transport
    table: NDArray[np.void]
    seed: int = 1
    cuts: list[int] = field(default_factory=list)
    late: list[bool] = field(default_factory=list)
    looks: list[bool] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    routes: Routes | None = None


@st.composite
def fabrics(draw, lab):
    leaves, per_leaf, spines = draw(
        st.tuples(st.integers(1, 3), st.integers(2, 3), st.integers(1, 2))
    )
    rates = st.sampled_from([25 * G, 100 * G, 400 * G, 3600 * G])
    delays = st.sampled_from([0, 25_000, 1_000_000])
    latency = st.sampled_from([0, 300_000, 600_000, 5_000_000])
    buffer = draw(st.sampled_from([1, 3, 16])) * 2**20
    fabric = Fabric("leaf_spine")
    tops = [
        fabric.add_switch(f"t{s}", tier=2, switch=lab.switch(buffer, draw(latency)))
        for s in range(spines)
    ]
    for leaf in range(leaves):
        node = fabric.add_switch(f"l{leaf}", tier=1, switch=lab.switch(buffer, draw(latency)))
        for end in [*tops, *(fabric.add_host(f"h{leaf}.{i}") for i in range(per_leaf))]:
            fabric.connect(node, end, rate_bps=draw(rates), delay_ps=draw(delays))
    return fabric


def discipline(watched, pfc, **settings):
    """With a quick watchdog where there is something to watch."""
    watchdog = Watchdog(detect_ps=15 * US, restore_ps=30 * US) if watched and pfc else None
    return Discipline(pfc=pfc, watchdog=watchdog, **settings)


def disciplines():
    mixed = (1, 2, 3, 4, 5, 6, 7, 8)
    return st.builds(
        discipline,
        watched=st.booleans(),
        pfc=st.booleans(),
        headroom=st.sampled_from([4096, 60_000]),
        alpha=st.sampled_from([1.0, 1 / 8, 1 / 64]),
        egress_alpha=st.sampled_from([1.0, 1 / 64]),
        xon_offset_bytes=st.sampled_from([0, 3072]),
        reserve_bytes=st.sampled_from([0, 4096]),
        ecn=st.sampled_from(["off", "dctcp", "hpcc"]),
        marking=st.sampled_from(["enqueue", "dequeue"]),
        lossless=st.sampled_from([(3,), (3, 4)]),
        strict=st.sampled_from([(6,), (4, 6), ()]),
        cut_through=st.booleans(),
        deadlock_ps=st.sampled_from([5 * US, 20 * US, 10**10]),
        weights=st.sampled_from([(1,) * 8, mixed]),
    )


@st.composite
def transports(draw):
    kind = draw(st.sampled_from(["rocev2", "rocev2", "rocev2", "infiniband"]))
    send_queue = draw(st.sampled_from([0, 0, 0, 2]))
    return Transport(
        kind=kind,
        control="none" if kind == "infiniband" else draw(st.sampled_from(["none", "dcqcn"])),
        preset=draw(st.sampled_from(["connectx", "connectx_2mb", "paper", "hpcc"])),
        mtu=draw(st.sampled_from([1024, 4096])),
        ack_every=draw(st.sampled_from([1, 3, 16])),
        window=draw(st.sampled_from([0, 16, 64])),
        rto_ps=draw(st.sampled_from([50 * US, 2_000 * US])),
        issue_ps=draw(st.sampled_from([0, 0, 300_000])),
        issuers=draw(st.sampled_from([0, 1])),
        send_queue=send_queue,
        ack_message=send_queue > 0 or draw(st.booleans()),
        ack_priority=draw(st.sampled_from([None, None, 6])),
        credits=draw(st.sampled_from([4_224, 9_600, 30_016])),
        drain_bps=0 if kind == "infiniband" else draw(st.sampled_from([0, 0, 9 * G, 70 * G])),
        receive_buffer=draw(st.sampled_from([2**18, 2**20])),
    )


def faults(links):
    """None for most, else a few on any links."""
    one = st.tuples(
        st.sampled_from(["down", "degraded", "lossy", "storm"]),
        st.integers(0, links - 1),
        st.integers(0, 100 * US),
        st.integers(1, 200 * US),
        st.sampled_from(["both", "forward", "back"]),
    )
    share = {"degraded": 0.3, "lossy": 0.1}
    fault = one.map(lambda f: Fault(f[0], f[1], f[2], f[2] + f[3], share.get(f[0]), f[4]))
    return st.one_of(st.just([]), st.lists(fault, max_size=4))


@st.composite
def cases(draw, lab):
    fabric = lab.tangle(draw) if draw(st.booleans()) else draw(fabrics(lab))
    hosts = lab.hosts(fabric)
    count = len(hosts)
    size = st.one_of(st.integers(1, 400_000), st.sampled_from([1, 4096, 8192, 65536]))
    at = st.one_of(st.integers(0, 100 * US), st.sampled_from([0, 40 * US]))
    flow = st.tuples(st.integers(0, count - 1), st.integers(1, count - 1), size, at)
    load = draw(st.lists(flow, min_size=1, max_size=14))
    table = lab.flows(*((hosts[a], hosts[(a + d) % count], b, t) for a, d, b, t in load))
    for row in table:
        row["priority"] = draw(st.sampled_from([0, 3, 3, 4]))
        row["descriptors"] = min(draw(st.sampled_from([1, 1, 7])), int(row["bytes"]))
    transport = draw(transports())
    discipline = draw(disciplines())
    if transport.drain_bps:
        discipline = replace(discipline, cut_through=False)
    return Case(
        fabric,
        discipline,
        transport,
        table,
        draw(st.integers(0, 2**64 - 1)),
        sorted(draw(st.lists(st.integers(0, 300 * US), max_size=12))),
        [draw(st.booleans()) for _ in load],
        draw(st.lists(st.booleans(), max_size=5)),
        draw(faults(len(fabric.links))),
    )


TABLES = ("flows", "ports", "hops", "pauses", "stops", "innocence", "occupancy", "series")


def play(case, end=END, **engine):
    """All that can be seen: completions and link state in slices, late flows, the tables."""
    emulator = PacketEmulator(
        case.fabric, case.routes or equal_cost(case.fabric), case.discipline, case.transport,
        seed=case.seed, faults=case.faults, **engine,
    )  # fmt: skip
    late = np.array(case.late, np.bool_) if case.late else np.zeros(len(case.table), np.bool_)
    emulator.submit(case.table[~late])
    waiting = case.table[late].copy()
    seen = []
    for until in [*case.cuts, max([end, *case.cuts])]:
        while True:
            step = emulator.advance(until)
            done = step.completions["flow"].tolist()
            seen.append((step.now_ps, done))
            look = bool(case.looks) and case.looks[len(seen) % len(case.looks)]
            if len(waiting):
                # What a serving loop does: a completion, or a look, leads to the next flow.
                waiting["release_ps"] = np.maximum(waiting["release_ps"], step.now_ps)
                emulator.submit(waiting[:1])
                waiting = waiting[1:]
            elif not done:
                break
            if look:
                found = emulator.telemetry()
                seen.append({"totals": found.totals})
                tables = [getattr(found, name) for name in TABLES]
                seen += [{n: c.tolist() for n, c in table.items()} for table in tables]
        seen.append({name: column.tolist() for name, column in emulator.observe().items()})
        seen[-1]["deadlocks"] = emulator.deadlocks()
    return seen, emulator.telemetry()


def assert_same(one, other):
    assert one[0] == other[0]
    assert one[1].totals == other[1].totals
    for table in TABLES:
        left, right = getattr(one[1], table), getattr(other[1], table)
        assert left.keys() == right.keys()
        for name in left:
            assert (left[name] == right[name]).all(), name


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_both_engines_give_the_same_bytes(lab, data):
    case = data.draw(cases(lab))
    try:
        reference = play(case, engine="reference")
    except KvfabricError:  # settings that no engine takes
        return
    assert_same(reference, play(case, engine="core"))
    assert_same(reference, play(case, engine="core", threads=data.draw(st.integers(2, 3))))


def test_a_port_is_blocked_again_when_a_frame_has_passed_those_that_are_stopped(lab):
    fabric = lab.leaf_spine(1, 3, 1)
    first, second, last = lab.hosts(fabric)
    small = [(second, last, 1, at * 700_000) for at in range(60)]
    table = lab.flows((first, last, 400_000, 0), *small)
    table["priority"][1:] = 0
    case = Case(
        fabric,
        Discipline(headroom=60_000, lossless=(3,)),
        Transport(control="none", drain_bps=9 * G, receive_buffer=2**18),
        table,
        cuts=list(range(40 * US, 44 * US, 10_000)),
        looks=[True],
    )
    reference = play(case, engine="reference")
    blocked = [max(seen["blocked_ps"]) for seen in reference[0] if "blocked_ps" in seen]
    assert len(set(blocked)) > 20
    assert_same(reference, play(case, engine="core"))


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_both_engines_tell_the_same_deadlocks_of_a_ring(lab, data):
    fabric, routes, hosts = lab.ring()
    lanes = data.draw(st.booleans())
    aside = st.tuples(st.integers(0, 2), st.integers(1, 400_000))
    long = st.tuples(st.integers(1_000_000, 3_000_000), st.integers(0, 20 * US))
    rows = [(hosts[i], hosts[(i + 2) % 3], *data.draw(long)) for i in range(3)]
    rows += [
        (hosts[a], hosts[(a + 1) % 3], n, 0) for a, n in data.draw(st.lists(aside, max_size=6))
    ]
    case = Case(
        fabric,
        Discipline(
            ecn="off",
            headroom=40_000,
            alpha=data.draw(st.sampled_from([1 / 4, 1 / 8])),
            lossless=(3, 4),
            deadlock_ps=data.draw(st.sampled_from([5 * US, 20 * US, 60 * US])),
            cut_through=data.draw(st.booleans()),
            watchdog=None if lanes else data.draw(st.sampled_from([None, Watchdog(90 * US, US)])),
        ),
        Transport(
            kind="infiniband" if lanes else "rocev2",
            control="none",
            rto_ps=2_000 * US,
            credits=data.draw(st.sampled_from([8_448, 12_480])),
        ),
        lab.flows(*rows),
        cuts=sorted(data.draw(st.lists(st.integers(0, 500 * US), max_size=6))),
        routes=routes,
    )
    for row in case.table:
        row["priority"] = data.draw(st.sampled_from([3, 3, 3, 4]))
    reference = play(case, end=600 * US, engine="reference")
    told = reference[0][-1]["deadlocks"]
    event(f"{len(told)} deadlocks")
    assert_same(
        reference, play(case, end=600 * US, engine="core", threads=data.draw(st.integers(1, 3)))
    )


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_slicing_the_fast_engine_changes_no_byte(lab, data):
    case = data.draw(cases(lab))
    case.late = []
    whole = replace(case, cuts=[])
    try:
        reference = play(whole, engine="reference")
    except KvfabricError:
        return
    sliced = play(case, engine="core")
    finish = [step for step in sliced[0] if isinstance(step, tuple) and step[1]]
    assert finish == [step for step in reference[0] if isinstance(step, tuple) and step[1]]
    assert_same(([], reference[1]), ([], sliced[1]))


def congested(lab, fabric, count, size, **settings):
    """Every host sends to a few others; buffers that pause."""
    hosts = lab.hosts(fabric)
    rng = np.random.default_rng(7)
    rows = [
        (hosts[a], hosts[b], int(rng.integers(1, size)), int(rng.integers(0, 20 * US)))
        for a in range(len(hosts))
        for b in rng.permutation(len(hosts))[:count].tolist()
        if a != b
    ]
    discipline = Discipline(ecn=Threshold(20_000, 100_000, 0.2), alpha=1 / 1024)
    return Case(fabric, discipline, Transport(**settings), lab.flows(*rows))


def test_pauses_marks_and_cuts_agree_where_there_are_many(lab):
    case = congested(lab, lab.leaf_spine(4, 4, 2), 6, 600_000, ack_every=1)
    reference = play(case, engine="reference")
    assert reference[1].totals["pause_frames"] > 100
    assert reference[1].flows["marked"].sum() > 1000
    assert reference[1].totals["cnps"] > 100
    assert_same(reference, play(case, engine="core"))


def test_a_storm_and_its_watchdog_agree(lab):
    case = congested(lab, lab.leaf_spine(4, 4, 2), 6, 300_000, rto_ps=200 * US)
    case.discipline = replace(case.discipline, watchdog=Watchdog(15 * US, 30 * US))
    case.faults = [Fault("storm", 2, 10 * US, 150 * US), Fault("storm", 9, 30 * US, 90 * US)]
    reference = play(case, engine="reference")
    assert reference[1].totals["drops_watchdog"] > 10
    assert_same(reference, play(case, engine="core"))
    assert_same(reference, play(case, engine="core", threads=2))


def test_drops_and_timeouts_agree_where_there_are_many(lab):
    case = congested(lab, lab.star(8, buffer=10**6), 6, 300_000, rto_ps=20 * US)
    case.discipline = Discipline(pfc=False, egress_alpha=1 / 16)
    reference = play(case, engine="reference")
    assert reference[1].totals["drops_buffer"] > 100
    assert reference[1].flows["timeouts"].sum() > reference[1].flows["spurious_timeouts"].sum() > 0
    assert_same(reference, play(case, engine="core"))


def test_short_cables_agree(lab):
    fabric = lab.star(6, gbps=400, delay=0, latency=0)
    case = congested(lab, fabric, 5, 200_000)
    assert_same(play(case, engine="reference"), play(case, engine="core"))


def test_a_switch_of_64_ports_agrees(lab):
    case = congested(lab, lab.star(64), 3, 100_000)
    assert_same(play(case, engine="reference"), play(case, engine="core"))


def test_a_fabric_whose_memory_is_asked_for_ahead_agrees(lab):
    case = congested(lab, lab.leaf_spine(24, 32, 16), 2, 60_000, ack_every=1)
    case.discipline = replace(case.discipline, alpha=1 / 4096)
    reference = play(case, engine="reference")
    assert len(reference[1].ports["port"]) > 2_000
    assert reference[1].totals["pause_frames"] > 1_000
    assert_same(reference, play(case, engine="core"))
    assert_same(reference, play(case, engine="core", threads=2))


def test_hosts_that_are_wired_to_each_other_agree(lab):
    fabric = Fabric("wires")
    a, b, c = (fabric.add_host(name) for name in "abc")
    fabric.connect(a, b, rate_bps=100 * G, delay_ps=25_000)
    fabric.connect(b, c, rate_bps=400 * G, delay_ps=0)
    table = lab.flows((a, b, 300_000, 0), (b, a, 1, 0), (c, b, 77_777, 5_000), (b, c, 9_999, 0))
    case = Case(fabric, Discipline(), Transport(), table, cuts=[5_000, 40_000])
    assert_same(play(case, engine="reference"), play(case, engine="core"))


def test_six_hundred_seconds_pass_the_end_of_the_keys(lab):
    # Keys tell 17.6 s: flows go on through them, with a pause of 33 s at 1 Mbps between.
    fabric = lab.star(3, gbps=0.001, buffer=10**6)
    a, b, sink = lab.hosts(fabric)
    rows = [(a, sink, 20_000, t * 10**12) for t in range(0, 600, 50)]
    rows += [(b, sink, 30_000, t * 10**12 + 7) for t in range(0, 600, 40)]
    discipline = Discipline(alpha=1 / 64, headroom=60_000, reserve_bytes=0)
    case = Case(fabric, discipline, Transport(control="none", rto_ps=20 * 10**12), lab.flows(*rows))
    case.cuts = [10**12, 100 * 10**12, 650 * 10**12]
    reference = play(case, engine="reference")
    assert reference[0][-2][0] == 650 * 10**12
    assert reference[1].totals["pause_frames"] > 0
    assert (reference[1].flows["finish_ps"] > 0).all()
    assert_same(reference, play(case, engine="core"))


def test_a_terabyte_runs_for_a_while(lab):
    fabric = lab.star(2)
    case = Case(fabric, Discipline(), Transport(), lab.flows((1, 2, 10**12, 0)))
    emulators = [
        PacketEmulator(case.fabric, equal_cost(case.fabric), seed=1, engine=engine)
        for engine in ("reference", "core")
    ]
    tables = []
    for emulator in emulators:
        emulator.submit(case.table)
        emulator.advance(300 * US)
        tables.append(emulator.telemetry())
    assert_same(([], tables[0]), ([], tables[1]))
    assert tables[0].totals["bytes_delivered"] > 3 * 10**6


def test_threads_share_a_congested_fabric_without_a_difference(lab):
    case = congested(lab, lab.leaf_spine(4, 4, 2), 6, 600_000, ack_every=1)
    reference = play(case, engine="reference")
    for threads in (2, 3, 24):
        assert_same(reference, play(case, engine="core", threads=threads))
