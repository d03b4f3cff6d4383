"""A run on real frames says what it does from its beginning on."""

from pathlib import Path

import pytest

import kvfabric.emulate
from emulate.mininet.dilation import Calibration
from emulate.mininet.error import EmulationError
from emulate.mininet.setup import Setup
from kvfabric.command.frames import one_job
from kvfabric.emulate import outlook

SCENARIO = Path(__file__).parents[2] / "scenarios" / "real-frames.yaml"
MEASURED = Calibration(60_000, 4_000_000, 9_000, 9_000, 9_000)


@pytest.mark.parametrize(("dilation", "first"), [(None, ["measuring this machine"]), (10_000, [])])
def test_what_comes_before_the_network_is_told_before_it_is_done(
    monkeypatch: pytest.MonkeyPatch, dilation: int | None, first: list[str]
) -> None:
    told: list[str] = []

    def measured(_: Setup) -> Calibration:
        assert told == first
        return MEASURED

    for name in ("demand_support", "demand_drivers"):
        monkeypatch.setattr(kvfabric.emulate, name, lambda: None)
    monkeypatch.setattr(Setup, "calibration", measured)
    _, job = one_job(SCENARIO, alternative=None, count=4, seed=1, allow_code=False)
    seen = outlook(job, dilation, 3600, tell=told.append)
    assert told == [*first, "running its packets first"]
    assert seen.dilation == (dilation or MEASURED.dilation)


def test_a_machine_that_cannot_is_told_so_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lacking() -> None:
        raise EmulationError("root: user 1000")

    told: list[str] = []
    monkeypatch.setattr(kvfabric.emulate, "demand_support", lacking)
    _, job = one_job(SCENARIO, alternative=None, count=4, seed=1, allow_code=False)
    with pytest.raises(EmulationError, match="root"):
        outlook(job, 10_000, 3600, tell=told.append)
    assert told == []
