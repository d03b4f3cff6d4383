"""``kvfabric traffic size``: the pools that a scenario's load asks for, phase by phase."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from topo.error import KvfabricError, UnitError

if TYPE_CHECKING:
    from traffic.instance import Deployment
    from traffic.load.sizing import Sizing

_DRAWN = 10_000
"""Requests that are drawn for the means of a profile or of sessions: lengths and sessions within
about a hundredth, also of wide distributions, in a second or two."""


@click.command(
    short_help="Show how many instances the mean load needs.",
    epilog="""\b
Examples:
  kvfabric traffic size scenarios/first-look.yaml
  kvfabric traffic size scenarios/first-look.yaml --use 50%
""",
)
@click.argument("scenario", type=click.Path(path_type=Path))
@click.option(
    "--use", default="70%", show_default=True, help="Share of its time that a GPU should work."
)
@click.option(
    "--count",
    type=click.IntRange(2),
    default=None,
    help="The first requests only.  [default: of a trace those of the scenario, else 10,000]",
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
def size(scenario: Path, use: str, count: int | None, seed: int) -> None:
    """Show how many prefill and decode instances the mean load of SCENARIO needs."""
    import numpy as np

    from kvfabric.build import stage
    from kvfabric.demand import demand_of
    from kvfabric.deployment import shares_of
    from kvfabric.load import load
    from kvfabric.progress import stages
    from kvfabric.table import print_lines, print_table
    from topo.capacity import mu
    from topo.unit import show_rate
    from traffic.load.sizing import sizing
    from traffic.request import RequestTable

    study = load(scenario)
    drawn = study.scenario.requests.trace is None and study.scenario.requests.closed is None
    many = count or (max(_DRAWN, study.scenario.requests.count) if drawn else None)
    if many:
        study = load(scenario, overrides={("requests", "count"): many})
    asked = study.scenario.serving
    if asked.mode != "disaggregated":
        raise study.source.error(
            ("serving", "mode"),
            f"{asked.mode}: its instances serve both phases, and size tells two pools apart; write "
            "disaggregated",
        )
    with stages(f"traffic size {scenario.name}") as tell:
        tell("building the fabric")
        ready = stage(study.scenario, study.source)
        tell("making the requests")
        table, _ = demand_of(study.scenario, study.source, seed)
        tell("max-flow of the fabric")
        most = mu(ready.fabric)
    if not isinstance(table, RequestTable):
        raise study.source.error(
            ("requests", "closed"),
            "users who wait for answers make no load of their own to size; write arrivals with the "
            "rate that they are expected to reach",
        )
    share, total_bps, misfits = _share(use), 0.0, 0
    declared = float(study.scenario.requests.arrivals.rate) if drawn else None
    parts = shares_of(study.scenario)
    for number, placed in enumerate(ready.placed):
        mine = table
        if table.model is not None:
            rows = np.flatnonzero(table.model == number)
            mine = table.take(rows, table.arrival_ps[rows])
        rate = None if declared is None else declared * parts[number]
        found = sizing(mine, placed.deployment, share, rate)
        total_bps += found.kv_bps
        misfits += found.misfits
        name = placed.deployment.prefill.model.name
        title = f"What {found.rate_per_s:.4g} requests/s ask for, {name}"
        rows_told = _rows(found, placed.deployment, share)
        print_table(title, ["", "prefill", "decode"], rows_told, wide=100)
    print_lines(
        f"- All hand-offs together: {show_rate(total_bps)} of payload, "
        f"{_percent(total_bps / most)} of the {show_rate(most)} that the fabric carries from "
        "prefill to decode at most."
    )
    if misfits:
        print_lines(
            f"- {misfits:,} of {len(table):,} requests do not fit the KV memory of a decode "
            "instance: a run rejects them, and they are left out here."
        )
    print_lines(
        "- Means only: bursts, uneven choices and tails need room above this, and a run to tell; "
        "prefill scales with input tokens, decode with output tokens and memory."
    )


def _share(written: str) -> float:
    from topo import unit

    try:
        share = unit.share(written)
    except UnitError as error:
        raise KvfabricError(f"--use: {error}") from None
    if not 0 < share < 1:
        raise KvfabricError(f"--use: {written}: must lie above 0% and below 100%; write e.g. 70%")
    return share


def _rows(found: "Sizing", pools: "Deployment", share: float) -> list[list[str]]:
    from topo.unit import show_duration, show_rate

    limit = "by KV memory" if found.by_memory else "by max_batch"
    return [
        [
            f"instances needed at {100 * share:g}%",
            f"{found.prefill} of tp {pools.prefill.tp}",
            f"{found.decode} of tp {pools.decode.tp}",
        ],
        [
            "instances there are",
            f"{len(pools.prefill.instances)}, {100 * found.prefill_used:.0f}% used",
            f"{len(pools.decode.instances)}, {100 * found.decode_used:.0f}% used",
        ],
        [
            "what one takes",
            f"{show_duration(round(found.prefill_ps))} a prompt",
            f"{_sequences(found.batch)} ({limit}), {show_duration(round(found.step_ps))} a step",
        ],
        ["at work on average", "", _sequences(round(found.decoding))],
        ["hand-offs through one NIC", show_rate(found.sender_bps), show_rate(found.receiver_bps)],
    ]


def _sequences(count: int) -> str:
    return f"{count:,} sequence" + "s" * (count != 1)


def _percent(share: float) -> str:
    return f"{100 * share:,.0f}%" if share >= 0.1 else f"{100 * share:.2g}%"
