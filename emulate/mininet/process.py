"""Processes of a run: marked in their environment, so that they are found even after kill -9.

Whatever a run starts, and what that starts in turn, carries ``KVFABRIC_RUN=PREFIX`` in the
environment it was given. A process is known by its number together with the time it began, since
numbers are used again.
"""

import os
import signal
import time
from pathlib import Path
from typing import Final

MARK: Final = "KVFABRIC_RUN"

_PROC: Final = Path("/proc")


def marked_environment(prefix: str) -> dict[str, str]:
    """The environment of everything that a run starts."""
    return {**os.environ, MARK: prefix}


def began(pid: int) -> int | None:
    """When a process began, in clock ticks since boot; None when it is gone, or a zombie."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The name in parentheses may hold spaces and parentheses itself: proc(5).
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])


def marked(prefix: str) -> list[int]:
    """The living processes of a run, by number."""
    mark = f"{MARK}={prefix}".encode()
    return sorted(
        pid
        for pid in (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
        if pid != os.getpid() and mark in _environment(pid) and began(pid) is not None
    )


def _environment(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def end_all(prefix: str, patience_s: float = 5.0) -> list[int]:
    """Kill what is left of a run and wait until it is gone; the numbers of those it was."""
    ended: set[int] = set()
    deadline = time.monotonic() + patience_s
    while left := marked(prefix):
        for pid in left:
            ended.add(pid)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {left} of run {prefix} do not end")
        time.sleep(0.01)
    return sorted(ended)
