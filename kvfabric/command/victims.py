"""``kvfabric victims``: which flows are slowed by the congestion of others, and how much."""

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kvfabric.run import CellJob


@click.command(epilog="Example: kvfabric victims scenarios/first-look.yaml --seeds 2")
@click.argument("scenario", type=click.Path(path_type=Path))
@click.option("--count", type=click.IntRange(1), default=None, help="Requests a seed, at most.")
@click.option("--seeds", type=click.IntRange(1, 1000), default=None, help="Replications.")
@click.option("--allow-code", is_flag=True, help="Run policies named as module:Class.")
def command(scenario: Path, count: int | None, seeds: int | None, allow_code: bool) -> None:
    """Run every alternative of SCENARIO with and without its congesting flows, and compare.

    A flow is exposed when max-min sharing would give it all it asks for and it crosses a port that
    was paused; it is a victim when that makes it more than a tenth slower. Nothing is written.
    """
    from kvfabric.compare import jobs_of
    from kvfabric.load import load
    from kvfabric.progress import progress
    from kvfabric.table import print_table

    changed = {("requests", "count"): count, ("run", "seeds"): seeds}
    study = load(
        scenario,
        overrides={key: n for key, n in changed.items() if n is not None},
        allow_code=allow_code,
    )
    rows = []
    with progress(f"{study.scenario.name}: victims", 1.0) as tick:
        tick(0.0, "checking")
        jobs = [job for job in jobs_of(study) if job.impossible is None]
        for number, job in enumerate(jobs):
            tick(number / len(jobs), f"{number}/{len(jobs)} cells")
            rows.append(_row(job))
        tick(1.0, f"{len(jobs)}/{len(jobs)} cells")
    heads = ("fabric", "policy", "seed", "flows", "congesting", "exposed", "victims")
    columns = (*heads, "P50", "tail", "most")
    print_table("Victims of the congestion of others", columns, rows, wide=120)


def _row(job: "CellJob") -> tuple[str, ...]:
    """What became of the flows of one alternative and seed."""
    from analysis.wording import NONE, name, times
    from kvfabric.victim import victims_of

    found = victims_of(job)
    deep = found.q is not None and found.q > 0.5
    return (
        *(job.alternative.fabric, job.alternative.policy, str(job.seed)),
        *(f"{found.flows:,}", f"{found.congesting:,}", f"{found.exposed:,}"),
        *(f"{found.victims:,}", NONE if isnan(found.median) else times(found.median)),
        f"{times(found.tail)} {name(found.q or 0)}" if deep else NONE,
        NONE if isnan(found.most) else times(found.most),
    )
