"""A million flows at one instant, on the fast core and on the reference: the same tables?

One packet a flow, between five hosts on one switch. Each engine runs in a process of its own, one
after the other; exits with 1 when they differ:

    python bench/crowd.py                # some minutes and 2 GiB
    python bench/crowd.py --flows 100000
"""

import argparse
import hashlib
import multiprocessing
import resource
import sys
import time
from dataclasses import dataclass

import numpy as np

from emulate.packet import EngineName, PacketEmulator
from topo.fabric import Fabric, Switch
from topo.route import equal_cost
from traffic.emulator import FLOW

HOSTS = 5
TABLES = ("flows", "ports", "hops", "pauses", "stops", "innocence", "occupancy", "series")


@dataclass(frozen=True)
class Run:
    """What an engine gave and took: a digest of its tables, totals, seconds, peak memory."""

    digest: str
    totals: dict[str, int]
    seconds: float
    peak_mib: float


def run(engine: EngineName, count: int) -> Run:
    """So many flows, all released at time 0, to their ends."""
    fabric = Fabric("star")
    middle = fabric.add_switch("s", tier=1, switch=Switch())
    for i in range(HOSTS):
        fabric.connect(fabric.add_host(f"h{i}"), middle, rate_bps=100 * 10**9, delay_ps=50_000)
    number = np.arange(count)
    rows = np.zeros(count, FLOW)
    rows["flow"] = rows["handoff"] = rows["entropy"] = number
    rows["source"] = 1 + number % HOSTS
    rows["destination"] = 1 + (number + 1 + number // HOSTS % (HOSTS - 1)) % HOSTS
    rows["bytes"], rows["descriptors"], rows["path"] = 1 + number % 4096, 1, -1
    rows["write"], rows["priority"] = True, 3
    emulator = PacketEmulator(fabric, equal_cost(fabric), seed=1, engine=engine)
    began = time.process_time()
    emulator.submit(rows)
    while len(emulator.advance(10**13).completions):
        pass
    seconds = time.process_time() - began
    telemetry = emulator.telemetry()
    digest = hashlib.sha256()
    for table in TABLES:
        for name, column in getattr(telemetry, table).items():
            digest.update(name.encode() + np.ascontiguousarray(column).tobytes())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Run(digest.hexdigest(), dict(telemetry.totals), seconds, peak)


def main() -> int:
    """One row an engine, and whether they agree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flows", type=int, default=1_000_000)
    count: int = parser.parse_args().flows
    runs: list[Run] = []
    print(f"{'engine':<10}{'packet-hops':>13}{'events':>13}{'seconds':>9}{'peak MiB':>10}")
    engines: tuple[EngineName, ...] = ("core", "reference")
    for engine in engines:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            done = pool.apply(run, (engine, count))
        hops, events = done.totals["packet_hops"], done.totals["events"]
        print(f"{engine:<10}{hops:>13,}{events:>13,}{done.seconds:>9.1f}{done.peak_mib:>10.0f}")
        runs.append(done)
    same = (runs[0].digest, runs[0].totals) == (runs[1].digest, runs[1].totals)
    print("the same tables and totals" if same else "the engines DIFFER")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
