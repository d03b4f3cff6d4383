"""Completion times flow by flow against independent simulators, on identical inputs.

    python bench/agreement.py --htsim PATH/htsim_roce          # PFC without congestion control
    python bench/agreement.py --ns3 PATH/conweave-ns3          # DCQCN and PFC

The peers are existing builds (also HTSIM and CONWEAVE in the environment); one that is missing is
named and left out. One run of either side hangs on chance: which of two frames that arrive together
goes first, or which is marked. So every case is run several times, htsim's with another cable
length each time (it draws nothing), ns-3's with another seed; a row gives the difference run by run
and that of the means, both sides under the same inputs throughout.
"""

import argparse
import dataclasses
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import htsim
import ns3
import numpy as np
import ours
from numpy.typing import NDArray
from outcome import Outcome
from workload import NAMES, Workload, bipartite, funnel, incast, permutation

METRE_PS = 5_050
EGRESS_MINIMUM = 1049
"""Bytes of a queue that ns-3 does not count when it compares with Kmin and Kmax."""

FREE = {"control": "none", "ack_every": 1}


@dataclasses.dataclass(frozen=True)
class Row:
    """One case under one setting: completion times of both sides, a run a row."""

    peer: str
    setting: str
    workload: Workload
    ours: NDArray[np.float64]
    theirs: NDArray[np.float64]
    pauses: float

    def show(self) -> str:
        """The differences in per cent."""
        runs = np.abs(self.ours / self.theirs - 1) * 100
        means = np.abs(self.ours.mean(0) / self.theirs.mean(0) - 1) * 100
        # Which flow wins a tie does not matter to the distribution.
        ranks = np.sort(self.ours, 1).mean(0) / np.sort(self.theirs, 1).mean(0) - 1
        rank = 100 * np.abs(ranks).max()
        spread = [100 * np.median(side.std(0) / side.mean(0)) for side in (self.ours, self.theirs)]
        w = self.workload
        return (
            f"{self.peer:<6} {w.name:<12} {w.k:>2} {w.gbps:>4} {self.setting:<16}"
            f"{np.median(runs):>6.2f} {runs.max():>6.2f}  {np.median(means):>6.2f} "
            f"{np.quantile(means, 0.9):>6.2f} {means.max():>6.2f}  {rank:>6.2f}"
            f"  {spread[0]:>5.2f} {spread[1]:>5.2f}  {self.pauses:>7.1f}"
        )


HEAD = (
    f"{'':<44}{'run by run':>13}  {'means':>20}  {'ranks':>6}  {'spread':>11}  {'pauses':>7}\n"
    f"{'peer':<6} {'workload':<12} {'k':>2} {'Gbps':>4} {'setting':<16}"
    f"{'median':>6} {'most':>6}  {'median':>6} {'p90':>6} {'most':>6}  {'most':>6}"
    f"  {'ours':>5} {'peer':>5}  {'per 10k':>7}"
)


def cases(packets: int, rates: list[int], trees: list[int], names: list[str]) -> Iterator[Workload]:
    """Permutations over the trees; an incast and a bipartite mapping over the last."""
    senders = 32 if trees[-1] > 4 else 8
    for rate in rates:
        if "funnel" in names:
            yield funnel(trees[0], rate, packets)
        if "permutation" in names:
            for k in trees:
                yield permutation(k, rate, packets)
        if "incast" in names:
            yield incast(trees[-1], rate, packets // 2, senders)
        if "bipartite" in names:
            yield bipartite(trees[-1], rate, packets)


def collect(
    peer: str,
    workloads: list[Workload],
    theirs: Callable[[Workload, int], Outcome],
    settings: dict[str, Callable[[Workload, int], Outcome]],
) -> Row:
    """Prints a row a setting for the runs of one case; returns the last."""
    other = [theirs(w, run) for run, w in enumerate(workloads)]
    row: Row | None = None
    for name, mine in settings.items():
        own = [mine(w, run) for run, w in enumerate(workloads)]
        lost = sum(o.drops for o in own) + sum(bool(o.note) for o in other)
        if lost or min(min(o.fct_ps) for o in [*own, *other]) < 0:
            raise RuntimeError(f"{peer} {workloads[0].name}: frames were lost, or flows are open")
        row = Row(
            peer, name, workloads[0], np.array([o.fct_ps for o in own], np.float64),
            np.array([o.fct_ps for o in other], np.float64),
            1e4 * float(np.mean([o.pauses / o.hops for o in own])),
        )  # fmt: skip
        print(row.show(), flush=True)
    assert row is not None
    return row


def against_htsim(roce: Path, workload: Workload, runs: int) -> Row:
    """PFC without congestion control: the standard's pause response, and htsim's, which is none."""
    metres = [190 + 7 * run % 20 for run in range(runs)]
    workloads = [dataclasses.replace(workload, delay_ps=METRE_PS * m) for m in metres]

    def mine(discipline: dict[str, Any]) -> Callable[[Workload, int], Outcome]:
        return lambda w, _: ours.measure(w, {"discipline": discipline, "transport": FREE})

    settings = {"as it is": mine({}), "response_ps=0": mine({"response_ps": 0})}
    row = collect("htsim", workloads, lambda w, _: htsim.run(w, roce), settings)
    # How far apart two of our own runs are when releases differ by less than a frame.
    frame_ps = 8000 * workload.frame // workload.gbps
    quick = {"discipline": {"response_ps": 0}, "transport": FREE, "jitter_ps": frame_ps}

    def moved(w: Workload, run: int) -> Outcome:
        return ours.measure(w, {**quick, "seed": run + 1})

    collect("itself", workloads, mine({"response_ps": 0}), {"releases moved": moved})
    return row


def against_ns3(build: Path, workload: Workload, runs: int) -> Row:
    """DCQCN and PFC, with the preset of the simulator's family."""
    # Its headroom is made for frames of 1048 B: the memory of an incast must not run into it.
    memory = 64 if workload.name.startswith("incast") else 16
    control = ns3.Control(memory, kmin_kb=workload.gbps, kmax_kb=4 * workload.gbps)
    draw = random.Random(3)
    releases = sorted(draw.randrange(300_000) for _ in workload.flows)
    pinned = ns3.pinned(workload)

    def mine(w: Workload, run: int) -> Outcome:
        return ours.measure(w, like_ns3(w, control, releases, run + 1))

    def theirs(w: Workload, run: int) -> Outcome:
        return ns3.run(w, build, dataclasses.replace(control, seed=run + 1), releases)

    return collect("ns-3", [pinned] * runs, theirs, {"preset hpcc": mine})


def like_ns3(
    workload: Workload, control: ns3.Control, releases_ns: list[int], seed: int
) -> dict[str, Any]:
    """Our settings for its inputs: RED at dequeue, alpha 1/16, no response, ACKs never paused.

    The pool is what it leaves to share: its memory without twice the delay and two frames of 1048 B
    of headroom a port, and 1048 B for each of eight classes. Our own headroom comes on top.
    """
    least = 1048
    theirs = workload.gbps * workload.delay_ps // 4000 + 2 * least
    pool = control.buffer_mib * 2**20 - workload.k * (theirs + 8 * least)
    room = theirs + 20 * workload.frame
    return {
        "buffer": pool + workload.k * (room + 2 * least),
        "discipline": {
            "ecn": [
                1000 * control.kmin_kb + EGRESS_MINIMUM, 1000 * control.kmax_kb + EGRESS_MINIMUM,
                control.pmax,
            ],
            "marking": "dequeue", "headroom": room, "alpha": 1 / 16, "reserve_bytes": 2 * least,
            "xon_offset_bytes": 1, "response_ps": 0,
        },
        "transport": {"preset": "hpcc", "ack_every": 1, "ack_priority": 6},
        "releases_ps": [1000 * at for at in releases_ns],
        "seed": seed,
    }  # fmt: skip


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--htsim", help="htsim's RoCE program (else HTSIM)")
    parser.add_argument("--ns3", help="directory of a built conweave ns-3 (else CONWEAVE)")
    parser.add_argument("--runs", type=int, default=8, help="runs of a case")
    parser.add_argument("--packets", type=int, default=1000, help="frames of a flow")
    parser.add_argument("--trees", type=int, nargs="+", default=[4, 8], help="k of the fat trees")
    parser.add_argument("--gbps", type=int, nargs="+", default=[100, 400])
    parser.add_argument("--workloads", nargs="+", default=list(NAMES), choices=NAMES)
    asked = parser.parse_args()
    print(HEAD)
    for name, path, against in (
        ("htsim", htsim.program(asked.htsim), against_htsim),
        ("ns-3", ns3.program(asked.ns3), against_ns3),
    ):
        if path is None:
            print(f"{name}: no path given; write --{name.replace('-', '')}")
            continue
        for workload in cases(asked.packets, asked.gbps, asked.trees, asked.workloads):
            against(path, workload, asked.runs)


if __name__ == "__main__":
    main()
