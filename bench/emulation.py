"""How near real frames come to packets, run after run: verdicts, and hand-offs at P50 and P95.

    sudo -E python bench/emulation.py scenarios/real-frames.yaml --dilation 20000 --plot x.svg

Every run replays the same flows on a network of its own. The plot has the last valid run.

    python bench/emulation.py scenarios/real-frames.yaml --runs 0 --uneven 3000

What the packet engine itself gives when each cable is up to so many picoseconds longer, four times:
frames that come at one instant then come in another order. No root is needed.
"""

import argparse
import time
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np

from analysis.plot.crosscheck import crosscheck
from analysis.plot.style import svg
from kvfabric.compare import jobs_of
from kvfabric.crosscheck import MININET, Checked, Crosscheck, Rehearsal, cheap, on_frames, rehearsed
from kvfabric.load import load
from traffic.replay import replay

SEEDS = 4


def uneven(heard: Rehearsal, most_ps: int, seed: int) -> Checked:
    """The same flows by packets, over cables that are up to so much longer."""
    fabric = deepcopy(heard.setup.fabric)
    ports = fabric.ports
    longer = np.random.default_rng(seed).integers(0, most_ps + 1, len(ports.delay_ps))
    ports.delay_ps.setflags(write=True)
    ports.delay_ps[:] += np.minimum(longer, longer[ports.reverse])
    twin = replace(heard.setup, fabric=fabric).twin()
    times = heard.handoff_ps(replay(heard.flows, twin))
    table = twin.telemetry().ports
    marked, pauses, drops = (int(table[n].astype(int).sum()) for n in ("marked", "pauses", "drops"))
    return Checked(MININET, times, marked, pauses, drops)


def told(found: Crosscheck, frames: Checked) -> str:
    """How near it came, and what was counted."""
    assert found.off is not None
    p50, p95 = found.off
    text = f"P50 {p50:+.2%}, P95 {p95:+.2%}, pauses {frames.pauses:,}, marked {frames.marked:,}"
    return f"{text}, longest {frames.quantile_ps(1) / 1e6:.0f} us, drops {frames.drops}"


def main() -> None:
    """Run, and print one line a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", type=Path)
    parser.add_argument("--dilation", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--memory", action="store_true", help="links between switches in memory")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--uneven", type=int, help="packets over cables so many ps longer at most")
    given = parser.parse_args()
    study = load(given.scenario, compare=False)
    heard = rehearsed(jobs_of(study)[0])
    rows = cheap(heard)
    packet = rows[-1]
    print(f"{study.scenario.name}: {len(packet.handoff_ps)} hand-offs, dilation {given.dilation:,}")
    print(
        f"packet: {told(Crosscheck((packet, replace(packet, name=MININET))), packet)}", flush=True
    )
    for seed in range(SEEDS if given.uneven else 0):
        moved = uneven(heard, given.uneven, seed)
        print(
            f"cables up to {given.uneven:,} ps longer: {told(Crosscheck((packet, moved)), moved)}"
        )
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
        line = f"run {number}: {time.monotonic() - began:.0f} s, {verdict.text()}"
        if verdict.standing != "invalid":
            line += f"; {told(found, frames)}"
            if given.plot is not None:
                times = {one.name: one.handoff_ps for one in found.checked}
                given.plot.write_bytes(svg(crosscheck(times, study.scenario.name)))
        late = next(check for check in verdict.checks if check.what == "lateness P99")
        print(f"{line}; lateness P99 {late.value:.3f} frame times", flush=True)


if __name__ == "__main__":
    main()
