"""``kvfabric explain``: what happened to one hand-off of a results folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from topo.error import KvfabricError

if TYPE_CHECKING:
    from analysis.explain import Story
    from analysis.summary import Sample

_SOME: Final = 20
"""How many of what there is are told to choose from."""


@click.command(
    epilog="""\b
Examples:
  kvfabric explain out/first-look
  kvfabric explain out/first-look --fabric 'fat-tree' --policy random --seed 2 --handoff 17
"""
)
@click.argument("results", type=click.Path(path_type=Path))
@click.option(
    "--handoff",
    default="slowest",
    metavar="N|slowest",
    help="The request whose hand-off is told.  [default: slowest]",
)
@click.option("--fabric", default=None, help="Of this fabric only.")
@click.option("--policy", default=None, help="Of this policy only.")
@click.option("--seed", type=int, default=None, help="Of this seed only.")
def command(
    results: Path, handoff: str, fabric: str | None, policy: str | None, seed: int | None
) -> None:
    """Tell step by step what held one hand-off of RESULTS, from prefill end to KV ready.

    Without --fabric and --policy, those with the slowest hand-off; with a number, the first that
    fit.
    """
    from kvfabric.progress import stages
    from kvfabric.table import print_table

    with stages("explain") as say:
        say("reading the cells")
        told = _story(results, handoff, fabric, policy, seed)
        rows = told.rows()
    print_table(told.title(), ("when", "for", "share", "what", "where"), rows)


def _story(
    results: Path, handoff: str, fabric: str | None, policy: str | None, seed: int | None
) -> "Story":
    from analysis.blame import slowest
    from analysis.explain import story
    from analysis.record import read_study
    from analysis.summary import samples
    from analysis.unfinished import unfinished
    from analysis.witness import seen

    study = read_study(results)
    there = study.manifest
    for option, wanted, known in (
        ("--fabric", fabric, there.fabrics),
        ("--policy", policy, there.policies),
        ("--seed", seed, there.seeds),
    ):
        if wanted is not None and wanted not in known:
            told = ", ".join(map(str, known[:_SOME])) + (", ..." if len(known) > _SOME else "")
            raise KvfabricError(f"{option} {str(wanted)[:80]}: not in {results}; it has {told}")
    parts = [
        _of_seed(part, seed)
        for part in samples(study)
        if fabric in (None, part.fabric) and policy in (None, part.policy)
    ]
    cells = [each for part in parts for cell in part.cells if (each := seen(cell, results))]
    if not cells:
        raise KvfabricError(
            f"{results}: no packets of such a fabric, policy and seed; run it with --emulator "
            "packet, or with more seeds"
        )
    if handoff != "slowest":
        if not handoff.isdecimal():
            raise KvfabricError(f"--handoff {handoff[:40]!r}: write a request's number, or slowest")
        return story(cells[0], int(handoff))
    found = [slow for part in parts if (slow := slowest(part, results)) is not None]
    lost = [(cell, request) for cell in cells for request in unfinished(cell)]
    if not found and lost:
        return story(*lost[0])
    if not found:
        raise KvfabricError(f"{results}: no hand-off ended after the warm-up")
    return max((story(*each) for each in found), key=lambda one: one.ps)


def _of_seed(part: "Sample", seed: int | None) -> "Sample":
    from dataclasses import replace

    if seed is None:
        return part
    return replace(part, cells=tuple(c for c in part.cells if c.manifest.seed == seed))
