"""Completion times to the picosecond against a variant of htsim, where no chance is left.

    python bench/htsim_variant.py .../csg-htsim DIRECTORY      # builds it, prints its path
    python bench/exact.py DIRECTORY/sim/datacenter/htsim_roce

Flows are released at instants of their own, cables have lengths of their own, and our data and
ACKs are pinned to htsim's ways: what two simulators with the same rules must answer alike. A row a
set of rules that htsim takes over from us (htsim_variant.py); the engine is as it is in all.
"""

import argparse
import dataclasses
import random
from pathlib import Path

import htsim
import numpy as np
import ours
from agreement import FREE
from outcome import Outcome
from workload import NAMES, Workload

RULES = (
    (),
    ("ORDER",),
    ("ORDER", "SIZES"),
    ("ORDER", "PAUSES"),
    ("ORDER", "SIZES", "PAUSES"),
)
APART_PS = 300_000
RELEASES_PS = 16_000_000


def inputs(workload: Workload, run: int) -> tuple[Workload, tuple[int, ...]]:
    """Own lengths for its cables, and a release for every flow."""
    draw = random.Random(100 + run)
    releases = tuple(draw.randrange(RELEASES_PS) for _ in workload.flows)
    return dataclasses.replace(workload, apart_ps=APART_PS), releases


def pinned(workload: Workload, lanes: list[tuple[int, int]]) -> Workload:
    """The workload on these ways, of data and ACKs."""
    flows = tuple(
        (s, d, there) for (s, d, _), (there, _) in zip(workload.flows, lanes, strict=True)
    )
    return dataclasses.replace(workload, flows=flows, back=tuple(back for _, back in lanes))


def both(
    workload: Workload, roce: Path, rules: tuple[str, ...], run: int, engine: str
) -> tuple[Outcome, Outcome]:
    """Ours and htsim's."""
    workload, releases = inputs(workload, run)
    theirs = htsim.run(workload, roce, htsim.Variant(releases, rules))
    settings = {
        "discipline": {"response_ps": 0}, "transport": FREE, "engine": engine,
        "releases_ps": releases,
    }  # fmt: skip
    own = ours.measure(pinned(workload, theirs.lanes), settings)
    if own.drops or theirs.note or min(*own.fct_ps, *theirs.fct_ps) < 0:
        raise RuntimeError(f"{workload.name}: frames were lost, or flows are open")
    return own, theirs


def tell(workload: Workload, roce: Path, engine: str) -> None:
    """Source, destination, lanes of data and ACKs, release, both times: a line a flow."""
    own, theirs = both(workload, roce, RULES[-1], 0, engine)
    _, releases = inputs(workload, 0)
    for flow, lanes, at, mine, other in zip(
        workload.flows, theirs.lanes, releases, own.fct_ps, theirs.fct_ps, strict=True
    ):
        print(f"({flow[0]}, {flow[1]}, {lanes[0]}, {lanes[1]}, {at:_}, {other:_}),  # {mine:_}")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", type=Path, help="the program of a variant of htsim")
    parser.add_argument("--runs", type=int, default=1, help="draws of the releases")
    parser.add_argument("--packets", type=int, default=1000, help="frames of a flow")
    parser.add_argument("--trees", type=int, nargs="+", default=[4, 8], help="k of the fat trees")
    parser.add_argument("--gbps", type=int, nargs="+", default=[100, 400])
    parser.add_argument("--workloads", nargs="+", default=list(NAMES), choices=NAMES)
    parser.add_argument("--engine", default="core", choices=("core", "reference"))
    parser.add_argument("--flows", action="store_true", help="also the flows, with all rules")
    asked = parser.parse_args()
    print(f"{'workload':<12} {'k':>2} {'Gbps':>4} {'htsim with our':<20}"
          f"{'median %':>9} {'most %':>8} {'most ps':>10} {'flows':>6} {'pauses':>7}")  # fmt: skip
    for name in asked.workloads:
        for k, gbps in ((k, g) for k in asked.trees for g in asked.gbps):
            if name == "incast" and k < 6:
                continue
            workload = NAMES[name](k, gbps, asked.packets)
            for rules in RULES:
                pairs = [both(workload, asked.variant, rules, run, asked.engine)
                         for run in range(asked.runs)]  # fmt: skip
                own = np.array([o.fct_ps for o, _ in pairs], np.int64)
                other = np.array([t.fct_ps for _, t in pairs], np.int64)
                apart = 100 * np.abs(own / other - 1)
                pauses = sum(o.pauses for o, _ in pairs)
                print(
                    f"{workload.name:<12} {k:>2} {gbps:>4} {' '.join(rules) or '-':<20}"
                    f"{np.median(apart):>9.3f} {apart.max():>8.3f} {np.abs(own - other).max():>10}"
                    f" {own.size:>6} {pauses:>7}",
                    flush=True,
                )
            if asked.flows:
                tell(workload, asked.variant, asked.engine)


if __name__ == "__main__":
    main()
