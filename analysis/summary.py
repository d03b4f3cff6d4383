"""One summary an alternative, (fabric, policy), pooled over its seeds.

All alternatives of a study are read at the same quantile: the highest that the smallest of them
can carry, so that they compare; an alternative with less than half the hand-offs of the largest
does not hold the others back and gets no tail of its own. Durations are picoseconds as floats,
infinite for "not finished".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analysis import lossless
from analysis.budget import PARTS, Budgets, budgets
from analysis.handoff import Handoffs, handoffs, window_ps
from analysis.innocence import innocent_share
from analysis.interval import (
    Estimate,
    effective,
    highest_quantile,
    quantile,
    quantile_interval,
    share_interval,
)
from analysis.record import Cell, FabricFact, Study, StudyManifest
from analysis.wording import name

MET: Final = "pass"
MISSED: Final = "fail"
UNDECIDED: Final = "undecided"
LOCAL: Final = "no hand-off"
"""What an alternative is whose requests all stay where they were prefilled."""
IMPOSSIBLE: Final = "impossible"
MISSING: Final = "missing"
NOT_LOSSLESS: Final = "not lossless"
"""What stands beside the verdict of an alternative that lost frames of a lossless class."""

UNKNOWN: Final = "unknown to the estimates"
"""The setting of a cell that says what its cheap estimates know nothing of."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """What the cells of one alternative hold, one entry a seed."""

    fabric: str
    policy: str
    cells: tuple[Cell, ...]
    handoffs: tuple[Handoffs, ...]
    budgets: tuple[Budgets, ...]
    impossible: str | None

    @property
    def n(self) -> int:
        """Hand-offs that were due, over all seeds."""
        return sum(len(part.duration) for part in self.handoffs)

    def seeds(self) -> dict[int, int]:
        """The place of each seed in the tuples."""
        return {cell.manifest.seed: place for place, cell in enumerate(self.cells)}


@dataclass(frozen=True, slots=True)
class Gap:
    """A cheap estimate beside the packets: transfers at the same quantile, and hand-off by
    hand-off.

    ``tail_ps`` is the estimate's quantile, ``ratio`` the packet quantile over it (how many times
    the estimate was too low), ``median_ratio`` and ``most_ratio`` the same for single hand-offs.
    """

    tail_ps: float
    ratio: float
    median_ratio: float
    most_ratio: float


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """The numbers of one alternative.

    ``verdict`` is pass, fail or undecided as the interval of ``over`` lies below, above or across
    the allowed share; no hand-off where every request stayed where it was; impossible with a
    ``reason``; missing when no cell is there. ``worth`` is
    the effective number of hand-offs over n. Pause fractions are time that a port's data class
    was stopped by its peer over the time the fabric had hand-offs to carry (`window_ps`), over
    switch ports (``host_pause``: host ports), warm-up included; so is utilisation.
    ``innocent_pause`` is the share of `analysis.innocence` over all seeds. Of ``drops``, all causes
    together, ``lossless`` were for want of memory in a lossless class.
    """

    fabric: str
    policy: str
    verdict: str
    reason: str = ""
    facts: FabricFact | None = None
    n: int = 0
    seeds: int = 0
    q: float | None = None
    median: float = nan
    tail: Estimate | None = None
    over: Estimate | None = None
    worth: float = 1.0
    not_finished: int = 0
    not_due: int = 0
    rejected: int = 0
    failed: int = 0
    local: int = 0
    slowdown_median: float = nan
    slowdown_tail: float = nan
    transfer_tail: float = nan
    bandwidth: Gap | None = None
    maxmin: Gap | None = None
    marked: float = nan
    resent: float = nan
    timeouts: int = 0
    drops: int = 0
    lossless: int = 0
    pause_max: float = nan
    pause_mean: float = nan
    host_pause: float = nan
    innocent_pause: float = nan
    utilisation_max: float = nan
    ttft_median: float = nan
    ttft_tail: float = nan
    tpot_median: float = nan
    parts: tuple[float, ...] = ()
    """Mean queueing, prefill, hand-off and decode of finished requests, ps."""


def emulated(study: Study) -> str:
    """What moved the bytes: packets, or the name of another emulator."""
    names = sorted({cell.manifest.emulator for cell in study.cells})
    told = ("real frames" if name == "mininet" else name for name in names)
    return "packets" if names in (["packet"], []) else " and ".join(told)


def unknown(study: Study) -> str:
    """What the cheap estimates know nothing of, in a sentence; empty where nothing is."""
    cells = (cell.manifest.settings.get(UNKNOWN, "") for cell in study.cells)
    found = dict.fromkeys(part for told in cells for part in told.split(", ") if part)
    if not found:
        return ""
    return (
        f"Neither estimate knows of {' or '.join(found)}: what that costs is in the ratios, beside "
        "queues and congestion control."
    )


def samples(study: Study) -> list[Sample]:
    """One sample an alternative, in the study's order, also for those without cells."""
    held: dict[tuple[str, str], list[Cell]] = {}
    for cell in study.cells:
        held.setdefault((cell.manifest.fabric, cell.manifest.policy), []).append(cell)
    return [
        _sample(fabric, policy, held.get((fabric, policy), []), study.manifest)
        for fabric in study.manifest.fabrics
        for policy in study.manifest.policies
    ]


def _sample(fabric: str, policy: str, cells: list[Cell], study: StudyManifest) -> Sample:
    reasons = [cell.manifest.impossible for cell in cells if cell.manifest.impossible is not None]
    return Sample(
        fabric,
        policy,
        tuple(cells),
        () if reasons else tuple(handoffs(cell, study) for cell in cells),
        () if reasons else tuple(budgets(cell) for cell in cells),
        reasons[0] if reasons else None,
    )


def common_quantile(parts: Sequence[Sample]) -> float | None:
    """The quantile at which all alternatives are read; None when n carries not even a median."""
    counts = [part.n for part in parts if part.n]
    carried = [n for n in counts if 2 * n >= max(counts)]
    return highest_quantile(min(carried)) if carried else None


def tail_name(rows: Sequence[Summary]) -> str:
    """The quantile at which the alternatives are read, as P99; "tail" where none is."""
    return next((name(row.q) for row in rows if row.q is not None), "tail")


def summary(sample: Sample, q: float | None, allowed: float) -> Summary:
    """The numbers of one alternative, its tails at quantile q where its n carries it."""
    facts = next((c.manifest.facts for c in sample.cells if c.manifest.facts is not None), None)
    if not sample.cells:
        return Summary(sample.fabric, sample.policy, MISSING, "no cell has run", facts)
    if sample.impossible is not None:
        return Summary(sample.fabric, sample.policy, IMPOSSIBLE, sample.impossible, facts)
    counts = [len(part.duration) for part in sample.handoffs]
    n = sum(counts)
    local = sum(part.local for part in sample.handoffs)
    carried = highest_quantile(n)
    if carried is None or q is None or carried < q:
        q = None
    over = [int(part.over.sum()) for part in sample.handoffs]
    share = share_interval(over, counts) if n else None
    durations = [part.duration for part in sample.handoffs]
    transfer = _pooled(sample, lambda part: part.transfer)
    slowdown = _pooled(sample, lambda part: part.slowdown)
    ttft = np.concatenate([part.ttft for part in sample.budgets]).astype(np.float64)
    tpot = np.concatenate([part.tpot for part in sample.budgets])
    packets = sum(part.packets for part in sample.handoffs)
    sent = sum(part.bytes for part in sample.handoffs)
    return Summary(
        fabric=sample.fabric,
        policy=sample.policy,
        verdict=decided(share, allowed) if n or not local else LOCAL,
        reason="" if n else "no hand-off was due",
        facts=facts,
        n=n,
        seeds=len(sample.cells),
        q=q,
        median=_at(np.concatenate(durations), 0.5),
        tail=quantile_interval(durations, q) if q is not None else None,
        over=share,
        worth=effective(over, counts) / n if n else 1.0,
        not_finished=sum(part.not_finished for part in sample.handoffs),
        not_due=sum(part.not_due for part in sample.handoffs),
        rejected=sum(part.rejected for part in sample.handoffs),
        failed=sum(part.failed for part in sample.handoffs),
        local=local,
        slowdown_median=_at(slowdown, 0.5),
        slowdown_tail=_at(slowdown, q),
        transfer_tail=_at(transfer, q),
        bandwidth=_gap(transfer, _pooled(sample, lambda part: part.bandwidth), q),
        maxmin=_gap(transfer, _pooled(sample, lambda part: part.maxmin), q),
        marked=sum(part.marked for part in sample.handoffs) / packets if packets else nan,
        resent=sum(part.resent_bytes for part in sample.handoffs) / sent if sent else nan,
        timeouts=sum(part.timeouts for part in sample.handoffs),
        drops=sum(int(cell.ports["drops"].astype(np.int64).sum()) for cell in sample.cells),
        lossless=sum(lossless.frames(cell.manifest.totals) for cell in sample.cells),
        pause_max=_over_ports(sample.cells, "paused_ps", np.max),
        pause_mean=_over_ports(sample.cells, "paused_ps", np.mean),
        host_pause=_over_ports(sample.cells, "paused_ps", np.max, hosts=True),
        innocent_pause=innocent_share(*sample.cells),
        utilisation_max=_over_ports(sample.cells, "busy_ps", np.max),
        ttft_median=_at(ttft, 0.5),
        ttft_tail=_at(ttft, q),
        tpot_median=_at(tpot[~np.isnan(tpot)], 0.5),
        parts=_parts(sample.budgets),
    )


def decided(over: Estimate | None, allowed: float) -> str:
    """Pass, fail or undecided: the interval lies below, above or across what is allowed."""
    if over is None or over.low <= allowed < over.high:
        return UNDECIDED
    return MET if over.high <= allowed else MISSED


def summaries(study: Study) -> list[Summary]:
    """One summary an alternative, in the study's order."""
    parts = samples(study)
    q = common_quantile(parts)
    return [summary(part, q, study.manifest.allowed) for part in parts]


def _pooled(sample: Sample, column: Callable[[Handoffs], Floats]) -> Floats:
    return np.concatenate([np.empty(0), *(column(part) for part in sample.handoffs)])


def _at(values: Floats, q: float | None) -> float:
    return quantile(values, q) if q is not None and len(values) else nan


def _gap(transfer: Floats, estimate: Floats, q: float | None) -> Gap | None:
    known = ~np.isnan(estimate) & (estimate > 0)
    if not known.any() or q is None:
        return None
    tail = quantile(estimate[known], q)
    single = transfer[known] / estimate[known]
    packet = quantile(transfer[known], q)
    return Gap(tail, packet / tail, quantile(single, 0.5), float(single.max()))


def _over_ports(
    cells: Sequence[Cell],
    column: str,
    fold: Callable[[Floats], np.floating],
    hosts: bool = False,
) -> float:
    """A port's time in a state over the window, folded over its ports, then averaged over seeds."""
    values = []
    for cell in cells:
        of_host = cell.ports["tier"].astype(np.int64) == 0
        chosen = cell.ports[column].astype(np.float64)[of_host if hosts else ~of_host]
        window = window_ps(cell)
        if len(chosen) and window > 0:
            values.append(float(fold(chosen)) / window)
    return float(np.mean(values)) if values else nan


def _parts(rows: Sequence[Budgets]) -> tuple[float, ...]:
    pooled = [np.concatenate([row.part(name) for row in rows]) for name in PARTS]
    return tuple(float(part.mean()) for part in pooled) if len(pooled[0]) else ()
