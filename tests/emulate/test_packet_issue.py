"""Descriptors: one issuing thread or many, send queues of limited depth, ACKs for messages."""

import re

import pytest

from emulate.discipline import Discipline
from emulate.packet import PacketEmulator
from emulate.transport import Transport, TransportError
from topo.route import equal_cost

US = 10**6
QUIET = Discipline(pfc=False, ecn="off")
FRAME = (4096 + 82) * 80  # at 100 Gbit/s
ACK = 86 * 80
WAY = 50_000 + 600_000 + FRAME + 50_000  # behind the NIC, of a full frame alone
BACK = WAY + 2 * (ACK + 50_000) + 600_000  # from a frame's last bit out to its ACK in
POST = 2 * US


def run(lab, rows, descriptors, **settings):
    fabric = lab.star(3)
    transport = Transport(control="none", **settings)
    emulator = PacketEmulator(fabric, equal_cost(fabric), QUIET, transport, seed=1)
    flows = lab.flows(*rows)
    flows["descriptors"] = descriptors
    emulator.submit(flows)
    finish = lab.finish(emulator)
    return emulator, [finish[i] for i in range(len(rows))]


def parts(emulator, flow):
    table = emulator.telemetry().flows
    return {name: int(table[f"blame_{name}_ps"][flow]) for name in ("issue", "window", "wire")}


def test_one_thread_issues_the_descriptors_of_the_second_flow_behind_those_of_the_first(lab):
    rows = [(1, 2, 4 * 4096, 0), (1, 3, 3 * 4096, 0)]
    emulator, finish = run(lab, rows, [4, 3], issue_ps=POST, issuers=1)
    assert finish == [4 * POST + FRAME + WAY, 7 * POST + FRAME + WAY]
    # The second is issue all the time that its own frames are not in service.
    assert parts(emulator, 1) == {
        "issue": 7 * POST - 2 * FRAME,
        "window": 0,
        "wire": 3 * FRAME + WAY,
    }


def test_with_a_thread_each_two_flows_issue_at_once_and_share_the_port_only(lab):
    rows = [(1, 2, 4 * 4096, 0), (1, 3, 3 * 4096, 0)]
    _, finish = run(lab, rows, [4, 3], issue_ps=POST)
    assert finish == [4 * POST + FRAME + WAY, 3 * POST + 2 * FRAME + WAY]


def test_an_idle_thread_begins_at_the_release(lab):
    rows = [(1, 2, 4096, 0), (1, 3, 4096, 9 * POST)]
    _, finish = run(lab, rows, [1, 1], issue_ps=POST, issuers=1)
    assert finish == [POST + FRAME + WAY, 10 * POST + FRAME + WAY]


@pytest.mark.parametrize("issuers", [0, 1])
def test_a_send_queue_of_one_issues_a_descriptor_when_the_one_before_is_acknowledged(lab, issuers):
    settings = {"issue_ps": POST, "issuers": issuers, "send_queue": 1, "ack_message": True}
    emulator, (finish,) = run(lab, [(1, 2, 5 * 4096, 0)], [5], **settings)
    assert finish == 5 * (POST + FRAME) + 4 * BACK + WAY
    assert parts(emulator, 0) == {
        "issue": 5 * POST,
        "window": 4 * BACK,
        "wire": 5 * FRAME + WAY,
    }


def test_a_send_queue_deep_enough_costs_nothing(lab):
    deep = 1 + -(-(FRAME + BACK) // POST)
    settings = {"issue_ps": POST, "send_queue": deep, "ack_message": True}
    _, (finish,) = run(lab, [(1, 2, 20 * 4096, 0)], [20], **settings)
    assert finish == 20 * POST + FRAME + WAY


def test_one_thread_passes_over_a_flow_without_room(lab):
    rows = [(1, 2, 2 * 4096, 0), (1, 3, 4096, 0)]
    settings = {"issue_ps": POST, "issuers": 1, "send_queue": 1, "ack_message": True}
    _, finish = run(lab, rows, [2, 1], **settings)
    # The second flow's descriptor goes before the first one's second, which waits for an ACK.
    first_ack = POST + FRAME + BACK
    assert finish[1] == 2 * POST + FRAME + WAY
    assert finish[0] == max(first_ack, 2 * POST) + POST + FRAME + WAY


def test_packets_of_one_message_leave_together_and_only_its_last_is_acknowledged(lab):
    rows = [(1, 2, 12 * 4096, 0)]
    settings = {"issue_ps": 5 * US, "send_queue": 1, "ack_message": True, "ack_every": 64}
    emulator, (finish,) = run(lab, rows, [3], **settings)
    assert finish == 3 * (5 * US + 4 * FRAME) + 2 * BACK + WAY
    assert emulator.telemetry().totals["acks"] == 3


@pytest.mark.parametrize(("ack_message", "acks"), [(False, 2), (True, 5)])
def test_messages_are_acknowledged_when_asked_for(lab, ack_message, acks):
    # 20 packets in 4 messages, an ACK after 16 and at the end of the flow.
    emulator, _ = run(lab, [(1, 2, 20 * 4096, 0)], [4], ack_message=ack_message)
    assert emulator.telemetry().totals["acks"] == acks


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"issuers": 2}, "issuers 2: write 1"),
        ({"send_queue": -1}, "send_queue -1: must not be negative"),
        ({"send_queue": 4}, "with an ACK every 16 packets no ACK need come"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(TransportError, match=re.escape(message)):
        Transport(**settings)
