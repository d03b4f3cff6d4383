"""Every scenario that is shipped reads, and each of its alternatives can be built."""

from pathlib import Path

import pytest

from kvfabric.build import impossible, stage
from kvfabric.load import load

SCENARIOS = sorted((Path(__file__).parents[2] / "scenarios").glob("*.yaml"))


@pytest.mark.parametrize("path", SCENARIOS, ids=[path.stem for path in SCENARIOS])
def test_a_shipped_scenario_reads_and_its_alternatives_are_possible(path: Path) -> None:
    found = {
        (each.fabric, each.policy): impossible(
            each.scenario, each.source, stage(each.scenario, each.source)
        )
        for each in load(path).alternatives
    }
    assert found
    assert set(found.values()) == {None}
