"""Nanoseconds a packet-hop on the path through one port, feature by feature.

    python bench/port.py                     # both engines
    valgrind --tool=callgrind python bench/port.py --case plain --engines core

Senders around one switch, one ACK a packet: alone, so that no queue forms; two into one, so that a
queue and pauses do; with marking and DCQCN; with six classes under deficit round robin. One feature
is added at a time, so that a difference is its cost.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from emulate.discipline import Discipline
from emulate.packet import PacketEmulator
from emulate.transport import Transport
from topo.fabric import Fabric, Switch
from topo.route import equal_cost
from traffic.emulator import FLOW

RATE = 400 * 10**9
MEMORY = 8 * 2**20
Case = tuple[int, Discipline, Transport, Callable[[int], int]]

FREE = Transport(control="none", ack_every=1)
CASES: dict[str, Case] = {
    "plain": (1, Discipline(pfc=False, ecn="off"), FREE, lambda _: 3),
    "pfc": (1, Discipline(ecn="off"), FREE, lambda _: 3),
    "queue": (2, Discipline(ecn="off"), FREE, lambda _: 3),
    "mark": (2, Discipline(ecn="hpcc"), FREE, lambda _: 3),
    "dcqcn": (2, Discipline(ecn="hpcc"), Transport(preset="hpcc", ack_every=1), lambda _: 3),
    "classes": (8, Discipline(ecn="off", lossless=tuple(range(6))), FREE, lambda i: i % 6),
}


def star(senders: int) -> Fabric:
    """Senders and one receiver around one switch."""
    fabric = Fabric("star")
    middle = fabric.add_switch("s", tier=1, switch=Switch(64, RATE, MEMORY * (senders + 1)))
    for i in range(senders + 1):
        fabric.connect(fabric.add_host(f"h{i}"), middle, rate_bps=RATE, length_m=20.0)
    return fabric


def flows(fabric: Fabric, packets: int, priority: Callable[[int], int]) -> NDArray[np.void]:
    """One flow from every host to the last."""
    *sources, sink = [node.index for node in fabric.hosts]
    rows = np.zeros(len(sources), FLOW)
    rows["flow"] = rows["handoff"] = rows["entropy"] = np.arange(len(rows))
    rows["source"], rows["destination"], rows["bytes"] = sources, sink, packets * 4096
    rows["descriptors"], rows["path"], rows["write"] = 1, -1, True
    rows["priority"] = [priority(i) for i in range(len(rows))]
    return rows


def main() -> None:
    """Prints a row a case and engine."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", choices=CASES, nargs="+", default=list(CASES))
    parser.add_argument("--engines", nargs="+", default=["core", "reference"])
    parser.add_argument("--packets", type=int, default=200_000, help="of all flows together")
    asked = parser.parse_args()
    print(
        f"{'case':<10}{'engine':<11}{'hops':>10}{'ns/hop':>9}{'events/hop':>12}{'pauses/10k':>12}"
    )
    for name in asked.case:
        senders, discipline, transport, priority = CASES[name]
        for engine in asked.engines:
            fabric = star(senders)
            emulator = PacketEmulator(
                fabric, equal_cost(fabric), discipline, transport, seed=1, engine=engine
            )
            emulator.submit(flows(fabric, asked.packets // senders, priority))
            began, left = time.process_time(), senders
            while left:
                left -= len(emulator.advance(10**13).completions)
            took = time.process_time() - began
            totals = emulator.telemetry().totals
            hops = totals["packet_hops"]
            print(
                f"{name:<10}{engine:<11}{hops:>10,}{1e9 * took / hops:>9.0f}"
                f"{totals['events'] / hops:>12.2f}{1e4 * totals['pause_frames'] / hops:>12.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
