"""What ``compare`` and ``run`` share: their options, and the way from a scenario to a verdict."""

import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kvfabric.command.gate import Command, assert_option, conditions_of, held
from topo.error import KvfabricError

if TYPE_CHECKING:
    from analysis.breakdown import Breakdown
    from analysis.result import Result

_OPTIONS: Final = (
    click.argument("scenario", type=click.Path(path_type=Path)),
    click.option(
        "--out",
        type=click.Path(path_type=Path),
        default=None,
        help="Results folder; an existing one is resumed for the same scenario.  "
        "[default: out/NAME, or out/NAME-run without the comparison]",
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
    click.option(
        "--allow-code",
        is_flag=True,
        help="Run policies that the scenario names as module:Class; see docs/policies.md.",
    ),
)


def study_command(function: Command) -> Command:
    """Give a command the options that choose a scenario, its requests and its results folder."""
    function = assert_option(function)
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
    scenario: Path,
    *,
    compare: bool,
    out: Path | None,
    jobs: int | None,
    asserted: tuple[str, ...],
    allow_code: bool,
    **chosen: Any,
) -> int:
    """Load, check, run what is missing, and tell: table, verdict, the report's path.

    Returns the exit code, as `tell` does.
    """
    conditions_of(asserted)
    from kvfabric.compare import run_study
    from kvfabric.load import load
    from kvfabric.progress import progress

    for name in ("window", "scale_rate", "jitter"):
        if chosen[name] is not None and chosen["trace"] is None and not _has_trace(scenario):
            raise KvfabricError(
                f"--{name.replace('_', '-')}: needs --trace, or a trace in {scenario}"
            )
    study = load(scenario, overrides=overrides_of(**chosen), compare=compare, allow_code=allow_code)
    place = out or place_of(study.scenario.name, *([] if compare else ["run"]))
    with progress(study.scenario.name, 1.0) as tick:
        run_study(
            study,
            place,
            processes=jobs or len(os.sched_getaffinity(0)),
            progress=tick,
            reproduce=shlex.join(["kvfabric", *sys.argv[1:]]),
            announce=lambda line: click.echo(f"{study.scenario.name}: {line}", err=True),
        )
    return tell(place, asserted)


def place_of(name: str, *more: str) -> Path:
    """The default results folder of a scenario, as ``out/incast-2-crosscheck``."""
    return Path("out", "-".join([file_name(name, "study"), *more]))


def file_name(text: str, otherwise: str) -> str:
    """A name made fit for a file: the letters and digits of any script, joined by dashes.

    >>> file_name("leaf-spine 2:1", "fabric"), file_name("../..", "study")
    ('leaf-spine-2-1', 'study')
    """
    return re.sub(r"[\W_]+", "-", text).strip("-") or otherwise


def _has_trace(scenario: Path) -> bool:
    from kvfabric.source import read_source

    requests = read_source(scenario).value.get("requests")
    return isinstance(requests, dict) and "trace" in requests


_ROWS: Final = 48
"""Rows of a table on the terminal, at most; the report has all."""


def tell(place: Path, asserted: tuple[str, ...] = (), base: str | None = None) -> int:
    """Write the report of a results folder and print its table and verdict.

    ``base`` is the policy that the others are held against. Returns 0, or 1 when a condition of
    ``asserted`` does not hold; each is told.
    """
    from rich.text import Text

    from analysis.report import write_report
    from analysis.result import ranked
    from analysis.table import table
    from kvfabric.progress import stages
    from kvfabric.table import console

    conditions = conditions_of(asserted)
    with stages("report") as say:
        found = _evaluated(place, base, say)
        say("drawing")
        report = write_report(place, found)
    window = console()
    window.print(table(found.summaries, found.study.manifest, ranked(found)))
    window.print(Text(found.verdict.text()))
    _requests(found)
    _decisions(found)
    _policies(found)
    if found.blames:
        _blame(found)
    _tokens(found)
    _cache(found)
    _deeds(found)
    _failures(found)
    _losses(found)
    _latency(found)
    click.echo(f"\nreport: {report}")
    return held(found, conditions)


def judge(place: Path, asserted: tuple[str, ...]) -> int:
    """Tell of a results folder whether conditions hold, as `tell` does; nothing is drawn."""
    from kvfabric.progress import stages

    conditions = conditions_of(asserted)
    with stages("report") as say:
        found = _evaluated(place, None, say)
    return held(found, conditions)


def _evaluated(place: Path, base: str | None, say: Callable[[str], None]) -> "Result":
    from analysis.record import read_study
    from analysis.result import result

    say("reading the cells")
    study = read_study(place)
    say(f"evaluating {len(study.cells):,} cells")
    return result(study, place, base)


def _blame(found: "Result", most: int = 4) -> None:
    """What made the slowest hand-offs slow: of the choice, then of those with most over budget."""
    from analysis.culprit import COLUMNS, short
    from analysis.result import told_blames
    from kvfabric.table import print_table

    rows = short(told_blames(found, most))
    print_table("what made the slowest hand-offs slow", COLUMNS, rows)
    _more(len(found.blames) - most)


def _requests(found: "Result") -> None:
    """What became of all requests: a line where they finished, else a table."""
    from analysis.tally import tallies, told
    from kvfabric.table import print_lines, print_table

    if line := told(found.samples):
        print_lines(line)
        return
    table = tallies(found.samples)
    if table.rows:
        print_table(table.title + ", warm-up included", table.columns, table.rows, most=_ROWS)


def _policies(found: "Result", most: int = 30) -> None:
    """How far every policy lies from the base, where there are several."""
    from analysis.baseline import SHORT, baseline, short
    from kvfabric.table import print_lines, print_table

    told = baseline(found.samples, found.study.manifest, found.base)
    if not told.rows:
        return
    if len(told.rows) > most:
        click.echo(f"\n{told.title}: {len(told.rows)} rows, see the report")
        return
    print_table(told.title, *short(told), wide=120)
    print_lines(SHORT + "\n")


def _failures(found: "Result") -> None:
    """What failures of instances did to requests before, during and after, where there are any."""
    from analysis.failure import failures

    _each("failures of instances", failures(found))


def _each(title: str, told: "Breakdown", wide: int = 100, most: int = 4) -> None:
    """A table of its own for each of the first alternatives."""
    from analysis.failure import short
    from kvfabric.table import print_table

    columns, tables = short(told)
    for alternative, rows in list(tables.items())[:most]:
        print_table(f"{title}: {alternative}", columns, rows, wide=wide)
    _more(len(tables) - most)


def _more(left: int) -> None:
    """Where the alternatives are that the terminal leaves out."""
    if left > 0:
        click.echo(f"of {left} more alternatives: see the report")


def _decisions(found: "Result") -> None:
    """What to choose for which workload, where several are compared."""
    from analysis.decision import table
    from kvfabric.table import print_table

    told = table(found.decisions)
    if told.rows:
        print_table(
            "what to choose for which workload", told.columns, told.rows, wide=120, most=_ROWS
        )


def _losses(found: "Result") -> None:
    """What each loss of a link or switch does to the tail, where losses are compared."""
    from analysis.loss import table

    _each("losses, N-1", table(found.losses), wide=120)


def _tokens(found: "Result") -> None:
    """What tokens cost, and whether disaggregating is worth it, where there are prices."""
    from analysis.breakeven import breakeven
    from analysis.economics import short, token_costs
    from kvfabric.table import print_table

    given = (found.samples, found.study.manifest)
    costs, against = token_costs(*given), breakeven(*given)
    if costs.rows:
        print_table("token cost", *short(costs), wide=120, most=_ROWS)
    if against.rows:
        print_table("worth of disaggregating", against.columns, against.rows, wide=120, most=_ROWS)


def _cache(found: "Result") -> None:
    """What prefix caches found and saved, where there are any."""
    from analysis.caching import caching, short
    from kvfabric.table import print_table

    told = caching(found.samples)
    if told.rows:
        print_table("prefix caches: what prompts found", *short(told), most=_ROWS)


def _deeds(found: "Result") -> None:
    """What the policies did, where some count it."""
    from analysis.deed import deeds
    from kvfabric.table import print_table

    told = deeds(found.samples)
    if told.rows:
        print_table(
            "what the policies did, mean counts a seed", told.columns, told.rows, most=_ROWS
        )


def _latency(found: "Result") -> None:
    """What the latency of messages costs a request, where steps wait for any."""
    from analysis.latency import latency, short
    from kvfabric.table import print_table

    told = latency(found.samples)
    if told.rows:
        print_table(
            "what the latency of messages in steps costs a request",
            *short(told),
            wide=120,
            most=_ROWS,
        )
