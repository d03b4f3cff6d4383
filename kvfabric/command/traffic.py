"""``kvfabric traffic``: what requests look like and weigh; public traces to use."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kvfabric.command.traffic_size import size
from topo.error import KvfabricError, UnitError

if TYPE_CHECKING:
    from kvfabric.progress import Tell
    from kvfabric.scenario import Scenario
    from traffic.model import Model
    from traffic.request import RequestTable


@click.group()
def command() -> None:
    """Show, draw and export the requests of a scenario or trace; size pools; get public traces."""


command.add_command(size)


_TAKEN: Final = (
    click.argument("file", type=click.Path(path_type=Path), metavar="SCENARIO|TRACE"),
    click.option("--window", nargs=2, metavar="FROM TO", default=None, help="As `0s 60s`."),
    click.option("--scale-rate", type=float, default=1.0, show_default=True, help="Times as fast."),
    click.option(
        "--scale-length", type=float, default=1.0, show_default=True, help="Times as long."
    ),
    click.option("--count", type=click.IntRange(1), default=None, help="The first requests only."),
    click.option(
        "--jitter/--no-jitter", default=True, show_default=True, help="Inside coarse ticks."
    ),
    click.option("--seed", type=click.IntRange(0), default=1, show_default=True),
)


def _takes_requests(function: Callable[..., None]) -> Callable[..., None]:
    """Add the argument and the options that say which requests are meant."""
    for option in reversed(_TAKEN):
        function = option(function)
    return function


@dataclass(frozen=True)
class _Taken:
    """Requests, notes on them, and what their scenario says of model and tokeniser, if any.

    ``model`` gives the model of a name, or without one the scenario's. ``shares`` are the names of
    all models that the scenario serves, each with its own requests, where there are several.
    """

    table: "RequestTable"
    notes: list[str]
    model: "Callable[[str | None], Model | None]"
    tokens_per_word: float
    shares: "tuple[tuple[str, RequestTable], ...]" = ()


def _requests(
    file: Path,
    tell: "Tell",
    *,
    window: tuple[str, str] | None,
    scale_rate: float,
    scale_length: float,
    count: int | None,
    jitter: bool,
    seed: int,
) -> _Taken:
    from traffic.source.workload import TOKENS_PER_WORD

    if file.suffix in (".yaml", ".yml"):
        from kvfabric.build import requests_of
        from kvfabric.catalogue import model_of
        from kvfabric.load import load

        study = load(file, overrides={("requests", "count"): count} if count else {})
        if window or scale_rate != 1 or scale_length != 1 or not jitter:
            raise KvfabricError(
                f"{file}: a scenario sets its window, scales and jitter under requests.trace; "
                "write them there"
            )
        tell("making the requests")
        table, notes = requests_of(study.scenario, study.source, seed)
        asked = study.scenario.requests.tokens_per_word

        def known(name: str | None) -> "Model":
            return model_of(study.scenario, study.source, name or study.scenario.model, "model")

        return _Taken(table, notes, known, asked, _shares(study.scenario, table, seed))
    from traffic.model import model
    from traffic.trace.registry import trace

    tell("reading the trace")
    found = trace(
        file,
        window_ps=_window(window),
        scale_rate=scale_rate,
        scale_length=scale_length,
        count=count,
        jitter=jitter,
        seed=seed,
        progress=lambda share: tell(f"reading the trace, {share:.0%} read"),
    )

    def shipped(name: str | None) -> "Model | None":
        return model(name) if name else None

    return _Taken(found.requests, [found.source, *found.notes], shipped, TOKENS_PER_WORD)


def _shares(
    scenario: "Scenario", table: "RequestTable", seed: int
) -> "tuple[tuple[str, RequestTable], ...]":
    """The requests of each model that a run would give it; empty where there is one."""
    import numpy as np

    from kvfabric.deployment import shares_of
    from traffic.source.tenant import modelled

    if not scenario.models:
        return ()
    drawn = modelled(table, shares_of(scenario), seed).model
    names = [scenario.model, *(part.model for part in scenario.models)]
    rows = [np.flatnonzero(drawn == number) for number in range(len(names))]
    return tuple(
        (name, table.take(mine, table.arrival_ps[mine]))
        for name, mine in zip(names, rows, strict=True)
        if len(mine)
    )


def _window(written: tuple[str, str] | None) -> tuple[int, int] | None:
    from topo import unit

    if written is None:
        return None
    try:
        return unit.duration(written[0]), unit.duration(written[1])
    except UnitError as error:
        raise KvfabricError(f"--window: {error}") from None


@command.command(
    short_help="Show lengths, rate, burstiness and KV load.",
    epilog="""\b
Examples:
  kvfabric traffic show scenarios/first-look.yaml
  kvfabric traffic show traces/AzureLLMInferenceTrace_code.csv --window 0s 60s
  kvfabric traffic show traces/AzureLLMInferenceTrace_code.csv --plot out/azure \\
    --model Llama-3.1-70B
""",
)
@_takes_requests
@click.option("--model", "name", default=None, help="Tell KV bytes of this model as well.")
@click.option(
    "--plot",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="Draw arrivals, lengths and KV bytes (SVG, PNG, CSV) into this folder.",
)
def show(file: Path, name: str | None, plot: Path | None, **taken: Any) -> None:
    """Show lengths, rate, burstiness and KV load of a scenario's requests or of a trace."""
    from kvfabric.progress import stages
    from kvfabric.table import print_lines, print_table
    from traffic.load.summary import summary

    with stages(f"traffic {file.name}") as tell:
        found = _requests(file, tell, **taken)
        several = () if name else found.shares
        weighed = None if several else found.model(name)
        told = [(f"Requests of {file.name}", found.table, weighed)]
        told += [(f"Of them for {one}", table, found.model(one)) for one, table in several]
        tell("weighing the requests")
        rows = [summary(table, kind).rows(found.tokens_per_word) for _, table, kind in told]
        tell("drawing")
        drawn = list(_plots(plot, file.name, found.table, weighed)) if plot is not None else []
    for (title, _, _), each in zip(told, rows, strict=True):
        print_table(title, ["", ""], [list(row) for row in each])
    for note in found.notes:
        print_lines(f"- {note}")
    for path in drawn:
        click.echo(f"drawing: {path}")


def _plots(folder: Path, name: str, table: "RequestTable", model: "Model | None") -> Iterator[Path]:
    from analysis.export import csv_text
    from analysis.plot.arrival import arrival
    from analysis.plot.style import png, svg
    from analysis.plot.tail import kv, length

    drawn = [arrival(table, name), length(table, name)]
    if model is not None:
        drawn.append(kv(table, name, model))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for plot in drawn:
            path = folder / f"{plot.name}.svg"
            path.write_bytes(svg(plot))
            path.with_suffix(".png").write_bytes(png(plot, dpi=150))
            path.with_suffix(".csv").write_text(csv_text(plot.columns, plot.rows), "utf-8")
            yield path
    except OSError as error:
        raise KvfabricError(f"{folder}: {error.strerror}; write another --plot folder") from None


@command.command(
    short_help="Write the requests as a CSV that --trace reads back.",
    epilog="""\b
Examples:
  kvfabric traffic export scenarios/first-look.yaml --out requests.csv
  kvfabric traffic export traces/AzureLLMInferenceTrace_code.csv --out busy.csv \\
    --window 0s 600s --scale-rate 10
""",
)
@_takes_requests
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The CSV to write; an existing file is never replaced.",
)
def export(file: Path, out: Path, **taken: Any) -> None:
    """Write the requests as a plain CSV that --trace reads back to the picosecond."""
    from kvfabric.progress import stages

    with stages(f"traffic {file.name}") as tell:
        found = _requests(file, tell, **taken)
        tell(f"writing {out}")
        _save(found.table, out)
    click.echo(f"wrote {len(found.table):,} requests to {out}")
    click.echo(f"next: kvfabric run SCENARIO --trace {out} --count {len(found.table)}")


def _save(table: "RequestTable", out: Path) -> None:
    """Write a new file, whole or not at all."""
    from traffic.trace.table import text

    try:
        with out.open("x", encoding="utf-8", newline="") as sink:
            try:
                sink.writelines(text(table))
                sink.flush()
            except BaseException:
                out.unlink()
                raise
    except FileExistsError:
        raise KvfabricError(f"{out}: exists; write another --out") from None
    except OSError as error:
        raise KvfabricError(f"{out}: {error.strerror}; write another --out") from None


@command.command(
    epilog="""\b
Examples:
  kvfabric traffic tokeniser scenarios/first-look.yaml --ratio 1.33 --ratio 1.5 --ratio 2
  kvfabric traffic tokeniser traces/AzureLLMInferenceTrace_code.csv --model Llama-3.1-70B
"""
)
@_takes_requests
@click.option("--model", "name", default=None, help="The model.  [default: the scenario's]")
@click.option(
    "--ratio",
    "ratios",
    type=float,
    multiple=True,
    default=(1.0, 1.33, 1.5, 2.0),
    show_default=True,
    help="Tokens a word; may be given several times.",
)
@click.option(
    "--recorded",
    type=float,
    default=None,
    help="Tokens a word of the requests as they are.  [default: the scenario's, else 1.33]",
)
def tokeniser(
    file: Path, name: str | None, ratios: tuple[float, ...], recorded: float | None, **taken: Any
) -> None:
    """Show how the load of the same words moves with the tokeniser."""
    from kvfabric.progress import stages
    from kvfabric.table import print_lines, print_table
    from topo.unit import show_rate, show_size
    from traffic.load.tokeniser import retold

    with stages(f"traffic {file.name}") as tell:
        found = _requests(file, tell, **taken)
        chosen = found.model(name)
        if chosen is None:
            raise KvfabricError(f"{file}: a trace names no model; write --model, as gpt-oss-120b")
        base = found.tokens_per_word if recorded is None else recorded
        tell("weighing the requests")
        told = retold(found.table, chosen, ratios, recorded=base)
    rows = []
    for one in told:
        load = one.summary.load
        if load is None:
            continue
        rows.append(
            [
                f"{one.tokens_per_word:g}",
                f"{one.summary.input.mean:,.0f}",
                f"{one.summary.output.mean:,.0f}",
                show_size(load.kv_bytes.mean),
                show_size(load.kv_bytes.p99),
                show_rate(load.kv_bps),
                f"{load.beyond_context:,}",
            ]
        )
    heads = ["tokens a word", "input tokens", "output tokens", "KV a request", "KV P99"]
    heads += ["offered KV load", "beyond the context"]
    print_table(f"The words of {file.name} on {chosen.name}", heads, rows, wide=120)
    print_lines(
        f"- The same words throughout: {told[0].words_in:,.0f} in and {told[0].words_out:,.0f} out "
        f"on average, counted at {base:g} tokens a word.",
        "- One ratio for all text; a real tokeniser differs from text to text.",
    )


@command.command(
    short_help="Download a public trace.",
    epilog="""\b
Examples:
  kvfabric traffic get azure-code
  kvfabric traffic get mooncake --dir traces
""",
)
@click.argument("name", metavar="azure-code|azure-conv|mooncake")
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="Where to put it.  [default: $KVFABRIC_DATA, else traces]",
)
def get(name: str, folder: Path | None) -> None:
    """Download a public trace, check its SHA-256, and tell its licence and citation."""
    from kvfabric.progress import stages
    from traffic.trace.download import get as fetch

    with stages(f"traffic get {name}") as tell:
        tell("downloading")
        done = fetch(name, folder or Path(os.environ.get("KVFABRIC_DATA") or "traces"))
    click.echo(f"{'fetched' if done.fetched else 'already there'}: {done.path}")
    click.echo(f"licence: {done.trace.licence}")
    click.echo(f"cite:    {done.trace.citation}")
    click.echo(f"next:    kvfabric traffic show {done.path}")
