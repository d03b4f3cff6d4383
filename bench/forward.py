"""Frames per second that the switch of real frames forwards on one core.

A line of switches between two hosts, on veth pairs, or with wires in memory between the switches.
The links are far faster than any machine, so that the switches never wait: what is measured is
receiving, deciding, queueing and sending. One process sends RoCEv2 frames from the first host as
fast as the kernel takes them, on another core; the last host's kernel counts what arrives. As root,
on an idle machine of two cores or more:

    python bench/forward.py                 # 1,514 and 9,014 B, 1 and 4 switches
    python bench/forward.py --seconds 5
"""

import argparse
import ctypes
import os
import socket
import struct
import subprocess
import sys
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from emulate import _live
from emulate.discipline import Discipline
from emulate.setting import (
    discipline_setting,
    fabric_setting,
    port_headroom,
    route_setting,
    transport_setting,
)
from emulate.transport import Transport
from topo.fabric import Fabric, Switch
from topo.route import equal_cost

FASTEST_BPS = 8 * 10**12
BATCH = 2048
INTERFACE_MTU = 9600
ETH_HEADERS = 58
OUTSIDE = 4 + 20  # FCS, preamble and gap


def line(switches: int) -> Fabric:
    """Host 0, so many switches, and a host."""
    fabric = Fabric("line")
    nodes = [fabric.add_host("a")]
    model = Switch(ports=256, buffer_bytes=64 * 2**20)
    nodes += [fabric.add_switch(f"s{i}", tier=1, switch=model) for i in range(switches)]
    nodes.append(fabric.add_host("b"))
    for one, two in pairwise(nodes):
        fabric.connect(one, two, rate_bps=FASTEST_BPS, delay_ps=0)
    return fabric


def run(*command: str) -> str:
    """The output of a program that must not fail."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Line:
    """The line's namespaces and veth pairs, by port of the fabric; to be used as a context."""

    def __init__(self, fabric: Fabric, memory: bool) -> None:
        self.fabric = fabric
        self.names = [f"kvfwd{os.getpid()}-{node.index}" for node in fabric.nodes]
        switch = [node.switch is not None for node in fabric.nodes]
        ports = fabric.ports
        ends = zip(ports.node.tolist(), ports.peer.tolist(), strict=True)
        self.memory = [memory and switch[a] and switch[b] for a, b in ends]

    def __enter__(self) -> "Line":
        for name in self.names:
            run("ip", "netns", "add", name)
            for which in ("all", "default"):
                setting = f"net.ipv6.conf.{which}.disable_ipv6=1"
                run("ip", "netns", "exec", name, "sysctl", "-qw", setting)
        ports = self.fabric.ports
        for port, other in enumerate(ports.reverse.tolist()):
            if other < port or self.memory[port]:
                continue
            here, there = (self.names[int(ports.node[p])] for p in (port, other))
            end = ["name", f"p{other}", "mtu", str(INTERFACE_MTU), "netns", there]
            run("ip", "link", "add", f"p{port}", "mtu", str(INTERFACE_MTU), "netns", here,
                "type", "veth", "peer", *end)  # fmt: skip
            for name, p in ((here, port), (there, other)):
                run("ip", "-n", name, "link", "set", f"p{p}", "up")
        return self

    def __exit__(self, *_: object) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)  # noqa: S607

    def space(self, node: int) -> str:
        """The file of a node's namespace."""
        return f"/run/netns/{self.names[node]}"

    def received(self) -> int:
        """Frames that have arrived at the last host."""
        counter = f"/sys/class/net/p{len(self.fabric.ports.node) - 1}/statistics/rx_packets"
        return int(run("ip", "netns", "exec", self.names[-1], "cat", counter))


def switch_process(wires: Line) -> Any:
    """All switches of the line."""
    fabric, discipline, transport = wires.fabric, Discipline(pfc=False, ecn="off"), Transport()
    ports = []
    for port, node in enumerate(fabric.ports.node.tolist()):
        if fabric.nodes[node].switch is None:
            continue
        held = ("", "", "")
        real = (wires.space(node), f"p{port}", mac(port))
        ports.append((port, *(held if wires.memory[port] else real)))
    last = len(fabric.ports.node) - 1
    return _live.Switch(
        fabric=fabric_setting(fabric),
        routes=route_setting(equal_cost(fabric)),
        discipline=discipline_setting(
            fabric, discipline, port_headroom(fabric, discipline, transport)
        ),
        transport=transport_setting(fabric, transport),
        ports=ports,
        hosts=[(0, "10.0.0.1", mac(0)), (fabric.nodes[-1].index, "10.0.0.2", mac(last))],
        seed=1,
        dilation=1,
        tick_ps=10**9,
        mtu_bytes=INTERFACE_MTU,
    )


def mac(port: int) -> str:
    """The address of a port."""
    return f"02:00:00:00:00:{port:02x}"


def flood(wires: Line, length: int, stop_at: float) -> int:
    """Send frames of a length, without FCS, from the first host; how many were sent."""
    enter(wires.space(0))
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as out:
        out.bind(("p0", 0))
        frame = _live.roce_frame(
            source_mac=2 << 40, destination_mac=2 << 40, source_ip=0x0A000001,
            destination_ip=0x0A000002, source_port=50_000, kind="data", priority=0, flow=0,
            sequence=0, payload=length - ETH_HEADERS,
        )  # fmt: skip
        many = frame * BATCH
        lengths = np.full(BATCH, len(frame), np.int64)
        now = np.zeros(BATCH, np.int64)
        sent = 0
        while time.monotonic() < stop_at:
            _live.send_frames(socket=out.fileno(), frames=many, length=lengths, at_ns=now)
            sent += BATCH
        return sent


def enter(space: str) -> None:
    """Move this process to a namespace."""
    with Path(space).open() as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0x40000000):
            raise SystemExit(f"{space}: cannot be entered; run it as root")


def measure(switches: int, memory: bool, length: int, seconds: float) -> tuple[float, float]:
    """Frames per second that arrived, and for each second of the forwarder's processor time."""
    with ExitStack() as stack:
        wires = stack.enter_context(Line(line(switches), memory))
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        told = os.pipe()
        core = sorted(os.sched_getaffinity(0))
        forwarder = os.fork()
        if forwarder == 0:
            os.sched_setaffinity(0, {core[-1]})
            ours.close()
            process = switch_process(wires)
            theirs.send(b"ready")
            idle = time.thread_time()
            process.run(time.monotonic_ns(), theirs.fileno())
            os.write(told[1], struct.pack("d", time.thread_time() - idle))
            os._exit(0)
        theirs.close()
        ours.recv(16)
        begin = time.monotonic()
        before = wires.received()
        sender = os.fork()
        if sender == 0:
            os.sched_setaffinity(0, {core[0]})
            os._exit(0 if flood(wires, length, begin + seconds) else 1)
        time.sleep(seconds)
        arrived = wires.received() - before
        rate = arrived / (time.monotonic() - begin)
        os.waitpid(sender, 0)
        ours.shutdown(socket.SHUT_RDWR)
        os.waitpid(forwarder, 0)
        (used,) = struct.unpack("d", os.read(told[0], 8))
        return rate, arrived / used


def main() -> None:
    """Print one row a case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each case")
    seconds: float = parser.parse_args().seconds
    if os.geteuid():
        sys.exit("forward: makes network namespaces; run it as root")
    print(f"{'switches':<22}{'frame B':>9}{'k frames/s':>12}{'Gbit/s':>9}{'k/core s':>10}")
    cases = ((1, False, "1"), (4, True, "4, wires in memory"), (4, False, "4, veth"))
    for switches, memory, name in cases:
        for length in (1514, 9014):
            rate, busy = measure(switches, memory, length, seconds)
            bits = rate * (length + OUTSIDE) * 8 / 1e9
            row = f"{name:<22}{length:>9,}{rate / 1e3:>12.0f}{bits:>9.1f}{busy / 1e3:>10.0f}"
            print(row, flush=True)


if __name__ == "__main__":
    main()
