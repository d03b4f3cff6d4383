"""How much DCQCN's settings decide: the tables of docs/packet-model.md, one setting at a time.

    python bench/dcqcn.py

First 300 flows of 25 MB between random hosts of a leaf-spine at load 0.3, two seeds a row; then
flows of 25 MB into one host with the settings of the conweave ns-3 (its own times are in the
documentation), eight seeds a row.
"""

import argparse
import dataclasses
import random
from types import MappingProxyType

import numpy as np

from emulate import transport
from emulate.discipline import Discipline
from emulate.packet import PacketEmulator
from emulate.transport import PRESETS, Transport
from topo.fabric import Fabric, Switch
from topo.family.registry import build
from topo.route import equal_cost
from traffic.emulator import FLOW

US = 10**6
BYTES = 25_000_000
UNTIL = 10**12

BYTE_COUNTER = {
    "connectx_2mb": {},
    "its byte counter 256 KiB": {"increase_bytes": 262_144},
    "its byte counter 32,767 B, that is connectx": {"increase_bytes": 32_767},
    "no target clamp after a timer increase": {"clamp_after_timer": False},
    "CNPs 50 us apart": {"cnp_interval_ps": 50 * US},
    "additive and hyper steps times 10": {"additive_bps": 50_000_000, "hyper_bps": 500_000_000},
    "timer 30 us": {"increase_period_ps": 30 * US},
}
"""Changes of the preset `connectx_2mb`, one a row."""

CASES = {
    "two into one, 0.5 ms apart": (0, 500),
    "two into one, 1 ms apart": (0, 1000),
    "three into one, 0.5 ms apart": (0, 500, 1000),
    "eight into one": (0,) * 8,
}
"""Releases in microseconds."""


def run(
    fabric: Fabric,
    rows: list[tuple[int, int, int]],
    discipline: Discipline,
    setting: Transport,
    seed: int,
) -> list[float]:
    """Completion times in ms of (source, destination, release in us)."""
    emulator = PacketEmulator(fabric, equal_cost(fabric), discipline, setting, seed=seed)
    hosts = [node.index for node in fabric.hosts]
    table = np.zeros(len(rows), FLOW)
    table["flow"] = table["handoff"] = np.arange(len(rows))
    table["entropy"] = np.arange(len(rows)) * 7919 + 1
    table["source"] = [hosts[s] for s, _, _ in rows]
    table["destination"] = [hosts[d] for _, d, _ in rows]
    table["release_ps"] = [at * US for _, _, at in rows]
    table["bytes"], table["descriptors"], table["priority"] = BYTES, 1, 3
    table["path"], table["write"] = -1, True
    emulator.submit(table)
    while emulator.now_ps < UNTIL:
        emulator.advance(UNTIL)
    flows = emulator.telemetry().flows
    if (flows["finish_ps"] < 0).any():
        raise RuntimeError("flows are open after a second")
    return ((flows["finish_ps"] - flows["release_ps"]) / 1e9).tolist()  # type: ignore[no-any-return]


def leaf_spine() -> Fabric:
    """8 leaves of 8 hosts, 8 spines, 100 Gbit/s, cables of 50 ns."""
    model = Switch(16, 100 * 10**9, 64 * 2**20, latency_ps=600_000)
    return build("leaf_spine", {"hosts": 64, "leaves": 8, "spines": 8, "nic_bps": 100 * 10**9,
                                "switch": model, "cable_m": 50_000 / 5_050})  # fmt: skip


def collisions() -> list[tuple[int, int, int]]:
    """Poisson arrivals from the first 32 hosts to the others, at 30 % of 32 NICs."""
    draw = random.Random(7)
    at, rows = 0.0, []
    for _ in range(300):
        at += draw.expovariate(0.3 * 32 * 100e9 / 8 / BYTES / US)
        rows.append((draw.randrange(32), 32 + draw.randrange(32), int(at)))
    return rows


def main() -> None:
    """Prints both tables."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    fabric, rows = leaf_spine(), collisions()
    print(f"{'setting':<48}{'P99 ms':>8}{'slowest':>8}")
    for name, changes in BYTE_COUNTER.items():
        changed = dataclasses.replace(PRESETS["connectx_2mb"], name="changed", **changes)
        transport.PRESETS = MappingProxyType({**PRESETS, "changed": changed})  # type: ignore[misc]
        times = [
            t for seed in (1, 2)
            for t in run(fabric, rows, Discipline(), Transport(preset="changed"), seed)
        ]  # fmt: skip
        print(f"{name:<48}{np.quantile(times, 0.99):>8.1f}{max(times):>8.1f}", flush=True)
    print()
    setting = Transport(preset="hpcc", mtu=1000, ack_every=1)
    discipline = Discipline(marking="dequeue", headroom=100_000)
    for name, releases in CASES.items():
        star = Fabric("star")
        model = Switch(len(releases) + 1, 100 * 10**9, 64 * 2**20, latency_ps=0)
        middle = star.add_switch("s", tier=1, switch=model)
        for i in range(len(releases) + 1):
            star.connect(star.add_host(f"h{i}"), middle, rate_bps=100 * 10**9, delay_ps=1_000_000)
        flows = [(i, len(releases), at) for i, at in enumerate(releases)]
        every = np.array([run(star, flows, discipline, setting, seed) for seed in range(1, 9)])
        means = every.mean(0)
        shown = f"mean {means.mean():.2f}" if len(means) > 3 else ", ".join(
            f"{value:.2f}" for value in means
        )  # fmt: skip
        print(f"{name:<48}{shown}", flush=True)
    runs = np.array([run(fabric, rows, discipline, setting, seed) for seed in range(1, 9)])
    tails = np.quantile(runs, (0.99, 1), axis=1)
    shown = ", ".join(f"{tail.min():.0f} to {tail.max():.0f}" for tail in tails)
    print(f"{'leaf-spine as above, P50, P99, slowest':<48}{np.median(runs):.1f}, {shown}")


if __name__ == "__main__":
    main()
