"""A burst plan sends every byte once, back to back, at the line rate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.unit import PS_PER_MS
from traffic.model import model
from traffic.request import request_table
from traffic.wire.burst import OVERHEAD, BurstError, Bursts, burst_frames, bursts


def _plan(*rows: tuple[int, int]) -> Bursts:
    release, size = zip(*rows, strict=True)
    return Bursts(np.array(release, np.int64), np.array(size, np.int64))


def test_packets_follow_each_other_at_the_line_rate() -> None:
    (rows,) = _plan((1000, 2500)).packets(8 * 10**9, 1000)  # a byte a nanosecond
    assert rows["bytes"].tolist() == [1000, 1000, 500]
    assert rows["at_ns"].tolist() == [1000, 1000 + 1082, 1000 + 2 * 1082]
    assert rows["last"].tolist() == [False, False, True]


def test_a_message_waits_for_the_one_before_it() -> None:
    first, second, third = _plan((0, 1000), (10, 1), (5000, 1)).packets(8 * 10**9, 1000)
    assert first["at_ns"].tolist() == [0]
    assert second["at_ns"].tolist() == [1082]
    assert third["at_ns"].tolist() == [5000]


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**5)), min_size=1, max_size=20),
    st.integers(64, 9000),
)
def test_every_byte_is_sent_once_and_never_above_the_rate(
    rows: list[tuple[int, int]], mtu: int
) -> None:
    plan = _plan(*sorted(rows))
    packets = np.concatenate(list(plan.packets(10**9, mtu)))
    sent = np.bincount(packets["message"], packets["bytes"], minlength=len(rows))
    assert sent.astype(int).tolist() == plan.size.tolist()
    assert packets["bytes"].max() <= mtu
    took = (packets["bytes"][:-1] + OVERHEAD) * 8
    assert (np.diff(packets["at_ns"]) >= took - 1).all()
    assert (packets["at_ns"] >= plan.release_ns[packets["message"]]).all()


def test_a_prompt_is_a_message_of_its_cache() -> None:
    table = request_table(
        arrival_ps=np.array([3, 5]) * PS_PER_MS, input_tokens=[550, 1], output_tokens=[1, 1]
    )
    served = model("gpt-oss-120b")
    plan = bursts(table, served, dilation=10)
    assert plan.size.tolist() == [served.kv_bytes(550), served.kv_bytes(1)]
    assert plan.release_ns.tolist() == [0, 20_000_000]


def test_captured_frames_keep_their_gaps() -> None:
    at, frames = burst_frames([(70, b"b"), (50, b"a"), (70, b"c")])
    assert (at.tolist(), frames) == ([0, 20, 20], [b"a", b"b", b"c"])


def test_what_cannot_be_sent_is_refused() -> None:
    with pytest.raises(BurstError, match="without bytes"):
        _plan((0, 0))
    with pytest.raises(BurstError, match="out of order"):
        _plan((5, 1), (4, 1))
    with pytest.raises(BurstError, match="rate 0bps, mtu"):
        list(_plan((0, 1)).packets(0, 1000))


@pytest.mark.parametrize("last", [4 * 10**18, 2**63 + 5])
@pytest.mark.parametrize("dilation", [1000, 10**20])
def test_gaps_that_no_clock_can_hold_are_refused(last: int, dilation: int) -> None:
    with pytest.raises(BurstError, match="more than 146 years"):
        burst_frames([(0, b"a"), (last, b"b")], dilation=dilation)


def test_a_lone_frame_leaves_at_once_whatever_the_dilation() -> None:
    at, frames = burst_frames([(2**63 + 5, b"a")], dilation=10**20)
    assert (at.tolist(), frames) == ([0], [b"a"])


def test_a_rate_at_which_frames_would_take_centuries_is_refused() -> None:
    with pytest.raises(BurstError, match="write a higher rate"):
        list(_plan((0, 10**6), (1, 2**32)).packets(1, 2**20))
