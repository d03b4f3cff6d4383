"""The load sweep: how tail and share over budget move with the load, and where the budget breaks.

The knee of an alternative is told as a bracket: the highest load up to which every load compared
met the budget, and the next one, which is not shown to. Between the two nothing was looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, nan

import numpy as np

from analysis import backlog
from analysis.breakdown import Breakdown
from analysis.condition import at, conditions
from analysis.record import StudyManifest
from analysis.review import offered_bps
from analysis.service import offered_per_s
from analysis.summary import MET, Sample, Summary, tail_name
from analysis.wording import NONE, duration, duration_told, percent, share_told

_KNEE = ("met up to", "of max-flow", "not shown at", "there")


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """One load of a curve: its label, requests/s offered after the warm-up (mean over the seeds),
    payload offered over the fabric's max-flow, and whether prefill fell behind the arrivals."""

    load: str
    rate_per_s: float
    share: float
    behind: bool
    row: Summary


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One design and policy over the loads that were compared, ascending; two at least."""

    fabric: str
    policy: str
    points: tuple[Point, ...]

    @property
    def knee(self) -> tuple[Point | None, Point | None]:
        """The last load up to which all met the budget, and the next; None where there is none."""
        met = 0
        while met < len(self.points) and self.points[met].row.verdict == MET:
            met += 1
        low = self.points[met - 1] if met else None
        return low, self.points[met] if met < len(self.points) else None


def curves(parts: Sequence[Sample], rows: Sequence[Summary], study: StudyManifest) -> list[Curve]:
    """Every design and policy that ran under several loads, in the study's order."""
    where = conditions(study)
    held: dict[tuple[str, str], list[Point]] = {}
    ran = {(part.fabric, part.policy): part for part in parts}
    for row in rows:
        one, sample = at(where, row.fabric), ran.get((row.fabric, row.policy))
        if one.load and row.over is not None and sample is not None:
            held.setdefault((one.but(load=""), row.policy), []).append(
                _point(one.load, sample, row)
            )
    return [
        Curve(*key, tuple(sorted(points, key=lambda point: point.rate_per_s)))
        for key, points in held.items()
        if len(points) > 1
    ]


def _point(load: str, sample: Sample, row: Summary) -> Point:
    rates = [rate for cell in sample.cells if isfinite(rate := offered_per_s(cell))]
    bits = [bps for cell in sample.cells if isfinite(bps := offered_bps(cell))]
    most = row.facts.mu_bps if row.facts is not None else 0
    waits = [backlog.waiting(cell) for cell in sample.cells]
    return Point(
        load,
        float(np.mean(rates)) if rates else nan,
        float(np.mean(bits)) / most if bits and most else nan,
        bool(waits) and float(np.mean(waits)) > backlog.WAITING,
        row,
    )


def knees(swept: Sequence[Curve]) -> Breakdown:
    """Up to which load each alternative meets the budget."""
    told = []
    for curve in swept:
        low, high = curve.knee
        told.append(
            (
                *(curve.fabric, curve.policy),
                *(low.load if low else "none compared", percent(low.share) if low else NONE),
                *(high.load if high else "none compared", _state(high) if high else NONE),
            )
        )
    return Breakdown(
        "Up to which load the budget is met",
        "The highest load up to which every load compared met the budget, and the next one, which "
        "is not shown to. Between the two nothing was looked at; `kvfabric goodput` searches for "
        "the load at which objectives of requests are missed.",
        ("fabric", "policy", *_KNEE),
        tuple(told),
    )


def loads(swept: Sequence[Curve]) -> Breakdown:
    """Every point of the sweep, one row each."""
    told = []
    for curve in swept:
        for point in curve.points:
            row = point.row
            told.append(
                (
                    *(curve.fabric, curve.policy, point.load, _rate(point), percent(point.share)),
                    *(duration(row.median), duration_told(row.tail), share_told(row.over)),
                    _state(point),
                )
            )
    rows = [point.row for curve in swept for point in curve.points]
    return Breakdown(
        "Hand-offs by load",
        "Requests offered a second after the warm-up, mean over the seeds; payload of the "
        "hand-offs over the max-flow from prefill to decode. Where prefill falls behind, it spaces "
        "the hand-offs, which then see less than the load.",
        (
            *("fabric", "policy", "load", "requests/s", "of max-flow", "P50 hand-off"),
            *(f"{tail_name(rows)} hand-off (95 %)", "over budget (95 %)", "verdict"),
        ),
        tuple(told),
    )


def sentences(swept: Sequence[Curve], most: int = 4) -> list[str]:
    """The knees in words, one sentence a fabric; of more than ``most`` fabrics that which gets
    furthest and that which breaks first."""
    held: dict[str, list[Curve]] = {}
    for curve in swept:
        held.setdefault(curve.fabric, []).append(curve)
    if len(held) <= most:
        return [f"Load: {_sentence(mine)}" for mine in held.values()]
    ranked = sorted(held.values(), key=lambda mine: max(map(_height, mine)), reverse=True)
    which = ("furthest", ranked[0]), ("first to break", ranked[-1])
    return [f"Load, {what} of {len(held)} fabrics: {_sentence(mine)}" for what, mine in which]


def reach(mine: Sequence[Curve]) -> tuple[Point | None, Point | None]:
    """The knees of the policies of one fabric that get least far and furthest; None for a policy
    that met the budget at no load."""
    ranked = sorted(mine, key=_height)
    return ranked[0].knee[0], ranked[-1].knee[0]


def _height(curve: Curve) -> float:
    low = curve.knee[0]
    return low.rate_per_s if low is not None else 0.0


def _sentence(mine: Sequence[Curve]) -> str:
    """How far the policies of one fabric get: the best one, and the first to break."""
    best, worst = max(mine, key=_height), min(mine, key=_height)
    low, high = best.knee
    told = high.load if high is not None else NONE
    name = f"{best.fabric} with {best.policy}"
    if low is None:
        every = f", nor with any other of {len(mine)} policies" if len(mine) > 1 else ""
        return f"{name} is not shown to meet the budget at the least load, {told}{every}."
    share = f" ({percent(low.share)} of the max-flow)" if isfinite(low.share) else ""
    then = "the highest compared"
    if high is not None:
        then = f"and at {told}, the next compared, it is {_state(high)}"
    first = f"{name} meets the budget up to {low.load}{share}, {then}."
    if len(mine) == 1:
        return first
    if _height(worst) == _height(best):
        return f"{first} {_as_far(len(mine) - 1)}"
    least = worst.knee[0]
    end = f"up to {least.load}" if least is not None else "at no load compared"
    return f"{first} Of its {len(mine)} policies {worst.policy} breaks first: {end}."


def _as_far(others: int) -> str:
    return "The other policy gets as far." if others == 1 else f"The other {others} get as far."


def _rate(point: Point) -> str:
    return f"{point.rate_per_s:,.4g}" if isfinite(point.rate_per_s) else NONE


def _state(point: Point) -> str:
    return point.row.verdict + (", prefill fell behind" if point.behind else "")
