"""Who stood still: one process, both with the machine, or none: it only had too much to do."""

import numpy as np
import pytest

from emulate.mininet.driver import LATE
from emulate.mininet.guard import Measured, Verdict, verdict
from emulate.mininet.stall import why_late
from topo.unit import PS_PER_MS
from traffic.emulator import Table

MS = 10**6
START = 10**12


def _spans(*rows: tuple[int, int, int]) -> Table:
    """Rows of (from, until, ran), in milliseconds of the run."""
    columns = np.array(rows, np.int64).reshape(-1, 3).T * MS
    begin, end, ran = columns
    return {"from_ns": begin + START, "until_ns": end + START, "ran_ns": ran}


@pytest.mark.parametrize(
    ("switch", "agent", "told"),
    [
        ([(50, 80, 0)], [(52, 80, 1)], "both processes did"),
        ([(50, 80, 0)], [(10, 20, 0), (50, 60, 0), (63, 75, 0)], "both processes did"),
        ([(50, 80, 0)], [], "it did alone"),
        ([(50, 80, 0)], [(50, 60, 0)], "it did alone"),
        ([(50, 80, 0)], [(100, 140, 0)], "it did alone"),
        ([(50, 80, 0)], [(50, 80, 25)], "it did alone"),  # that one was at work
        ([(50, 80, 29)], [(50, 80, 29)], "its processor was busy"),
    ],
)
def test_who_stood_still_is_told_from_both_processes(
    switch: list[tuple[int, int, int]], agent: list[tuple[int, int, int]], told: str
) -> None:
    stalls = {"switch": _spans(*switch), "agent": _spans(*agent)}
    assert told in why_late("switch", stalls, START)
    assert why_late("switch", stalls, START).startswith("at 0.05 s")


def test_the_longest_span_is_the_one_that_is_told() -> None:
    stalls = {"switch": _spans((1, 4, 3), (2000, 2030, 0), (2040, 2045, 0)), "agent": _spans()}
    assert why_late("switch", stalls, START).startswith("at 2 s it did alone")


def test_nothing_is_told_of_what_nobody_kept() -> None:
    assert not why_late("switch", {}, 0)
    assert not why_late("switch", {"switch": _spans(), "agent": _spans((1, 9, 0))}, START)


def _judge(agent: Table) -> Verdict:
    late: Table = {name: np.ones(1, np.int64) for name in LATE}
    counters = {
        "switch": {"realtime": 1, "longest_stall_ns": 30 * MS},
        "agent": {"realtime": 1, "longest_stall_ns": 29 * MS},
    }
    stalls = {"switch": _spans((50, 80, 0)), "agent": agent}
    measured = Measured(late, counters, 10**9, 0.0, 0, stalls=stalls, start_ns=START)
    return verdict(measured, [], dilation=10_000, mtu=4096, bridge_ps=2 * PS_PER_MS // 1000)


def test_the_verdict_says_it_beside_what_queues_bridge() -> None:
    assert _judge(_spans((51, 80, 0))).text() == (
        "invalid: the switch process stood still for 30 ms, longer than the 20 ms that queues "
        "bridge (at 0.05 s both processes did: the machine stood still, or its hypervisor); write "
        "a larger dilation"
    )
    assert "(at 0.05 s it did alone: its processor was taken" in _judge(_spans()).text()
