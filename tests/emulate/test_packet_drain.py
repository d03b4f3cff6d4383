"""Hosts that take data more slowly than their NICs: the NIC fills, and pauses its switch."""

import re

import numpy as np
import pytest

from emulate.discipline import Discipline
from emulate.packet import PacketEmulator
from emulate.transport import Transport, TransportError
from topo.error import KvfabricError
from topo.route import equal_cost

G = 10**9
MS = 10**9
PAUSES = Discipline(ecn="off")
FRAME = (4096 + 82) * 80  # at 100 Gbit/s


def run(lab, fabric, rows, gbps, discipline=PAUSES, **settings):
    transport = Transport(control="none", drain_bps=gbps * G, **settings)
    emulator = PacketEmulator(fabric, equal_cost(fabric), discipline, transport, seed=1)
    emulator.submit(lab.flows(*rows))
    return emulator, lab.finish(emulator)


@pytest.mark.parametrize("gbps", [25, 50, 200])
def test_the_host_is_one_more_hop_of_a_lone_flow(lab, gbps):
    emulator, finish = run(lab, lab.star(2), [(1, 2, 50 * 4096, 0)], gbps)
    way = 2 * 50_000 + 600_000 + FRAME  # to the last bit of the first frame at the NIC, less one
    drained = FRAME * 100 // gbps
    slowest = max(FRAME, drained)
    assert finish[0] == way + FRAME + 49 * slowest + drained
    assert finish[0] == emulator.telemetry().flows["ideal_ps"][0]


def test_a_slow_host_makes_its_nic_pause_the_switch_and_loses_nothing(lab):
    emulator, finish = run(lab, lab.star(2), [(1, 2, 4000 * 4096, 0)], 40)
    telemetry, ports = emulator.telemetry(), emulator.fabric.ports
    down = int(ports.reverse[ports.first[2]])
    assert telemetry.totals["drops_lossless"] == telemetry.totals["drops_buffer"] == 0
    # The host is never idle: all bytes at its rate, behind the way of the first frame.
    assert finish[0] == 2 * 50_000 + 600_000 + 2 * FRAME + 4000 * FRAME * 5 // 2
    # The port to it sends 40 of 100 and is stopped for the rest, but for what the NIC stores.
    stored = 2**20 * 80
    share = (1 - 0.4) * finish[0]
    assert telemetry.ports["paused_ps"][down] == pytest.approx(share, abs=2 * stored)
    assert set(telemetry.stops["cause_port"].tolist()) == {int(ports.first[2])}


def test_its_pauses_reach_flows_to_other_hosts(lab):
    # The second flow shares only its sender's switch port with a flow to a slow host.
    rows = [(1, 2, 60_000 * 4096, 0), (1, 3, 60_000 * 4096, 0)]
    small = lab.star(3, buffer=2**20)
    slow, fast = run(lab, small, rows, 10)[1], run(lab, small, rows, 200)[1]
    assert fast[1] < 2 * 60_000 * FRAME * 1.01
    assert slow[1] > 1.5 * fast[1]


def test_the_wait_in_a_receive_buffer_is_blamed_on_the_receivers_nic(lab):
    emulator, finish = run(lab, lab.star(2), [(1, 2, 10 * 4096, 0)], 50)
    hops = emulator.telemetry().hops
    last = {name: int(column[-1]) for name, column in hops.items()}
    assert (last["hop"], last["port"]) == (2, int(emulator.fabric.ports.first[2]))
    # Nine frames before it, each a frame's time slower than they come.
    assert last["queued_ps"] == 9 * FRAME
    flows = emulator.telemetry().flows
    parts = np.sum([flows[name] for name in flows if name.startswith("blame_")], axis=0)
    assert parts[0] == finish[0]


def test_a_lossy_class_overflows_instead(lab):
    discipline = Discipline(pfc=False, ecn="off")
    emulator, finish = run(
        lab, lab.star(2), [(1, 2, 400 * 4096, 0)], 40, discipline, receive_buffer=2**17, rto_ps=MS
    )
    assert emulator.telemetry().totals["drops_buffer"] > 0
    assert 0 in finish


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"drain_bps": 5}, "drain 5bps: write 1Mbps to 8Tbps"),
        ({"drain_bps": G, "kind": "infiniband"}, "not with infiniband"),
    ],
)
def test_impossible_drains_are_refused(settings, message):
    with pytest.raises(TransportError, match=re.escape(message)):
        Transport(control="none", **settings)


def test_a_receive_buffer_below_its_headroom_is_refused(lab):
    with pytest.raises(KvfabricError, match="receive_buffer 20kB: headrooms and reserves"):
        run(lab, lab.star(2), [(1, 2, 1, 0)], 40, receive_buffer=20_000)
