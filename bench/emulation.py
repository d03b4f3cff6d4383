"""How near real frames come to packets, run after run: verdicts, and hand-offs at P50 and P95.

    sudo -E python bench/emulation.py scenarios/real-frames.yaml --dilation 20000 --plot x.svg

Every run replays the same flows on a network of its own. The plot has the last valid run.
"""

import argparse
import time
from pathlib import Path

from analysis.plot.crosscheck import crosscheck
from analysis.plot.style import svg
from kvfabric.compare import jobs_of
from kvfabric.crosscheck import Crosscheck, cheap, on_frames, rehearsed
from kvfabric.load import load


def main() -> None:
    """Run, and print one line a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", type=Path)
    parser.add_argument("--dilation", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--memory", action="store_true", help="links between switches in memory")
    parser.add_argument("--plot", type=Path)
    given = parser.parse_args()
    study = load(given.scenario, compare=False)
    heard = rehearsed(jobs_of(study)[0])
    rows = cheap(heard)
    packet = rows[-1]
    print(f"{study.scenario.name}: {len(packet.handoff_ps)} hand-offs, dilation {given.dilation:,}")
    print(f"packet: pauses {packet.pauses:,}, marked {packet.marked:,}", flush=True)
    for number in range(1, given.runs + 1):
        began = time.monotonic()
        frames, verdict, _ = on_frames(
            heard,
            name=study.scenario.name,
            dilation=given.dilation,
            most_s=1e6,
            memory=given.memory,
            tell=lambda _share, _note: None,
        )
        found = Crosscheck((*rows, frames))
        told = f"run {number}: {time.monotonic() - began:.0f} s, {verdict.text()}"
        if verdict.standing != "invalid" and found.off is not None:
            p50, p95 = found.off
            told += f"; P50 {p50:+.2%}, P95 {p95:+.2%}, pauses {frames.pauses:,}, "
            told += f"marked {frames.marked:,}, drops {frames.drops}"
            if given.plot is not None:
                times = {one.name: one.handoff_ps for one in found.checked}
                given.plot.write_bytes(svg(crosscheck(times, study.scenario.name)))
        late = next(check for check in verdict.checks if check.what == "lateness P99")
        print(f"{told}; lateness P99 {late.value:.3f} frame times", flush=True)


if __name__ == "__main__":
    main()
