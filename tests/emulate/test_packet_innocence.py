"""Bytes that stand behind a stop though their own way is free: worked out by hand, in both engines.

Two hosts or more at a near switch share one uplink, first in, first out, to a far switch. Their
frames meet in turn, so that flows of equal size hold equal shares of what waits there.
"""

import numpy as np
import pytest

from emulate.discipline import Discipline
from emulate.fault import Fault
from emulate.packet import PacketEmulator
from emulate.transport import Transport
from topo.fabric import Fabric
from topo.route import equal_cost

G = 10**9
US = 10**6
ENGINES = ("reference", "core")
UPLINK = 0  # the near switch's port to the far one


def pair(lab, senders, receivers, uplink=100):
    """The fabric, its senders at the near switch, and receivers at the far one by rate (Gbit/s)."""
    fabric = Fabric("pair")
    near, far = (
        fabric.add_switch(name, tier=1, switch=lab.switch(buffer=2**22)) for name in ("near", "far")
    )
    fabric.connect(near, far, rate_bps=uplink * G, delay_ps=50_000)
    sources = [fabric.add_host(f"s{i}") for i in range(senders)]
    sinks = [fabric.add_host(f"r{i}") for i in range(len(receivers))]
    for host in sources:
        fabric.connect(host, near, rate_bps=100 * G, delay_ps=50_000)
    for host, rate in zip(sinks, receivers, strict=True):
        fabric.connect(host, far, rate_bps=rate * G, delay_ps=50_000)
    return fabric, sources, sinks


def emulator(fabric, engine, kind="rocev2", **settings):
    transport = Transport(kind=kind, control="none", credits=30_016)
    discipline = Discipline(ecn="off", alpha=1 / 8)
    return PacketEmulator(
        fabric, equal_cost(fabric), discipline, transport, seed=1, engine=engine, tick_ps=US,
        **settings,
    )  # fmt: skip


def rows(telemetry):
    """(paused, innocent) bytes by port and priority."""
    port, priority, paused, innocent = (c.tolist() for c in telemetry.innocence.values())
    ends = zip(paused, innocent, strict=True)
    return dict(zip(zip(port, priority, strict=True), ends, strict=True))


@pytest.mark.parametrize("kind", ["rocev2", "infiniband"])
@pytest.mark.parametrize("engine", ENGINES)
def test_half_of_what_stands_in_a_shared_uplink_is_innocent(lab, engine, kind):
    # A is bound for a receiver of a tenth of the rate, V for a free one.
    fabric, (a, v), (slow, free) = pair(lab, 2, [10, 100])
    run = emulator(fabric, engine, kind)
    run.submit(lab.flows((a, slow, 2000 * 4096, 0), (v, free, 2000 * 4096, 0)))
    lab.finish(run)
    telemetry = run.telemetry()
    assert list(rows(telemetry)) == [(UPLINK, 3)]
    ((paused, innocent),) = rows(telemetry).values()
    assert innocent / paused == pytest.approx(0.5, abs=0.005)
    assert telemetry.totals["paused_bytes"] == paused > 10**6
    assert telemetry.totals["innocent_bytes"] == innocent


@pytest.mark.parametrize("kind", ["rocev2", "infiniband"])
@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_is_innocent_in_an_incast(lab, engine, kind):
    # The root of the stops is the receiver's port, which itself is never stopped.
    fabric, senders, (sink,) = pair(lab, 4, [100], uplink=400)
    run = emulator(fabric, engine, kind)
    run.submit(lab.flows(*((s, sink, 1000 * 4096, 0) for s in senders)))
    lab.finish(run)
    ((paused, innocent),) = rows(run.telemetry()).values()
    assert (paused > 10**6, innocent) == (True, 0)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_frame_whose_egress_is_stopped_itself_is_not_innocent(lab, engine):
    # Storms stop the ports to two receivers; the uplink's stop is blamed on one of them alone.
    fabric, (a, b, v), (one, two, free) = pair(lab, 3, [100, 100, 100], uplink=300)
    links = [len(fabric.links) - 3, len(fabric.links) - 2]
    storms = [Fault("storm", link, 0, 900 * US, None, "both") for link in links]
    run = emulator(fabric, engine, faults=storms)
    run.submit(lab.flows(*((s, r, 2000 * 4096, 0) for s, r in ((a, one), (b, two), (v, free)))))
    run.advance(800 * US)
    found = rows(run.telemetry())
    paused, innocent = found[UPLINK, 3]
    # A frame waits for each receiver, and one flow may be a frame ahead.
    assert innocent / paused == pytest.approx(1 / 3, abs=0.02)
    # What the storms hold back at the far switch has no other way to go than to its receiver.
    to_hosts = [int(fabric.ports.reverse[fabric.ports.first[host]]) for host in (one, two)]
    assert [found[port, 3][1] for port in to_hosts] == [0, 0]
    assert all(found[port, 3][0] > 0 for port in to_hosts)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_stop_counts_once_a_tick_also_where_nothing_happens(lab, engine):
    # The storm stands still for long: looking at each tick, or once, gives the same sums.
    def run(cuts):
        fabric, (a, v), (one, free) = pair(lab, 2, [100, 100])
        storm = Fault("storm", len(fabric.links) - 2, 0, 2_000 * US, None, "both")
        each = emulator(fabric, engine, faults=[storm])
        each.submit(lab.flows((a, one, 500 * 4096, 0), (v, free, 500 * 4096, 0)))
        for cut in cuts:
            while len(each.advance(cut).completions):
                pass
        return rows(each.telemetry())

    whole = run([1_500 * US])
    assert whole == run(range(US, 1_501 * US, US))
    shorter = run([1_400 * US])
    grown = np.array(whole[UPLINK, 3]) - np.array(shorter[UPLINK, 3])
    # 100 ticks more of the same queue, half of which is the victim's.
    assert (grown % 100 == 0).all()
    assert grown[0] > 0


def test_what_waits_in_no_stopped_class_is_not_counted(lab):
    fabric = lab.star(5)
    run = PacketEmulator(fabric, equal_cost(fabric), seed=1)
    run.submit(lab.flows((1, 5, 100 * 4096, 0)))
    lab.finish(run)
    assert rows(run.telemetry()) == {}
    assert run.telemetry().totals["paused_bytes"] == 0
