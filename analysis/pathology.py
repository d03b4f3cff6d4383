"""Pauses as they spread: how long, how often, from where and how far, and what they block.

Everything is of one alternative, over the time its fabric had hand-offs to carry, warm-up included.
A port is the sender that is stopped, and its tier that of its node, hosts apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from analysis.breakdown import Breakdown
from analysis.chain import Chains
from analysis.handoff import window_ps
from analysis.innocence import told
from analysis.summary import Sample
from analysis.witness import Ints, Witness, stopped
from analysis.wording import NONE, duration, percent
from topo.unit import PS_PER_S

_CROWDED: Final = 0.999


@dataclass(frozen=True, slots=True)
class Tree:
    """The pauses with one root: its port, the most ports that stood stopped for it at once, the
    longest chain, and the stops."""

    root: int
    size: int
    depth: int
    stops: int


def trees(found: Chains) -> list[Tree]:
    """Every root's tree, the largest first."""
    if not len(found.port):
        return []
    order = np.lexsort((found.since, found.port, found.root))
    root, port = found.root[order], found.port[order]
    first = _firsts(root)
    size = _most_at_once(root, port, found.since[order], found.until[order])
    depth = np.maximum.reduceat(found.depth[order], first)
    stops = np.diff(first, append=len(root))
    columns = (root[first], size, depth, stops)
    made = [Tree(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    return sorted(made, key=lambda tree: (-tree.size, -tree.stops, tree.root))


def _most_at_once(root: Ints, port: Ints, since: Ints, until: Ints) -> Ints:
    """For every root the most ports with a stop at one instant; ends count before beginnings.

    Rows are in order of root, port and beginning. Stops of a port that overlap count once.
    """
    # among the rows of a root's port, how far the stops before each reach
    rank = np.unique(np.concatenate((since, until)), return_inverse=True)[1]
    begun, ended = rank[: len(since)], rank[len(since) :]
    new = np.ones(len(port), bool)
    new[1:] = (root[1:] != root[:-1]) | (port[1:] != port[:-1])
    group = np.cumsum(new) * (len(rank) + 1)
    reached = np.concatenate(([0], np.maximum.accumulate(ended + group)[:-1])) - group
    start = np.maximum(begun, reached)
    held = start < ended
    steps = np.concatenate((np.ones(held.sum(), np.int64), np.full(held.sum(), -1)))
    at, whose = np.concatenate((start[held], ended[held])), np.tile(root[held], 2)
    order = np.lexsort((steps, at, whose))
    most = np.zeros(len(_firsts(root)), np.int64)
    if held.any():
        # the steps of a root add up to zero, so that the level starts anew at each
        level, marks = np.cumsum(steps[order]), _firsts(whose[order])
        seen_roots = whose[order][marks]
        most[np.searchsorted(root[_firsts(root)], seen_roots)] = np.maximum.reduceat(level, marks)
    return most


def _firsts(values: Ints) -> Ints:
    """Where each run of equal values begins."""
    return np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))


def queue_quantile(occupancy: dict[str, Ints], port: int, q: float = _CROWDED) -> int:
    """The bytes that a port's queue stays below for a share q of the ticks: the upper end of the
    histogram's bin, hence at most twice too high.

    >>> row = {"port": np.array([4, 4]), "least_bytes": np.array([0, 1024])}
    >>> queue_quantile(row | {"samples": np.array([998, 2])}, 4), queue_quantile(row | {
    ...     "samples": np.array([999, 1])}, 4)
    (2048, 0)
    """
    mine = occupancy["port"] == port
    least, samples = occupancy["least_bytes"][mine], occupancy["samples"][mine]
    if not len(least):
        return 0
    reached = np.cumsum(samples) >= q * samples.sum()
    return 2 * int(least[int(np.argmax(reached))])


def most_paused(samples: Sequence[Sample], place: Path | None) -> Witness | None:
    """The cell whose ports stood paused for the longest, None where no stop was recorded."""
    best: tuple[int, Witness] | None = None
    for sample in samples:
        for cell in sample.cells:
            witness = stopped(cell, place)
            paused = int(cell.ports["paused_ps"].astype(np.int64).sum()) if cell.ports else 0
            if witness is not None and paused > (best[0] if best else 0):
                best = paused, witness
    return best[1] if best is not None and len(best[1].chains.port) else None


def pauses(samples: Sequence[Sample], place: Path | None) -> Breakdown:
    """Pause fraction by tier, of every alternative that was paused."""
    rows = []
    for sample in samples:
        found = [each for cell in sample.cells if (each := stopped(cell, place))]
        tiers = sorted({int(tier) for each in found for tier in each.ports["tier"]}, reverse=True)
        for tier in tiers:
            shares = [_fractions(each, tier) for each in found]
            rates = [_rates(each, tier) for each in found]
            pooled = np.concatenate(shares)
            if not pooled.any():
                continue
            rows.append(
                (
                    *(sample.fabric, sample.policy, f"tier {tier}" if tier else "hosts"),
                    percent(float(pooled.mean())),
                    percent(float(np.quantile(pooled, 0.99, method="inverted_cdf"))),
                    percent(float(pooled.max())),
                    f"{float(np.concatenate(rates).max()):,.0f}",
                )
            )
    return Breakdown(
        "Pause by tier",
        "Share of time that ports stood stopped by their peers, by the tier of the stopped sender "
        "(hosts apart), and the pauses a second of the port with most; all seeds together.",
        ("fabric", "policy", "stopped", "mean", "P99 of ports", "most", "most pauses/s"),
        tuple(rows),
    )


def spreads(samples: Sequence[Sample], place: Path | None) -> Breakdown:
    """The largest pause tree, head-of-line time, innocent share and fullest queue of every
    alternative."""
    rows = []
    for sample in samples:
        found = [each for cell in sample.cells if (each := stopped(cell, place))]
        largest = max(
            ((tree, each) for each in found for tree in trees(each.chains)),
            key=lambda pair: (pair[0].size, pair[0].stops),
            default=None,
        )
        blocked = max((_blocked(each) for each in found), default=(0, ""))
        full = max((_fullest(each) for each in found), default=(0.0, ""))
        if largest is None and not blocked[0] and not full[0]:
            continue
        tree = largest[0] if largest is not None else None
        rows.append(
            (
                *(sample.fabric, sample.policy),
                largest[1].name(tree.root) if largest is not None and tree is not None else NONE,
                f"{tree.size:,}" if tree is not None else "0",
                f"{max((int(e.chains.depth.max(initial=0)) for e in found), default=0):,}",
                f"{duration(blocked[0])} at {blocked[1]}" if blocked[0] else "0 ps",
                told(found),
                f"{percent(full[0])} at {full[1]}" if full[0] else _unfilled(found),
            )
        )
    return Breakdown(
        "How far pauses spread",
        "The root with most ports stopped for it at once: a congested egress that was not stopped "
        "itself. Depth is the longest chain of stops. Blocked is head-of-line time: a port idle "
        "while something waited behind a stopped class. Innocent is the share of the bytes that "
        "stood behind stops, over the samples of all seeds, that were bound for a port neither "
        "stopped nor the cause of the stop. The fullest queue is the P99.9 of "
        "samples over the switch's buffer, read from a histogram by powers of two, so up to twice "
        "too high. Worst seeds.",
        (
            *("fabric", "policy", "root", "ports stopped at once", "depth"),
            *("most blocked port", "innocent", "fullest queue"),
        ),
        tuple(rows),
    )


def _unfilled(found: Sequence[Witness]) -> str:
    """What is told of queues that were empty, or that nobody looked at."""
    return "0 %" if any(len(each.table("occupancy")["port"]) for each in found) else NONE


def _of_tier(found: Witness, tier: int) -> Ints:
    return np.flatnonzero(found.ports["tier"] == tier)


def _fractions(found: Witness, tier: int) -> np.ndarray:
    return found.ports["paused_ps"][_of_tier(found, tier)] / max(1, window_ps(found.cell))


def _rates(found: Witness, tier: int) -> np.ndarray:
    seconds = max(1, window_ps(found.cell)) / PS_PER_S
    return found.ports["pauses"][_of_tier(found, tier)] / seconds


def _blocked(found: Witness) -> tuple[int, str]:
    """The longest head-of-line time of a port, and its name."""
    egress = found.table("egress")
    if not len(egress["port"]):
        return 0, ""
    row = int(egress["blocked_ps"].argmax())
    return int(egress["blocked_ps"][row]), found.name(int(egress["port"][row]))


def _fullest(found: Witness) -> tuple[float, str]:
    """The largest P99.9 of a switch's queue over its buffer, and the port's name."""
    egress, occupancy = found.table("egress"), found.table("occupancy")
    sizes = dict(zip(egress["port"].tolist(), egress["buffer_bytes"].tolist(), strict=True))
    worst = (0.0, -1)
    for port in np.unique(occupancy["port"][occupancy["least_bytes"] > 0]).tolist():
        if sizes.get(port):
            share = queue_quantile(occupancy, port) / sizes[port]
            worst = max(worst, (share, port))
    return worst[0], found.name(worst[1]) if worst[1] >= 0 else ""
