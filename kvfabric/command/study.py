"""What ``compare`` and ``run`` share: their options, and the way from a scenario to a verdict."""

import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from topo.error import KvfabricError

_OPTIONS: Final = (
    click.argument("scenario", type=click.Path(path_type=Path)),
    click.option(
        "--out",
        type=click.Path(path_type=Path),
        default=None,
        help="Results folder; an existing one is resumed for the same scenario.  "
        "[default: out/NAME]",
    ),
    click.option(
        "--trace",
        type=click.Path(path_type=Path),
        default=None,
        help="Take the requests from this trace, in any format of docs/workloads.md.",
    ),
    click.option(
        "--window",
        nargs=2,
        metavar="FROM TO",
        default=None,
        help="Use this window of the trace's time, as `0s 60s`.",
    ),
    click.option(
        "--scale-rate",
        type=float,
        default=None,
        help="Play the trace so many times faster.  [default: 1]",
    ),
    click.option(
        "--jitter/--no-jitter",
        default=None,
        help="Spread arrivals that sit on coarse ticks inside their tick.  [default: jitter]",
    ),
    click.option("--count", type=click.IntRange(1), default=None, help="Requests a seed, at most."),
    click.option("--budget", default=None, help="What a hand-off may take, as `25ms`."),
    click.option("--seeds", type=click.IntRange(1, 1000), default=None, help="Replications."),
    click.option(
        "--jobs",
        type=click.IntRange(1, 1024),
        default=None,
        help="Cells at once.  [default: the processors]",
    ),
    click.option(
        "--emulator",
        type=click.Choice(["packet", "fluid"]),
        default=None,
        help="packet, or fluid for a fast look without queues.",
    ),
)

Command = Callable[..., None]


def study_command(function: Command) -> Command:
    """Give a command the options that choose a scenario, its requests and its results folder."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def overrides_of(
    *,
    trace: Path | None,
    window: tuple[str, str] | None,
    scale_rate: float | None,
    jitter: bool | None,
    count: int | None,
    budget: str | None,
    seeds: int | None,
    emulator: str | None,
) -> dict[tuple[str | int, ...], Any]:
    """What the options change in the scenario, by place."""
    told: dict[tuple[str | int, ...], Any] = {}
    if trace is not None:
        told["requests", "trace", "file"] = str(trace.absolute())
    for name, value in (("window", window), ("scale_rate", scale_rate), ("jitter", jitter)):
        if value is not None:
            told["requests", "trace", name] = list(value) if isinstance(value, tuple) else value
    if count is not None:
        told["requests", "count"] = count
    if budget is not None:
        told["budget", "handoff"] = budget
    if seeds is not None:
        told["run", "seeds"] = seeds
    if emulator is not None:
        told["run", "emulator"] = emulator
    return told


def compare_and_report(
    scenario: Path, *, compare: bool, out: Path | None, jobs: int | None, **chosen: Any
) -> None:
    """Load, check, run what is missing, and tell: table, verdict, the report's path."""
    from kvfabric.compare import run_study
    from kvfabric.load import load
    from kvfabric.progress import progress

    for name in ("window", "scale_rate", "jitter"):
        if chosen[name] is not None and chosen["trace"] is None and not _has_trace(scenario):
            raise KvfabricError(
                f"--{name.replace('_', '-')}: needs --trace, or a trace in {scenario}"
            )
    study = load(scenario, overrides=overrides_of(**chosen), compare=compare)
    place = out or Path("out") / re.sub(r"[^A-Za-z0-9]+", "-", study.scenario.name).strip("-")
    with progress(study.scenario.name, 1.0) as tick:
        run_study(
            study,
            place,
            processes=jobs or len(os.sched_getaffinity(0)),
            progress=tick,
            reproduce=shlex.join(["kvfabric", *sys.argv[1:]]),
        )
    tell(place)


def _has_trace(scenario: Path) -> bool:
    from kvfabric.source import read_source

    requests = read_source(scenario).value.get("requests")
    return isinstance(requests, dict) and "trace" in requests


def tell(place: Path) -> None:
    """Write the report of a results folder and print its table and verdict."""
    from rich.console import Console

    from analysis.record import read_study
    from analysis.report import result, write_report
    from analysis.table import table

    found = result(read_study(place))
    report = write_report(place, found)
    console = Console()
    if not console.is_terminal:
        console = Console(width=100)
    console.print(table(found.summaries, found.study.manifest))
    console.print(found.verdict.text(), markup=False, highlight=False)
    console.print(f"\nreport: {report}", markup=False, highlight=False, soft_wrap=True)
