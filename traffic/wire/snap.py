"""Frames that a capture's snap length cut: what is left of them is not what was on the wire."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from topo.unit import size_text
from traffic.wire.pcapng import Captured, CaptureError, read_capture


def whole(file: Path, *, pad: bool = False) -> Iterator[Captured]:
    """The frames of a capture as they are to be sent again: at the length they had on the wire.

    pad: a cut one gets zeros for the bytes that are missing, so that it takes its time on the link;
    its checksums and ICRC are wrong, and a receiver drops it. Otherwise raises `CaptureError`, once
    all are counted.
    """
    cut, total, longest, most = 0, 0, 0, 0
    for one in read_capture(file):
        total += 1
        if one.length <= len(one.frame):
            yield one
        elif pad:
            yield replace(one, frame=one.frame + bytes(one.length - len(one.frame)))
        else:
            cut += 1
            longest, most = max(longest, one.length), max(most, len(one.frame))
    if cut:
        raise CaptureError(
            f"{file}: {cut:,} of {total:,} frames were cut at {size_text(most)} by its snap length "
            f"(the longest had {size_text(longest)}): they would leave shorter than "
            "they were; capture with -s 0, or write --pad to fill them with zeros"
        )
