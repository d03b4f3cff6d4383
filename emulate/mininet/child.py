"""A process of a run: open everything, say ready, run the driver, leave its tables.

Started as ``python -m emulate.mininet.child switch PLAN`` (or ``agent``). It runs on its own
processor where the plan says so, under SCHED_FIFO where that is granted, with a timer slack of one
nanosecond (prctl(2), PR_SET_TIMERSLACK), and ends when the main process does.
"""

import contextlib
import ctypes
import os
import socket
import struct
import sys
from pathlib import Path
from typing import Final

import numpy as np

from emulate.mininet.driver import driver
from emulate.mininet.plan import READY, Plan, read_plan

_TIMER_SLACK: Final = 29
_PRIORITY: Final = 20


def main(process: str, file: str) -> None:
    """Run one process of the plan in that file."""
    plan = read_plan(Path(file))
    _settle(plan, plan.switch_core if process == "switch" else plan.agent_core)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as channel:
        channel.connect(str(plan.socket(process)))
        works = driver(plan, process)
        channel.send(READY)
        told = channel.recv(8)
        if len(told) != 8:  # the main process has given up
            return
        (start_ns,) = struct.unpack("=q", told)
        before = schedule_delay()
        works.run(start_ns, channel.fileno())
        after = schedule_delay()
    arrays = {
        f"{table}.{column}": values
        for table, columns in works.tables().items()
        for column, values in columns.items()
    }
    counters = dict(works.counters())
    counters["ran_ns"], counters["waited_ns"] = (b - a for a, b in zip(before, after, strict=True))
    arrays |= {f"counters.{name}": np.array(value) for name, value in counters.items()}
    # Whole or not at all: the main process waits for the file's name.
    draft = plan.tables(process).with_suffix(".draft.npz")
    np.savez(draft, **arrays)  # type: ignore[arg-type]
    draft.replace(plan.tables(process))


def schedule_delay() -> tuple[int, int]:
    """Nanoseconds that this thread ran, and that it waited for a processor while it could run.

    /proc/thread-self/schedstat: Linux, Documentation/scheduler/sched-stats.rst.
    """
    ran, waited, _ = Path("/proc/thread-self/schedstat").read_text().split()
    return int(ran), int(waited)


def _settle(plan: Plan, core: int) -> None:
    if core >= 0:
        os.sched_setaffinity(0, {core})
    ctypes.CDLL(None).prctl(_TIMER_SLACK, 1, 0, 0, 0)
    if plan.realtime:
        # Where it is not granted the driver's counters say so.
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))


if __name__ == "__main__":
    main(*sys.argv[1:])
