"""A run under the real clock: stopped from outside, or by itself when it takes far too long."""

import pytest

from emulate.mininet.error import EmulationError
from emulate.mininet.realtime import RealTime
from topo.error import KvfabricError


class Run(RealTime):
    """A run whose clock stands at 7 ps and that does nothing."""

    closed = False

    @property
    def clock_ps(self) -> int:
        return 7

    def close(self) -> None:
        self.closed = True

    def late(self, elapsed_s: float) -> bool:
        return self._overruns(elapsed_s)

    def back(self, until_ps: int, notices: int) -> None:
        self._now_ps = 10
        self._refuse_past(until_ps, notices)

    def more(self, *, over: bool) -> None:
        self._refuse_more(over)


def test_a_run_that_is_stopped_was_interrupted_when_it_was_stopped_first() -> None:
    run = Run(None)
    run.stop()
    assert (run.stopped_ps, run.interrupted_ps) == (7, 7)
    assert not run.late(1e9)


def test_one_that_takes_too_long_stops_itself_and_was_not_interrupted() -> None:
    run = Run(3.0)
    assert not run.late(3.0)
    assert run.late(3.1)
    assert (run.stopped_ps, run.interrupted_ps) == (7, None)


def test_time_goes_back_only_after_news_that_came_too_late() -> None:
    run = Run(None)
    run.back(9, 1)
    with pytest.raises(KvfabricError, match="advance to 9ps: before the present time 10ps"):
        run.back(9, 0)


def test_flows_after_the_end_are_refused() -> None:
    run = Run(None)
    run.more(over=False)
    with pytest.raises(EmulationError, match="the run is over"):
        run.more(over=True)


def test_whatever_happens_a_context_is_closed() -> None:
    run = Run(None)
    with pytest.raises(ZeroDivisionError), run:
        raise ZeroDivisionError
    assert run.closed
