"""N-1: what the loss of one link or switch does to the tail, loss by loss against the whole fabric.

Each loss is held against the same design, load and policy without faults, on the same requests:
the difference of the tail is paired over the seeds (`analysis.pairing`). A loss for a while shows
what happens until routes change, and one for good what is left after they have.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan

from analysis.baseline import gap_told
from analysis.breakdown import Breakdown
from analysis.condition import HEALTHY, at, conditions
from analysis.pairing import Paired, paired_quantile
from analysis.record import StudyManifest
from analysis.summary import Floats, Sample, Summary, tail_name
from analysis.wording import NONE, count, duration, percent, share_told, times


@dataclass(frozen=True, slots=True, eq=False)
class Loss:
    """One loss: what is lost, the row of the alternative with it, the difference of its tail from
    that of the whole fabric (None where either has none, or never ended), the max-flow left of
    what stands for the whole run, and how many more requests than without it were never served."""

    what: str
    row: Summary
    more: Paired | None
    left: float
    unserved: int

    @property
    def tail(self) -> float:
        """The tail with the loss, ps; infinite where it never ended, NaN where n carries none."""
        return self.row.tail.value if self.row.tail is not None else nan


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """The losses of one design, load and policy, and its healthy row: first those that leave most
    requests unserved, then those with the largest tail."""

    fabric: str
    policy: str
    healthy: Summary
    each: tuple[Loss, ...]

    def times(self, loss: Loss) -> float:
        """The tail with a loss over that without any; NaN where either has none."""
        whole = self.healthy.tail.value if self.healthy.tail is not None else nan
        return loss.tail / whole if whole and isfinite(whole) else nan


def losses(parts: Sequence[Sample], rows: Sequence[Summary], study: StudyManifest) -> list[Losses]:
    """The losses of every alternative that also ran without faults, in the study's order."""
    where = conditions(study)
    held: dict[tuple[str, str], list[tuple[str, Sample, Summary]]] = {}
    ran = {(part.fabric, part.policy): part for part in parts}
    for row in rows:
        one, sample = at(where, row.fabric), ran.get((row.fabric, row.policy))
        if one.loss and sample is not None:
            held.setdefault((one.but(loss=""), row.policy), []).append((one.loss, sample, row))
    made = []
    for key, mine in held.items():
        whole = next(((s, row) for loss, s, row in mine if loss == HEALTHY), None)
        if whole is None or whole[1].over is None or len(mine) < 2:
            continue
        each = [_loss(*one, *whole) for one in mine if one[0] != HEALTHY]
        made.append(Losses(*key, whole[1], tuple(sorted(each, key=size, reverse=True))))
    return made


def size(loss: Loss) -> tuple[int, float]:
    """How much a loss does: requests that it leaves unserved, then the tail with it."""
    if loss.row.over is None:
        return (0, -inf)
    return (max(0, loss.unserved), loss.tail if loss.tail == loss.tail else 0.0)


def _loss(what: str, sample: Sample, row: Summary, healthy: Sample, whole: Summary) -> Loss:
    q = row.q if row.tail is not None and whole.tail is not None else None
    more = paired_quantile(_durations(healthy), _durations(sample), q) if q is not None else None
    left, most = (one.facts.mu_bps if one.facts else 0 for one in (row, whole))
    lost, before = (one.failed + one.rejected for one in (row, whole))
    return Loss(what, row, more, left / most if most else nan, lost - before)


def _durations(sample: Sample) -> dict[int, Floats]:
    return {seed: sample.handoffs[place].duration for seed, place in sample.seeds().items()}


def table(hurt: Sequence[Losses]) -> Breakdown:
    """Every loss of every alternative, one row each."""
    told = []
    for mine in hurt:
        told.append((mine.fabric, mine.policy, HEALTHY, NONE, *_told(mine.healthy), NONE, NONE))
        for loss in mine.each:
            change = NONE
            if loss.more is not None:
                change = gap_told(loss.more, lambda ps, _: _signed(ps))
            told.append(
                (
                    *(mine.fabric, mine.policy, loss.what, percent(loss.left)),
                    *(*_told(loss.row, loss.unserved), times(mine.times(loss)), change),
                )
            )
    q = _tail_name(hurt)
    return Breakdown(
        "Losses, N-1",
        "Each loss against the same alternative without faults, paired over the seeds; 95 % "
        "intervals, none of one seed. Max-flow left: of what stands for the whole run; what is "
        "down or slow for a while is not counted. What is removed is gone from the start and "
        "routes go round it; what is down loses what is sent to it, since routes do not change.",
        (
            *("fabric", "policy", "lost", "max-flow left", "verdict", f"{q} hand-off"),
            *("over budget (95 %)", "of the whole", f"{q} longer by (95 %)"),
        ),
        tuple(told),
    )


def unserved(requests: int) -> str:
    """How many more requests were never served, behind other numbers; empty for none.

    >>> unserved(1200), unserved(0)
    (', 1,200 requests not served', '')
    """
    return f", {count(requests, 'request')} not served" if requests > 0 else ""


def _told(row: Summary, lost: int = 0) -> tuple[str, str, str]:
    tail = duration(row.tail.value) if row.tail is not None else NONE
    return row.verdict + unserved(lost), tail, share_told(row.over, row.reason)


def _tail_name(hurt: Sequence[Losses]) -> str:
    return tail_name([row for mine in hurt for row in (mine.healthy, *(o.row for o in mine.each))])


def _signed(ps: float) -> str:
    """A difference with its sign.

    >>> _signed(-1.5e9), _signed(2e6)
    ('-1.5 ms', '+2 us')
    """
    return ("-" if ps < 0 else "+") + duration(abs(ps)) if isfinite(ps) else str(ps)


def sentences(hurt: Sequence[Losses], most: int = 3) -> list[str]:
    """The worst loss of each alternative in words; where there are many, of those hurt most."""
    known = [
        (mine, ran)
        for mine in hurt
        if (ran := [loss for loss in mine.each if loss.row.over is not None])
    ]
    known.sort(key=lambda each: size(each[1][0]), reverse=True)
    told, q = [], _tail_name(hurt)
    for mine, ran in known[:most]:
        worst = ran[0]
        which = f"worst of {len(ran)} losses" if len(ran) > 1 else "only loss"
        ratio = mine.times(worst)
        tail = f"{q} {duration(worst.tail)}" if worst.tail == worst.tail else "no tail"
        grown = f", {times(ratio)} that of the whole fabric" if isfinite(ratio) else ""
        over = percent(worst.row.over.value) if worst.row.over is not None else NONE
        told.append(
            f"N-1: the {which} for {mine.fabric} with {mine.policy} is "
            f"{worst.what}: {tail}{grown}; {over} over budget{unserved(worst.unserved)}."
        )
    return told
