"""Runs a peer's program: its lines with the processor time spent by each, its peak memory."""

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path


def watch(
    command: list[str], line: Callable[[str, float], None], *, cwd: Path, env: Mapping[str, str]
) -> float:
    """Hands over every line of standard output with the seconds of processor time so far.

    Returns the peak of its memory in MiB.

    Raises `RuntimeError` with the end of what the program said when it fails.
    """
    with (cwd / "stderr").open("w") as errors:
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=cwd,
            env={**os.environ, **env},
        )  # fmt: skip
        assert child.stdout is not None
        for text in child.stdout:
            line(text, _spent(child.pid))
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        said = (cwd / "stderr").read_text()[-1000:].strip()
        raise RuntimeError(f"{command[0]}: ended with {child.returncode}: {said}")
    return usage.ru_maxrss / 1024


def _spent(process: int) -> float:
    """User and system time of a running process (proc(5): fields 14 and 15 of stat)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
