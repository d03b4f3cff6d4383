"""The feed hands flows over in time, skips what is idle, and changes no duration."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulate.mininet.feed import LEAD_NS, QUIET_PS, Feed, busy_ps
from emulate.mininet.plan import LANDED, STATE
from topo.unit import PS_PER_US
from traffic.emulator import FLOW

DILATION = 10_000
LEAD_PS = LEAD_NS * 1000 // DILATION
TAKES_PS = 3 * PS_PER_US


@dataclass
class FakeSession:
    """A session whose clock goes on by as much as is waited; every flow takes 3 us."""

    now_ps: int = 0
    plan: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(dilation=DILATION))
    sent: list[tuple[int, int, int]] = field(default_factory=list)  # flow, release, handed over
    queued: int = 0
    _due: list[tuple[int, int]] = field(default_factory=list)

    def send(self, flows: np.ndarray) -> None:
        for row in flows:
            release = int(row["release_ps"])
            self.sent.append((int(row["flow"]), release, self.now_ps))
            self._due.append((max(release, self.now_ps) + TAKES_PS, int(row["flow"])))
        self._due.sort()

    def landed(self, wait_s: float) -> np.ndarray:
        until = self.now_ps + max(0, round(wait_s * 1e12 / DILATION))
        if self._due and self._due[0][0] <= until:
            self.now_ps = max(self.now_ps, self._due[0][0])
        else:
            self.now_ps = until
        over = [one for one in self._due if one[0] <= self.now_ps]
        self._due = self._due[len(over) :]
        return np.array([(flow, flow, at, -1, at) for at, flow in over], LANDED)

    def real_s(self, at_ps: int) -> float:
        return (at_ps - self.now_ps) * DILATION / 1e12

    def state(self) -> np.ndarray:
        rows = np.zeros(3, STATE)
        rows["queued_bytes"][1] = self.queued
        return rows


def _flows(releases: list[int]) -> np.ndarray:
    rows = [(i, i, 0, 1, 9, 1, 0, -1, True, 3, at) for i, at in enumerate(sorted(releases))]
    return np.array(rows, FLOW)


def _drive(session: FakeSession, flows: np.ndarray) -> np.ndarray:
    feed = Feed(session)  # type: ignore[arg-type]
    feed.add(flows)
    finish = np.full(len(flows), -1, np.int64)
    while (finish < 0).any():
        feed.push()
        feed.skip(2**60)
        for row in feed.landed(feed.wait_s(2**60)):
            finish[row["flow"]] = row["finish_ps"]
    return finish


@given(st.lists(st.integers(0, 10**10), min_size=1, max_size=30))
def test_every_flow_comes_before_its_release_and_keeps_its_duration(releases: list[int]) -> None:
    session = FakeSession()
    flows = _flows([at + LEAD_PS for at in releases])
    finish = _drive(session, flows)
    assert (finish - flows["release_ps"] == TAKES_PS).all()
    assert all(handed <= release for _, release, handed in session.sent)


@given(st.lists(st.integers(0, 10**10), min_size=1, max_size=30))
def test_the_session_lasts_as_long_as_something_moves(releases: list[int]) -> None:
    session = FakeSession()
    flows = _flows([at + LEAD_PS for at in releases])
    finish = _drive(session, flows)
    moving = busy_ps(flows["release_ps"].astype(np.int64), finish, LEAD_PS)
    # Waking up to look again costs a millisecond of real time for each flow, at most.
    assert session.now_ps <= moving + (len(flows) + 1) * (QUIET_PS + 10**9 // DILATION * 1000)


def test_nothing_is_skipped_while_bytes_wait_in_a_queue() -> None:
    session = FakeSession(queued=5)
    feed = Feed(session)  # type: ignore[arg-type]
    feed.add(_flows([10**9]))
    session.now_ps = 10 * QUIET_PS
    feed.skip(10**9)
    assert feed.skipped_ps == 0
    session.queued = 0
    feed.skip(10**9)
    assert feed.clock_ps == 10**9 - LEAD_PS


def test_nothing_is_skipped_before_time_begins() -> None:
    session = FakeSession(now_ps=-5)
    feed = Feed(session)  # type: ignore[arg-type]
    feed.add(_flows([10**9]))
    feed.skip(10**9)
    assert feed.skipped_ps == 0


def test_times_of_the_session_are_told_in_the_protocols() -> None:
    session = FakeSession()
    feed = Feed(session)  # type: ignore[arg-type]
    feed.add(_flows([10**9]))
    session.now_ps = QUIET_PS
    feed.skip(2**60)
    feed.push()
    ((_, release, _),) = session.sent
    assert release == 10**9 - feed.skipped_ps
    told = feed.shifted(np.array([0, 7]), np.array([release, -1]))
    assert told.tolist() == [10**9, -1]


def test_instants_of_the_session_are_told_by_what_was_skipped_until_then() -> None:
    session = FakeSession()
    feed = Feed(session)  # type: ignore[arg-type]
    feed.add(_flows([10**9, 2 * 10**9]))
    finish = {}
    landed = {}
    for _ in range(100):
        feed.push()
        feed.skip(2**60)
        for row in feed.landed(feed.wait_s(2**60)):
            landed[int(row["flow"])] = session.now_ps
            finish[int(row["flow"])] = int(row["finish_ps"])
        if len(finish) == 2:
            break
    told = feed.unskipped(np.array([landed[0], landed[1], -1, 0]))
    assert told.tolist() == [finish[0], finish[1], -1, 0]


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**8)), min_size=1, max_size=20),
    st.integers(0, 10**7),
)
def test_busy_time_is_that_of_the_spans_joined(spans: list[tuple[int, int]], lead: int) -> None:
    release = np.array([at for at, _ in spans])
    finish = release + np.array([took for _, took in spans])
    each = finish - release + lead + QUIET_PS
    total = busy_ps(release, finish, lead)
    assert each.max() <= total <= each.sum()
    assert total <= finish.max() - release.min() + lead + QUIET_PS


def test_spans_apart_add_up() -> None:
    release, finish = np.array([0, 10**9]), np.array([5, 10**9 + 7])
    assert busy_ps(release, finish, 3) == pytest.approx(5 + 7 + 2 * (3 + QUIET_PS))
