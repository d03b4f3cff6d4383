"""``kvfabric traffic size``: the pools that a scenario's load asks for, phase by phase."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from traffic.instance import Deployment
    from traffic.sizing import Sizing


@click.command(
    epilog="""\b
Examples:
  kvfabric traffic size scenarios/first-look.yaml
  kvfabric traffic size scenarios/first-look.yaml --use 50%
"""
)
@click.argument("scenario", type=click.Path(path_type=Path))
@click.option(
    "--use", default="70%", show_default=True, help="Share of its time that a GPU should work."
)
@click.option("--count", type=click.IntRange(2), default=None, help="The first requests only.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
def size(scenario: Path, use: str, count: int | None, seed: int) -> None:
    """Show how many prefill and decode instances the mean load of SCENARIO needs."""
    import numpy as np

    from kvfabric.build import stage
    from kvfabric.demand import demand_of
    from kvfabric.load import load
    from kvfabric.table import print_table
    from topo import unit
    from topo.capacity import mu
    from topo.unit import show_rate
    from traffic.request import RequestTable
    from traffic.sizing import sizing

    study = load(scenario, overrides={("requests", "count"): count} if count else {})
    asked = study.scenario.serving
    if asked.mode != "disaggregated":
        raise study.source.error(
            ("serving", "mode"),
            f"{asked.mode}: its instances serve both phases, and size tells two pools apart; write "
            "disaggregated",
        )
    ready = stage(study.scenario, study.source)
    table, _ = demand_of(study.scenario, study.source, seed)
    if not isinstance(table, RequestTable):
        raise study.source.error(
            ("requests", "closed"), "users who wait for answers make no load of their own to size"
        )
    share, total_bps = unit.share(use), 0.0
    for number, placed in enumerate(ready.placed):
        mine = table
        if table.model is not None:
            rows = np.flatnonzero(table.model == number)
            mine = table.take(rows, table.arrival_ps[rows])
        found = sizing(mine, placed.deployment, share)
        total_bps += found.kv_bps
        name = placed.deployment.prefill.model.name
        title = f"What {found.rate_per_s:.4g} requests/s ask for, {name}"
        rows_told = _rows(found, placed.deployment, share)
        print_table(title, ["", "prefill", "decode"], rows_told, wide=100)
    most = mu(ready.fabric)
    click.echo(
        f"- All hand-offs together: {show_rate(total_bps)} of payload, "
        f"{100 * total_bps / most:.2g}% of the {show_rate(most)} that the fabric carries from "
        "prefill to decode at most."
    )
    click.echo(
        "- Means only: bursts, uneven choices and tails need room above this, and a run to tell; "
        "prefill scales with input tokens, decode with output tokens and memory."
    )


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
            f"{found.batch} sequences ({limit}), {show_duration(round(found.step_ps))} a step",
        ],
        ["at work on average", "", f"{found.decoding:,.0f} sequences"],
        ["hand-offs through one NIC", show_rate(found.sender_bps), show_rate(found.receiver_bps)],
    ]
