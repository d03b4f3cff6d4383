"""Captures keep every nanosecond, and what is damaged is refused with its place."""

import os
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traffic.wire.pcapng import Captured, CaptureError, CaptureWriter, read_capture

NOW = 1_764_460_800_123_456_789  # a double has 256 ns here


@st.composite
def captured(draw: st.DrawFn) -> Captured:
    frame = draw(st.binary(max_size=200))
    cut = draw(st.integers(0, 5000))
    at = draw(st.integers(0, 2**62))
    return Captured(at, frame, len(frame) + cut, draw(st.integers(0, 1)))


@given(st.lists(captured(), max_size=20))
@settings(max_examples=50)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, rows: list) -> None:
    file = tmp_path_factory.mktemp("capture") / "a.pcapng"
    with CaptureWriter(file, ["leaf0:0", "leaf0:1"], comment="a test") as writer:
        for row in rows:
            writer.write(row)
        writer.lost(0, NOW, len(rows), 3)
    assert list(read_capture(file)) == rows


def test_the_bytes_are_those_of_the_format(tmp_path: Path) -> None:
    file = tmp_path / "a.pcapng"
    with CaptureWriter(file, ["e0"]) as writer:
        writer.write(Captured(2**32 + 5, b"abc", 60, outgoing=True))
    expected = (
        # Section header: magic, 1.0, unknown length; option 4 (application), end.
        "0a0d0d0a" "2c000000" "4d3c2b1a" "0100" "0000" + "ff" * 8
        + "0400" "0800" + b"kvfabric".hex() + "00000000" "2c000000"
        # Interface: Ethernet, no limit; name, times in 10^-9 s, end.
        + "01000000" "28000000" "0100" "0000" "00000000"
        + "0200" "0200" + b"e0".hex() + "0000" + "0900" "0100" "09000000" + "00000000" "28000000"
        # Packet: interface 0, time high and low, 3 of 60 bytes; flags: outgoing.
        + "06000000" "30000000" "00000000" "01000000" "05000000" "03000000" "3c000000"
        + b"abc".hex() + "00" + "0200" "0400" "02000000" + "00000000" "30000000"
    )  # fmt: skip
    assert file.read_bytes().hex() == expected


@pytest.mark.parametrize(
    ("order", "magic", "scale"),
    [
        ("<", 0xA1B2C3D4, 1000),
        (">", 0xA1B2C3D4, 1000),
        ("<", 0xA1B23C4D, 1),
        (">", 0xA1B23C4D, 1),
    ],
)
def test_classic_captures_are_read(tmp_path: Path, order: str, magic: int, scale: int) -> None:
    file = tmp_path / "a.pcap"
    head = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65_535, 1)
    record = struct.pack(f"{order}IIII", 17, 123_456, 4, 60) + b"abcd"
    file.write_bytes(head + record)
    assert list(read_capture(file)) == [Captured(17 * 10**9 + 123_456 * scale, b"abcd", 60)]


def test_scapy_reads_what_is_written(tmp_path: Path) -> None:
    utils = pytest.importorskip("scapy.utils")
    file = tmp_path / "a.pcapng"
    with CaptureWriter(file, ["e0"]) as writer:
        writer.write(Captured(NOW, bytes(range(64)), 64))
    (packet,) = utils.rdpcap(str(file))
    assert bytes(packet) == bytes(range(64))
    assert int(packet.time * 10**9) == NOW


def _whole(tmp_path: Path) -> bytes:
    file = tmp_path / "whole.pcapng"
    with CaptureWriter(file, ["e0"]) as writer:
        writer.write(Captured(NOW, b"abcd", 4))
        writer.write(Captured(NOW, b"abcd", 4))
    return file.read_bytes()


@pytest.mark.parametrize("cut", [1, 8, 30])
def test_a_capture_that_was_cut_off_is_told(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "cut.pcapng"
    file.write_bytes(_whole(tmp_path)[:-cut])
    with pytest.raises(CaptureError, match="ends inside frame 2") as caught:
        list(read_capture(file))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "neither pcap nor pcapng"),
        (b"hello world", "neither pcap nor pcapng"),
        (struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 9, 113), "link type 113"),
        (struct.pack("<IHHiIIIIIII", 0xA1B2C3D4, 2, 4, 0, 0, 9, 1, 0, 0, 2**31, 4), "no frame is"),
        (struct.pack("<III", 0x0A0D0D0A, 2**31, 0x1A2B3C4D), "a block of 2GiB"),
    ],
)
def test_hostile_files_are_refused_in_one_line(
    tmp_path: Path, content: bytes, message: str
) -> None:
    file = tmp_path / "bad.pcap"
    file.write_bytes(content)
    with pytest.raises(CaptureError, match=message) as caught:
        list(read_capture(file))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="no such file"):
        list(read_capture(tmp_path / "none.pcap"))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.pcapng")
    with pytest.raises(CaptureError, match="not a file"):
        list(read_capture(tmp_path / "a.pcapng"))


def test_a_full_disk_is_told_of_the_capture() -> None:
    with (
        pytest.raises(CaptureError, match=r"^/dev/full: No space left on device; the capture ends"),
        CaptureWriter(Path("/dev/full"), ["e0"]) as writer,
    ):
        writer.write(Captured(NOW, b"abc", 60))
