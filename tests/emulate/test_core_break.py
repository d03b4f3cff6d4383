"""Long breaks, and events of one instant: what the two packet engines once told apart."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulate.discipline import Discipline, Watchdog
from emulate.fault import Fault
from emulate.packet import PacketEmulator
from emulate.transport import Transport
from topo.fabric import Fabric
from topo.route import equal_cost

G = 10**9
US = 10**6
S = 10**12
ENGINES = [("reference", 1), ("core", 1), ("core", 2)]
TABLES = ("flows", "ports", "hops", "pauses", "stops", "innocence", "occupancy", "series")


def played(fabric, discipline, transport, table, until, engine=("core", 1), **settings):
    """The telemetry at an instant."""
    name, threads = engine
    emulator = PacketEmulator(
        fabric, equal_cost(fabric), discipline, transport,
        seed=1, engine=name, threads=threads, **settings,
    )  # fmt: skip
    emulator.submit(table)
    while emulator.now_ps < until:
        emulator.advance(until)
    return emulator.telemetry()


def same(*given, **settings):
    """What all engines tell alike, to the byte."""
    first, *others = (played(*given, engine, **settings) for engine in ENGINES)
    for other in others:
        assert other.totals == first.totals
        for table in TABLES:
            for name, column in getattr(first, table).items():
                assert (column == getattr(other, table)[name]).all(), f"{table}.{name}"
    return first


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("releases", [(0, 4, 18), (0, 4, 21), (0, 1, 17.7), (0, 30), (0, 0.5, 60)])
def test_a_lone_flow_takes_its_ideal_time_after_any_break(lab, engine, releases):
    fabric = lab.star(3)
    source, destination, _ = lab.hosts(fabric)
    rows = [(source, destination, 40_960, int(at * S)) for at in releases]
    found = played(fabric, Discipline(), Transport(), lab.flows(*rows), 90 * S, engine)
    took = found.flows["finish_ps"] - found.flows["release_ps"]
    # ten frames of 4,178 B on the first cable, the last one again on the second, 600 ns of switch
    assert (took == 11 * 4_178 * 80 + 2 * 50_000 + 600_000).all()


@settings(max_examples=40, deadline=None)
@given(
    gaps=st.lists(st.integers(0, 40 * S), min_size=1, max_size=5),
    kind=st.sampled_from(["rocev2", "infiniband"]),
    drawn=st.data(),
)
def test_engines_agree_over_long_breaks(lab, gaps, kind, drawn):
    fabric = lab.tangle(drawn.draw)
    hosts = lab.hosts(fabric)
    rows = []
    for at in np.cumsum(gaps).tolist():
        a, b = drawn.draw(st.permutations(hosts))[:2]
        rows.append((a, b, drawn.draw(st.integers(1, 300_000)), at))
    control = "none" if kind == "infiniband" else "dcqcn"
    transport = Transport(kind=kind, control=control, credits=9_600)
    same(fabric, Discipline(), transport, lab.flows(*rows), sum(gaps) + S, tick_ps=S)


@pytest.mark.parametrize("gbps", [100, 3_600])
def test_what_waits_to_be_sent_again_leaves_its_line_when_it_is_acknowledged(lab, gbps):
    fabric = lab.star(3, gbps, delay=25_000, latency=10 * US)
    transport = Transport(
        kind="infiniband", control="none", credits=10_000, rto_ps=10 * US, ack_message=True,
        issue_ps=200_000, mtu=9_000,
    )  # fmt: skip
    rows = lab.flows((3, 1, 42_487, 0), (3, 1, 233, 0))
    rows["descriptors"] = 1, 7
    same(fabric, Discipline(), transport, rows, 1_000 * US)


@pytest.mark.parametrize("until", [17, 20, 100])
def test_credits_wait_for_a_link_that_is_down_for_long(lab, until):
    fabric = lab.star(2)
    source, destination = lab.hosts(fabric)
    down = Fault("down", 0, US, until * S, direction="back")
    found = same(
        fabric, Discipline(), Transport(kind="infiniband", control="none"),
        lab.flows((source, destination, 10 * 2**20, 0)), (until + 1) * S, faults=[down], tick_ps=S,
    )  # fmt: skip
    assert found.flows["finish_ps"][0] > until * S


def test_a_stop_may_begin_and_end_in_one_instant(lab):
    fabric = lab.star(5, delay=0, buffer=2**20, latency=0)
    a, b, c, d, e = lab.hosts(fabric)
    # so chosen that the watchdog empties the queue when a frame comes that stops its sender
    watchdog = Watchdog(2_904_160, 100 * US)
    rules = Discipline(
        ecn="off", watchdog=watchdog, alpha=1 / 16, headroom=60_000, response_ps=100_000
    )
    rows = lab.flows((a, e, 10**6, 0), (b, e, 10**6, 0), (c, d, 4_096, 0))
    storm = Fault("storm", 4, US, 1_000 * US, direction="forward")
    found = same(fabric, rules, Transport(control="none"), rows, 1_000 * US, faults=[storm])
    at = found.stops["from_ps"] == 4_010_880
    assert found.stops["until_ps"][at].tolist() == [4_010_880]


def test_a_watchdog_may_have_to_restore_at_an_instant_that_is_over(lab):
    fabric = lab.chain([G // 1000, G // 1000], [25_000, 25_000], latency=0)
    rules = Discipline(ecn="off", headroom=20_000, watchdog=Watchdog(10 * US, 100 * US))
    storm = Fault("storm", 1, US, 10 * S, direction="back")
    table = lab.flows((0, 2, 1, 8 * S), (0, 2, 1, 12 * S))
    transport = Transport(control="none", rto_ps=10 * S)
    found = same(fabric, rules, transport, table, 90 * S, faults=[storm], tick_ps=S)
    assert found.totals["drops_watchdog"] == 1


def test_pauses_that_take_effect_at_once_do_not_hang_on_the_numbers_of_switches(lab):
    fabric = lab.chain([100 * G] * 3, [0, 0, 0])
    table = lab.flows((0, 3, 40 * 4_096, 0), (3, 0, 40 * 4_096, 0))
    rules = Discipline(ecn="off", response_ps=0)
    storm = Fault("storm", 1, US, 10 * US)
    found = same(fabric, rules, Transport(control="none"), table, 20 * US, faults=[storm])
    middle = [int(fabric.ports.first[1]) + 1, int(fabric.ports.first[2])]
    one, other = found.ports["blocked_ps"][middle]
    assert one == other > 0


def test_what_stands_behind_credits_is_known_where_switches_cut_through(lab):
    fabric = Fabric("m")
    s0, s1, s2 = (fabric.add_switch(f"s{i}", tier=1, switch=lab.switch()) for i in range(3))
    h0, h1, h2 = (fabric.add_host(f"h{i}") for i in range(3))
    for a, b, gbps, delay in (
        *((s1, s0, 1, 0), (s2, s1, 10, 50 * US), (h0, s1, 10, 50 * US)),
        *((h1, s2, 10, 0), (h2, s0, 1, 0)),
    ):
        fabric.connect(a, b, rate_bps=gbps * G, delay_ps=delay)
    transport = Transport(kind="infiniband", control="none", mtu=1_024, credits=10_000)
    table = lab.flows((h1, h2, 60_000, 0), (h1, h0, 60_000, 0))
    found = same(fabric, Discipline(cut_through=True), transport, table, 1_000 * US)
    assert found.innocence["innocent_bytes"].sum() > 0


@pytest.mark.parametrize("hosts_first", [True, False])
@pytest.mark.parametrize("apart", [-1, 0, 1])
def test_a_loss_and_a_timeout_of_one_instant_have_the_order_of_their_ports(lab, hosts_first, apart):
    fabric = Fabric("w")
    first = ["a", "b"] if hosts_first else []
    hosts = [fabric.add_host(name) for name in first]
    switch = fabric.add_switch("s", tier=1, switch=lab.switch(2**22, 0))
    hosts = hosts or [fabric.add_host(name) for name in "ab"]
    for host in hosts:
        fabric.connect(host, switch, rate_bps=100 * G, delay_ps=25_000)
    rules = Discipline(ecn="off", watchdog=Watchdog(10 * US, 1_000 * US), response_ps=0)
    storm = Fault("storm", 1, 0, 1_000 * US, direction="forward")
    dropped = 4_178 * 80 + 25_000 + 10 * US
    transport = Transport(control="none", rto_ps=dropped + apart)
    table = lab.flows((hosts[0], hosts[1], 4_096, US))
    found = same(fabric, rules, transport, table, 40 * US, faults=[storm])
    before = apart < 0 or (apart == 0 and hosts_first)
    assert found.flows["spurious_timeouts"][0] == before
