"""Independent cells on local processes: written whole, skipped when present, resumed after a crash.

A worker dies with its parent, so that ``kill -9`` of the command leaves no process behind, and no
semaphore either.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, resource_tracker
from multiprocessing.sharedctypes import SynchronizedArray
from typing import Generic, TypeVar

from topo.error import KvfabricError

Job = TypeVar("Job")
Work = Callable[[Job, Callable[[int], None]], None]
"""Does one job, and reports steps done since its last report."""

_POLL_S = 0.2
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_steps: "SynchronizedArray[int] | None" = None
"""Of each job the steps done."""


class SweepError(KvfabricError):
    """A sweep that could not go on."""


class _Cell(Generic[Job]):
    """One job with its work and its place among all, to be called in a worker process."""

    def __init__(self, work: Work[Job], job: Job, place: int) -> None:
        self.work = work
        self.job = job
        self.place = place

    def __call__(self) -> None:
        self.work(self.job, self._report)

    def _report(self, steps: int) -> None:
        if _steps is not None:
            _steps[self.place] += steps


def _start(counter: "SynchronizedArray[int]", begin: Callable[[], None] | None) -> None:
    global _steps
    _steps = counter
    if begin is not None:
        begin()
    # The kernel ends a worker that is deep in compiled code; the thread ends one whose parent was
    # gone before, or that runs elsewhere than on Linux.
    threading.Thread(target=_die_with_parent, daemon=True).start()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _start_tracker() -> None:
    """Start the process that removes the semaphores of a killed command.

    It need not warn of them, and outlives the terminal that the command dies with. Warnings of a
    process that Python itself starts are set by its environment alone.
    """
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = "ignore"
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        resource_tracker.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        del os.environ["PYTHONWARNINGS"]
        if before is not None:
            os.environ["PYTHONWARNINGS"] = before


def sweep(
    jobs: Sequence[Job],
    work: Work[Job],
    *,
    processes: int,
    progress: Callable[[int, Sequence[int]], None],
    begin: Callable[[], None] | None = None,
) -> None:
    """Do all jobs on ``processes`` local processes.

    ``work`` must be importable by name; ``begin`` too, which every process calls once, first.
    ``progress`` gets the jobs done and the steps done of each, at least five times a second. The
    first failure stops the sweep and is raised; what is finished stays. A worker that is killed
    (out of memory, say) raises `SweepError`.
    """
    _start_tracker()
    context = multiprocessing.get_context("spawn")
    counter = context.Array("q", len(jobs))
    pool = ProcessPoolExecutor(
        max_workers=max(1, min(processes, len(jobs))),
        mp_context=context,
        initializer=_start,
        initargs=(counter, begin),
    )
    finished = False
    try:
        # Workers inherit the mask: Ctrl-C is the parent's to handle, which then ends them.
        held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            open_jobs: set[Future[None]] = {
                pool.submit(_Cell(work, job, place)) for place, job in enumerate(jobs)
            }
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
        done = 0
        while open_jobs:
            ready, open_jobs = wait(open_jobs, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            for future in ready:
                future.result()
                done += 1
            progress(done, counter[:])
        finished = True
    except BrokenProcessPool:
        raise SweepError(
            "a worker process was killed (out of memory?); finished cells are kept: "
            "run the same command again, with fewer --jobs"
        ) from None
    finally:
        if not finished:
            for child in multiprocessing.active_children():
                child.terminate()
        pool.shutdown(wait=True, cancel_futures=True)
