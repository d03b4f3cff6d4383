"""Injected bursts arrive whole, in order, at their times, in any namespace."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from emulate.mininet.capture import Tap
from emulate.mininet.error import EmulationError
from emulate.mininet.inject import (
    Batch,
    Ends,
    burst_batches,
    frame_batches,
    inject,
    ip_of,
    mac_of,
    refuse_long,
    refuse_mtu,
)
from emulate.mininet.namespace import namespace_file
from emulate.mininet.place import Place
from emulate.mininet.program import call
from emulate.mininet.support import may_emulate
from traffic.wire.burst import Bursts
from traffic.wire.frame import Ends as FrameEnds
from traffic.wire.frame import data_frame
from traffic.wire.pcapng import Captured, CaptureWriter

_MISSING = may_emulate()

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(_MISSING is not None, reason=f"no network here: {_MISSING}"),
]

ENDS = Ends("02:00:00:00:00:01", "02:00:00:00:00:02", "10.9.0.1", "10.9.0.2")


@pytest.fixture(name="pair", scope="module")
def _pair() -> Iterator[tuple[Place, Place]]:
    """The two ends of a cable, each in a namespace of its own."""
    names = [f"kvinj{side}-{os.getpid()}" for side in "ab"]
    for name in names:
        call("ip", "netns", "add", name)
    try:
        cable = f"link add wire netns {names[0]} address {ENDS.source_mac} type veth peer name "
        cable += f"wire netns {names[1]} address {ENDS.destination_mac}"
        call("ip", *cable.split())
        for name, address in zip(names, (ENDS.source_ip, ENDS.destination_ip), strict=True):
            call("ip", "-n", name, "link", "set", "wire", "mtu", "4200", "up")
            call("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "wire")
        near, far = (Place("wire", namespace_file(name), "wire") for name in names)
        yield near, far
    finally:
        for name in names:
            call("ip", "netns", "delete", name)


def _udp(rows: list[Captured]) -> list[Captured]:
    return [r for r in rows if r.frame[12:14] == b"\x08\x00" and r.frame[36:38] == b"\x12\xb7"]


def test_addresses_are_those_of_the_interface(pair: tuple[Place, Place]) -> None:
    near, far = pair
    assert (mac_of(near), mac_of(far)) == (ENDS.source_mac, ENDS.destination_mac)
    assert (ip_of(near), ip_of(far)) == (ENDS.source_ip, ENDS.destination_ip)


def test_a_burst_arrives_whole_and_at_its_rate(pair: tuple[Place, Place]) -> None:
    near, far = pair
    plan = Bursts(np.array([0, 20_000_000]), np.array([40_000, 10_000]))
    batches = list(burst_batches(plan, ENDS, rate_bps=50 * 10**6, mtu=1000, priority=3))
    with Tap("wire", namespace=far.namespace) as tap:
        sent = inject(batches, near, far)
        came = _udp(tap.frames(1000, 1.0))
    assert sent.frames == len(came) == 50
    assert sent.arrived is not None
    assert sent.arrived >= 50
    assert b"".join(row.frame for row in came) == b"".join(data for data, _, _ in batches)
    # 40 packets of 1,082 bytes on the wire at 50 Mbps, 173 us each; no frame is early, and none is
    # later than the sender says.
    slack = sent.late_p99_ns + 2_000_000
    assert abs(came[39].at_ns - came[0].at_ns - 39 * 173_120) <= slack
    assert abs(came[40].at_ns - came[0].at_ns - 20_000_000) <= slack


def test_the_frames_are_what_scapy_builds(pair: tuple[Place, Place]) -> None:
    pytest.importorskip("scapy")
    plan = Bursts(np.array([0]), np.array([2500]))
    ((data, length, _),) = burst_batches(plan, ENDS, rate_bps=10**9, mtu=1000, priority=3)
    middle = data[length[0] : length[0] + length[1]]
    ends = FrameEnds(*vars_of(ENDS), 0xC000)
    built = data_frame(ends, queue_pair=16, sequence=1, payload=bytes(1000))
    # Scapy's IP identification is 0, as is that of a packet's first attempt.
    assert middle == built


def vars_of(ends: Ends) -> tuple[str, str, str, str]:
    return ends.source_mac, ends.destination_mac, ends.source_ip, ends.destination_ip


def test_a_capture_is_sent_again(pair: tuple[Place, Place]) -> None:
    near, far = pair
    head = bytes.fromhex("02000000000202000000000108004500")
    frames = [head + bytes(20) + b"\x12\xb7" + bytes([i]) * 40 for i in range(3)]
    with Tap("wire", namespace=far.namespace) as tap:
        inject(frame_batches(np.array([0, 10**6, 2 * 10**6]), frames), near, far)
        came = _udp(tap.frames(100, 1.0))
    assert [row.frame for row in came] == frames


def test_a_frame_that_does_not_fit_is_refused(pair: tuple[Place, Place]) -> None:
    refuse_mtu(pair[0], 4096)
    with pytest.raises(EmulationError, match=r"mtu 4200B: .* write at most 4156"):
        refuse_mtu(pair[0], 4200)


def test_a_captured_frame_that_the_interface_cannot_send_is_refused(
    pair: tuple[Place, Place],
) -> None:
    refuse_long(pair[0], [bytes(60), bytes(4200 + 18)])
    with pytest.raises(EmulationError, match=r"frame 2 of 65226B: above the MTU of wire, 4200B"):
        refuse_long(pair[0], [bytes(60), bytes(65_226)])


def test_the_command_sends_prompts_and_captures(pair: tuple[Place, Place], tmp_path: Path) -> None:
    from kvfabric.command.inject import command

    near, far = pair
    assert near.namespace is not None
    assert far.namespace is not None
    spaces = ["--namespace", near.namespace.name, "--to-namespace", far.namespace.name]
    done = CliRunner().invoke(
        command,
        ["wire", "wire", *spaces, "--count", "1", "--profile", "short_short", "--rate", "2Gbps"],
        standalone_mode=False,
    )
    assert done.exception is None, done.output
    assert done.return_value == 0
    assert "came in at wire" in done.output
    file = tmp_path / "a.pcapng"
    with CaptureWriter(file, ["wire"]) as writer:
        writer.write(Captured(1, bytes(60), 900))
    again = ["wire", "wire", *spaces, "--pcap", str(file)]
    done = CliRunner().invoke(command, again, standalone_mode=False)
    assert "1 of 1 frames were cut at 60B" in str(done.exception)
    done = CliRunner().invoke(command, [*again, "--pad"], standalone_mode=False)
    assert done.exception is None
    assert "1 frame(s), 900 B" in done.output


def test_no_destination_is_one_line(pair: tuple[Place, Place]) -> None:
    from kvfabric.command.inject import command
    from topo.error import KvfabricError

    near, _ = pair
    assert near.namespace is not None
    done = CliRunner().invoke(
        command, ["wire", "--namespace", near.namespace.name], standalone_mode=False
    )
    assert isinstance(done.exception, KvfabricError)
    assert "no destination" in str(done.exception)


def test_an_interruption_does_not_wait_for_frames_that_are_due_in_an_hour(
    pair: tuple[Place, Place],
) -> None:
    near, far = pair
    hour = 3_600_000_000_000

    def batches() -> Iterator[Batch]:
        at = np.array([0, hour], np.int64)
        yield bytes(128), np.array([64, 64]), at
        raise KeyboardInterrupt

    begin = time.monotonic()
    assert inject(batches(), near, far).interrupted
    assert time.monotonic() - begin < 60
