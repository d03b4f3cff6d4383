"""Packet-hops per second beside htsim and ns-3: the same workload, the same machine, one run.

    python bench/speed.py --htsim PATH/htsim_roce --ns3 PATH/conweave-ns3
    python bench/speed.py --htsim PATH/htsim_roce --stop 180 --go 144    # fewer pauses

One ACK a packet and PFC at work on all sides. Against htsim without congestion control, under its
static thresholds; against ns-3 with DCQCN, under its memory. Times are of the processor, so that a
busy machine disturbs them less; a hop is one frame over one link. Peers are existing builds (also
HTSIM and CONWEAVE in the environment); one that is missing is named and left out.
"""

import argparse
import random
from dataclasses import replace
from pathlib import Path

import htsim
import ns3
import ours
from agreement import FREE, like_ns3
from outcome import Outcome
from workload import HTSIM_PAYLOAD, Workload, bipartite, incast, permutation

HEAD = (
    f"{'workload':<14}{'k':>3}{'Gbps':>5}  {'simulator':<24}{'s':>8}{'data':>8}{'all':>8}"
    f"{'events':>8}{'MiB':>6}{'pauses':>8}{'times':>7}\n"
    f"{'':<14}{'':>3}{'':>5}  {'':<24}{'':>8}{'M hops/s':>16}{'M/s':>8}{'':>6}{'/10k':>8}{'':>7}"
)


def show(workload: Workload, name: str, outcome: Outcome, peer: Outcome | None) -> None:
    """One row; ``times``: data hops a second over the peer's."""
    w, o = workload, outcome
    data, every = (hops / o.seconds / 1e6 for hops in (w.data_hops, o.hops))
    events = f"{o.events / o.seconds / 1e6:>8.2f}" if o.events > 0 else f"{'-':>8}"
    pauses = f"{1e4 * o.pauses / o.hops:>8.1f}" if o.pauses >= 0 else f"{'-':>8}"
    times = f"{peer.seconds / o.seconds:>7.1f}" if peer else f"{'':>7}"
    print(
        f"{w.name:<14}{w.k:>3}{w.gbps:>5}  {name:<24}{o.seconds:>8.2f}{data:>8.2f}{every:>8.2f}"
        f"{events}{o.peak_mib:>6.0f}{pauses}{times}",
        flush=True,
    )


def beside_htsim(workload: Workload, roce: Path | None) -> None:
    """PFC without congestion control."""
    peer = htsim.run(workload, roce) if roce else None
    if peer:
        show(workload, "htsim", peer, None)
    for engine in ("core", "reference"):
        settings = {"discipline": {}, "transport": FREE, "engine": engine}
        show(workload, f"kvfabric {engine}", ours.measure(workload, settings), peer)


def beside_ns3(workload: Workload, build: Path) -> None:
    """DCQCN and PFC: memory so small that both are at work."""
    control = ns3.Control(buffer_mib=4, kmin_kb=4 * workload.gbps, kmax_kb=16 * workload.gbps)
    draw = random.Random(3)
    releases = sorted(draw.randrange(20_000) for _ in workload.flows)
    pinned = ns3.pinned(replace(workload, name=f"{workload.name}, CC"))
    peer = ns3.run(pinned, build, control, releases)
    show(pinned, "ns-3", peer, None)
    for engine in ("core", "reference"):
        settings = like_ns3(pinned, control, releases, 1) | {"engine": engine}
        show(pinned, f"kvfabric {engine}", ours.measure(pinned, settings), peer)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--htsim", help="htsim's RoCE program (else HTSIM)")
    parser.add_argument("--ns3", help="directory of a built conweave ns-3 (else CONWEAVE)")
    parser.add_argument(
        "--packets", type=int, default=2000, help="frames of a flow; half as many with DCQCN"
    )
    parser.add_argument("--trees", type=int, nargs="+", default=[8], help="k of the fat trees")
    parser.add_argument("--gbps", type=int, nargs="+", default=[100, 400])
    parser.add_argument("--stop", type=int, default=15, help="payloads at which a sender stops")
    parser.add_argument("--go", type=int, default=12, help="payloads below which it goes on")
    asked = parser.parse_args()
    roce, build = htsim.program(asked.htsim), ns3.program(asked.ns3)
    for name, path in (("htsim", roce), ("ns3", build)):
        if path is None:
            print(f"{name}: no path given; write --{name}")
    print(HEAD)
    for k in asked.trees:
        for gbps in asked.gbps:
            for workload in (
                permutation(k, gbps, asked.packets),
                incast(k, gbps, asked.packets, min(32, k**3 // 4 - 1)),
                bipartite(k, gbps, asked.packets),
            ):
                stop, go = (n * HTSIM_PAYLOAD for n in (asked.stop, asked.go))
                beside_htsim(replace(workload, stop_bytes=stop, go_bytes=go), roce)
                if build and workload.name == "permutation":
                    beside_ns3(replace(workload, packets=max(1, asked.packets // 2)), build)


if __name__ == "__main__":
    main()
