"""Deadlocks: a ring comes to rest and is named with its circle; a Clos never does."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulate.discipline import Discipline, DisciplineError, Watchdog
from emulate.packet import OBSERVATION_TICK_PS, PacketEmulator
from emulate.transport import Transport
from topo.deadlock import dependency_cycle, path_cycle
from topo.fabric import Fabric
from topo.route import equal_cost

US = 10**6
MS = 10**9
SHORT = Discipline(ecn="off", headroom=40_000, alpha=1 / 8)
ROCE = Transport(control="none", rto_ps=50 * MS)
LANES = Transport(kind="infiniband", control="none", rto_ps=50 * MS, credits=12_480)
CIRCLE = {"s0:0>s1:0", "s1:1>s2:0", "s2:1>s0:1"}


def turning(lab, discipline, transport, **engine):
    """Three long flows in the ring, each two switches on."""
    fabric, routes, hosts = lab.ring()
    emulator = PacketEmulator(fabric, routes, discipline, transport, seed=1, **engine)
    rows = [(hosts[i], hosts[(i + 2) % 3], 50_000_000, 0) for i in range(3)]
    emulator.submit(lab.flows(*rows))
    return emulator


@pytest.mark.parametrize("engine", ["core", "reference"])
@pytest.mark.parametrize("transport", [ROCE, LANES], ids=["pauses", "credits"])
def test_a_ring_of_three_switches_is_named_once_with_its_circle(lab, transport, engine):
    emulator = turning(lab, SHORT, transport, engine=engine)
    emulator.advance(9 * MS)
    assert emulator.deadlocks() == []
    still = emulator.telemetry().totals["bytes_delivered"]
    emulator.advance(200 * MS)
    assert emulator.telemetry().totals["bytes_delivered"] == still
    (found,) = emulator.deadlocks()
    assert set(found.ports) == CIRCLE
    assert found.priority == 3
    assert found.time_ps % OBSERVATION_TICK_PS == 0
    # Everything stands within the first 200 us; 10 ms later it is told.
    assert 10 * MS < found.time_ps < 10 * MS + 200 * US
    # Each waits for the next: the order of the ring.
    start = found.ports.index("s0:0>s1:0")
    turned = found.ports[start:] + found.ports[:start]
    assert turned == ("s0:0>s1:0", "s1:1>s2:0", "s2:1>s0:1")


def test_the_static_check_of_the_same_paths_finds_the_same_circle(lab):
    emulator = turning(lab, SHORT, ROCE)
    cycle = path_cycle(emulator.fabric, [emulator.path(i) for i in range(3)])
    assert cycle is not None
    assert set(cycle) == CIRCLE


@pytest.mark.parametrize("transport", [ROCE, LANES], ids=["pauses", "credits"])
def test_slices_do_not_change_when_a_deadlock_is_told(lab, transport):
    whole = turning(lab, SHORT, transport, engine="reference")
    whole.advance(40 * MS)
    for engine in ({"engine": "reference"}, {"engine": "core"}, {"engine": "core", "threads": 2}):
        sliced = turning(lab, SHORT, transport, **engine)
        for until in (150 * US, 8 * MS, 10 * MS + 3, 10 * MS + 170 * US, 11 * MS, 40 * MS):
            sliced.advance(until)
        assert whole.deadlocks() == sliced.deadlocks() != []


def test_a_longer_limit_tells_it_later_and_a_watchdog_breaks_it(lab):
    later = turning(
        lab, Discipline(ecn="off", headroom=40_000, alpha=1 / 8, deadlock_ps=30 * MS), ROCE
    )
    later.advance(100 * MS)
    assert 30 * MS < later.deadlocks()[0].time_ps < 30 * MS + 200 * US
    watched = Discipline(ecn="off", headroom=40_000, alpha=1 / 8, watchdog=Watchdog(5 * MS, 5 * MS))
    broken = turning(lab, watched, ROCE)
    broken.advance(9 * MS)
    assert broken.telemetry().totals["drops_watchdog"] > 0
    assert broken.deadlocks() == []


@settings(max_examples=15, deadline=None)
@given(
    load=st.lists(
        st.tuples(st.integers(0, 5), st.integers(1, 5), st.integers(1, 600_000)),
        min_size=4,
        max_size=16,
    ),
    lanes=st.booleans(),
)
def test_up_down_paths_on_a_clos_never_deadlock(lab, load, lanes):
    fabric = lab.leaf_spine(3, 2, 2)
    hosts = lab.hosts(fabric)
    discipline = Discipline(ecn="off", alpha=1 / 64, deadlock_ps=20 * US)
    transport = LANES if lanes else ROCE
    emulator = PacketEmulator(fabric, equal_cost(fabric), discipline, transport, seed=1)
    emulator.submit(lab.flows(*((hosts[a], hosts[(a + d) % 6], n, 0) for a, d, n in load)))
    assert len(lab.finish(emulator)) == len(load)
    assert emulator.deadlocks() == []


@pytest.mark.parametrize("kind", ["rocev2", "infiniband"])
@pytest.mark.parametrize("seed", range(20))
def test_flows_stand_still_for_ever_where_a_deadlock_is_told_and_routes_have_a_cycle(
    lab, seed, kind
):
    # Rings of four to seven switches, some with a link more or less, and flows between any hosts.
    draw = random.Random(seed)
    size = draw.randint(4, 7)
    fabric, model = Fabric("ring"), lab.switch(buffer=320_000, latency=0)
    switches = [fabric.add_switch(f"s{i}", tier=1, switch=model) for i in range(size)]
    hosts = [fabric.add_host(f"h{i}") for i in range(size)]
    links = [(i, (i + 1) % size) for i in range(size)] + [(0, 2)] * draw.randint(0, 1)
    del links[0 : draw.randint(0, 2) // 2]
    for a, b in links:
        fabric.connect(switches[a], switches[b], rate_bps=100 * 10**9, delay_ps=50_000)
    for switch, host in zip(switches, hosts, strict=True):
        fabric.connect(host, switch, rate_bps=100 * 10**9, delay_ps=50_000)
    routes = equal_cost(fabric)
    pairs = list(itertools.permutations(hosts, 2))
    turning = [(hosts[i], hosts[(i + 2) % size]) for i in range(size)]
    pairs = draw.sample(pairs, draw.randint(2, len(pairs))) + turning * draw.randint(0, 1)
    pairs = list(dict.fromkeys(pairs))
    discipline = Discipline(
        ecn="off",
        headroom=45_000,
        alpha=1 / 128,
        reserve_bytes=0,
        xon_offset_bytes=0,
        deadlock_ps=MS,
    )
    tight = {"credits": 4160} if kind == "infiniband" else {}
    transport = Transport(kind=kind, control="none", rto_ps=1000 * MS, **tight)
    emulator = PacketEmulator(fabric, routes, discipline, transport, seed=seed)
    emulator.submit(lab.flows(*((a, b, 3_000_000, 0) for a, b in pairs)))
    finished = lab.finish(emulator, until=60 * MS)
    assert emulator.telemetry().totals["drops_lossless"] == 0
    told = emulator.deadlocks()
    assert (len(finished) < len(pairs)) == bool(told)
    assert dependency_cycle(fabric, routes, pairs) is not None or not told


def test_a_limit_that_cannot_be_is_refused():
    with pytest.raises(DisciplineError, match="above 0; write 10ms"):
        Discipline(deadlock_ps=0)
