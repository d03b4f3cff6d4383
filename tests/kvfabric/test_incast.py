"""The shipped incast tells its four facts in the packet engine; docs/incast.md has both."""

from pathlib import Path

import numpy as np
import pytest

from kvfabric.compare import jobs_of
from kvfabric.crosscheck import Rehearsal, rehearsed
from kvfabric.load import load

SCENARIO = Path(__file__).parents[2] / "scenarios" / "incast.yaml"


@pytest.fixture(name="heard", scope="module")
def _heard() -> list[Rehearsal]:
    """Without PFC, with it, with ECN and DCQCN too."""
    return [rehearsed(job) for job in jobs_of(load(SCENARIO))]


def _sum(one: Rehearsal, column: str) -> int:
    return int(np.asarray(one.packet.ports[column]).sum())


def _victim_gbps(one: Rehearsal) -> np.ndarray:
    """Rates of the hand-offs to the host that only one host sends to."""
    handoffs = one.handoffs
    pairs = np.unique(handoffs[["source", "destination"]])
    to, senders = np.unique(pairs["destination"], return_counts=True)
    assert sorted(senders) == [1, 3]
    mine = handoffs["destination"] == to[senders == 1]
    rates: np.ndarray = handoffs["bytes"][mine] * 8000 / one.handoff_ps(one.finish_ps)[mine]
    return rates


def test_without_pfc_frames_are_lost_and_with_it_none(heard: list[Rehearsal]) -> None:
    lossy, paused, marked = heard
    assert _sum(lossy, "drops") > 1000
    assert _sum(paused, "drops") == _sum(marked, "drops") == 0
    assert _sum(lossy, "pauses") == 0


def test_pauses_halve_the_rate_of_a_victim(heard: list[Rehearsal]) -> None:
    lossy, paused, _ = heard
    # The wire carries 4,096 of 4,178 bytes, at 100 Gbps; and the way takes some time.
    assert (_victim_gbps(lossy) > 95).all()
    assert (_victim_gbps(lossy) < 98.1).all()
    assert _sum(paused, "pauses") > 100
    assert (_victim_gbps(paused) < 50).all()


def test_marks_and_dcqcn_end_the_pauses(heard: list[Rehearsal]) -> None:
    _, _, marked = heard
    assert _sum(marked, "marked") > 100
    assert _sum(marked, "pauses") == 0
    assert (_victim_gbps(marked) > 95).all()
