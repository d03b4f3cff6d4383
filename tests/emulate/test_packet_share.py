"""Congested fabrics against closed forms: incast, fair shares, victims, parking lots, waiting."""

import numpy as np
import pytest

from emulate.discipline import Discipline
from emulate.marking import PROFILES, Threshold
from emulate.packet import PacketEmulator
from emulate.transport import Transport
from topo.fabric import Fabric
from topo.route import equal_cost

G = 10**9
US = 10**6
MS = 10**9
FREE = Transport(control="none")
PAUSES = Discipline(ecn="off")


def wire(size, mtu=4096):
    return size + 82 * -(-size // mtu)


def through(emulator, host):
    """Wire bytes that a host's port has sent."""
    port = int(emulator.fabric.ports.first[host])
    return int(emulator.telemetry().ports["tx_bytes"][port])


@pytest.mark.parametrize("senders", [2, 5, 8])
def test_an_incast_ends_after_all_its_bytes_at_the_receivers_rate(lab, jain, senders):
    fabric = lab.star(senders + 1)
    *sources, sink = lab.hosts(fabric)
    size = 2_000_000
    emulator = PacketEmulator(fabric, equal_cost(fabric), PAUSES, FREE, seed=1)
    emulator.submit(lab.flows(*((s, sink, size, 0) for s in sources)))
    finish = lab.finish(emulator)
    # The first frame's way to the switch, then every byte back to back, then the last cable.
    first = (4096 + 82) * 80 + 50_000
    assert max(finish.values()) == first + senders * wire(size) * 80 + 600_000 + 50_000
    assert jain(list(finish.values())) > 0.999
    assert emulator.telemetry().totals["drops_lossless"] == 0


def test_without_pause_the_queue_of_an_incast_peaks_at_all_but_one_message(lab):
    fabric = lab.star(5, buffer=2**30)
    *sources, sink = lab.hosts(fabric)
    size = 4096 * 250
    emulator = PacketEmulator(
        fabric, equal_cost(fabric), Discipline(pfc=False, ecn="off"), FREE, seed=1
    )
    emulator.submit(lab.flows(*((s, sink, size, 0) for s in sources)))
    lab.finish(emulator)
    ports = emulator.telemetry().ports
    # (N - 1) M when the last frames have arrived, but for the frame in service.
    assert max(ports["max_queue_bytes"]) == pytest.approx(3 * wire(size), abs=2 * 4178)
    assert sum(ports["pauses"]) == 0


def long_run(lab, fabric, pairs, discipline, transport, warm, span, priority=3):
    """Wire bytes per second of each source over a window of long flows."""
    emulator = PacketEmulator(fabric, equal_cost(fabric), discipline, transport, seed=5)
    flows = lab.flows(*((s, d, 2 * 10**9, 0) for s, d in pairs))
    flows["priority"] = priority
    emulator.submit(flows)
    assert not len(emulator.advance(warm).completions)
    before = [through(emulator, s) for s, _ in pairs]
    assert not len(emulator.advance(warm + span).completions)
    assert emulator.telemetry().totals["drops_lossless"] == 0
    return [
        (through(emulator, s) - b) * 8 * 10**12 / span
        for (s, _), b in zip(pairs, before, strict=True)
    ]


def test_long_flows_under_pause_share_a_receiver_equally(lab):
    fabric = lab.star(5)
    *sources, sink = lab.hosts(fabric)
    rates = long_run(lab, fabric, [(s, sink) for s in sources], PAUSES, FREE, 2 * MS, 10 * MS)
    # What the senders still hold back when the window opens and closes is below 1 %.
    assert rates == pytest.approx([25 * G] * 4, rel=0.01)


def test_long_flows_under_dcqcn_share_a_receiver_within_five_per_cent(lab):
    fabric = lab.star(5)
    *sources, sink = lab.hosts(fabric)
    discipline = Discipline(ecn="hpcc")
    transport = Transport(preset="hpcc", ack_every=64)
    pairs = [(s, sink) for s in sources]
    # Rates swing by tens of per cent over milliseconds: the mean is over 200 of them.
    rates = long_run(lab, fabric, pairs, discipline, transport, 10 * MS, 200 * MS)
    assert sum(rates) == pytest.approx(100 * G, rel=0.05)
    assert rates == pytest.approx([25 * G] * 4, rel=0.05)


@pytest.mark.parametrize(
    ("discipline", "transport", "within"),
    [
        (Discipline(ecn="off", alpha=1 / 32), FREE, 0.01),
        (Discipline(ecn="paper"), Transport(preset="paper", ack_every=64), 0.1),
    ],
)
@pytest.mark.parametrize(
    ("nics", "shares"), [((10, 100, 100), (10, 45, 45)), ((10, 20, 100, 100), (10, 20, 35, 35))]
)
def test_senders_of_several_rates_share_a_receiver_max_min(
    lab, discipline, transport, within, nics, shares
):
    # Progressive filling: the slow ones have all of their own, the others equal parts of the rest.
    fabric = Fabric("star")
    middle = fabric.add_switch("s", tier=1, switch=lab.switch())
    *sources, sink = (fabric.add_host(f"h{i}") for i in range(len(nics) + 1))
    for host, rate in zip((*sources, sink), (*nics, 100), strict=True):
        fabric.connect(host, middle, rate_bps=rate * G, delay_ps=50_000)
    pairs = [(s, sink) for s in sources]
    rates = long_run(lab, fabric, pairs, discipline, transport, 20 * MS, 100 * MS)
    assert rates == pytest.approx([share * G for share in shares], rel=within)


def dumbbell(lab, left, gbps):
    """Hosts on switch 0, an uplink of the given rate to switch 1, two sinks behind it."""
    fabric = Fabric("dumbbell")
    a = fabric.add_switch("a", tier=1, switch=lab.switch())
    b = fabric.add_switch("b", tier=1, switch=lab.switch())
    fabric.connect(a, b, rate_bps=gbps * G, delay_ps=50_000)
    sources = [fabric.add_host(f"s{i}") for i in range(left)]
    for host in sources:
        fabric.connect(host, a, rate_bps=gbps * G, delay_ps=50_000)
    return fabric, a, b, sources


def victim(lab, n):
    """A and n - 1 others fill a receiver; V, the first of the pairs, shares only the uplink with A,
    the second."""
    fabric, _, b, (va, aa) = dumbbell(lab, 2, 40)
    others = [fabric.add_host(f"o{i}") for i in range(n - 1)]
    hot, cold = fabric.add_host("hot"), fabric.add_host("cold")
    for host in (*others, hot, cold):
        fabric.connect(host, b, rate_bps=40 * G, delay_ps=50_000)
    pairs = [(va, cold), (aa, hot), *((o, hot) for o in others)]
    return fabric, pairs


@pytest.mark.parametrize("n", [2, 4])
def test_pause_makes_a_victim_as_slow_as_the_flow_that_it_shares_a_fifo_with(lab, n):
    fabric, pairs = victim(lab, n)
    small = Discipline(ecn="off", alpha=1 / 32)
    rates = long_run(lab, fabric, pairs, small, FREE, 20 * MS, 30 * MS)
    assert rates == pytest.approx([40 * G / n] * (n + 1), rel=0.01)


@pytest.mark.parametrize("n", [2, 4])
def test_in_a_queue_of_its_own_a_victim_gets_what_the_stopped_flow_leaves(lab, n):
    # As above, but V has a class, and so a queue, of its own at the uplink: V = C - C / N.
    fabric, pairs = victim(lab, n)
    # An uplink that offers V more than half must serve A whenever A is not stopped.
    weights = (1, 1, 1, 8, 1, 1, 1, 1)
    small = Discipline(ecn="off", alpha=1 / 32, lossless=(3, 4), weights=weights)
    own = [4] + [3] * n
    rates = long_run(lab, fabric, pairs, small, FREE, 20 * MS, 30 * MS, own)
    assert rates == pytest.approx([40 * G * (n - 1) / n] + [40 * G / n] * n, rel=0.01)


def test_without_the_congesting_flows_the_victim_is_not_one(lab):
    fabric, _, b, (va, aa) = dumbbell(lab, 2, 40)
    hot, cold = fabric.add_host("hot"), fabric.add_host("cold")
    for host in (hot, cold):
        fabric.connect(host, b, rate_bps=40 * G, delay_ps=50_000)
    # The uplink's switch is full, and pauses, after 42 MB at 5 GB/s: 8.4 ms.
    rates = long_run(lab, fabric, [(va, cold), (aa, hot)], PAUSES, FREE, 20 * MS, 10 * MS)
    assert rates == pytest.approx([20 * G] * 2, rel=0.01)


def test_a_parking_lot_under_pause_is_fair_by_ingress_port(lab):
    # One local sender against three remote ones behind one uplink, C = 40: 20 and 6.67 each.
    fabric, _, b, remote = dumbbell(lab, 3, 40)
    local, sink = fabric.add_host("local"), fabric.add_host("sink")
    for host in (local, sink):
        fabric.connect(host, b, rate_bps=40 * G, delay_ps=50_000)
    pairs = [(local, sink), *((r, sink) for r in remote)]
    small = Discipline(ecn="off", alpha=1 / 32)
    rates = long_run(lab, fabric, pairs, small, FREE, 20 * MS, 30 * MS)
    assert rates == pytest.approx([20 * G] + [20 * G / 3] * 3, rel=0.01)


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_single_packets_wait_as_in_an_m_d_1_queue(lab, load):
    # Wq / S = rho / (2 (1 - rho)), from many sources with Poisson arrivals of one-frame flows.
    rng = np.random.default_rng(7)
    fabric = lab.star(65, buffer=2**30)
    *sources, sink = lab.hosts(fabric)
    service = (4096 + 82) * 80
    count = 60_000
    release = np.cumsum(rng.exponential(service / load, count)).astype(np.int64)
    source = rng.choice(sources, count)
    rows = [(int(s), sink, 4096, int(t)) for s, t in zip(source, release, strict=True)]
    emulator = PacketEmulator(fabric, equal_cost(fabric), PAUSES, FREE, seed=1)
    emulator.submit(lab.flows(*rows))
    lab.finish(emulator, until=int(release[-1]) + 10**10)
    flows = emulator.telemetry().flows
    waiting = (flows["finish_ps"] - flows["release_ps"] - flows["ideal_ps"]).mean() / service
    # A source sends a frame in S: its own queue adds M/D/1 waiting at load / 64.
    own = (load / 64) / (2 * (1 - load / 64))
    batch = (flows["finish_ps"] - flows["release_ps"] - flows["ideal_ps"]) / service
    error = batch.reshape(30, -1).mean(axis=1).std(ddof=1) / 30**0.5
    assert abs(waiting - load / (2 * (1 - load)) - own) < 4 * error
    assert error < 0.1


def test_the_share_of_marked_packets_is_that_of_the_formula(lab):
    # Two flows fill one port: without control the queue stays up against the pause threshold,
    # and marking is drawn at a queue that is known.
    fabric = lab.star(3, buffer=4 * 2**20)
    a, b, sink = lab.hosts(fabric)
    discipline = Discipline(ecn="sonic", alpha=0.25)
    emulator = PacketEmulator(fabric, equal_cost(fabric), discipline, FREE, seed=2)
    emulator.submit(lab.flows((a, sink, 40_000_000, 0), (b, sink, 40_000_000, 0)))
    queue = []
    for now in range(200 * US, 6_000 * US, 10 * US):
        emulator.advance(now)
        queue.append(int(max(emulator.observe()["queued_bytes"])))
    t = PROFILES["sonic"].threshold(100 * G)
    q = np.array(queue)
    expected = np.clip(t.pmax * (q - t.kmin_bytes) / (t.kmax_bytes - t.kmin_bytes), 0, 1).mean()
    assert 0.002 < expected < t.pmax
    flows = emulator.telemetry().flows
    marked, packets = int(flows["marked"].sum()), int(flows["packets"].sum())
    error = (expected / packets) ** 0.5
    assert abs(marked / packets - expected) < 4 * error + 0.05 * expected


@pytest.mark.parametrize("engine", ["core", "reference"])
def test_a_packet_that_comes_twice_counts_one_mark_at_most(lab, engine):
    # An ACK comes every 10.7 us, later than the timer: packets are sent again, and marked again.
    fabric = lab.star(3)
    a, b, sink = lab.hosts(fabric)
    every = Discipline(ecn=Threshold(0, 0, 1.0))
    early = Transport(control="none", rto_ps=10 * US)
    emulator = PacketEmulator(fabric, equal_cost(fabric), every, early, seed=1, engine=engine)
    emulator.submit(lab.flows((a, sink, 400_000, 0), (b, sink, 400_000, 0)))
    lab.finish(emulator)
    telemetry = emulator.telemetry()
    flows = telemetry.flows
    assert (flows["spurious_timeouts"] > 0).all()
    assert telemetry.ports["marked"].sum() > 1.5 * flows["packets"].sum()
    assert (flows["marked"] <= flows["packets"]).all()
    assert (flows["marked"] > 0.9 * flows["packets"]).all()
