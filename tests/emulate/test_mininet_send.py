"""Frames are sent in time and counted as they leave, by a socket of any kind."""

import socket
from collections.abc import Iterator

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("emulate._live", reason="frames are sent on Linux alone")

import emulate.mininet.inject as module
import emulate.mininet.place
import kvfabric.command.inject as verb
from emulate.mininet.inject import Batch, Injected, frame_batches, send

HOUR = 3_600_000_000_000

Ends = tuple[socket.socket, socket.socket]


@pytest.fixture(name="ends")
def _ends() -> Iterator[Ends]:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with near, far:
        far.settimeout(10)
        yield near, far


def test_all_frames_are_counted_with_their_bytes(ends: Ends) -> None:
    near, far = ends
    frames = [bytes(60), bytes(70), bytes(80)]
    sent = send(frame_batches(np.array([0, 1000, 2000]), frames), near, "wire")
    assert [far.recv(2000) for _ in frames] == frames
    assert (sent.frames, sent.size, sent.interrupted) == (3, 210, False)
    assert 0 <= sent.late_p50_ns <= sent.late_p99_ns


def test_what_left_before_an_interruption_is_counted_and_no_more(ends: Ends) -> None:
    near, far = ends

    def batches() -> Iterator[Batch]:
        yield bytes(130), np.array([60, 70]), np.array([0, HOUR])
        assert len(far.recv(2000)) == 60
        raise KeyboardInterrupt

    sent = send(batches(), near, "wire")
    assert (sent.frames, sent.size, sent.interrupted) == (1, 60, True)


def test_an_interruption_before_the_first_frame_counts_none(ends: Ends) -> None:
    def batches() -> Iterator[Batch]:
        raise KeyboardInterrupt
        yield

    assert send(batches(), ends[0], "wire").frames == 0


def test_the_command_tells_what_left_before_an_interruption(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    half = Injected(7, 490, 0.5, 1000, 2000, arrived=6, interrupted=True)
    monkeypatch.setattr(module, "inject", lambda *_, **__: half)
    monkeypatch.setattr(emulate.mininet.place, "place", lambda *_: None)
    monkeypatch.setattr(verb, "_bursts", lambda *_, **__: ([], 9))
    done = CliRunner().invoke(verb.command, ["a", "b"], standalone_mode=False)
    assert done.return_value == 130
    assert done.output.startswith("7 frame(s), 490 B in 0.5 s")
    assert "6 frame(s) came in at b" in done.output
    assert "interrupted: what was sent until then is told" in done.output
