"""Headers and descriptors of lone flows, by hand and against the emulators' ideal."""

import numpy as np
import pytest

from analysis.observed import LONE
from emulate.ideal import ideal_ps
from emulate.transport import Transport
from kvfabric.lone import lone
from traffic.emulator import FLOW

GBPS = 10**9
MTU = 4096


def flows(*rows: tuple[int, int]) -> np.ndarray:
    """Bytes and descriptors."""
    made = np.zeros(len(rows), FLOW)
    made["flow"] = np.arange(len(rows))
    made["bytes"], made["descriptors"] = zip(*rows, strict=True)
    return made


def test_headers_are_82_bytes_a_frame_at_the_rate_of_the_nic() -> None:
    found = lone(flows((2 * MTU, 1), (1, 1)), np.array([4, 4]), 80 * GBPS, Transport(mtu=MTU))
    assert tuple(found) == LONE
    assert found["headers_ps"].tolist() == [2 * 82 * 100, 82 * 100]  # 100 ps a byte
    assert found["descriptors_ps"].tolist() == [0, 0]


def test_descriptors_that_leave_frames_unfilled_add_their_headers() -> None:
    # Two frames of 2,048 bytes in place of one of 4,096 over two hops: a header more on the wire,
    # and half of a frame less to be stored on the way.
    found = lone(flows((MTU, 2)), np.array([2]), 80 * GBPS, Transport(mtu=MTU))
    once = ideal_ps(MTU, MTU, [80 * GBPS] * 2, 0)
    assert found["descriptors_ps"].tolist() == [3 * (2048 + 82) * 100 - once]


def test_descriptors_that_take_longer_to_issue_than_to_send_make_the_time() -> None:
    issue = 10**6
    found = lone(
        flows((10 * MTU, 10)), np.array([1]), 80 * GBPS, Transport(mtu=MTU, issue_ps=issue)
    )
    frame = (MTU + 82) * 100
    assert found["descriptors_ps"].tolist() == [10 * issue + frame - 10 * frame]


@pytest.mark.parametrize("size", [1, MTU, 25_000_000])
def test_a_single_descriptor_without_a_time_to_issue_adds_nothing(size: int) -> None:
    found = lone(flows((size, 1)), np.array([3]), 400 * GBPS, Transport(mtu=MTU))
    assert found["descriptors_ps"].tolist() == [0]
