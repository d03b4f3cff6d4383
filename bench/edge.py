"""Where the fast engine might lose to the reference: few senders, short cables, wide switches.

    python bench/edge.py

Million packet-hops a second of processor time at 400 Gbps, without congestion control and an ACK a
packet, the best of three runs of each engine.
"""

import time

import numpy as np
from numpy.typing import NDArray
from packet import flows, permutation

from emulate.packet import EngineName, PacketEmulator
from emulate.transport import Transport
from topo.fabric import Fabric, Switch
from topo.family.registry import build
from topo.route import equal_cost

RATE = 400 * 10**9
SIZE = 8_000_000
"""Payload of a long flow."""

FREE = Transport(control="none")


def tree(cable_m: float) -> Fabric:
    """A fat tree of 128 hosts."""
    model = Switch(rate_bps=RATE)
    return build("fat_tree", {"k": 8, "nic_bps": RATE, "switch": model, "cable_m": cable_m})


def star(cable_ps: int, latency_ps: int) -> Fabric:
    """One switch of 64 ports, and a host at each."""
    fabric = Fabric("star")
    model = Switch(64, RATE, latency_ps=latency_ps)
    middle = fabric.add_switch("s", tier=1, switch=model)
    for number in range(64):
        host = fabric.add_host(f"h{number}")
        fabric.connect(host, middle, rate_bps=RATE, delay_ps=cable_ps)
    return fabric


def sparse(fabric: Fabric) -> NDArray[np.void]:
    """Flows of 40 kB between random hosts, at 0.3 % of what all of them can send."""
    rng = np.random.default_rng(1)
    hosts = [node.index for node in fabric.hosts]
    count = 4_000
    pairs = [tuple(int(h) for h in rng.choice(hosts, 2, replace=False)) for _ in range(count)]
    rows = flows([(a, b) for a, b in pairs], 40_000)
    span = 8e12 * 40_000 * count / (0.003 * RATE * len(hosts))
    rows["release_ps"] = np.sort(rng.integers(0, int(span), count))
    return rows


def speed(fabric: Fabric, rows: NDArray[np.void], engine: EngineName) -> float:
    """M packet-hops a second of the processor."""
    emulator = PacketEmulator(fabric, equal_cost(fabric), None, FREE, seed=1, engine=engine)
    emulator.submit(rows)
    began = time.process_time()
    left = len(rows)
    while left:
        left -= len(emulator.advance(10**13).completions)
    took = time.process_time() - began
    return float(emulator.telemetry().totals["packet_hops"] / took / 1e6)


def main() -> None:
    """Print a row a case."""
    near, usual, wide, bare = tree(0), tree(20), star(25_000, 600_000), star(0, 0)

    def long(fabric: Fabric, count: int | None = None) -> NDArray[np.void]:
        return flows(permutation(fabric)[:count], SIZE)

    cases = (
        ("4 of 128 hosts send", usual, long(usual, 4)),
        ("one flow alone", usual, long(usual, 1)),
        ("cables of 0 m, all send", near, long(near)),
        ("cables of 0 m, one flow alone", near, long(near, 1)),
        ("a switch of 64 ports, cables of 5 m", wide, long(wide)),
        ("a switch without latency, cables of 0 m", bare, long(bare)),
        ("flows of 40 kB at random, 0.3 % load", usual, sparse(usual)),
    )
    print(f"{'':<42}{'reference':>10}{'core':>8}")
    for name, fabric, rows in cases:
        slow, fast = (
            max(speed(fabric, rows, engine) for _ in range(3)) for engine in ("reference", "core")
        )
        print(f"{name:<42}{slow:>10.1f}{fast:>8.1f}", flush=True)


if __name__ == "__main__":
    main()
