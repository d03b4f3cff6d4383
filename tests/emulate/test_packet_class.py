"""Eight classes at one port: shares by weight, strict ones first, each paused by itself."""

import numpy as np
import pytest

from emulate.discipline import Discipline
from emulate.packet import OBSERVATION_TICK_PS, PacketEmulator
from emulate.transport import Transport
from topo.route import equal_cost

G = 10**9
MS = 10**9
ALL = tuple(range(8))
FREE = Transport(control="none")


def eight(lab, discipline):
    """Eight senders at line rate into one receiver, each in a class of its own."""
    fabric = lab.star(9)
    *sources, sink = lab.hosts(fabric)
    emulator = PacketEmulator(fabric, equal_cost(fabric), discipline, FREE, seed=1)
    flows = lab.flows(*((s, sink, 10**9, 0) for s in sources))
    flows["priority"] = ALL
    emulator.submit(flows)
    ports = [int(fabric.ports.first[s]) for s in sources]

    def sent():
        return np.asarray(emulator.telemetry().ports["tx_bytes"], np.int64)[ports]

    # By then every sender has filled its share of the memory and is held to its rate.
    emulator.advance(20 * MS)
    before = sent()
    emulator.advance(40 * MS)
    assert emulator.telemetry().totals["drops_lossless"] == 0
    return (sent() - before) * 8 * 50


@pytest.mark.parametrize("weights", [(1,) * 8, (1, 2, 3, 4, 5, 6, 7, 8), (64, 1, 1, 1, 1, 1, 1, 1)])
def test_eight_lossless_classes_share_a_port_by_their_weights(lab, weights):
    rates = eight(lab, Discipline(ecn="off", lossless=ALL, strict=(), weights=weights))
    shares = np.array(weights) / sum(weights)
    # What is on its way when the window opens and closes is below 1 % of the port's bytes.
    assert rates.tolist() == pytest.approx((shares * 100 * G).tolist(), abs=1 * G, rel=0.02)
    assert rates.sum() == pytest.approx(100 * G, rel=0.01)


def test_strict_classes_are_served_first_and_the_highest_before_all(lab):
    rates = eight(lab, Discipline(ecn="off", lossless=ALL, strict=(2, 5)))
    assert rates[5] == pytest.approx(100 * G, rel=0.01)
    assert sum(rates) - rates[5] < 1 * G


@pytest.mark.parametrize("priority", ALL)
def test_a_pause_stops_the_class_that_it_names_and_no_other(lab, priority):
    fabric = lab.star(4, buffer=8 * 2**20)
    a, b, hot, cold = lab.hosts(fabric)
    discipline = Discipline(ecn="off", alpha=1 / 32, lossless=ALL, strict=())
    emulator = PacketEmulator(fabric, equal_cost(fabric), discipline, FREE, seed=1)
    other = (priority + 1) % 8
    flows = lab.flows((a, hot, 10**8, 0), (b, hot, 10**8, 0), (a, cold, 10**8, 0))
    flows["priority"] = [priority, priority, other]
    emulator.submit(flows)
    port = int(fabric.ports.first[a])
    seen = set()
    for tick in range(1, 300):
        emulator.advance(tick * OBSERVATION_TICK_PS)
        seen.add(int(emulator.observe()["paused"][port]))
    assert seen == {0, 1 << priority}
    # The other class fills the gaps of the paused one: the NIC is never idle until both have ended.
    finish = lab.finish(emulator)
    wire = 10**8 + 82 * -(-(10**8) // 4096)
    assert max(finish[0], finish[2]) == pytest.approx(2 * wire * 80, rel=0.01)
    assert emulator.telemetry().totals["drops_lossless"] == 0
