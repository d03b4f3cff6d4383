"""A hand-off scenario over the kernel's queues, end to end, in the VM: `make vm-test`."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from analysis.record import read_study
from emulate.mininet.requirement import may_use_kernel
from emulate.mininet.support import may_network
from kvfabric.compare import jobs_of
from kvfabric.load import load
from topo.fabric import Kind

_MISSING = may_network() or may_use_kernel("dctcp")

SCENARIO = Path(__file__).parents[2] / "scenarios" / "kernel-queues.yaml"


def emulated(out: Path) -> tuple[str, "subprocess.CompletedProcess[str]"]:
    """The guard's word on a run, and what the command gave."""
    done = subprocess.run(
        [
            *(sys.executable, "-P", "-m", "kvfabric", "emulate", str(SCENARIO)),
            *("--dataplane", "kernel", "--tcp", "dctcp", "--dilation", "100000"),
            *("--count", "8", "--out", str(out)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (out / "fidelity.json").exists(), done.stdout + done.stderr
    return json.loads((out / "fidelity.json").read_text())["standing"], done


@pytest.mark.vm
@pytest.mark.root
@pytest.mark.skipif(_MISSING is not None, reason=f"not in the VM: {_MISSING}")
def test_handoffs_cross_all_paths_into_the_same_report(tmp_path: Path) -> None:
    out = tmp_path / "out"
    standing, done = emulated(out)
    if standing == "invalid":
        # A busy machine makes a run so, and then no number is told: it is tried once more.
        out = tmp_path / "again"
        standing, done = emulated(out)
    assert done.returncode == 0, done.stdout + done.stderr
    (cell,) = read_study(out).cells
    settings = cell.manifest.settings
    assert "TCP dctcp" in settings["emulation"]
    assert settings["fidelity"].startswith(standing)
    assert (cell.requests["status"] == 0).all()
    took = cell.flows["finish_ps"].astype(np.int64) - cell.flows["release_ps"].astype(np.int64)
    assert len(took) == 8
    assert (took > 0.95 * cell.flows["ideal_ps"].astype(np.int64)).all()
    assert "timers are not slowed down" in (out / "report.html").read_text()

    (job,) = jobs_of(load(SCENARIO, compare=False))
    fabric = job.stage.fabric
    kinds = [node.kind for node in fabric.nodes]
    inner = [
        port
        for port in range(len(fabric.ports.node))
        if kinds[fabric.ports.node[port]] is kinds[fabric.ports.peer[port]] is Kind.SWITCH
    ]
    assert len(inner) == 8
    sent = np.asarray(cell.ports["tx_bytes"], np.int64)
    uplinks = [p for p in inner if fabric.nodes[int(fabric.ports.node[p])].name == "leaf0"]
    assert (sent[uplinks] > 10**6).all()
    assert (sent[inner] > 0).sum() >= 6
