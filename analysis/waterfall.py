"""From nominal to effective bandwidth: what each cause leaves of the NIC's rate.

Every step is payload bytes over time, summed over the same counted hand-offs, so that large ones
weigh by their bytes. The first is the NIC's rate, the others add one cause each:

- headers of the frames, at the NIC's rate;
- the way: each flow alone through links and switches, as a single descriptor;
- descriptors: the time to issue them, and their frames that are not full;
- concurrency: what others on the same links need, by max-min sharing;
- congestion: queues, pauses, congestion control and losses, as emulated;
- copies: gathering and scattering, with the wait for a copy engine;
- waiting: for decode memory and for messages; so the hand-off, prefill end to KV ready.

A hand-off of several flows lasts from the first release to the last end in each step. A step can be
faster than the one before: an estimate need not be a bound, and what a layer-wise hand-off does
before the prefill's end costs the hand-off nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analysis.breakdown import Breakdown, handoff_parts
from analysis.budget import after_warmup
from analysis.handoff import Handoffs, lone_parts
from analysis.observed import read_observed
from analysis.record import Cell, cell_directory
from analysis.summary import Sample
from analysis.wording import NONE, percent
from topo.unit import PS_PER_S, show_rate
from traffic.emulator import Table

STEPS: Final = (
    *("nominal", "headers", "way", "descriptors"),
    *("concurrency", "congestion", "copies", "waiting"),
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Waterfall:
    """Effective bandwidth of one alternative after each of `STEPS`, bit/s, and how many hand-offs
    have all of them. Headers and way are NaN where some results do not tell them."""

    rates_bps: tuple[float, ...]
    handoffs: int


def waterfall(
    cells: Sequence[Cell], parts: Sequence[Handoffs], lone: Sequence[Table | None]
) -> Waterfall | None:
    """The steps of the hand-offs that ended and have both estimates; None where none has.

    ``lone`` has the table `analysis.observed.LONE` of every cell, or None.
    """
    moved, count = 0.0, 0
    spent = np.zeros(len(STEPS))
    for cell, part, table in zip(cells, parts, lone, strict=True):
        unknown = np.full(len(part.request), np.nan)
        headers, way = (unknown, unknown) if table is None else lone_parts(cell, part, table)
        copied = part.transfer + _copies(cell, part)
        known = (part.bandwidth, part.ideal, part.maxmin, part.transfer, part.duration)
        whole = np.logical_and.reduce([np.isfinite(each) & (each > 0) for each in known])
        nominal, descriptors, *later, waiting = known
        times = np.vstack([nominal, headers, way, descriptors, *later, copied, waiting])
        moved += float(part.payload[whole].sum())
        spent += times[:, whole].sum(axis=1)
        count += int(whole.sum())
    if not count:
        return None
    return Waterfall(tuple((8 * moved * PS_PER_S / spent).tolist()), count)


def bandwidths(samples: Sequence[Sample], place: Path | None = None) -> Breakdown:
    """The waterfall of every alternative that has one, as a table; ``place`` is where the results
    lie, without which headers and way are not told."""
    rows = []
    for sample in samples:
        lone = [_lone(cell, place) for cell in sample.cells]
        found = waterfall(sample.cells, sample.handoffs, lone) if sample.handoffs else None
        if found is None:
            continue
        first = found.rates_bps[0]
        steps = [
            NONE if np.isnan(rate) else f"{show_rate(rate)} ({percent(rate / first)})"
            for rate in found.rates_bps[1:]
        ]
        rows.append((sample.fabric, sample.policy, show_rate(first), *steps))
    return Breakdown(
        "From nominal to effective bandwidth",
        "Payload bits over time, all counted hand-offs together, and the share of the nominal rate "
        "that is left after each cause, from left to right: frame headers; the way through links "
        "and switches, each flow alone; its descriptors; sharing links fairly with others; queues, "
        "pauses and congestion control, as moved; copies; waiting for memory and messages, as "
        "handed over.",
        ("fabric", "policy", "NIC", *STEPS[1:]),
        tuple(rows),
    )


def _lone(cell: Cell, place: Path | None) -> Table | None:
    digest = cell.manifest.digest
    if place is None or "lone" not in digest:
        return None
    return read_observed(cell_directory(place, cell.manifest.cell), digest, "lone")


def _copies(cell: Cell, part: Handoffs) -> Floats:
    """The copies of each hand-off, NaN of those that did not become ready."""
    table = after_warmup(cell)
    ready = (table["handoff_release_ps"] >= 0) & (table["kv_ready_ps"] >= 0)
    order = np.argsort(part.request)
    asked = table["request"][ready]
    found = np.full(len(part.request), np.nan)
    if not len(order):
        return found
    at = np.searchsorted(part.request[order], asked)
    at = np.minimum(at, len(order) - 1)
    same = part.request[order][at] == asked
    found[order[at[same]]] = handoff_parts(cell)["copies"][same]
    return found
