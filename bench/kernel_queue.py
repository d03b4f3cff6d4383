"""The kernel's RED queue beside the packet core's, at the same settings.

Three hosts send to a fourth behind one switch at 400 Gbps. First open loop: two trains of frames
that can be marked, at once. The queue grows by one frame for every two that come, and marks follow
from the thresholds alone. Then closed loop, three bursts of 1.5 MB: DCTCP, cubic and bbr of the
kernel, and the packet core's DCQCN. As root, on a kernel with RED:

    make vm-test CMD='.venv/bin/python bench/kernel_queue.py'
"""

import argparse
import socket
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emulate.discipline import Discipline
from emulate.marking import Threshold
from emulate.mininet.counter import Counters
from emulate.mininet.kernel import KernelEmulator
from emulate.mininet.namespace import inside
from emulate.mininet.network import network
from emulate.mininet.plane import Plane, kernel_plane
from emulate.mininet.qdisc import frame_bytes
from emulate.mininet.setup import Setup
from emulate.packet import PacketEmulator
from emulate.transport import Transport
from topo.fabric import Fabric, Switch
from topo.route import equal_cost
from topo.unit import PS_PER_MS, PS_PER_US
from traffic.emulator import FLOW
from traffic.replay import replay

MTU = 4096
SIZE = 1_500_000
TICK_PS = 300_000
PRIORITY = 3
RELEASE = 20 * PS_PER_US
STEP = Threshold(2**16, 2**16, 1.0)
RAMP = Threshold(100_000, 400_000, 0.2)
BUFFER = {STEP: 2**23, RAMP: 2**21}


@dataclass(frozen=True)
class Row:
    """One line of the table: bytes waiting, share of packets marked, packets dropped."""

    name: str
    queue: NDArray[np.int64]
    marked: float
    drops: int

    def text(self) -> str:
        """As Markdown."""
        p50, p95, most = (np.quantile(self.queue, q) / 1000 for q in (0.5, 0.95, 1))
        return (
            f"| {self.name} | {p50:.0f} | {p95:.0f} | {most:.0f} | {self.marked:.1%} | "
            f"{self.drops} |"
        )


def setup_of(at: Threshold, control: str) -> Setup:
    fabric = Fabric("star")
    middle = fabric.add_switch("s", tier=1, switch=Switch(8, buffer_bytes=BUFFER[at]))
    for i in range(4):
        fabric.connect(fabric.add_host(f"h{i}"), middle, rate_bps=400 * 10**9, delay_ps=50_000)
    discipline = Discipline(pfc=False, ecn=at)
    transport = Transport(control="dcqcn" if control == "dcqcn" else "none", mtu=MTU)
    return Setup(fabric, equal_cost(fabric), discipline, transport, 1)


def bottleneck(setup: Setup) -> int:
    hosts = [node.index for node in setup.fabric.hosts]
    return int(setup.routes.next_hops(setup.fabric.switches[0].index, hosts[-1])[0])


def bursts(setup: Setup, senders: int, size: int) -> NDArray[np.void]:
    hosts = [node.index for node in setup.fabric.hosts]
    rows = [
        (i, i, hosts[i], hosts[-1], size, 1, i, -1, True, PRIORITY, RELEASE) for i in range(senders)
    ]
    return np.array(rows, FLOW)


def by_kernel(plane: Plane, control: str) -> Row:
    flows, port = bursts(plane.setup, 3, SIZE), bottleneck(plane.setup)
    tick_ns = TICK_PS * plane.dilation // 1000
    with KernelEmulator(plane, control, window_ps=PS_PER_MS, tick_ns=tick_ns) as live:
        finish = replay(flows, live, until_ps=PS_PER_MS)
        ports = live.telemetry().ports
        seen = [(at, waiting) for at, where, waiting in live.samples if where == port]
    share = int(ports["marked"][port]) / int(ports["tx_packets"][port])
    return Row(f"kernel, {control}", within(seen, finish), share, int(ports["drops"][port]))


def by_packets(at: Threshold, control: str) -> Row:
    setup = setup_of(at, control)
    port = bottleneck(setup)
    core = PacketEmulator(
        setup.fabric, setup.routes, setup.discipline, setup.transport, seed=1, tick_ps=TICK_PS
    )
    finish = replay(bursts(setup, 3, SIZE), core, until_ps=10 * PS_PER_MS)
    told = core.telemetry()
    rows = np.asarray(told.series["port"]) == port
    times = np.asarray(told.series["from_ps"])[rows].tolist()
    seen = list(zip(times, np.asarray(told.series["max_bytes"])[rows].tolist(), strict=True))
    ports = told.ports
    share = int(ports["marked"][port]) / int(ports["tx_packets"][port])
    return Row(f"packet core, {control}", within(seen, finish), share, int(ports["drops"][port]))


def within(seen: list[tuple[int, int]], finish: NDArray[np.int64]) -> NDArray[np.int64]:
    """The samples from a third of the time to the first end."""
    done = finish[finish > 0]
    end = int(done.min()) if len(done) else PS_PER_MS
    begin = RELEASE + (end - RELEASE) // 3
    return np.array([waiting for time_ps, waiting in seen if begin < time_ps < end], np.int64)


def trains(plane: Plane, frames: int) -> tuple[int, int]:
    """Marked packets, and the fullest queue, of two trains by the kernel."""
    made, port = plane.network, bottleneck(plane.setup)
    hosts = [node.index for node in made.fabric.hosts]
    counters = Counters(plane)
    before = int(counters.tally().marked[port])
    senders = []
    with inside(made.namespace(hosts[-1])):
        sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind((made.nodes[hosts[-1]].ip, 5202))
    for host in hosts[:2]:
        with inside(made.namespace(host)):
            sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, PRIORITY << 2 | 2)
        sender.setsockopt(socket.SOL_SOCKET, 32, 2**24)
        sender.connect((made.nodes[hosts[-1]].ip, 5202))
        senders.append(sender)
    body = bytes(frame_bytes(MTU) - 42)
    for _ in range(frames):
        for sender in senders:
            sender.send(body)
    fullest = 0
    quiet = 0
    while quiet < 20:
        waiting = counters.now()[port].backlog_bytes
        fullest, quiet = max(fullest, waiting), 0 if waiting else quiet + 1
        time.sleep(0.02)
    found = int(counters.tally().marked[port]) - before
    for end in (*senders, sink):
        end.close()
    counters.close()
    return found, fullest


def open_loop(plane: Plane, at: Threshold, frames: int, repeats: int) -> str:
    found = np.array([trains(plane, frames) for _ in range(repeats)])
    core = []
    for seed in range(1, repeats + 1):
        setup = setup_of(at, "none")
        emulator = PacketEmulator(
            setup.fabric, setup.routes, setup.discipline, setup.transport, seed=seed
        )
        replay(bursts(setup, 2, frames * MTU), emulator)
        ports, port = emulator.telemetry().ports, bottleneck(setup)
        core.append((int(ports["marked"][port]), int(ports["max_queue_bytes"][port])))
    ours = np.array(core)
    return (
        f"| {at.kmin_bytes / 1000:.0f} / {at.kmax_bytes / 1000:.0f} kB, {at.pmax:.0%} | "
        f"{2 * frames} | {ours[:, 0].mean():.1f} | {found[:, 0].mean():.1f} | "
        f"{ours[:, 1].max() / 1000:.0f} | {found[:, 1].max() / 1000:.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--dilation", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    open_rows, closed_rows = [], []
    for at, frames in ((STEP, 60), (RAMP, 96)):
        setup = setup_of(at, "none")
        with network(setup.fabric, what="bench") as made:
            plane = kernel_plane(made, setup, dilation=asked.dilation)
            open_rows.append(open_loop(plane, at, frames, asked.repeats))
            if at is STEP:
                closed_rows += [by_kernel(plane, control) for control in ("dctcp", "cubic", "bbr")]
                closed_rows.append(by_packets(at, "dcqcn"))
    print("| Kmin / Kmax, Pmax | packets | marked, packet core | kernel | fullest kB | kernel |")
    print("|---|---|---|---|---|---|")
    print("\n".join(open_rows))
    print("\n| sender | queue P50 kB | P95 | fullest | marked | drops |\n|---|---|---|---|---|---|")
    print("\n".join(row.text() for row in closed_rows))


if __name__ == "__main__":
    main()
