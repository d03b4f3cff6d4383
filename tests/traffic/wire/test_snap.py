"""A capture that was cut by its snap length is not sent as if it were whole."""

from pathlib import Path

import pytest

from traffic.wire.pcapng import Captured, CaptureError, CaptureWriter
from traffic.wire.snap import whole

WHOLE = Captured(0, bytes(range(60)), 60)
CUT = Captured(1000, bytes(range(96)), 4170)


def _capture(folder: Path, *frames: Captured) -> Path:
    file = folder / "lab.pcapng"
    with CaptureWriter(file, ["e0"]) as writer:
        for one in frames:
            writer.write(one)
    return file


def test_whole_frames_are_left_as_they_are(tmp_path: Path) -> None:
    file = _capture(tmp_path, WHOLE, WHOLE)
    assert list(whole(file)) == list(whole(file, pad=True)) == [WHOLE, WHOLE]


def test_cut_frames_are_refused_with_how_many_and_what_to_do(tmp_path: Path) -> None:
    file = _capture(tmp_path, WHOLE, CUT, CUT)
    with pytest.raises(CaptureError) as told:
        list(whole(file))
    assert str(told.value) == (
        f"{file}: 2 of 3 frames were cut at 96B by its snap length (the longest had 4170B): "
        "they would leave shorter than they were; capture with -s 0, or write --pad to fill them "
        "with zeros"
    )


def test_padded_ones_take_their_length_again(tmp_path: Path) -> None:
    one, other = whole(_capture(tmp_path, CUT, WHOLE), pad=True)
    assert one.frame == CUT.frame + bytes(4170 - 96)
    assert other == WHOLE
