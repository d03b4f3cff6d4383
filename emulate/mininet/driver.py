"""What the two processes ask of the C++ drivers, and what they hand over at the end.

`emulate._live` has ``Switch``, all switches of a run, and ``Agent``, the NICs of all hosts. Each is
made from a plan, opens its sockets, runs its loop without the interpreter's lock until the main
process shuts the channel down, and then has tables. Times in tables are virtual picoseconds, those
of the guard real nanoseconds.
"""

from importlib import import_module
from typing import Any, Final, Protocol

from emulate.mininet.plan import Plan, unpacked
from traffic.emulator import Table

LATE: Final = ("rate_bps", "from_ns", "to_ns", "frames")
"""Columns of the lateness histogram: frames that left ``from_ns`` to below ``to_ns`` after their
deadline, one row a rate of port and class of lateness; a frame on time is in the row from 0."""

COUNTERS: Final = (
    "frames_in",
    "frames_out",
    "longest_stall_ns",  # from when the loop asked to run to when it did, at most
    "socket_drops",  # PACKET_STATISTICS of all sockets
    "oversized",  # frames above the MTU
    "late_submissions",  # flows that came after their release
    "latest_submission_ps",  # by how much, at most
    "realtime",  # 1 when SCHED_FIFO was granted
)
"""Numbers that every driver counts; one without a notion leaves it 0."""


class Driver(Protocol):
    """One process's side of a run."""

    def run(self, start_ns: int, channel: int) -> None:
        """Work until the peer of the socket with that descriptor shuts it down.

        start_ns: CLOCK_MONOTONIC at virtual time 0.
        """
        ...

    def tables(self) -> dict[str, Table]:
        """``late`` as `LATE` says, ``stalls`` as `emulate.mininet.stall` does; ``ports pauses
        stops`` of the own ports and, of the agent, ``flows``, with the columns of
        `traffic.emulator.Telemetry`."""
        ...

    def counters(self) -> dict[str, int]:
        """`COUNTERS`, and totals such as ``drops_buffer``, ``drops_lossless``, ``bytes_sent``."""
        ...


def live() -> Any:
    """The module of the drivers: on Linux only."""
    return import_module("emulate._live")


def settings(plan: Plan) -> dict[str, Any]:
    """The engine's settings of a plan, as the driver's module makes them."""
    _live = live()
    dcqcn = _live.dcqcn_setting(**unpacked(plan.dcqcn))
    return {
        "fabric": _live.fabric_setting(**unpacked(plan.fabric)),
        "routes": _live.route_setting(**unpacked(plan.routes)),
        "discipline": _live.discipline_setting(**unpacked(plan.discipline)),
        "transport": _live.transport_setting(dcqcn=dcqcn, **unpacked(plan.transport)),
    }


def opened(plan: Plan, kind: str) -> dict[str, Any]:
    """The interfaces of a plan's hosts or switches, and the addresses of all hosts.

    ports: fabric port, namespace file, interface and MAC address of each; of a wire in memory, the
    last three are empty. hosts: node index, IPv4 address and MAC address of each host.
    """
    nodes = {node.index: node for node in plan.nodes}
    mine = [port for port in plan.ports if nodes[port.node].kind == kind]
    first = unpacked(plan.fabric)["first"]
    by_port = {port.port: port for port in plan.ports}
    return {
        "ports": [
            (port.port, "", "", "")
            if port.memory
            else (port.port, nodes[port.node].namespace, port.interface, port.mac)
            for port in mine
        ],
        "hosts": [
            (node.index, node.ip, by_port[int(first[node.index])].mac)
            for node in plan.nodes
            if node.kind == "host"
        ],
    }


def driver(plan: Plan, process: str) -> Driver:
    """The driver of a process, ``switch`` or ``agent``, with its sockets open."""
    _live = live()
    make = _live.Switch if process == "switch" else _live.Agent
    made: Driver = make(
        **settings(plan),
        **opened(plan, "switch" if process == "switch" else "host"),
        seed=plan.seed,
        dilation=plan.dilation,
        tick_ps=plan.tick_ps,
        mtu_bytes=plan.mtu_bytes,
        state=str(plan.state),
    )
    return made
