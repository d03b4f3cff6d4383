"""Runs a workload in htsim's RoCE (Broadcom/csg-htsim), an existing build, unchanged.

htsim seeds its paths from `time()`; a preloaded `time()` that goes through numbers of our choice
(htsim_path.py) pins every flow to its lane and makes runs repeat. Its data
frames have 64 B beside the payload, its ACKs 64 B, its pause frames take no wire time and are
obeyed at once when they arrive; a time of completion is that of the last ACK. Release times are
ignored by it: every flow starts at 0. It says nothing of events or pauses. Of a variant
(htsim_variant.py) also the lanes are known, so that others can be pinned to them.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from htsim_path import SEED, Pinning
from outcome import Outcome
from process import watch
from workload import Workload

OVERHEAD = 64
_FINISHED = re.compile(r"Flow Roce_(\d+)_(\d+) (\d+) finished at ([\d.e+-]+)")
_WAY = re.compile(r"Way (\d+) (data|ack) .*(LS|US)(\d+)->(US|CS)_?(\d+)")
_CLOCK = """
static long at;
static long times[] = {%s};
long time(long *out) {
    const long count = sizeof times / sizeof times[0];
    const long now = times[at < count ? at++ : count - 1];
    if (out) *out = now;
    return now;
}
"""


def program(given: str | None) -> Path | None:
    """The RoCE program: as given, else from HTSIM; None when there is neither."""
    path = given or os.environ.get("HTSIM")
    return Path(path) if path else None


@dataclass(frozen=True)
class Variant:
    """What only a variant has: releases (below 2^24 ps, as it reads them), and rules by name."""

    releases_ps: tuple[int, ...]
    rules: tuple[str, ...] = ()


def run(
    workload: Workload, roce: Path, variant: Variant | None = None, *, end_us: int = 10_000_000
) -> Outcome:
    """Runs it and parses its times of completion."""
    with tempfile.TemporaryDirectory() as scratch:
        return _run(workload, roce, variant, end_us, Path(scratch))


def _run(
    workload: Workload, roce: Path, variant: Variant | None, end_us: int, scratch: Path
) -> Outcome:
    payload = workload.frame - OVERHEAD
    if workload.go_bytes % payload or workload.stop_bytes % payload:
        raise ValueError(f"{workload.name}: htsim's thresholds are whole numbers of {payload} B")
    if workload.apart_ps and variant is None:
        raise ValueError(f"{workload.name}: only a variant has cables of different lengths")
    releases = variant.releases_ps if variant else (0,) * len(workload.flows)
    rows = [f"Nodes {workload.hosts}", f"Connections {len(workload.flows)}"]
    size = workload.packets * payload
    rows += [
        f"{s}->{d} id {number} start {at} size {size}"
        for number, ((s, d, _), at) in enumerate(zip(workload.flows, releases, strict=True), 1)
    ]
    (scratch / "flows.cm").write_text("\n".join(rows) + "\n")
    command = [
        str(roce.resolve()), "-o", "/dev/null", "-nodes", str(workload.hosts), "-tiers", "3",
        "-tm", "flows.cm", "-strat", "ecmp_host", "-paths", "256", "-seed", str(SEED),
        "-linkspeed", str(workload.gbps * 1000),
        "-mtu", str(payload), "-q", "100000", "-end", str(end_us), "-switch_latency", "0",
        "-hop_latency", str(workload.delay_ps / 1e6),
        "-pfc_thresholds", str(workload.go_bytes // payload),
        str(workload.stop_bytes // payload),
    ]  # fmt: skip
    seeds = range(1, len(workload.flows) + 1) if variant else Pinning(workload).seeds
    env = {"LD_PRELOAD": str(_clock(seeds, scratch))}
    if variant:
        stop, go = workload.stored
        env |= {"APART_PS": str(workload.apart_ps), **dict.fromkeys(variant.rules, "1")}
        env |= {"STOP_BYTES": str(stop), "GO_BYTES": str(go)}
    marks: dict[str, float] = {}
    ended: dict[tuple[int, int], list[tuple[int, float]]] = {}
    ways: dict[tuple[int, str], dict[str, int]] = {}

    def line(text: str, now: float) -> None:
        if text.startswith(("Starting simulation", "Done")):
            marks[text.split()[0]] = now
        elif found := _FINISHED.search(text):
            s, d, number, at = found.groups()
            ended.setdefault((int(s), int(d)), []).append((int(number), float(at)))
            marks["last"] = now
        elif way := _WAY.search(text):
            number, kind, here, _, _, up = way.groups()
            ways.setdefault((int(number), kind), {})[here] = int(up)
        elif text.startswith("New:"):
            marks["resent"] = float(text.split()[-1])

    peak = watch(command, line, cwd=scratch, env=env)
    for found in ended.values():
        found.sort(reverse=True)
    fct = [
        round(ended[s, d].pop()[1] * 1e6) - at if ended.get((s, d)) else -1
        for (s, d, _), at in zip(workload.flows, releases, strict=True)
    ]
    # After the last flow only its clock ticks on, up to the end.
    seconds = marks["last"] - marks["Starting"]
    resent = int(marks["resent"])
    note = f"sent {resent} bytes again" if resent else ""
    half = workload.k // 2

    def lane(number: int, kind: str) -> int:
        way = ways.get((number, kind), {})
        return way.get("LS", 0) % half * half + way.get("US", 0) // half

    numbers = range(1, len(workload.flows) + 1) if variant else ()
    return Outcome(
        "htsim", fct, seconds, peak, hops=2 * workload.data_hops, note=note,
        lanes=[(lane(number, "data"), lane(number, "ack")) for number in numbers],
    )  # fmt: skip


def _clock(seeds: Iterable[int], scratch: Path) -> Path:
    """Builds the `time()` that seeds the paths."""
    (scratch / "clock.c").write_text(_CLOCK % ", ".join(map(str, seeds)))
    compiler = shutil.which("cc") or shutil.which("gcc") or "cc"
    library = scratch / "clock.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-fno-builtin", "-o", str(library),
         str(scratch / "clock.c")],
        check=True,
    )  # fmt: skip
    return library
