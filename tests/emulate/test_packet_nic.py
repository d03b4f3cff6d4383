"""Whose turn it is at a NIC: the line, those that wait, and several priorities at one port."""

import time

import pytest

from emulate import _engine
from emulate.discipline import Discipline
from emulate.packet import PacketEmulator
from emulate.transport import Transport
from topo.route import equal_cost

NEVER = 2**63 - 1
FREE = Transport(control="none")
QUIET = Discipline(pfc=False, ecn="off")
FRAME = (4096 + 82) * 80  # at 100 Gbit/s
WAY = 50_000 + 600_000 + FRAME + 50_000  # behind the NIC, of a full frame alone
ALL = 0xFF


def turns(nic, now, priority=0):
    """Every queue pair that may send, in line; none of them comes back."""
    taken = []
    while nic.ready(ALL, now) >> priority & 1:
        taken.append(nic.take(priority))
    return taken


def test_the_line_is_in_the_order_of_becoming_able_to_send():
    nic = _engine.Nic([0] * 4)
    for pair in (2, 0, 3, 1):
        nic.allow(pair, 10, 10)
    assert turns(nic, 10) == [2, 0, 3, 1]


def test_those_that_wait_join_at_their_instants_and_by_number_at_one_instant():
    nic = _engine.Nic([0] * 5)
    for pair, when in [(4, 20), (1, 30), (3, 20), (0, 25)]:
        nic.allow(pair, when, 0)
    assert nic.next() == 20
    nic.allow(2, 22, 22)  # after those of 20, before the one of 25
    assert turns(nic, 19) == []
    assert turns(nic, 27) == [3, 4, 2, 0]
    assert nic.next() == 30


def test_one_whose_rate_was_cut_while_it_waited_is_put_back():
    nic = _engine.Nic([0] * 2)
    nic.allow(0, 20, 0)
    nic.allow(1, 30, 0)
    nic.defer(0, 40, 10)
    assert turns(nic, 35) == [1]
    assert nic.next() == 40
    assert turns(nic, 40) == [0]


def test_one_whose_rate_was_cut_in_line_waits_when_its_turn_comes():
    nic = _engine.Nic([0] * 3)
    for pair in range(3):
        nic.allow(pair, 5, 5)
    nic.defer(0, 50, 6)
    nic.defer(1, NEVER, 6)
    assert turns(nic, 7) == [2]
    assert nic.next() == 50


def test_an_earlier_instant_replaces_a_later_one():
    nic = _engine.Nic([0])
    nic.allow(0, 100, 0)
    nic.allow(0, 60, 10)
    assert nic.next() == 60
    assert turns(nic, 60) == [0]
    nic.defer(0, NEVER, 70)
    assert nic.next() == NEVER


def test_one_that_has_sent_goes_to_the_end_of_its_line_or_waits():
    nic = _engine.Nic([0] * 3)
    for pair in range(3):
        nic.allow(pair, 5, 5)
    nic.sent(0, 6, 6)
    nic.sent(0, 50, 7)
    assert turns(nic, 8) == [2, 0]
    assert nic.next() == 50
    assert turns(nic, 50) == [1]


def test_one_alone_in_its_line_that_has_sent_stays_there_or_waits():
    nic = _engine.Nic([0, 0, 3])
    nic.allow(0, 5, 5)
    nic.allow(2, 5, 5)
    nic.sent(0, 6, 6)
    nic.allow(1, 7, 7)  # behind the one that has stayed
    assert turns(nic, 7) == [0, 1]
    nic.sent(3, 90, 8)
    assert nic.ready(ALL, 89) == 0
    assert nic.next() == 90
    assert nic.ready(ALL, 90) == 0b1000
    nic.sent(3, NEVER, 91)
    assert nic.ready(ALL, 92) == 0
    assert nic.next() == NEVER


def test_a_priority_that_may_not_send_keeps_its_line():
    nic = _engine.Nic([0, 3, 3])
    for pair in range(3):
        nic.allow(pair, 0, 0)
    nic.defer(1, 90, 1)  # asked at its turn only, and it has none
    assert nic.ready(0b0001, 2) == 0b0001
    assert nic.ready(0b1001, 3) == 0b1001
    assert nic.take(3) == 2


def run(lab, rows, transport=FREE, discipline=QUIET, hosts=2, **columns):
    fabric = lab.star(hosts)
    emulator = PacketEmulator(fabric, equal_cost(fabric), discipline, transport, seed=1)
    flows = lab.flows(*rows)
    for name, values in columns.items():
        flows[name] = values
    emulator.submit(flows)
    return lab.finish(emulator)


def test_two_queue_pairs_of_one_nic_take_turns(lab):
    # a b a b a b b: the last of three and the last of four packets.
    finish = run(lab, [(1, 2, 3 * 4096, 0), (1, 2, 4 * 4096, 0)])
    assert finish == {0: 5 * FRAME + WAY, 1: 7 * FRAME + WAY}


def test_a_flow_released_later_goes_behind_those_in_line(lab):
    # a b a b c: c joins while b's first packet is sent, and both are in line again.
    rows = [(1, 2, 2 * 4096, 0), (1, 2, 2 * 4096, 0), (1, 2, 4096, FRAME + 1)]
    finish = run(lab, rows)
    assert finish == {i: (3 + i) * FRAME + WAY for i in range(3)}


@pytest.mark.parametrize(("weights", "first", "second"), [((1, 1), 8, 7), ((3, 1), 5, 7)])
def test_priorities_at_one_nic_share_by_their_weights(lab, weights, first, second):
    w = [1] * 8
    w[3], w[4] = weights
    discipline = Discipline(pfc=False, ecn="off", weights=tuple(w))
    rows = [(1, 2, 400 * 4096, 0), (1, 2, 400 * 4096, 0)]
    finish = run(lab, rows, discipline=discipline, priority=[3, 4])
    # The one of the greater weight has its 400 after 400 * (1 + ratio) turns; the last ends all.
    ends = 400 * (1 + weights[1] / weights[0])
    assert finish[1] == 800 * FRAME + WAY
    assert finish[0] == pytest.approx(ends * FRAME + WAY, abs=20 * FRAME)


def test_a_strict_priority_goes_first_at_the_nic(lab):
    discipline = Discipline(pfc=False, ecn="off", strict=(6, 7))
    rows = [(1, 2, 50 * 4096, 0), (1, 2, 10 * 4096, 0), (1, 2, 10 * 4096, 0)]
    finish = run(lab, rows, discipline=discipline, priority=[3, 6, 7])
    assert finish == {2: 10 * FRAME + WAY, 1: 20 * FRAME + WAY, 0: 70 * FRAME + WAY}


def test_a_hundred_thousand_queue_pairs_at_one_nic_cost_no_scan(lab):
    # All but one wait for the issue of a work request at any time: 4 * 10^10 looks with a scan.
    count = 100_000
    transport = Transport(control="none", issue_ps=count * FRAME)
    rows = [(1, 2, 2 * 64, i * FRAME) for i in range(count)]
    began = time.process_time()
    finish = run(lab, rows, transport=transport, descriptors=2)
    spent = time.process_time() - began
    assert len(finish) == count
    assert spent < 10, "expected about a second"
