"""Packet-hops per second from 16 to 8,192 hosts: permutations over full fat trees with PFC at work.

    python bench/scale.py                    # k = 4, 8, 16, 32
    python bench/scale.py --engines core reference --gbps 100

Flows are cut so that every tree has about the same number of hops. Times are of the processor and
of the run alone; building a fabric and its routes is not in them.
"""

import argparse

import ours
from agreement import FREE
from workload import permutation

HEAD = (
    f"{'hosts':>6}{'k':>4}{'Gbps':>5}  {'engine':<10}{'frames':>7}{'hops':>13}{'s':>7}"
    f"{'M hops/s':>10}{'of k=8':>8}{'MiB':>7}{'pauses/10k':>12}"
)


def main() -> None:
    """Prints a row a tree and engine."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trees", type=int, nargs="+", default=[4, 8, 16, 32])
    parser.add_argument("--engines", nargs="+", default=["core"])
    parser.add_argument("--gbps", type=int, default=400)
    parser.add_argument("--hops", type=int, default=4_000_000, help="data hops of a run, about")
    asked = parser.parse_args()
    print(HEAD)
    for engine in asked.engines:
        base = 0.0
        for k in asked.trees:
            packets = max(10, asked.hops // (6 * k**3 // 4))
            workload = permutation(k, asked.gbps, packets)
            settings = {"discipline": {}, "transport": FREE, "engine": engine}
            o = ours.measure(workload, settings)
            speed = o.hops / o.seconds / 1e6
            base = speed if k == 8 else base
            share = f"{100 * speed / base:>7.0f}%" if base else f"{'':>8}"
            print(
                f"{workload.hosts:>6}{k:>4}{asked.gbps:>5}  {engine:<10}{packets:>7}{o.hops:>13,}"
                f"{o.seconds:>7.2f}{speed:>10.2f}{share}{o.peak_mib:>7.0f}"
                f"{1e4 * o.pauses / o.hops:>12.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
