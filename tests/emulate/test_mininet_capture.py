"""A capture has every frame that crossed an interface, in any namespace, and which way it went."""

import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from emulate.mininet.capture import Tap, capture
from emulate.mininet.error import EmulationError
from emulate.mininet.namespace import inside, namespace_file
from emulate.mininet.place import Place, place
from emulate.mininet.program import call
from emulate.mininet.support import may_network
from traffic.wire.pcapng import Captured, read_capture

_MISSING = may_network()

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(_MISSING is not None, reason=f"no network here: {_MISSING}"),
]

FRAMES = [
    bytes([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xB5]) + bytes([i]) * 46 for i in range(5)
]


@pytest.fixture(name="space")
def _space() -> Iterator[Path]:
    name = f"kvcap-{os.getpid()}"
    call("ip", "netns", "add", name)
    try:
        lines = [
            "link add left type veth peer name right",
            "link set left up",
            "link set right up",
        ]
        for line in lines:
            call("ip", "-n", name, *line.split())
        with inside(namespace_file(name)):
            for interface in ("left", "right"):
                Path(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6").write_text("1")
        yield namespace_file(name)
    finally:
        call("ip", "netns", "delete", name)


def _send(space: Path, interface: str) -> None:
    with inside(space):
        sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    with sender:
        sender.bind((interface, 0x88B5))
        for frame in FRAMES:
            sender.send(frame)


def _ours(rows: list[Captured]) -> list[Captured]:
    return [row for row in rows if row.frame[12:14] == b"\x88\xb5"]


def test_frames_are_seen_on_both_ends_with_their_direction(space: Path, tmp_path: Path) -> None:
    with (
        Tap("left", namespace=space) as near,
        Tap("right", namespace=space, label="leaf0:3") as far,
    ):
        before = time.time_ns()
        _send(space, "left")
        out, came = (_ours(tap.frames(100, 1.0)) for tap in (near, far))
    assert [row.frame for row in out] == [row.frame for row in came] == FRAMES
    assert {row.outgoing for row in out} == {True}
    assert {row.outgoing for row in came} == {False}
    assert all(
        before <= a.at_ns <= b.at_ns <= time.time_ns() for a, b in zip(out, came, strict=True)
    )


def test_a_capture_is_a_file_that_others_read(space: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.pcapng"
    with Tap("right", namespace=space) as tap:
        sender = Thread(target=_send, args=(space, "left"))
        sender.start()
        caught = capture(tap, file, count=5, duration_s=5.0)
        sender.join()
    assert (caught.frames, caught.lost) == (5, 0)
    assert [row.frame for row in read_capture(file)] == FRAMES


def test_a_capture_ends_by_the_clock(space: Path, tmp_path: Path) -> None:
    with Tap("right", namespace=space) as tap:
        began = time.monotonic()
        capture(tap, tmp_path / "a.pcapng", duration_s=0.3)
        assert 0.25 < time.monotonic() - began < 3


def test_a_capture_goes_on_when_its_interface_was_down_and_ends_when_it_is_gone(
    space: Path, tmp_path: Path
) -> None:
    def meddle() -> None:
        time.sleep(0.3)
        call("ip", "-n", space.name, "link", "set", "right", "down")
        time.sleep(0.3)
        call("ip", "-n", space.name, "link", "set", "right", "up")
        time.sleep(0.3)
        _send(space, "left")
        call("ip", "-n", space.name, "link", "delete", "left")

    with Tap("right", namespace=space) as tap:
        thread = Thread(target=meddle)
        thread.start()
        caught = capture(tap, tmp_path / "a.pcapng", duration_s=60)
        thread.join()
    assert caught.gone
    assert caught.frames == len(list(read_capture(tmp_path / "a.pcapng"))) == len(FRAMES)


def test_an_interface_that_is_not_there_is_told(space: Path) -> None:
    with pytest.raises(EmulationError, match=r"interface 'middle' in namespace .*: No such device"):
        Tap("middle", namespace=space)


def test_a_port_without_a_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(EmulationError, match="no run is under way"):
        place("leaf0:3", base=tmp_path)


def test_an_interface_is_taken_as_it_is(space: Path) -> None:
    assert place("eth7") == Place("eth7", None, "eth7")
    assert place("left", space.name) == Place("left", space, "left")
    assert json.loads(call("ip", "-json", "link"))
