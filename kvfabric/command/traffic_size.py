"""``kvfabric traffic size``: the pools that a scenario's load asks for, phase by phase."""

from pathlib import Path

import click


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
    from kvfabric.build import requests_of, stage
    from kvfabric.load import load
    from kvfabric.table import print_table
    from topo import unit
    from topo.capacity import mu
    from topo.unit import show_duration, show_rate
    from traffic.sizing import sizing

    study = load(scenario, overrides={("requests", "count"): count} if count else {})
    ready = stage(study.scenario, study.source)
    table, _ = requests_of(study.scenario, study.source, seed)
    share = unit.share(use)
    found, pools = sizing(table, ready.deployment, share), ready.deployment
    limit = "by KV memory" if found.by_memory else "by max_batch"
    rows = [
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
    title = f"What {found.rate_per_s:.4g} requests/s ask for"
    print_table(title, ["", "prefill", "decode"], rows, wide=100)
    most = mu(ready.fabric)
    click.echo(
        f"- All hand-offs together: {show_rate(found.kv_bps)} of payload, "
        f"{100 * found.kv_bps / most:.2g}% of the {show_rate(most)} that the fabric carries from "
        "prefill to decode at most."
    )
    click.echo(
        "- Means only: bursts, uneven choices and tails need room above this, and a run to tell; "
        "prefill scales with input tokens, decode with output tokens and memory."
    )
