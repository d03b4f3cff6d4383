"""What a switch of real frames does with frames that are not of the transport, and with pauses."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulate.discipline import Discipline
from emulate.marking import Threshold
from emulate.transport import Transport
from topo.route import equal_cost

_live = pytest.importorskip("emulate._live", reason="real frames need Linux")

US = 10**6
QUANTUM_PS = 512 * 10  # bit times at 100 Gbps
FREE = Transport(control="none")


def mac(port):
    return bytes([2, 0, 0, 0, 0, port])


def ip(node):
    return bytes([10, 0, 0, 1 + node])


def ethernet(source, destination, kind, body):
    return destination + source + kind + body + bytes(max(0, 46 - len(body)))


def datagram(source, destination, *, tos=0, protocol=1, body=b"\x08\0" + bytes(62)):
    head = (
        bytes([0x45, tos]) + (20 + len(body)).to_bytes(2, "big") + b"\x12\x34\x40\x00\x40"
        + bytes([protocol, 0, 0]) + ip(source) + ip(destination)
    )  # fmt: skip
    return b"\x08\x00", head + body


@pytest.fixture(name="star")
def _star(lab, live):
    """Switch 0, ports 0 to 2, towards hosts 1 to 3."""
    fabric = lab.star(3, delay=0, latency=0)
    discipline = Discipline(ecn=Threshold(0, 0, 1.0))
    return live.plane(fabric, equal_cost(fabric), discipline, FREE, seed=1)


def sent(plane):
    return plane.port_table()["tx_packets"].tolist()


def test_ip_goes_to_the_owner_of_its_destination(star):
    star.inject(0, ethernet(mac(3), mac(5), *datagram(1, 3)))
    star.advance(US)
    assert sent(star)[:3] == [0, 0, 1]
    assert star.totals()["foreign"] == 1
    # 98 bytes, FCS, preamble and gap.
    assert star.port_table()["tx_bytes"][2] == 98 + 4 + 20


def test_arp_goes_to_whom_it_asks_for_and_nowhere_else(star):
    asks = b"\0\1\x08\0\6\4\0\1" + mac(3) + ip(1) + bytes(6) + ip(2)
    star.inject(0, ethernet(mac(3), b"\xff" * 6, b"\x08\x06", asks))
    star.advance(US)
    assert sent(star)[:3] == [0, 1, 0]


def test_other_frames_go_by_their_ethernet_address_and_broadcasts_do_not(star):
    star.inject(0, ethernet(mac(3), mac(4), b"\x88\xb5", b"lab"))
    star.inject(0, ethernet(mac(3), b"\xff" * 6, b"\x88\xb5", b"lab"))
    star.inject(0, ethernet(mac(3), bytes(6), b"\x86\xdd", bytes(40)))
    star.advance(US)
    assert sent(star)[:3] == [0, 1, 0]
    assert star.totals()["unrouted"] == 2


def test_foreign_frames_never_enter_a_lossless_class(star):
    for tos in (3 << 2, 6 << 2, 46 << 2):
        star.inject(0, ethernet(mac(3), mac(5), *datagram(1, 3, tos=tos)))
    told = _live.pause_frame(source_mac=0, told=0b0100_1000, quanta=[0xFFFF] * 8)
    star.inject(2, told)
    star.advance(100 * US)
    assert sent(star)[2] == 3


def test_only_ip_that_knows_marks_is_marked(star):
    for ecn in (0, 1, 2):
        star.inject(0, ethernet(mac(3), mac(5), *datagram(1, 3, tos=ecn)))
    star.advance(US)
    # The first frame finds an empty queue; Kmin is 0.
    assert star.port_table()["marked"][2] == 2


@settings(max_examples=20, deadline=None)
@given(quanta=st.integers(1, 0xFFFF))
def test_a_pause_lasts_its_quanta_at_the_rate_of_the_link(lab, live, quanta):
    fabric = lab.star(3, delay=0, latency=0)
    discipline = Discipline(ecn="off", response_ps=0)
    plane = live.plane(fabric, equal_cost(fabric), discipline, FREE, seed=1)
    plane.inject(
        1, _live.pause_frame(source_mac=0, told=0b1000, quanta=[0, 0, 0, quanta, *[0] * 4])
    )
    flows = lab.flows((1, 2, 1000, 0))
    columns = {name: flows[name].copy() for name in flows.dtype.names if name != "write"}
    plane.submit(**columns)
    now, done = plane.advance(10**12)
    assert done.tolist() == [0]
    frame = 1082 * 80
    assert now == max(quanta * QUANTUM_PS, frame) + frame
    assert plane.pause_table()["paused_ps"].tolist() == [quanta * QUANTUM_PS]


def test_a_later_pause_replaces_an_earlier_one(lab, live):
    fabric = lab.star(2, delay=0, latency=0)
    discipline = Discipline(ecn="off", response_ps=0)
    plane = live.plane(fabric, equal_cost(fabric), discipline, FREE, seed=1)
    for quanta in (0xFFFF, 100):
        plane.inject(1, _live.pause_frame(source_mac=0, told=0b1000, quanta=[quanta] * 8))
    plane.advance(10**12)
    assert plane.pause_table()["paused_ps"].tolist() == [100 * QUANTUM_PS]


def test_damaged_and_unknown_frames_are_counted_and_change_nothing(star, lab):
    good = {
        "source_mac": 0, "destination_mac": 0, "source_ip": 0x0A000002,
        "destination_ip": 0x0A000004, "source_port": 50_000, "kind": "data", "priority": 3,
        "flow": 99, "sequence": 0, "payload": 64,
    }  # fmt: skip
    frame = bytearray(_live.roce_frame(**good))
    star.inject(0, bytes(frame))
    frame[60] ^= 1
    star.inject(0, bytes(frame))
    star.advance(10 * US)
    totals = star.totals()
    assert (totals["unknown"], totals["damaged"]) == (1, 1)
    assert totals["bytes_delivered"] == totals["bytes_discarded"] == 0


@settings(max_examples=200, deadline=None)
@given(
    frames=st.lists(st.tuples(st.integers(0, 5), st.binary(min_size=1, max_size=90)), max_size=8)
)
def test_no_frame_upsets_a_switch_or_a_nic(lab, live, frames):
    fabric = lab.star(3)
    plane = live.plane(fabric, equal_cost(fabric), Discipline(), FREE, seed=1)
    kinds = [b"\x08\x00\x45", b"\x08\x06", b"\x88\x08\x01\x01", b"\x88\xb5"]
    for port, body in frames:
        plane.inject(port, mac(4) + mac(3) + kinds[body[0] % 4] + body)
    plane.advance(10**9)
    assert plane.totals()["drops_lossless"] == 0


def test_a_flow_that_is_handed_over_late_starts_at_once_and_is_told(star, lab):
    star.advance(5 * US)
    flows = lab.flows((1, 2, 1000, 2 * US), (2, 3, 1000, 6 * US))
    columns = {name: flows[name].copy() for name in flows.dtype.names if name != "write"}
    star.submit(**columns)
    totals = star.totals()
    assert (totals["late_flows"], totals["latest_flow_ps"]) == (1, 3 * US)
    # One frame of 1,082 B over two links of 100 Gbps, from the present and from its release.
    assert star.advance(US * 10)[0] == 5 * US + 2 * 1082 * 80
    assert star.advance(US * 10)[0] == 6 * US + 2 * 1082 * 80
    assert star.unfinished == 0
