"""Where a flow's time went, in cases worked out by hand."""

import pytest

from emulate.discipline import Discipline
from emulate.fault import Fault
from emulate.packet import PacketEmulator
from emulate.transport import Transport
from topo.route import equal_cost

US = 10**6
MS = 10**9
FREE = Transport(control="none")
QUIET = Discipline(pfc=False, ecn="off")
FRAME = (4096 + 82) * 80  # at 100 Gbit/s
ACK = 86 * 80
DELAY = 50_000
LATENCY = 600_000
WAY = DELAY + LATENCY + FRAME + DELAY  # behind the NIC, of a full frame alone
PARTS = ["wire", "queued", "paused", "source", "issue", "pacing", "window", "retransmission"]


def run(lab, rows, transport=FREE, discipline=QUIET, fabric=None, **columns):
    """The run's emulator, and of each flow the parts that are not 0."""
    fabric = fabric or lab.star(3)
    emulator = PacketEmulator(fabric, equal_cost(fabric), discipline, transport, seed=1)
    flows = lab.flows(*rows)
    for name, values in columns.items():
        flows[name] = values
    emulator.submit(flows)
    lab.finish(emulator)
    table = emulator.telemetry().flows
    every = {part: table[f"blame_{part}_ps"].tolist() for part in PARTS}
    return emulator, [
        {part: every[part][i] for part in PARTS if every[part][i]} for i in range(len(rows))
    ]


def waits(emulator, flow):
    hops = emulator.telemetry().hops
    mine = hops["flow"] == flow
    return list(
        zip(
            *(hops[name][mine].tolist() for name in ("port", "queued_ps", "paused_ps")), strict=True
        )
    )


def port(emulator, node, towards=None):
    """The port of a host, or that of the switch towards a host."""
    ports = emulator.fabric.ports
    own = int(ports.first[node])
    return own if towards is None else int(ports.reverse[int(ports.first[towards])])


def test_a_lone_flow_is_all_wire(lab):
    emulator, (lone,) = run(lab, [(1, 2, 10 * 4096, 7 * US)])
    assert lone == {"wire": 10 * FRAME + WAY}
    assert waits(emulator, 0) == [(port(emulator, 1), 0, 0), (port(emulator, 0, 2), 0, 0)]


def test_the_second_of_two_frames_into_one_port_is_queued_there_for_the_first(lab):
    emulator, (first, second) = run(lab, [(1, 3, 4096, 0), (2, 3, 4096, 0)])
    assert first == {"wire": FRAME + WAY}
    assert second == {"wire": FRAME + WAY, "queued": FRAME}
    assert waits(emulator, 1)[1] == (port(emulator, 0, 3), FRAME, 0)


def test_two_flows_of_one_nic_wait_for_each_others_frames_at_the_source(lab):
    # a b a b: the first waits once for the other, the second twice.
    emulator, (first, second) = run(lab, [(1, 2, 2 * 4096, 0), (1, 3, 2 * 4096, 0)])
    assert first == {"wire": 2 * FRAME + WAY, "source": FRAME}
    assert second == {"wire": 2 * FRAME + WAY, "source": 2 * FRAME}
    assert waits(emulator, 1)[0] == (port(emulator, 1), 2 * FRAME, 0)


def test_a_flow_that_waits_for_its_descriptors_blames_their_issue(lab):
    # 5 frames, each issued US after the one before; the first four are in service within that.
    _, (slow,) = run(
        lab, [(1, 2, 5 * 4096, 0)], Transport(control="none", issue_ps=US), descriptors=5
    )
    assert slow == {"wire": 5 * FRAME + WAY, "issue": 5 * US - 4 * FRAME}


def test_a_flow_that_waits_for_acks_blames_its_window(lab):
    _, (narrow,) = run(lab, [(1, 2, 5 * 4096, 0)], Transport(control="none", window=1, ack_every=1))
    back = WAY + ACK + DELAY + LATENCY + ACK + DELAY  # from a frame's last bit out to its ACK in
    assert narrow == {"wire": 5 * FRAME + WAY, "window": 4 * back}


def test_a_lost_packet_is_blamed_on_retransmission_until_its_copy_starts(lab):
    # The switch has room for one frame; the second is lost, and sent again after the timeout.
    fabric = lab.star(3, buffer=8_000)
    _, (first, second) = run(
        lab,
        [(1, 3, 4096, 0), (2, 3, 4096, 0)],
        Transport(control="none", rto_ps=MS),
        fabric=fabric,
    )
    assert first == {"wire": FRAME + WAY}
    assert second == {"wire": FRAME + WAY, "retransmission": MS}


@pytest.mark.parametrize("engine", ["core", "reference"])
def test_of_copies_whose_attempts_have_one_number_the_one_that_was_taken_counts(lab, engine):
    # Attempts are counted to 2^16, and the link is back after 70,000: a copy before has the number.
    fabric = lab.star(3)
    down = Fault("down", 2, 0, 70_000 * 10 * US)
    early = Transport(control="none", rto_ps=10 * US)
    emulator = PacketEmulator(
        fabric, equal_cost(fabric), QUIET, early, seed=1, faults=[down], engine=engine
    )
    emulator.submit(lab.flows((1, 3, 4096, 0), (2, 3, 4096, 0)))
    lab.finish(emulator)
    flows = emulator.telemetry().flows
    assert (flows["timeouts"] >= 70_000).all()
    assert flows["blame_wire_ps"].tolist() == [FRAME + WAY] * 2
    assert [row[1] for row in waits(emulator, 0)[1:]] == [0]
    assert [row[1] for row in waits(emulator, 1)[1:]] == [FRAME]


def test_a_gap_is_blamed_from_going_back_to_the_first_new_packet(lab):
    # Frame 0 of the second flow is lost as above. Its frame 1 is beyond the gap, the NAK comes
    # back, and both go again: one frame is new to neither.
    fabric = lab.star(3, buffer=8_000)
    emulator, (_, second) = run(lab, [(1, 3, 4096, 0), (2, 3, 3 * 4096, 0)], fabric=fabric)
    # All three had been sent before the NAK came: the third is sent in vain at 2 FRAME.
    nak = 2 * FRAME + WAY + ACK + DELAY + LATENCY + ACK + DELAY
    again = nak + 2 * FRAME
    assert emulator.telemetry().flows["finish_ps"][1] == again + FRAME + WAY
    assert second == {
        "wire": 2 * FRAME + FRAME + WAY,
        "retransmission": again - 2 * FRAME,
    }


def test_a_victim_blames_the_pause_at_its_nic(lab):
    # Nine into one; the NIC of the first also sends to an idle host, and is stopped for the rest.
    fabric = lab.star(11, buffer=2**21)
    rows = [(s, 10, 400 * 4096, 0) for s in range(1, 10)] + [(1, 11, 400 * 4096, 0)]
    emulator, blames = run(lab, rows, discipline=Discipline(ecn="off", alpha=1 / 8), fabric=fabric)
    ports = emulator.telemetry().ports
    own, victim = port(emulator, 1), blames[-1]
    assert ports["pauses"][own] > 0
    assert victim["wire"] == 400 * FRAME + WAY
    # A pause that begins while its own frame is in service counts from that frame's end.
    short = ports["paused_ps"][own] - victim["paused"]
    assert 0 <= short <= ports["pauses"][own] * FRAME
    assert waits(emulator, 9)[0] == (own, victim["source"], victim["paused"])
    assert "pacing" not in victim


def test_a_frame_stopped_inside_the_fabric_blames_the_port_that_was_stopped(lab):
    fabric = lab.leaf_spine(2, 5, 1)
    near, far = lab.hosts(fabric)[:5], lab.hosts(fabric)[5:]
    rows = [(s, far[0], 1000 * 4096, 0) for s in (*near[:4], *far[1:])]
    rows += [(near[4], far[1], 4096, t * 10 * US) for t in range(10, 200)]
    discipline = Discipline(ecn="off", alpha=1 / 256)
    emulator, blames = run(lab, rows, discipline=discipline, fabric=fabric)
    ports = emulator.telemetry().ports
    stopped = {row for i in range(8, len(rows)) for row in waits(emulator, i)[1:] if row[2]}
    # The spine is stopped by the far leaf, and then stops the near leaf.
    assert {number for number, _, _ in stopped} == set(emulator.path(8)[1:3])
    assert all(0 < paused <= ports["paused_ps"][number] for number, _, paused in stopped)
    assert all(blame["wire"] == 4 * FRAME + 4 * DELAY + 3 * LATENCY for blame in blames[8:])


def test_a_rate_cut_is_blamed_on_the_port_that_marked_last(lab):
    fabric = lab.star(5)
    rows = [(s, 5, 2_000_000, 0) for s in range(1, 5)]
    discipline = Discipline(ecn="dctcp")
    emulator, blames = run(lab, rows, Transport(preset="hpcc"), discipline, fabric)
    flows = emulator.telemetry().flows
    assert set(flows["last_mark_port"].tolist()) == {port(emulator, 0, 5)}
    for blame in blames:
        assert blame["pacing"] > blame["wire"]
        assert "retransmission" not in blame


@pytest.mark.parametrize("until", [0, 5 * FRAME])
def test_a_flow_that_has_not_finished_has_no_parts(lab, until):
    fabric = lab.star(2)
    emulator = PacketEmulator(fabric, equal_cost(fabric), QUIET, FREE, seed=1)
    emulator.submit(lab.flows((1, 2, 100 * 4096, 0)))
    emulator.advance(until)
    telemetry = emulator.telemetry()
    assert {int(telemetry.flows[f"blame_{part}_ps"][0]) for part in PARTS} == {-1}
    assert len(telemetry.hops["flow"]) == 0
