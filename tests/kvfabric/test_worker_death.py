"""A worker dies with its parent, even while it holds the interpreter's lock."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

_PROGRAM = """
import ctypes
import os
import sys
from pathlib import Path

from kvfabric.sweep import sweep


def hold(job, report):
    Path(job).write_text(str(os.getpid()))
    ctypes.PyDLL(None).sleep(60)  # with the lock, unlike CDLL


if __name__ == "__main__":
    sweep([sys.argv[1]], hold, processes=1, progress=lambda done, steps: None)
"""


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux ends the children of a dead parent")
def test_a_worker_that_holds_the_lock_dies_with_its_parent(tmp_path: Path) -> None:
    program, told = tmp_path / "program.py", tmp_path / "pid"
    program.write_text(_PROGRAM)
    parent = subprocess.Popen([sys.executable, str(program), str(told)])
    try:
        deadline = time.monotonic() + 30
        while not (told.exists() and told.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        parent.kill()
        parent.wait()
    worker = int(told.read_text())
    deadline = time.monotonic() + 10
    while _runs(worker):
        assert time.monotonic() < deadline
        time.sleep(0.05)
