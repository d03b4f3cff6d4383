"""Completion times flow by flow against the conweave ns-3 where no mark is drawn.

    python bench/step.py .../conweave-ns3

Marking is a step: every frame that leaves more than Kmin behind is marked, in both. Flows are
released at instants of their own, cables have lengths and rates of their own, so that nothing
happens at equal instants, and our ACKs are pinned to ns-3's ways. The build is as it is, with its
program compiled without assertions (NDEBUG), of which one wants all cables equally long.
"""

import argparse
import dataclasses
import random
from pathlib import Path

import ns3
import numpy as np
import ours
from agreement import like_ns3
from workload import NAMES, Workload, incast

FRAME = 4176
"""334.08 ns at 100 Gbit/s: ns-3 cuts its times to whole nanoseconds."""


def workload(name: str, k: int, packets: int) -> Workload:
    """At 100 Gbit/s, on ns-3's ways, with cables of their own."""
    made = incast(k, 100, packets // 2, 8 if k == 4 else 32) if name == "incast" else (
        NAMES[name](k, 100, packets)
    )  # fmt: skip
    apart = {"frame": FRAME, "apart_ps": 300_000, "grain_ps": 1000, "slower_ns": 36}
    return ns3.pinned(dataclasses.replace(made, **apart))


def main() -> None:
    """Prints the table; under "itself" our runs with releases moved by less than 1 ns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path, help="directory of a built conweave ns-3")
    parser.add_argument("--runs", type=int, default=3, help="draws of the releases")
    parser.add_argument("--packets", type=int, default=1000, help="frames of a flow")
    parser.add_argument("--trees", type=int, nargs="+", default=[4, 8], help="k of the fat trees")
    parser.add_argument("--workloads", nargs="+", default=["permutation", "bipartite", "incast"],
                        choices=NAMES)  # fmt: skip
    parser.add_argument("--kmin", type=int, default=100, help="of the step, 1000 B")
    parser.add_argument("--engine", default="core", choices=("core", "reference"))
    parser.add_argument("--unit-ps", type=int, default=1000, help="of the times that ns-3 writes")
    asked = parser.parse_args()
    control = ns3.Control(64, kmin_kb=asked.kmin, kmax_kb=asked.kmin, unit_ps=asked.unit_ps)
    print(f"{'workload':<12} {'k':>2} {'median':>7} {'9 in 10':>8} {'most':>7} {'sum':>7}"
          f"{'flows':>6} {'CNPs':>7} {'theirs':>7}   itself: median, most")  # fmt: skip
    for name in asked.workloads:
        for k in asked.trees:
            case = workload(name, k, asked.packets)
            rows = []
            for run in range(asked.runs):
                draw = random.Random(3 + run)
                releases = sorted(draw.randrange(300_000) for _ in case.flows)
                theirs = ns3.run(case, asked.build, control, releases)
                settings = like_ns3(case, control, releases, 1)
                settings["engine"] = asked.engine
                own = ours.measure(case, settings)
                settings["releases_ps"] = [1000 * at + draw.randrange(1000) for at in releases]
                moved = ours.measure(case, settings)
                if own.drops or theirs.note or min(*own.fct_ps, *theirs.fct_ps) < 0:
                    raise RuntimeError(f"{name}: frames were lost, or flows are open")
                rows.append((own, theirs, moved))
            mine, other, again = (
                np.array([row[i].fct_ps for row in rows], np.float64) for i in range(3)
            )
            apart = 100 * np.abs(mine / other - 1)
            itself = 100 * np.abs(again / mine - 1)
            cnps = [sum(int(row[i].extra["cnps"]) for row in rows) for i in range(2)]
            print(
                f"{case.name:<12} {k:>2} {np.median(apart):>7.2f} {np.quantile(apart, 0.9):>8.2f}"
                f" {apart.max():>7.2f} {100 * (mine.sum() / other.sum() - 1):>7.2f}{apart.size:>6}"
                f" {cnps[0]:>7} {cnps[1]:>7}   {np.median(itself):.2f}, {itself.max():.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
