"""What the report of a million hand-offs costs: processor time, memory and size.

One cell of 10,000 hand-offs is run by packet. Its tables then stand for every fabric, policy and
seed of a study of 100 cells, so that all numbers of that report are the same and only its cost
means something. Processor time of the command `kvfabric report`, its start included:

    python bench/report.py                              # about five minutes
    python bench/report.py --count 1000 --seeds 2       # a quick look
"""

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import replace as with_fields
from pathlib import Path

from msgspec.structs import replace

from analysis.observed import BESIDE, read_observed
from analysis.record import (
    cell_directory,
    cell_id,
    read_study,
    write_cell,
    write_study,
)

FABRICS = tuple(f"fabric {number}" for number in range(1, 5))
POLICIES = tuple(f"policy {number}" for number in range(1, 6))


def kvfabric(*words: str) -> None:
    """Runs a command of the installed package.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    subprocess.run(
        [sys.executable, "-m", "kvfabric", *words], check=True, stdout=subprocess.DEVNULL
    )


def multiply(one: Path, many: Path, seeds: int) -> int:
    """Writes the only cell of a study as a whole study; returns its hand-offs."""
    study = read_study(one)
    (cell,) = study.cells
    place, digest = cell_directory(one, cell.manifest.cell), cell.manifest.digest
    observed = {name: read_observed(place, digest, name) for name in BESIDE if name in digest}
    numbers = range(1, seeds + 1)
    for fabric in FABRICS:
        for policy in POLICIES:
            for seed in numbers:
                name = cell_id(fabric, policy, seed)
                manifest = replace(
                    cell.manifest, cell=name, fabric=fabric, policy=policy, seed=seed
                )
                write_cell(
                    cell_directory(many, name),
                    with_fields(cell, manifest=manifest, observed=observed),
                )
    write_study(
        many,
        replace(
            study.manifest, fabrics=[*FABRICS], policies=[*POLICIES], seeds=[*numbers], varied={}
        ),
    )
    return len(cell.requests["request"]) * len(FABRICS) * len(POLICIES) * seeds


def main() -> None:
    """Run one cell, multiply it, report, and print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", type=Path, nargs="?", default=Path("scenarios/first-look.yaml"))
    parser.add_argument("--count", type=int, default=10_000, help="hand-offs a cell")
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        one, many = Path(place, "one"), Path(place, "many")
        print(f"one cell of {given.count:,} hand-offs, by packet ...", flush=True)
        kvfabric(
            "run",
            str(given.scenario),
            "--count",
            str(given.count),
            "--seeds",
            "1",
            "--out",
            str(one),
        )
        handoffs = multiply(one, many, given.seeds)
        run = [sys.executable, "-m", "kvfabric", "report", str(many)]
        quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
        pid = os.posix_spawn(sys.executable, run, os.environ, file_actions=quiet)
        _, status, spent = os.wait4(pid, 0)
        if status != 0:
            raise SystemExit(f"kvfabric report ended with {os.waitstatus_to_exitcode(status)}")
        html = (many / "report.html").stat().st_size
        print(
            f"{handoffs:,} hand-offs in {len(FABRICS) * len(POLICIES) * given.seeds} cells: "
            f"{spent.ru_utime + spent.ru_stime:.1f} s of processor time, "
            f"{spent.ru_maxrss / 2**10:.0f} MiB, HTML of {html / 1e6:.2f} MB"
        )


if __name__ == "__main__":
    main()
