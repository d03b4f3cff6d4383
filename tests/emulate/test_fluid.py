"""The fluid shares by max-min fairness, loses nothing, and adds nothing to a lone flow."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from emulate.fluid import FluidEmulator
from emulate.ideal import FRAME_OVERHEAD, ideal_ps, wire_bytes
from emulate.share import max_min
from topo.error import KvfabricError
from topo.fabric import Fabric, Switch
from topo.route import equal_cost
from traffic.emulator import FLOW

G = 10**9
PS = 10**12
SWITCH = Switch(ports=64, rate_bps=100 * G, latency_ps=600_000)


def star(hosts: int, rate: int = 100 * G) -> Fabric:
    fabric = Fabric("star")
    middle = fabric.add_switch("s", tier=1, switch=SWITCH)
    for i in range(hosts):
        fabric.connect(fabric.add_host(f"h{i}"), middle, rate_bps=rate, delay_ps=50_000)
    return fabric


def leaf_spine(leaves: int, per_leaf: int, spines: int) -> Fabric:
    fabric = Fabric("leaf_spine")
    tops = [fabric.add_switch(f"spine{s}", tier=2, switch=SWITCH) for s in range(spines)]
    for leaf in range(leaves):
        node = fabric.add_switch(f"leaf{leaf}", tier=1, switch=SWITCH, rack=leaf)
        for top in tops:
            fabric.connect(node, top, rate_bps=100 * G, delay_ps=50_000)
        for h in range(per_leaf):
            host = fabric.add_host(f"h{leaf}.{h}", rack=leaf)
            fabric.connect(host, node, rate_bps=100 * G, delay_ps=50_000)
    return fabric


def flows(*rows: tuple[int, int, int, int]) -> NDArray[np.void]:
    """Rows of (source, destination, bytes, release); numbered in order, entropy = number."""
    table = np.zeros(len(rows), FLOW)
    for i, (source, destination, size, release) in enumerate(rows):
        table[i] = (i, i, source, destination, size, 1, i * 7919, -1, True, 3, release)
    return table


def run(emulator: FluidEmulator, table: NDArray[np.void], cuts: tuple[int, ...] = ()) -> list[int]:
    """Finish times in flow order; ``cuts`` slice the advance."""
    emulator.submit(table)
    finish = [-1] * len(table)
    for until in (*sorted(cuts), 1 << 60):
        while True:
            step = emulator.advance(until)
            for flow, _, at in step.completions.tolist():
                assert at == step.now_ps
                finish[flow] = at
            if not step.completions.size:
                break
    return finish


def hosts(fabric: Fabric) -> list[int]:
    return [node.index for node in fabric.hosts]


def emulator(fabric: Fabric, **options: int) -> FluidEmulator:
    return FluidEmulator(fabric, equal_cost(fabric), **options)


def test_a_lone_flow_takes_its_ideal_time() -> None:
    fabric = star(2)
    a, b = hosts(fabric)
    size = 10 * 4096 + 100
    (finish,) = run(emulator(fabric), flows((a, b, size, 5)))
    frame = (4096 + FRAME_OVERHEAD) * 80  # 100 Gbit/s is 80 ps a byte
    wire = (size + 11 * FRAME_OVERHEAD) * 80
    assert finish - 5 == 2 * 50_000 + 600_000 + frame + wire


@given(
    size=st.integers(1, 60_000),
    rates=st.lists(st.sampled_from([10 * G, 25 * G, 100 * G, 400 * G]), min_size=1, max_size=5),
)
def test_the_ideal_equals_the_frame_by_frame_recurrence(size: int, rates: list[int]) -> None:
    sizes = [4096] * (size // 4096) + ([size % 4096] if size % 4096 else [])
    free = [0] * len(rates)
    at = 0
    for payload in sizes:
        at = 0
        for hop, rate in enumerate(rates):
            at = max(at, free[hop]) + (payload + FRAME_OVERHEAD) * 8 * PS // rate
            free[hop] = at
    assert ideal_ps(size, 4096, rates, 0) == at


@pytest.mark.parametrize("senders", [2, 3, 7])
def test_an_incast_of_n_equal_flows_ends_at_once_after_n_times_the_wire_time(senders: int) -> None:
    fabric = star(senders + 1)
    *sources, sink = hosts(fabric)
    size = 1_000_000
    finish = run(emulator(fabric), flows(*((s, sink, size, 0) for s in sources)))
    lone = ideal_ps(size, 4096, [100 * G] * 2, 700_000)
    assert len(set(finish)) == 1
    assert finish[0] == lone + (senders - 1) * wire_bytes(size, 4096) * 80


def test_a_parking_lot_gives_the_short_flow_what_the_long_one_leaves() -> None:
    inf = float("inf")
    hops = np.array([[0, 1, 3], [0, 3, 3], [1, 3, 3], [1, 2, 3]], np.int32)
    assert max_min(hops, np.array([10.0, 9.0, 1.0, inf])).tolist() == [4.0, 6.0, 4.0, 1.0]


@given(st.data())
def test_max_min_fills_a_port_for_every_flow_and_overfills_none(data: st.DataObject) -> None:
    ports = data.draw(st.integers(1, 8))
    capacity = data.draw(st.lists(st.integers(1, 100), min_size=ports, max_size=ports))
    paths = data.draw(
        st.lists(st.sets(st.integers(0, ports - 1), min_size=1), min_size=1, max_size=20)
    )
    width = max(len(p) for p in paths)
    hops = np.array([sorted(p) + [ports] * (width - len(p)) for p in paths], np.int32)
    rate = max_min(hops, np.array([*capacity, np.inf], np.float64))
    load = [sum(r for r, p in zip(rate, paths, strict=True) if q in p) for q in range(ports)]
    for q in range(ports):
        assert load[q] <= capacity[q] * (1 + 1e-9)
    for r, path in zip(rate, paths, strict=True):
        bottleneck = [
            q
            for q in path
            if load[q] >= capacity[q] * (1 - 1e-9)
            and all(r >= s * (1 - 1e-9) for s, other in zip(rate, paths, strict=True) if q in other)
        ]
        assert bottleneck, "a flow without a full port on which it is among the fastest could gain"


def test_a_departure_gives_its_share_to_the_flow_that_stays() -> None:
    fabric = star(3)
    a, b, sink = hosts(fabric)
    size = 4096 * 100
    first, second = run(emulator(fabric), flows((a, sink, size, 0), (b, sink, 3 * size, 0)))
    wire = 4178 * 100 * 80
    base = ideal_ps(size, 4096, [100 * G] * 2, 700_000) - wire
    assert first == base + 2 * wire  # at half the rate
    assert second == base + 4 * wire  # half rate until 2, then 2 sizes left at the full rate


def test_a_flow_that_shares_no_port_is_not_slowed() -> None:
    fabric = star(4)
    a, b, c, d = hosts(fabric)
    lone = run(emulator(fabric), flows((a, b, 10**6, 0)))[0]
    assert run(emulator(fabric), flows((a, b, 10**6, 0), (c, d, 10**6, 0))) == [lone, lone]


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 5), st.integers(1, 5), st.integers(1, 300_000), st.integers(0, 10**8)
        ),
        min_size=1,
        max_size=25,
    ),
    cuts=st.lists(st.integers(0, 3 * 10**8), max_size=12),
)
def test_slicing_the_advance_changes_no_byte_and_no_byte_is_lost(
    rows: list[tuple[int, int, int, int]], cuts: list[int]
) -> None:
    fabric = leaf_spine(3, 2, 2)
    nodes = hosts(fabric)
    table = flows(*((nodes[s], nodes[(s + step) % 6], z, r) for s, step, z, r in rows))
    whole, sliced = emulator(fabric, seed=3), emulator(fabric, seed=3)
    assert run(whole, table) == run(sliced, table, tuple(cuts))
    left, right = whole.telemetry(), sliced.telemetry()
    for one, other in ((left.flows, right.flows), (left.ports, right.ports)):
        for name in one:
            assert one[name].tobytes() == other[name].tobytes(), name
    sent = sum(int(row["bytes"]) for row in table)
    assert left.totals["bytes_sent"] == left.totals["bytes_delivered"] == sent
    hops = left.flows["hops"].tolist()
    crossed = sum(h * wire_bytes(row[2], 4096) for h, row in zip(hops, rows, strict=True))
    assert int(left.ports["tx_bytes"].sum()) == crossed
    duration = left.flows["finish_ps"].astype(np.int64) - left.flows["release_ps"].astype(np.int64)
    assert (duration >= left.flows["ideal_ps"].astype(np.int64) - 1).all()


def obvious(
    paths: list[list[int]], sizes: list[int], releases: list[int], capacity: list[int]
) -> list[float]:
    """When each flow's last drop has gone: all rates anew at every event, one level at a time."""
    left = [float(wire_bytes(size, 4096) * 8) for size in sizes]
    waiting = sorted(range(len(paths)), key=lambda f: releases[f])
    flowing: list[int] = []
    gone = [0.0] * len(paths)
    now = 0.0
    while waiting or flowing:
        rate: dict[int, float] = {}
        room = [float(c) for c in capacity]
        while len(rate) < len(flowing):
            rest = [f for f in flowing if f not in rate]
            count = [sum(q in paths[f] for f in rest) for q in range(len(capacity))]
            level, port = min((room[q] / n, q) for q, n in enumerate(count) if n)
            for f in [f for f in rest if port in paths[f]]:
                rate[f] = level
                for q in paths[f]:
                    room[q] -= level
        ends = [(now + left[f] / rate[f] * PS, f) for f in flowing]
        arrival = releases[waiting[0]] if waiting else float("inf")
        then = min([arrival, *(end for end, _ in ends)])
        for f in flowing:
            left[f] -= rate[f] * (then - now) / PS
        now = then
        for end, f in ends:
            if end <= now + 0.5:
                gone[f] = now
                flowing.remove(f)
        while waiting and releases[waiting[0]] <= now:
            flowing.append(waiting.pop(0))
    return gone


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 5), st.integers(1, 5), st.integers(1, 400_000), st.integers(0, 6 * 10**7)
        ),
        min_size=2,
        max_size=30,
    )
)
def test_finishes_equal_those_of_an_obvious_fluid(rows: list[tuple[int, int, int, int]]) -> None:
    fabric = leaf_spine(3, 2, 2)
    nodes = hosts(fabric)
    table = flows(*((nodes[s], nodes[(s + step) % 6], z, r) for s, step, z, r in rows))
    fluid = emulator(fabric)
    finish = run(fluid, table)
    paths = [fluid.path(flow) for flow in range(len(rows))]
    sizes = [row[2] for row in rows]
    gone = obvious(paths, sizes, [row[3] for row in rows], fabric.ports.rate_bps.tolist())
    for flow, size in enumerate(sizes):
        ideal = int(fluid.telemetry().flows["ideal_ps"][flow])
        base = ideal - wire_bytes(size, 4096) * 80
        assert abs(finish[flow] - base - gone[flow]) <= 2 * len(rows), "one ps of rounding an event"


def test_bytes_under_way_are_counted_as_sent_and_not_as_delivered() -> None:
    fabric = star(2)
    a, b = hosts(fabric)
    half = emulator(fabric)
    half.submit(flows((a, b, 4096 * 100, 0)))
    assert not half.advance(4178 * 50 * 80).completions.size
    totals = half.telemetry().totals
    assert totals["bytes_sent"] == 4096 * 50
    assert totals["bytes_delivered"] == 0
    assert half.telemetry().flows["finish_ps"].tolist() == [-1]


def test_the_hash_uses_every_equal_path_and_depends_on_the_seed() -> None:
    fabric = leaf_spine(2, 1, 4)
    a, b = hosts(fabric)
    table = flows(*((a, b, 4096, 10**9 * i) for i in range(64)))
    used = []
    for seed in (0, 1):
        spread = emulator(fabric, seed=seed)
        run(spread, table)
        ports = fabric.ports
        leaf = fabric.node("leaf0").index
        tops = [
            int(spread.telemetry().ports["tx_packets"][p])
            for p in range(ports.first[leaf], ports.first[leaf + 1])
            if fabric.nodes[ports.peer[p]].tier == 2
        ]
        assert min(tops) > 0
        used.append(tops)
    assert used[0] != used[1]


def test_switches_in_a_row_do_not_all_choose_alike() -> None:
    fabric = Fabric("fork after fork")
    first, last = (fabric.add_switch(name, tier=1, switch=SWITCH) for name in ("first", "last"))
    for b in range(2):
        fork = fabric.add_switch(f"fork{b}", tier=2, switch=SWITCH)
        fabric.connect(first, fork, rate_bps=100 * G)
        for c in range(2):
            top = fabric.add_switch(f"top{b}{c}", tier=3, switch=SWITCH)
            fabric.connect(fork, top, rate_bps=100 * G)
            fabric.connect(top, last, rate_bps=100 * G)
    a, b = fabric.add_host("a"), fabric.add_host("b")
    fabric.connect(a, first, rate_bps=100 * G)
    fabric.connect(b, last, rate_bps=100 * G)
    spread = emulator(fabric)
    spread.submit(flows(*((a, b, 1, 0) for _ in range(64))))
    assert len({tuple(spread.path(flow)) for flow in range(64)}) == 4


def test_a_pinned_path_is_the_same_for_every_entropy() -> None:
    fabric = leaf_spine(2, 1, 4)
    a, b = hosts(fabric)
    table = flows(*((a, b, 4096, 10**9 * i) for i in range(16)))
    table["path"] = 2
    pinned = emulator(fabric)
    run(pinned, table)
    assert sorted(set(pinned.telemetry().ports["tx_packets"].tolist())) == [0, 16]


def test_observed_utilisation_is_that_of_the_last_tick() -> None:
    fabric = star(2)
    a, b = hosts(fabric)
    seen = emulator(fabric)
    seen.submit(flows((a, b, 10**7, 12_000_000)))
    seen.advance(19_000_000)
    assert seen.observe()["utilisation"].max() == 0.0
    seen.advance(21_000_000)
    assert seen.observe()["utilisation"].max() == 1.0


def test_no_port_is_ever_busier_than_its_rate_and_all_are_idle_in_the_end() -> None:
    fabric = leaf_spine(4, 4, 2)
    nodes = hosts(fabric)
    rng = np.random.default_rng(6)
    count = 400
    starts = np.cumsum(rng.exponential(5_000_000, count)).astype(int).tolist()
    rows = []
    for start in starts:
        source, sink = rng.choice(nodes, 2, replace=False).tolist()
        rows.append((source, sink, 500_000, start))
    busy = emulator(fabric)
    busy.submit(flows(*rows))
    left, peak = count, 0.0
    while left:
        left -= busy.advance(1 << 60).completions.size
        peak = max(peak, float(busy.observe()["utilisation"].astype(float).max()))
    assert peak == pytest.approx(1.0, rel=1e-9)
    busy.advance(busy.now_ps + 20_000_000)
    assert busy.observe()["utilisation"].astype(float).max() == 0.0


def test_frames_without_payload_are_refused() -> None:
    with pytest.raises(KvfabricError, match=r"^mtu 0B: .*; write 4KiB$"):
        emulator(star(2), mtu=0)


def test_what_cannot_be_sent_is_refused_in_one_line() -> None:
    fabric = star(2)
    lonely = fabric.add_host("lonely")
    other = fabric.add_switch("t", tier=1, switch=SWITCH)
    fabric.connect(lonely, other, rate_bps=100 * G, delay_ps=0)
    a, b = hosts(fabric)[:2]
    refused = [
        (flows((a, lonely, 1, 0)), "no path from 'h0' to 'lonely'"),
        (flows((a, a, 1, 0)), "sends to itself"),
        (flows((a, 0, 1, 0)), "node 0 is not a host"),
        (flows((a, 99, 1, 0)), "node 99 is not a host"),
        (flows((a, b, 0, 0)), "0B; a flow has at least 1B"),
    ]
    strict = emulator(fabric)
    for table, message in refused:
        with pytest.raises(KvfabricError, match=message):
            strict.submit(table)
    strict.advance(10)
    with pytest.raises(KvfabricError, match="release 9ps is before the present 10ps"):
        strict.submit(flows((a, b, 1, 9)))
    strict.submit(flows((a, b, 1, 10)))
    with pytest.raises(KvfabricError, match="the number is taken"):
        strict.submit(flows((a, b, 1, 10)))
    with pytest.raises(KvfabricError, match="advance to 9ps: before the present time 10ps"):
        strict.advance(9)


def test_an_efficiency_of_one_sends_the_payload_alone() -> None:
    fabric = star(2)
    a, b = hosts(fabric)
    routes = equal_cost(fabric)
    bare = FluidEmulator(fabric, routes, efficiency=1.0)
    framed = FluidEmulator(fabric, routes)
    size = 4096 * 100
    slower = run(framed, flows((a, b, size, 0)))[0] - run(bare, flows((a, b, size, 0)))[0]
    assert slower == 100 * FRAME_OVERHEAD * 80
