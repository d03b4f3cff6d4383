"""What befalls the instances of a scenario's models, and what a cell keeps of it.

Instances are named by side and number, over all models, as in the tables of results; colocated ones
by the pool whose GPUs they are.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from analysis.observed import FAILURES
from kvfabric.deployment import Placed
from kvfabric.failover import resilience_of
from kvfabric.scenario import OF_INSTANCES, FaultPart, Scenario
from traffic.emulator import Table
from traffic.failure.outage import SIDES, Outage, OutageError, drawn, ordered
from traffic.failure.resilience import Hazard, Resilience
from traffic.handoff.errand import given_up
from traffic.serving.run import Outcome


def befalls(scenario: Scenario) -> bool:
    """Whether anything befalls an instance."""
    return any(part.kind in OF_INSTANCES for part in scenario.faults)


def hazards_of(scenario: Scenario, placed: Sequence[Placed], seed: int) -> list[Hazard | None]:
    """What befalls the instances of every model; None for all where nothing does.

    Failures by mean times are drawn for the seed, up to the run's limit. Refuses what cannot be
    with an `OutageError` or a `ServingError`.
    """
    pools = [(one.deployment.prefill, one.deployment.decode) for one in placed]
    sizes = [(len(prefill.instances), len(decode.instances)) for prefill, decode in pools]
    if not befalls(scenario):
        return [None] * len(sizes)
    rules = resilience_of(scenario.failover)
    total = (sum(size[0] for size in sizes), sum(size[1] for size in sizes))
    until_ps = int(scenario.run.limit)
    found: list[Outage] = []
    for part in scenario.faults:
        if part.kind in OF_INSTANCES:
            found += _outages(part, total, rules, until_ps, seed)
    ordered(found, total, rules.load_ps)
    hazards: list[Hazard | None] = []
    first = [0, 0]
    for size in sizes:
        mine: list[Outage] = []
        for outage in found:
            side = SIDES.index(outage.side)
            number = outage.instance - first[side]
            if number in range(size[side]):
                mine.append(replace(outage, instance=number))
        hazards.append(Hazard(tuple(mine), rules))
        first = [first[0] + size[0], first[1] + size[1]]
    return hazards


def _outages(
    part: FaultPart, total: tuple[int, int], rules: Resilience, until_ps: int, seed: int
) -> list[Outage]:
    """What one entry stands for."""
    side, number = _named(part)
    start, end = int(part.start), None if part.until is None else int(part.until)
    if part.link or part.node or part.share is not None or part.direction != "both":
        raise OutageError(
            f"instance {part.instance!r}: has no link, node, share or direction; remove them"
        )
    if part.mtbf is None and part.mttr is None:
        if number is None:
            raise OutageError(
                f"instance {side!r}: which one? write e.g. {side} 0, or mtbf and mttr for all"
            )
        return [Outage(part.kind, side, number, start, end)]
    if part.mtbf is None or part.mttr is None or part.kind != "fail" or start or end is not None:
        raise OutageError(
            "mtbf and mttr draw failures over the whole run: write both, with kind: fail and "
            "neither from nor until"
        )
    return drawn(
        side,
        range(total[SIDES.index(side)]) if number is None else [number],
        mtbf_ps=int(part.mtbf),
        mttr_ps=int(part.mttr),
        load_ps=rules.load_ps,
        until_ps=until_ps,
        seed=seed,
    )


def _named(part: FaultPart) -> tuple[str, int | None]:
    text = part.instance or ""
    match = re.fullmatch(r"\s*(prefill|decode)(?:\s+([0-9]{1,6}))?\s*", text)
    if match is None:
        raise OutageError(f"instance {text[:40]!r}: write a side and a number, as prefill 3")
    return match[1], None if match[2] is None else int(match[2])


def failure_tables(outcome: Outcome) -> dict[str, Table]:
    """The tables of `analysis.observed.FAILURES`; none where nothing befell an instance."""
    found = {"toll": outcome.toll, "spells": outcome.spells}
    return {name: found[name] for name in FAILURES} if outcome.toll else {}


def failure_totals(outcome: Outcome) -> dict[str, int]:
    """The run's failures in numbers, warm-up included."""
    if not outcome.toll:
        return {}
    named = ("attempts", "wasted_prefill_ps", "wasted_flows", "wasted_bytes")
    sums = {name: int(np.asarray(outcome.toll[name], np.int64).sum()) for name in named}
    failed = int(np.count_nonzero(outcome.toll["reason"]))
    more = {
        "failed": failed,
        "breaker_trips": outcome.trips,
        "outages": len(outcome.spells["kind"]),
    }
    return {f"failover.{name}": value for name, value in (sums | more).items()}


def renumbered(handoff: NDArray[np.int64], outcome: Outcome) -> NDArray[np.int64]:
    """The hand-off numbers of all flows, with those that were given up told as such."""
    found = handoff.copy()
    found[outcome.strays] = given_up(handoff[outcome.strays])
    return found
