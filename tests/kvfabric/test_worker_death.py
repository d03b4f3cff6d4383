"""A worker dies with its parent, even while it holds the interpreter's lock, and nothing stays."""

import os
import signal
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

from kvfabric import sweep


def hold(job, report):
    semaphore = sweep._steps.get_lock()._semlock.name
    Path(job).write_text(f"{os.getpid()} {semaphore}")
    ctypes.PyDLL(None).sleep(60)  # with the lock, unlike CDLL


if __name__ == "__main__":
    sweep.sweep([sys.argv[1]], hold, processes=1, progress=lambda done, steps: None)
"""


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux ends the children of a dead parent")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGHUP], ids=["killed", "terminal closed"])
def test_a_worker_that_holds_the_lock_dies_with_its_parent(
    tmp_path: Path, end: signal.Signals
) -> None:
    program, told = tmp_path / "program.py", tmp_path / "told"
    program.write_text(_PROGRAM)
    command = [sys.executable, str(program), str(told)]
    parent = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
    assert parent.stderr is not None
    try:
        deadline = time.monotonic() + 30
        while not (told.exists() and told.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        if end == signal.SIGHUP:
            os.killpg(parent.pid, end)  # as the kernel tells everyone at a terminal
    finally:
        parent.kill()
        parent.wait()
    with parent.stderr as stderr:
        assert stderr.read() == b""  # the end comes when the last process is gone
    worker, semaphore = told.read_text().split()
    deadline = time.monotonic() + 10
    while _runs(int(worker)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not Path("/dev/shm", f"sem.{semaphore.removeprefix('/')}").exists()
