"""What a review asks: the load against what the fabric carries, and where the rest is answered."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from analysis.handoff import window_ps
from analysis.record import read_study
from analysis.result import Result, result
from analysis.review import capacity, elsewhere, offered_bps, scenario_of

Make = Callable[..., Path]


@pytest.fixture
def found(tmp_path: Path, make_study: Make) -> Result:
    place = make_study(tmp_path, fabrics=["full mesh"], policies=["random"], seeds=[1, 2])
    return result(read_study(place), place)


def test_the_offered_load_is_the_rate_of_arrivals_times_their_mean_payload(found: Result) -> None:
    cell = found.samples[0].cells[0]
    arrival, sizes = cell.requests["arrival_ps"], cell.flows["bytes"]
    rate = (len(arrival) - 1) / (int(arrival[-1] - arrival[0]) / 10**12)
    by_hand = 8 * sum(sizes.tolist()) / len(arrival) * rate
    assert offered_bps(cell) == pytest.approx(by_hand)
    other = replace(cell, flows=cell.flows | {"handoff": np.full(len(sizes), -1)})
    assert offered_bps(other) == 0


def test_capacity_tells_load_max_flow_and_busy_switch_ports(found: Result) -> None:
    (row,) = capacity(found.samples).rows
    sample = found.samples[0]
    load = float(np.mean([offered_bps(cell) for cell in sample.cells]))
    assert row[2:4] == (f"{load / 1e9:,.4g} Gbps", "3,200 Gbps")
    assert row[4] == f"{100 * load / 3.2e12:.1f} %"
    most = max(
        int(cell.ports["busy_ps"][cell.ports["tier"] > np.int64(0)].max()) / window_ps(cell)
        for cell in sample.cells
    )
    assert row[7] == f"{100 * most:.0f} %"


def test_a_command_names_the_scenario_and_survives_a_name_that_a_shell_would_read(
    found: Result,
) -> None:
    manifest = found.study.manifest
    odd = msgspec.structs.replace(manifest, reproduce=["kvfabric compare 'a b;c.yaml' --out o"])
    assert scenario_of(odd) == "a b;c.yaml"
    rows = elsewhere(odd).rows
    assert any(where == "kvfabric goodput 'a b;c.yaml'" for _, where in rows)
    hurt = "hand-offs while a link or switch is slow, down or gone (into the scenario)"
    assert hurt not in {asked for asked, _ in rows}
    whole = msgspec.structs.replace(odd, limits=["No link or switch fails."])
    assert hurt in {asked for asked, _ in elsewhere(whole).rows}
    assert scenario_of(msgspec.structs.replace(manifest, reproduce=["'"])) == "SCENARIO"
