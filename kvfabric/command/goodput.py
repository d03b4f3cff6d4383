"""``kvfabric goodput``: the highest rate at which enough requests meet their objectives."""

import os
import re
import shlex
import sys
from pathlib import Path

import click

from topo.error import KvfabricError


@click.command(
    epilog="""\b
Examples:
  kvfabric goodput scenarios/goodput.yaml
  kvfabric goodput scenarios/goodput.yaml --goal 99% --precision 2% --emulator fluid
"""
)
@click.argument("scenario", type=click.Path(path_type=Path))
@click.option(
    "--goal", default="90%", show_default=True, help="Requests that must meet both objectives."
)
@click.option(
    "--precision", default="5%", show_default=True, help="How narrow the bracket of rates gets."
)
@click.option("--count", type=click.IntRange(2), default=None, help="Requests a seed.")
@click.option("--seeds", type=click.IntRange(1, 1000), default=None, help="Replications.")
@click.option(
    "--emulator",
    type=click.Choice(["packet", "fluid"]),
    default=None,
    help="packet, or fluid for a fast look without queues.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=None,
    help="Results folder, resumed for the same scenario.  [default: out/NAME-goodput]",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 1024),
    default=None,
    help="Trials at once.  [default: the processors]",
)
@click.option("--allow-code", is_flag=True, help="Run policies named as module:Class.")
def command(
    scenario: Path,
    goal: str,
    precision: str,
    count: int | None,
    seeds: int | None,
    emulator: str | None,
    out: Path | None,
    jobs: int | None,
    allow_code: bool,
) -> None:
    """Search the goodput of every alternative of SCENARIO: the highest rate at which the goal's
    share of requests meets slo.ttft and slo.tpot (DistServe, OSDI 2024), and per GPU.

    Rates are doubled or halved from the scenario's own, then bisected, with the same seeds for all.
    """
    from analysis.attainment import write_goodput
    from analysis.goodput import COLUMNS, row, sentences
    from kvfabric.command.study import place_of
    from kvfabric.goodput import LEAST_PRECISION, goodput
    from kvfabric.load import load
    from kvfabric.progress import progress
    from kvfabric.table import print_lines, print_table

    share = _share("--goal", goal, 0.01, 1.0)
    narrow = _share("--precision", precision, LEAST_PRECISION, 1.0)
    changed = {
        ("requests", "count"): count,
        ("run", "seeds"): seeds,
        ("run", "emulator"): emulator,
    }
    study = load(
        scenario,
        overrides={key: value for key, value in changed.items() if value is not None},
        allow_code=allow_code,
    )
    name = study.scenario.name
    place = out or place_of(name, "goodput")
    with progress(f"{name}: goodput", 1.0) as tick:
        found = goodput(
            study,
            place,
            goal=share,
            precision=narrow,
            processes=jobs or len(os.sched_getaffinity(0)),
            progress=tick,
            announce=lambda line: click.echo(f"{name}: {line}", err=True),
        )
    title = f"goodput: {100 * share:g} % of requests within their objectives"
    print_table(title, COLUMNS, [row(one) for one in found], wide=130)
    for sentence in sentences(found):
        print_lines(sentence)
    page = write_goodput(
        place,
        found,
        about={
            "name": name,
            "question": study.scenario.question,
            "scenario": study.source.text,
        },
        reproduce=shlex.join(["kvfabric", *sys.argv[1:]]),
    )
    click.echo(f"\nreport: {page}")


def _share(option: str, text: str, least: float, most: float) -> float:
    """A share of an option, as 90%."""
    match = re.fullmatch(r"\s*(\d{1,3}(?:\.\d{1,6})?)\s*%\s*", text)
    value = float(match[1]) / 100 if match else -1.0
    if not least <= value <= most:
        raise KvfabricError(
            f"{option} {text[:40]!r}: write {100 * least:g}% to {100 * most:g}%, e.g. 90%"
        )
    return value
