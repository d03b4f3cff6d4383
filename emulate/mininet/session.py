"""A session: the two processes of a run, from their start to their tables.

The main process listens on one socket a process, starts both with the run's mark, and waits until
both have every interface open. Then virtual time begins. A process that ends before its time is
told with its last words.
"""

import contextlib
import os
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from emulate.mininet.error import EmulationError
from emulate.mininet.machine import between, reading
from emulate.mininet.plan import LANDED, MOST_ROWS, READY, STATE, Plan
from emulate.mininet.process import marked_environment
from traffic.emulator import FLOW, Table

PROCESSES: Final = ("switch", "agent")

_PATIENCE_S: Final = 60.0
_LEAD_NS: Final = 200_000_000
_WORDS: Final = 400
_PRIORITY: Final = 10

Command = Callable[[str, Plan], list[str]]
"""The command line of a process of a plan."""


def child_command(process: str, plan: Plan) -> list[str]:
    """The command line of the C++ drivers; modules of the present folder are not looked at."""
    return [sys.executable, "-P", "-m", "emulate.mininet.child", process, str(plan.path)]


class Session:
    """Starts the processes of a plan; to be used as a context.

    Raises `EmulationError` when one does not come up or ends early.
    """

    def __init__(self, plan: Plan, command: Command = child_command) -> None:
        self.plan = plan
        self.start_ns = 0
        self.end_ns = 0
        self._eager = False
        self._machine = reading()
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._channels: dict[str, socket.socket] = {}
        self._words: dict[str, Path] = {}
        plan.write()
        ports = len(plan.ports)
        plan.state.write_bytes(np.zeros(ports, STATE).tobytes())
        self._state = np.memmap(plan.state, STATE, mode="r", shape=(ports,))
        try:
            self._start(command)
        except BaseException:
            self.kill()
            raise

    def _start(self, command: Command) -> None:
        listeners = {process: self._listen(process) for process in PROCESSES}
        try:
            for process in PROCESSES:
                self._words[process] = Path(self.plan.folder) / f"{process}.err"
                with self._words[process].open("wb") as errors:
                    self._children[process] = subprocess.Popen(  # noqa: S603
                        command(process, self.plan),
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=errors,
                        env=marked_environment(self.plan.prefix),
                        # Ctrl-C is the main process's to handle, which then ends them.
                        start_new_session=True,
                    )
            for process in PROCESSES:
                self._await(process, listeners[process])
                channel, _ = listeners[process].accept()
                self._channels[process] = channel
                self._await(process, channel)
                if channel.recv(len(READY) + 1) != READY:
                    raise self._ended(process)
        finally:
            for listener in listeners.values():
                listener.close()

    def _listen(self, process: str) -> socket.socket:
        place = self.plan.socket(process)
        place.unlink(missing_ok=True)
        self.plan.tables(process).unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(str(place))
        listener.listen(1)
        return listener

    def _await(self, process: str, channel: socket.socket) -> None:
        """Until the socket has something, or its process is gone."""
        deadline = time.monotonic() + _PATIENCE_S
        while not select.select([channel], [], [], 0.05)[0]:
            if self._children[process].poll() is not None:
                raise self._ended(process)
            if time.monotonic() > deadline:
                raise EmulationError(
                    f"{process} process: not ready within {_PATIENCE_S:g} s; is the machine busy?"
                )

    def _ended(self, process: str) -> EmulationError:
        # Its channel closes before it has said why.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._children[process].wait(2.0)
        words = self._words[process].read_text(errors="replace").strip().splitlines()
        told = words[-1][-_WORDS:] if words else "without a word"
        return EmulationError(f"{process} process ended early: {told}")

    def begin(self) -> None:
        """Let virtual time begin, a fifth of a second from now."""
        self._machine = reading()
        # The main process must hand flows over in time, whatever else the machine does; the two
        # processes of the run go before it.
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
            self._eager = True
        self.start_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + _LEAD_NS
        for channel in self._channels.values():
            channel.send(struct.pack("=q", self.start_ns))

    @property
    def now_ps(self) -> int:
        """Virtual time, negative before it begins."""
        real = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - self.start_ns
        return real * 1000 // self.plan.dilation

    def real_s(self, at_ps: int) -> float:
        """Seconds from now until a virtual instant, negative when it is over."""
        at_ns = self.start_ns + at_ps * self.plan.dilation / 1000
        return (at_ns - time.clock_gettime_ns(time.CLOCK_MONOTONIC)) / 1e9

    def send(self, flows: NDArray[np.void]) -> None:
        """Hand `FLOW` rows to the agent."""
        assert flows.dtype == FLOW
        for first in range(0, len(flows), MOST_ROWS):
            try:
                self._channels["agent"].send(flows[first : first + MOST_ROWS].tobytes())
            except OSError:
                raise self._ended("agent") from None

    def landed(self, wait_s: float) -> NDArray[np.void]:
        """`LANDED` rows as soon as there are any, or none after ``wait_s`` seconds."""
        channel = self._channels["agent"]
        found: list[bytes] = []
        wait = max(wait_s, 0.0)
        while select.select([channel], [], [], wait)[0]:
            try:
                message = channel.recv(MOST_ROWS * LANDED.itemsize)
            except ConnectionError:
                message = b""
            if not message:
                raise self._ended("agent")
            found.append(message)
            wait = 0.0
        if self._children["switch"].poll() is not None:
            raise self._ended("switch")
        return np.frombuffer(b"".join(found), LANDED)

    def state(self) -> NDArray[np.void]:
        """The `STATE` rows as they are now."""
        return np.array(self._state)

    def finish(self) -> dict[str, dict[str, Table]]:
        """End both processes and return their tables, by process and name.

        The scalars are a table of their own, ``counters``, of arrays without a dimension.
        """
        self.end_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self.stolen, self.softnet_drops = between(self._machine, reading())
        for channel in self._channels.values():
            channel.shutdown(socket.SHUT_WR)
        found = {}
        for process, child in self._children.items():
            try:
                code = child.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                raise EmulationError(
                    f"{process} process: had not ended {_PATIENCE_S:g} s after it was told to, so "
                    "that its measurements are lost; was it stopped, is the machine busy? Run again"
                ) from None
            if code or not self.plan.tables(process).exists():
                raise self._ended(process)
            found[process] = _read(self.plan.tables(process))
        self.kill()
        return found

    def kill(self) -> None:
        """End what still runs. Harmless when nothing does."""
        if self._eager:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            self._eager = False
        for channel in self._channels.values():
            channel.close()
        for child in self._children.values():
            if child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, 9)
                child.wait()

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


def _read(file: Path) -> dict[str, Table]:
    tables: dict[str, Table] = {}
    with np.load(file) as arrays:
        for name in arrays.files:
            table, _, column = name.partition(".")
            tables.setdefault(table, {})[column] = arrays[name]
    return tables
