"""An alternative by class: its hand-offs by model, tenant, priority and prompt length.

A mean over all hides who pays: a tail may be that of one tenant, or of long prompts alone. Length
classes are the quarters of the counted hand-offs by input tokens. A class of the whole is not told,
and no class is read at a quantile that its own hand-offs do not carry.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import nan
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analysis.breakdown import Breakdown
from analysis.interval import (
    Estimate,
    highest_quantile,
    quantile,
    quantile_interval,
    share_interval,
)
from analysis.summary import Sample
from analysis.wording import NONE, duration, duration_told, name, share_told

NAMED: Final = ("model", "tenant", "priority")


@dataclass(frozen=True, slots=True)
class Segment:
    """One class of an alternative's hand-offs; ``tail`` is at ``q``, None where n carries none.

    Times are picoseconds; the intervals are those of `analysis.interval`, seeds being clusters.
    """

    kind: str
    label: str
    n: int
    median: float
    q: float | None
    tail: Estimate | None
    over: Estimate


def segments(sample: Sample) -> list[Segment]:
    """The classes of an alternative by `NAMED` and by length, each kind only where it has two."""
    asked = [_asked(sample, at) for at in range(len(sample.handoffs))]
    made: list[Segment] = []
    for kind in NAMED:
        found = sorted({int(value) for part in asked for value in part[kind]})
        if len(found) > 1:
            masks = ((f"{value}", [part[kind] == value for part in asked]) for value in found)
            made += [_segment(sample, kind, label, mask) for label, mask in masks]
    return made + [_segment(sample, "length", *each) for each in _lengths(asked)]


def classes(sample: Sample) -> Breakdown:
    """The classes of one alternative as a table."""
    rows = [
        (
            *(each.kind, each.label, f"{each.n:,}", duration(each.median)),
            f"{name(each.q)} {duration_told(each.tail)}" if each.q is not None else NONE,
            share_told(each.over),
        )
        for each in segments(sample)
    ]
    return Breakdown(
        f"By class: {sample.fabric} with {sample.policy}",
        "Hand-offs of the choice, or of what comes closest to the budget, by model, tenant and "
        "priority (numbers in the order of the scenario) and by quarters of the prompt length.",
        ("by", "class", "n", "P50", "tail", "over budget"),
        tuple(rows),
    )


def _asked(sample: Sample, at: int) -> dict[str, NDArray[np.int64]]:
    """What the scenario says of the requests of a seed's hand-offs, in their order."""
    table = sample.cells[at].requests
    number = table["request"].astype(np.int64)
    order = np.argsort(number)
    row = order[np.searchsorted(number[order], sample.handoffs[at].request)]
    return {kind: table[kind].astype(np.int64)[row] for kind in (*NAMED, "input_tokens")}


def _lengths(
    asked: Sequence[dict[str, NDArray[np.int64]]],
) -> Iterator[tuple[str, list[NDArray[np.bool_]]]]:
    """The quarters of the prompts by length, with the tokens that they hold."""
    every = np.concatenate([np.empty(0, np.int64), *(part["input_tokens"] for part in asked)])
    if not len(every):
        return
    edges = np.unique([quantile(every.astype(np.float64), q) for q in (0.25, 0.5, 0.75, 1.0)])
    if len(edges) < 2:
        return
    low = int(every.min())
    for edge in edges.astype(np.int64).tolist():
        masks = [(part["input_tokens"] >= low) & (part["input_tokens"] <= edge) for part in asked]
        yield f"{low:,} to {edge:,} tokens", masks
        low = edge + 1


def _segment(sample: Sample, kind: str, label: str, masks: Sequence[NDArray[np.bool_]]) -> Segment:
    pairs = list(zip(sample.handoffs, masks, strict=True))
    times = [part.duration[mask] for part, mask in pairs]
    counts = [len(each) for each in times]
    whole = np.concatenate(times)
    q = highest_quantile(len(whole))
    return Segment(
        kind,
        label,
        len(whole),
        quantile(whole, 0.5) if len(whole) else nan,
        q,
        None if q is None else quantile_interval(times, q),
        share_interval([int(part.over[mask].sum()) for part, mask in pairs], counts),
    )
