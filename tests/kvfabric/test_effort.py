"""What a study will take is told before it starts, where that is some minutes."""

import re

import pytest

from kvfabric import effort
from kvfabric.compare import jobs_of, run_study
from kvfabric.effort import HOPS_PER_S, foretold, packet_hops
from kvfabric.load import load
from kvfabric.run import run_cell

TEXT = """
name: effort
fabric: {family: leaf_spine, nic: 100Gbps}
placement: {prefill: 8, decode: 8}
model: gpt-oss-120b
gpu: H100-SXM
requests: {arrivals: {process: poisson, rate: 2000/s}, count: COUNT}
budget: {handoff: 6ms, allowed: 5%}
run: {emulator: EMULATOR, seeds: 2, warmup: 0 requests}
policy: random
"""


def jobs(folder, count, emulator="packet"):
    path = folder / "effort.yaml"
    path.write_text(TEXT.replace("COUNT", str(count)).replace("EMULATOR", emulator))
    return jobs_of(load(path))


def test_the_packet_hops_of_a_cell_are_about_those_that_it_takes(tmp_path):
    job = jobs(tmp_path, 30)[0]
    assert packet_hops(job) == pytest.approx(run_cell(job).manifest.totals["packet_hops"], rel=0.05)


def test_a_study_of_an_hour_is_told_and_one_of_seconds_is_not(tmp_path):
    assert foretold(jobs(tmp_path, 30), 2) is None
    many = jobs(tmp_path, 1_000_000)
    line = foretold(many, 2)
    assert line is not None
    assert line.startswith("2 cells, some ")
    minutes = packet_hops(many[0]) / HOPS_PER_S / 60
    told = re.search(r"about (\d+) min with 2 at once", line)
    assert told is not None
    assert int(told[1]) == round(minutes)


def test_the_fluid_moves_no_packets(tmp_path):
    assert packet_hops(jobs(tmp_path, 30, "fluid")[0]) == 0
    assert foretold(jobs(tmp_path, 1_000_000, "fluid"), 2) is None


def test_it_is_told_once_before_the_cells_run(tmp_path, monkeypatch):
    monkeypatch.setattr(effort, "HOPS_PER_S", 1_000)
    jobs(tmp_path, 20)
    study, out = load(tmp_path / "effort.yaml"), tmp_path / "out"
    told = []
    for _ in range(2):
        run_study(
            study,
            out,
            processes=1,
            progress=lambda share, note: told.append(share),
            reproduce="",
            announce=told.append,
        )
    assert str(told[0]).startswith("2 cells, some ")
    assert all(isinstance(entry, float) for entry in told[1:])
