"""Frames are, byte for byte, what the standards say."""

import struct
import zlib

import pytest

from traffic.wire.frame import (
    WRITE_FIRST,
    WRITE_ONLY,
    Ends,
    FrameError,
    ack_frame,
    cnp_frame,
    data_frame,
    pause_frame,
)

pytest.importorskip("scapy", reason="Scapy builds the frames: pip install 'kvfabric[mininet]'")

ENDS = Ends("02:00:00:00:00:01", "02:00:00:00:00:02", "10.0.0.1", "10.0.0.2", 50_000)
ETHERNET = "0200000000020200000000010800"
ADDRESSES = "0a0000010a000002"


def _icrc(frame: bytes) -> bytes:
    """InfiniBand annex A17.3.3: CRC-32 over the packet with the fields that routers change as
    ones, behind eight bytes of ones."""
    masked = bytearray(frame[14:-4])
    for place in (1, 8, 10, 11, 26, 27, 32):  # TOS, TTL, checksums of IP and UDP, FECN and BECN
        masked[place] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(masked)))


def test_a_pause_frame_stops_one_class() -> None:
    expected = "0180c2000001020000000001880801010008" + "0000" * 3 + "ffff" + "0000" * 4
    assert pause_frame("02:00:00:00:00:01", {3: 65_535}) == bytes.fromhex(expected).ljust(60, b"\0")


def test_a_pause_frame_lets_one_class_go_on_and_stops_another() -> None:
    frame = pause_frame("02:00:00:00:00:01", {3: 0, 4: 100})
    assert frame[16:18] == b"\x00\x18"
    assert struct.unpack("!8H", frame[18:34]) == (0, 0, 0, 0, 100, 0, 0, 0)


def test_a_data_frame_is_ethernet_ip_udp_bth_payload_icrc() -> None:
    frame = data_frame(ENDS, queue_pair=7, sequence=9, payload=b"abcde", priority=3)
    ip = "450e003400004000401126a9" + ADDRESSES
    udp = "c35012b700200000"
    # RDMA write middle, three bytes of padding, default partition, queue pair 7, packet 9.
    bth = "0730ffff0000000700000009"
    body = bytes.fromhex(ETHERNET + ip + udp + bth) + b"abcde\0\0\0"
    assert frame[:-4] == body
    assert frame[-4:] == _icrc(frame)


@pytest.mark.parametrize("opcode", [WRITE_FIRST, WRITE_ONLY])
def test_the_first_packet_of_a_write_begins_with_a_reth(opcode: int) -> None:
    frame = data_frame(ENDS, queue_pair=7, sequence=0, payload=b"abcd", opcode=opcode)
    assert frame[42] == opcode
    assert frame[54:-4] == bytes(16) + b"abcd"


def test_a_mark_is_congestion_experienced_and_leaves_the_icrc() -> None:
    plain, marked = (
        data_frame(ENDS, queue_pair=7, sequence=9, payload=b"abcd", marked=m) for m in (False, True)
    )
    assert (plain[15] & 3, marked[15] & 3) == (2, 3)
    assert plain[-4:] == marked[-4:]


def test_the_class_is_the_dscp() -> None:
    frame = data_frame(ENDS, queue_pair=7, sequence=9, payload=b"abcd", priority=5)
    assert frame[15] >> 2 == 5


def test_an_ack_asks_for_nothing_and_a_nak_for_the_lost_packet() -> None:
    ack = ack_frame(ENDS, queue_pair=7, sequence=9)
    nak = ack_frame(ENDS, queue_pair=7, sequence=9, lost=True)
    assert ack[42] == nak[42] == 0x11
    assert (ack[54], nak[54]) == (0x00, 0x60)  # AETH: ACK, and NAK of a sequence error
    assert ack[-4:] == _icrc(ack)
    assert len(ack) == 14 + 20 + 8 + 12 + 4 + 4


def test_a_cnp_has_its_opcode_becn_and_sixteen_reserved_bytes() -> None:
    frame = cnp_frame(ENDS, queue_pair=7)
    assert frame[42] == 0x81
    assert frame[46] == 0x40  # BECN
    assert frame[54:-4] == bytes(16)
    assert frame[15] >> 2 == 6
    assert frame[-4:] == _icrc(frame)


def test_what_no_frame_can_say_is_refused() -> None:
    with pytest.raises(FrameError, match="pause of class 8"):
        pause_frame("02:00:00:00:00:01", {8: 1})
    with pytest.raises(FrameError, match="priority 9: write 0 to 7"):
        cnp_frame(ENDS, queue_pair=1, priority=9)
