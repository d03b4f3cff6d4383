"""How far the packet engine agrees with itself when releases move by nanoseconds.

Marks, pauses and rates feed back, so that two runs whose flows begin a few nanoseconds apart drift
apart flow by flow, and a little in their quantiles. No emulation by real frames can be held to
more than that. 200 flows of 0.6 to 1.4 MB between random hosts of a leaf-spine (4 x 2 hosts, 2
spines, 100 Gbps) under DCQCN:

    python bench/jitter.py                  # releases moved by up to 5 ns, six times
    python bench/jitter.py --frames 3000    # and as real frames, 3,000 times slower; as root
"""

import argparse

import numpy as np
from numpy.typing import NDArray

from emulate.discipline import Discipline
from emulate.marking import Threshold
from emulate.mininet.emulator import MininetEmulator
from emulate.mininet.network import network
from emulate.mininet.setup import Setup
from emulate.transport import Transport
from topo.fabric import Fabric, Switch
from topo.family.clos import LeafSpine, leaf_spine
from topo.route import equal_cost
from topo.unit import PS_PER_NS, PS_PER_US
from traffic.emulator import FLOW, Emulator, Table

RATE_BPS = 100 * 10**9
QUANTILES = (50, 90, 95, 99)
MEAN_GAP_PS = 25 * PS_PER_US
FAR_PS = 10**12


def setup() -> Setup:
    """The fabric and what it runs."""
    model = Switch(rate_bps=RATE_BPS)
    fabric = leaf_spine(LeafSpine(hosts=8, leaves=4, spines=2, nic_bps=RATE_BPS, switch=model))
    marking = Discipline(ecn=Threshold(100_000, 400_000, 0.2), alpha=1 / 16)
    return Setup(fabric, equal_cost(fabric), marking, Transport(preset="hpcc"), seed=1)


def flows(fabric: Fabric, count: int) -> NDArray[np.void]:
    """Flows between random hosts, released at random."""
    draw = np.random.default_rng(7)
    hosts = [node.index for node in fabric.hosts]
    rows = np.zeros(count, FLOW)
    rows["flow"] = rows["handoff"] = np.arange(count)
    rows["entropy"] = rows["flow"] * 7919 + 1
    for row in rows:
        row["source"], row["destination"] = draw.choice(hosts, 2, replace=False)
    rows["bytes"] = draw.integers(600_000, 1_400_000, count)
    rows["descriptors"], rows["path"], rows["write"], rows["priority"] = 1, -1, True, 3
    rows["release_ps"] = np.cumsum(draw.exponential(MEAN_GAP_PS, count)).astype(np.int64)
    rows["release_ps"] += 50 * PS_PER_US
    return rows


def completion(emulator: Emulator, rows: NDArray[np.void]) -> NDArray[np.float64]:
    """Completion times in microseconds, by flow."""
    emulator.submit(rows)
    while len(emulator.advance(FAR_PS).completions):
        pass
    table: Table = emulator.telemetry().flows
    return np.asarray(table["finish_ps"] - table["release_ps"], np.float64) / PS_PER_US


def show(name: str, found: NDArray[np.float64], base: NDArray[np.float64]) -> None:
    """One row: quantiles over those of the base, and how far single flows are off."""
    ratios = np.percentile(found, QUANTILES) / np.percentile(base, QUANTILES)
    off = np.percentile(np.abs(found / base - 1), (50, 90))
    cells = "".join(f"{ratio:>9.3f}" for ratio in ratios)
    print(f"{name:<22}{cells}{off[0]:>12.1%}{off[1]:>12.1%}", flush=True)


def main() -> None:
    """Print one row a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="flows")
    parser.add_argument("--jitter", type=int, default=5, help="nanoseconds, at most")
    parser.add_argument("--frames", type=int, default=0, help="dilation of a run of real frames")
    options = parser.parse_args()
    what = setup()
    rows = flows(what.fabric, options.count)
    base = completion(what.twin(), rows)
    heads = "".join(f"{f'P{q}':>9}" for q in QUANTILES)
    print(f"{'against the engine':<22}{heads}{'flows P50':>12}{'flows P90':>12}")
    for seed in range(6):
        moved = rows.copy()
        most = options.jitter * PS_PER_NS
        moved["release_ps"] += np.random.default_rng(seed).integers(0, most + 1, len(rows))
        show(f"moved, seed {seed}", completion(what.twin(), moved), base)
    if options.frames:
        with (
            network(what.fabric, what="bench/jitter.py") as made,
            MininetEmulator(what, made, dilation=options.frames) as emulator,
        ):
            show("real frames", completion(emulator, rows), base)
            print(emulator.judged([]).text())


if __name__ == "__main__":
    main()
