"""The plan: everything that the switch process and the agent process need, as one JSON file.

Settings are those of the packet engine, number for number, by the names under which it takes them
(`emulate.setting`), so that both clocks run the same switches, NICs and paths. Beside them stand
the namespaces, interfaces and addresses of the run. Rates, delays and times are those of the
emulated fabric; the processes run on virtual time:

    virtual picoseconds = (CLOCK_MONOTONIC nanoseconds - start) * 1000 / dilation

Each process is started with the plan's path, connects to its SOCK_SEQPACKET socket in the run's
folder and exchanges with the main process:

| message | from, to | bytes |
|---|---|---|
| ready | both, main | `READY`, once every interface is open |
| start | main, both | CLOCK_MONOTONIC at virtual time 0, int64 |
| flows | main, agent | rows of `traffic.emulator.FLOW`, at most `MOST_ROWS` |
| landed | agent, main | rows of `LANDED`, at most `MOST_ROWS` |
| end | main, both | the main process shuts its side down; the process writes its tables, exits 0 |
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import numpy as np

from topo.error import KvfabricError

READY: Final = b"ready"
MOST_ROWS: Final = 1024
"""Rows of one message: below the 208 KiB that a socket takes by default."""

LANDED: Final = np.dtype(
    [
        ("flow", np.int64),
        ("handoff", np.int64),
        ("finish_ps", np.int64),  # the last in-order byte is at the receiver
        ("sender_done_ps", np.int64),  # the sender knows, -1: not yet
        ("seen_ps", np.int64),  # when the agent got to see the flow, that is was handed it
    ]
)
"""One row a completed flow, packed, in the order of completion, virtual picoseconds."""

STATE: Final = np.dtype([("queued_bytes", np.int64), ("paused", np.int64), ("busy_ps", np.int64)])
"""One row a fabric port of the state file: waiting bytes, stopped priorities (one bit each), and
the time spent sending so far, in virtual picoseconds. Each number is written at once."""


class PlanError(KvfabricError):
    """A plan that cannot be read, or that a process cannot carry out."""


class Column(msgspec.Struct, frozen=True):
    """An array: numpy's name of its type, and its values."""

    type: str
    values: list[int]


Setting = dict[str, bool | int | list[int] | Column]
"""Arguments of an engine's setting, by name."""


class NodePlan(msgspec.Struct, frozen=True):
    """A host or switch of the fabric, by its index there.

    pid: a process in its network namespace. ip: IPv4 address of a host, empty of a switch.
    """

    index: int
    name: str
    kind: Literal["host", "switch"]
    pid: int
    ip: str = ""

    @property
    def namespace(self) -> str:
        """The file of its network namespace, for setns."""
        return f"/proc/{self.pid}/ns/net"


class PortPlan(msgspec.Struct, frozen=True):
    """A port of the fabric, by its index there: the interface that sends on it.

    memory: the link is a wire inside the switch process; it has no interface.
    """

    port: int
    node: int
    interface: str
    mac: str
    memory: bool = False


class Plan(msgspec.Struct, frozen=True):
    """One run.

    prefix: the run's name, with which every interface begins. folder: where sockets and tables lie.
    dilation: how many times slower than the fabric's clock the run goes. seed: as of the packet
    engine. tick_ps: virtual time between two writes of the state file. mtu_bytes: MTU of every
    interface; a frame above it, without its Ethernet header, is counted. switch_core, agent_core:
    the processor of each process, -1: any. realtime: ask for SCHED_FIFO.
    """

    prefix: str
    folder: str
    dilation: int
    seed: int
    tick_ps: int
    mtu_bytes: int
    fabric: Setting
    routes: Setting
    discipline: Setting
    dcqcn: Setting
    transport: Setting
    nodes: list[NodePlan]
    ports: list[PortPlan]
    switch_core: int = -1
    agent_core: int = -1
    realtime: bool = True

    @property
    def path(self) -> Path:
        """The plan's own file."""
        return Path(self.folder) / "plan.json"

    @property
    def state(self) -> Path:
        """The state file: `STATE` rows, one a fabric port, made before the processes start."""
        return Path(self.folder) / "state.bin"

    def socket(self, process: str) -> Path:
        """Where a process, ``switch`` or ``agent``, meets the main process."""
        return Path(self.folder) / f"{process}.sock"

    def tables(self, process: str) -> Path:
        """Where a process leaves its tables, as numpy's npz."""
        return Path(self.folder) / f"{process}.npz"

    def write(self) -> None:
        """Write the plan's file."""
        self.path.write_bytes(msgspec.json.encode(self))


def read_plan(path: Path) -> Plan:
    """Read a plan. Raises `PlanError` for a file that is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Plan)
    except FileNotFoundError:
        raise PlanError(
            f"run {path.parent.name}: is still being set up, or has just ended; try again"
        ) from None
    except (OSError, msgspec.DecodeError) as error:
        raise PlanError(f"{path}: not a plan of a run: {error}") from None


def packed(columns: Mapping[str, Any]) -> Setting:
    """A setting as JSON can carry it; arrays become `Column`.

    >>> packed({"first": np.arange(2, dtype=np.int32), "groups": 1})["first"]
    Column(type='int32', values=[0, 1])
    """
    return {
        name: Column(str(value.dtype), value.tolist()) if isinstance(value, np.ndarray) else value
        for name, value in columns.items()
    }


def unpacked(setting: Setting) -> dict[str, Any]:
    """The arguments of an engine's setting again, as before `packed`."""
    return {
        name: np.array(value.values, np.dtype(value.type)) if isinstance(value, Column) else value
        for name, value in setting.items()
    }
