"""What made the slowest hand-offs of an alternative slow: their charges added up, and ranked.

Looked at are the hand-offs over budget, or the slowest twentieth where none is; of very many the
slowest `MOST`. Ranked is all time but that of moving the bytes, by what it is charged to: a port
with all that it did (queue, pause, congestion control, loss), a decode instance, or a setting that
holds for all hosts (descriptors, windows, copies, messages), with the place that has most of it.
Ports of all seeds are taken together by name.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Final

import numpy as np

from analysis.charge import KINDS, NOWHERE, Charge, Ledger
from analysis.summary import Sample
from analysis.timer import timeouts, timer_ps
from analysis.witness import Witness, seen

SLOWEST: Final = 0.05
MOST: Final = 2_000

_GLOBAL: Final = frozenset({"window", "issue", "release", "copies", "orchestration"})


@dataclass(frozen=True, slots=True)
class Culprit:
    """Where time went: picoseconds at a place, by `KINDS`, and how many hand-offs it met."""

    place: str
    kinds: Mapping[str, int]
    handoffs: int

    @property
    def ps(self) -> int:
        """All of its time."""
        return sum(self.kinds.values())

    @property
    def kind(self) -> str:
        """What most of its time is charged to."""
        return max(self.kinds, key=lambda kind: (self.kinds[kind], kind))


@dataclass(frozen=True, slots=True)
class Blame:
    """The charges of an alternative's slowest hand-offs.

    ``asked`` says which they are; ``unfinished`` ones have no parts and are not among them.
    ``kinds`` adds up to ``total_ps``; ``culprits`` are ranked, the worst first. ``timeouts`` tells
    how often their flows' timers ran out, and how long each is; empty for never.
    """

    asked: str
    handoffs: int
    of: int
    unfinished: int
    total_ps: int
    kinds: Mapping[str, int]
    culprits: tuple[Culprit, ...]
    timeouts: str = ""

    def share(self, culprit: Culprit) -> float:
        """The culprit's share of the hand-offs' whole time."""
        return culprit.ps / self.total_ps


@dataclass(slots=True)
class _Sum:
    kinds: Counter[str] = field(default_factory=Counter)
    handoffs: int = 0
    places: Counter[str] = field(default_factory=Counter)


def blame(sample: Sample, place: Path | None, share: float | None = None) -> Blame | None:
    """The blame of an alternative; None where no hand-off ended or no packets were emulated.

    ``place`` is the study's directory, None for cells that hold their own tables; ``share`` asks
    for the slowest share of hand-offs in place of those over budget.
    """
    ledgers = [(each, Ledger(each)) for cell in sample.cells if (each := seen(cell, place))]
    if sample.impossible is not None or len(ledgers) < len(sample.cells) or not ledgers:
        return None
    took = np.concatenate([ledger.took for _, ledger in ledgers])
    over = np.concatenate([_over(sample, at, each) for at, (_, each) in enumerate(ledgers)])
    if not len(took):
        return None
    chosen, asked = _chosen(took, over, share)
    kinds, sums = dict.fromkeys(KINDS, 0), dict[tuple[str, str], _Sum]()
    start = ran_out = 0
    for witness, ledger in ledgers:
        mine = chosen[(chosen >= start) & (chosen < start + len(ledger.took))] - start
        for request in ledger.request[mine].tolist():
            charges = ledger.charges(request)
            ran_out += sum(charge.timeouts for charge in charges)
            _add(sums, kinds, witness, charges)
        start += len(ledger.took)
    made = [
        Culprit(_place(place, one), dict(one.kinds), one.handoffs)
        for (_, place), one in sums.items()
    ]
    ranked = sorted(made, key=lambda one: (-one.ps, one.kind, one.place))
    lost = sum(part.not_finished for part in sample.handoffs)
    return Blame(
        asked,
        len(chosen),
        len(took) + lost,
        lost,
        int(took[chosen].sum()),
        kinds,
        tuple(ranked),
        timeouts(ran_out, timer_ps(sample.cells[0])) if ran_out else "",
    )


def slowest(sample: Sample, place: Path | None) -> tuple[Witness, int] | None:
    """The cell's witness and the request of the slowest hand-off that ended."""
    best: tuple[int, Witness, int] | None = None
    for cell in sample.cells:
        witness = seen(cell, place)
        if witness is None:
            continue
        ledger = Ledger(witness)
        if len(ledger.took) and (best is None or int(ledger.took.max()) > best[0]):
            row = int(ledger.took.argmax())
            best = int(ledger.took[row]), witness, int(ledger.request[row])
    return None if best is None else best[1:]


def _over(sample: Sample, at: int, ledger: Ledger) -> np.ndarray:
    part = sample.handoffs[at]
    return np.isin(ledger.request, part.request[part.over])


def _chosen(took: np.ndarray, over: np.ndarray, share: float | None) -> tuple[np.ndarray, str]:
    """The places of the hand-offs asked for, and in words which they are."""
    order = np.lexsort((np.arange(len(took)), -took))
    if share is None and over.any():
        chosen, asked = order[over[order]], "over budget"
    else:
        wanted = SLOWEST if share is None else share
        chosen = order[: max(1, ceil(wanted * len(took)))]
        asked = f"slowest {100 * wanted:g} %"
    if len(chosen) > MOST:
        chosen, asked = chosen[:MOST], f"slowest {MOST:,} of those {asked}"
    return np.sort(chosen), asked


def _add(
    sums: dict[tuple[str, str], _Sum],
    kinds: dict[str, int],
    witness: Witness,
    charges: Sequence[Charge],
) -> None:
    """One hand-off's charges into the sums; it counts once for each culprit."""
    met: set[tuple[str, str]] = set()
    for charge in charges:
        kinds[charge.kind] += charge.ps
        if charge.kind == "wire":
            continue
        where = witness.name(charge.port) if charge.port != NOWHERE else charge.note
        key = (charge.kind, "") if charge.kind in _GLOBAL else ("", where)
        one = sums.setdefault(key, _Sum())
        one.kinds[charge.kind] += charge.ps
        one.handoffs += key not in met
        one.places[where] += charge.ps
        met.add(key)


def _place(place: str, one: _Sum) -> str:
    """The place of a culprit; of a setting's, where most of it is."""
    if place or not any(one.places):
        return place
    top = max(one.places, key=lambda name: (one.places[name], name))
    return top if len(one.places) == 1 else f"{len(one.places)} places, most at {top}"
