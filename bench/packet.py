"""Packet-hops per second, events and memory of the packet engine.

A permutation over a fat tree (every host sends to one other) and a 32:1 incast, each at 100 and 400
Gbps with the default transport and disciplines. By the wall clock, so run it on an idle machine:

    python bench/packet.py            # a table, k = 8, 128 hosts
    python bench/packet.py --bytes 10000000
    python bench/packet.py --tree 16 --threads 2
"""

import argparse
import resource
import time

import numpy as np
from numpy.typing import NDArray

from emulate.packet import PacketEmulator
from topo.fabric import Fabric, Switch
from topo.family.registry import build
from topo.route import equal_cost
from traffic.emulator import FLOW


def flows(pairs: list[tuple[int, int]], size: int) -> NDArray[np.void]:
    """One flow a pair, all released at time 0."""
    rows = np.zeros(len(pairs), FLOW)
    rows["flow"] = rows["handoff"] = rows["entropy"] = np.arange(len(pairs))
    rows["source"], rows["destination"] = np.array(pairs).T
    rows["bytes"], rows["descriptors"], rows["path"] = size, 1, -1
    rows["write"], rows["priority"] = True, 3
    return rows


def permutation(fabric: Fabric) -> list[tuple[int, int]]:
    """Every host sends to the one half the fabric away."""
    hosts = [n.index for n in fabric.hosts]
    half = len(hosts) // 2
    return [(h, hosts[(i + half) % len(hosts)]) for i, h in enumerate(hosts)]


def incast(fabric: Fabric) -> list[tuple[int, int]]:
    """32 hosts send to the last."""
    hosts = [n.index for n in fabric.hosts]
    return [(h, hosts[-1]) for h in hosts[:32]]


def main() -> None:
    """Print one row a workload."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=4_000_000, help="a flow's payload")
    parser.add_argument("--tree", type=int, default=8, help="k of the fat tree")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    size: int = given.bytes
    head = f"{'workload':<24}{'packet-hops':>13}{'M hops/s':>10}{'M events/s':>12}{'peak MiB':>10}"
    print(head)
    for gbps in (100, 400):
        rate = gbps * 10**9
        model = Switch(rate_bps=rate)
        fabric = build("fat_tree", {"k": given.tree, "nic_bps": rate, "switch": model})
        routes = equal_cost(fabric)
        for name, pairs in (("permutation", permutation(fabric)), ("incast", incast(fabric))):
            emulator = PacketEmulator(fabric, routes, seed=1, threads=given.threads)
            emulator.submit(flows(pairs, size))
            began = time.perf_counter()
            left = len(pairs)
            while left:
                left -= len(emulator.advance(10**13).completions)
            took = time.perf_counter() - began
            totals = emulator.telemetry().totals
            hops, events = totals["packet_hops"], totals["events"]
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"{name + f' {gbps}G k={given.tree}':<24}{hops:>13,}{hops / took / 1e6:>10.2f}"
                f"{events / took / 1e6:>12.2f}{peak:>10.0f}"
            )


if __name__ == "__main__":
    main()
