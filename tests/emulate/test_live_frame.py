"""Frames byte for byte: against an independent implementation of the formats, and literal bytes.

Scapy builds and reads the same frames from the same facts; the pause frame is that of IEEE
802.1Qbb written out.
"""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

_live = pytest.importorskip("emulate._live", reason="real frames need Linux")
pytest.importorskip("scapy", reason="install scapy to compare frames with it")

from scapy.contrib.mac_control import (  # noqa: E402
    MACControlClassBasedFlowControl,
)
from scapy.contrib.roce import AETH, BTH, CNPPadding  # noqa: E402
from scapy.layers.inet import IP, UDP  # noqa: E402
from scapy.layers.l2 import ARP, Ether  # noqa: E402
from scapy.packet import Raw  # noqa: E402

A, B = 0x020000000001, 0x020000000002
ENDS = {
    "source_mac": A,
    "destination_mac": B,
    "source_ip": 0x0A000001,
    "destination_ip": 0x0A000002,
    "source_port": 49_777,
}
PSN_NAK = 0x60


def under(priority, ecn, attempt):
    """Ethernet, IPv4 and UDP of a RoCEv2 frame."""
    return (
        Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        / IP(src="10.0.0.1", dst="10.0.0.2", tos=priority << 2 | ecn, id=attempt, flags="DF")
        / UDP(sport=49_777, dport=4791, chksum=0)
    )


def test_a_pause_frame_is_that_of_the_standard():
    frame = _live.pause_frame(source_mac=A, told=0b00001001, quanta=[0xFFFF, 0, 0, 0, 0, 0, 0, 0])
    literal = (
        bytes.fromhex("0180c2000001") + bytes.fromhex("020000000001") + bytes.fromhex("8808")
        + bytes.fromhex("0101") + bytes.fromhex("0009") + bytes.fromhex("ffff") + bytes(7 * 2)
    )  # fmt: skip
    assert frame == literal + bytes(60 - len(literal))
    assert _live.headers(frame)["quanta"] == [0xFFFF, 0, 0, 0, 0, 0, 0, 0]
    theirs = Ether(src="02:00:00:00:00:01", dst="01:80:c2:00:00:01") / (
        MACControlClassBasedFlowControl(c0_enabled=1, c0_pause_time=0xFFFF, c3_enabled=1)
    )
    assert frame.startswith(bytes(theirs).ljust(34, b"\0"))


@settings(max_examples=40, deadline=None)
@given(
    flow=st.integers(0, 2**24 - 1),
    sequence=st.integers(0, 2**24 - 1),
    attempt=st.integers(0, 2**16 - 1),
    priority=st.integers(0, 7),
    payload=st.integers(1, 300),
    asks=st.booleans(),
)
def test_a_middle_packet_is_scapys_byte_for_byte(flow, sequence, attempt, priority, payload, asks):
    ours = _live.roce_frame(
        **ENDS, kind="data", priority=priority, flow=flow, sequence=sequence, attempt=attempt,
        payload=payload, asks=asks,
    )  # fmt: skip
    pad = -payload % 4
    bth = BTH(opcode=0x07, padcount=pad, dqpn=flow, ackreq=asks, psn=sequence, pkey=0xFFFF)
    theirs = bytes(under(priority, 2, attempt) / bth / Raw(bytes(payload + pad)))
    assert ours == theirs
    seen = _live.headers(ours)
    assert (seen["flow"], seen["sequence"], seen["attempt"]) == (flow, sequence, attempt)
    assert (seen["priority"], seen["ecn"], seen["asks"]) == (priority, 2, asks)
    assert (seen["payload"], seen["wire"]) == (payload, payload + 82)
    assert _live.intact(ours)


@pytest.mark.parametrize(("kind", "syndrome", "psn"), [("ack", 0x1F, 99), ("nak", PSN_NAK, 100)])
def test_an_answer_is_scapys_byte_for_byte(kind, syndrome, psn):
    ours = _live.roce_frame(
        **ENDS, kind=kind, priority=3, flow=7, sequence=100, attempt=5, messages=4
    )
    bth = BTH(opcode=0x11, dqpn=7, psn=psn, pkey=0xFFFF)
    assert ours == bytes(under(3, 0, 5) / bth / AETH(syndrome=syndrome, msn=4))
    seen = _live.headers(ours)
    assert (seen["kind"], seen["sequence"], seen["messages"], seen["wire"]) == (kind, 100, 4, 86)


def test_a_congestion_notification_is_scapys_byte_for_byte():
    ours = _live.roce_frame(**ENDS, kind="cnp", priority=6, flow=7, sequence=100, attempt=1)
    bth = BTH(opcode=0x81, becn=1, dqpn=7, psn=0, pkey=0xFFFF)
    assert ours == bytes(under(6, 0, 1) / bth / CNPPadding())
    seen = _live.headers(ours)
    assert (seen["kind"], seen["wire"], seen["priority"]) == ("cnp", 98, 6)


@pytest.mark.parametrize(
    ("first", "last", "payload", "opcode"),
    [
        (True, True, 16, 0x0A), (True, True, 15, 0x04), (True, False, 4096, 0x06),
        (False, True, 5, 0x08), (False, False, 4096, 0x07),
    ],
)  # fmt: skip
def test_the_opcode_says_where_a_packet_stands_in_its_write(first, last, payload, opcode):
    frame = _live.roce_frame(
        **ENDS, kind="data", priority=3, flow=9, sequence=1, payload=payload, first=first,
        last=last, offset=4096, message=70_000,
    )  # fmt: skip
    assert frame[42] == opcode
    assert _live.headers(frame)["payload"] == payload
    if first and payload >= 16:
        # RETH: virtual address, key, length of the write.
        assert struct.unpack("!QII", frame[54:70]) == (4096, 9, 70_000)


def test_a_mark_changes_nothing_but_the_mark_and_the_header_checksum():
    frame = _live.roce_frame(**ENDS, kind="data", priority=3, flow=9, sequence=1, payload=100)
    marked = _live.congested(frame)
    assert {i for i in range(len(frame)) if frame[i] != marked[i]} <= {15, 24, 25}
    assert marked[15] & 3 == 3
    # Scapy computes the checksum anew; the ICRC does not cover what switches may change.
    anew = Ether(marked)
    del anew[IP].chksum
    assert bytes(anew) == marked
    assert _live.intact(marked)


@settings(max_examples=30, deadline=None)
@given(place=st.integers(42, 161), bit=st.integers(0, 7))
def test_any_flipped_bit_behind_the_headers_is_found(place, bit):
    frame = bytearray(
        _live.roce_frame(**ENDS, kind="data", priority=3, flow=9, sequence=1, payload=104)
    )
    frame[place] ^= 1 << bit
    # The byte of the congestion notification bits may be changed on the way.
    assert _live.intact(bytes(frame)) == (place == 46)


@settings(max_examples=200, deadline=None)
@given(frame=st.binary(max_size=120))
def test_no_bytes_upset_the_parser(frame):
    assert _live.headers(frame)["wire"] == max(len(frame), 60) + 24


def test_other_frames_are_known_by_their_addresses():
    echo = bytes(Ether() / IP(src="10.0.0.1", dst="10.0.0.2"))
    assert _live.headers(echo)["what"] == "ip"
    asks = _live.headers(bytes(Ether() / ARP(psrc="10.0.0.1", pdst="10.0.0.2")))
    assert (asks["what"], asks["destination_ip"]) == ("arp", 0x0A000002)
    assert _live.headers(bytes(Ether(type=0x86DD)))["what"] == "other"
