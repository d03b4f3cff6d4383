"""The example of docs/policies.md runs as it is told there, and a bad policy ends a run cleanly."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kvfabric.compare import jobs_of
from kvfabric.load import load
from kvfabric.run import run_cell

PAGE = Path(__file__).parents[2] / "docs" / "policies.md"
STUDY = """
name: mine
fabric: {family: leaf_spine, hosts: 16, leaves: 4, spines: 2, nic: 100Gbps,
         switch: {ports: 16, rate: 100Gbps, buffer: 16MiB}}
placement: {prefill: 8, decode: 8, by: interleaved}
model: Llama-3.1-8B
gpu: H100-SXM
requests: {count: 40, arrivals: {rate: 400/s}}
budget: {handoff: 10ms}
run: {seeds: 1, emulator: fluid}
"""


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr("sys.path", sys.path.copy())
    yield tmp_path
    sys.modules.pop("my_policy", None)


def test_the_example_has_twenty_lines_and_does_what_it_says(beside: Path) -> None:
    code = block("python")
    assert len(code.strip().splitlines()) <= 20
    (beside / "my_policy.py").write_text(code)
    (beside / "s.yaml").write_text(STUDY + block("yaml"))
    links = []
    for job in jobs_of(load(beside / "s.yaml", allow_code=True)):
        found = run_cell(job).requests
        assert (found["status"] == 0).all()
        links.append(float(job.stage.hops[found["prefill"], found["decode"]].mean()))
    balanced, near = links
    assert near < balanced
    assert not np.isnan(near)


def test_a_policy_that_fails_ends_the_command_with_one_line_and_keeps_finished_cells(
    tmp_path: Path,
) -> None:
    (tmp_path / "bad.py").write_text(
        "class Bad:\n"
        "    def prefill(self, request, view):\n"
        "        return 0 if request.request < 20 else None\n"
    )
    policies = "compare: {policy: [least_loaded, random, 'bad:Bad']}\n"
    (tmp_path / "s.yaml").write_text(STUDY + policies)
    ran = subprocess.run(
        [sys.executable, "-m", "kvfabric", "compare", "s.yaml", "--allow-code", "--jobs", "1"],
        cwd=tmp_path,
        env=os.environ | {"COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 2
    last = ran.stderr.strip().splitlines()[-1]
    assert last == (
        "kvfabric: policy bad:Bad: prefill() answered None for request 20; "
        "answer the number of an instance, counted from 0"
    )
    assert "Traceback" not in ran.stderr
    cells = list((tmp_path / "out" / "mine" / "cells").glob("*/manifest.json"))
    assert len(cells) == 2
