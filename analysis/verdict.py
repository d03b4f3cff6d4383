"""The decision in plain words, and what it rests on; no claim beyond the intervals.

Where workloads, loads or losses are compared (`analysis.condition`), a design is chosen that
stands them all, and told by its worst case.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from analysis import backlog, breakeven, decision, loss, lossless, sweep, timer, warmup
from analysis.choice import choice, cost, nearest, smaller, sold
from analysis.condition import Condition, at, cases, conditions, everywhere, named
from analysis.interval import needed
from analysis.matter import design_matters, policy_matters
from analysis.record import Cell, Study, StudyManifest
from analysis.replay import replays
from analysis.summary import (
    IMPOSSIBLE,
    LOCAL,
    MET,
    MISSED,
    MISSING,
    UNDECIDED,
    Gap,
    Sample,
    Summary,
    emulated,
    unknown,
)
from analysis.waiting import waiting
from analysis.wording import (
    count,
    duration,
    duration_told,
    listed,
    money,
    name,
    percent,
    share_span,
    times,
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One headline, then sentences; ``choice`` is the cheapest that meets the budget."""

    headline: str
    sentences: tuple[str, ...]
    choice: Summary | None

    def text(self) -> str:
        """Headline and sentences, one a line."""
        return "\n".join((self.headline, *self.sentences))


def verdict(
    study: Study,
    parts: Sequence[Sample],
    rows: Sequence[Summary],
    asked: Sequence[decision.Decision] = (),
    swept: Sequence[sweep.Curve] = (),
    hurt: Sequence[loss.Losses] = (),
) -> Verdict:
    """The verdict of a study from its samples and their summaries, and from what was decided for
    its workloads and found of its loads and losses."""
    manifest = study.manifest
    chosen = choice(rows, conditions(manifest))
    record = _replayed(study)
    remedy = "a longer record helps, more seeds do not" if record else "more seeds help most"
    sentences = [
        *lossless.told(
            {alternative(row): row.lossless for row in rows},
            alternative(chosen) if chosen is not None else "",
            faults=any(lossless.faulty(cell.manifest) for cell in study.cells),
        ),
        *_others(rows, chosen, manifest.allowed, remedy),
        _hopeless(rows, manifest),
        decision.sentence(asked),
        *sweep.sentences(swept),
        *loss.sentences(hurt),
        *design_matters(parts, rows, manifest),
        policy_matters(parts, rows, manifest),
        *waiting(parts, manifest),
        *breakeven.sentences(parts, manifest),
        *_estimates(rows, study),
        *_warnings(study, parts, rows),
        *warmup.notices(parts),
        _evidence(rows),
        record,
    ]
    return Verdict(
        _headline(rows, chosen, manifest), tuple(line for line in sentences if line), chosen
    )


def alternative(row: Summary) -> str:
    """The name of an alternative in a sentence."""
    return f"{row.fabric} with {row.policy}"


def budget(manifest: StudyManifest) -> str:
    """The budget in words."""
    if manifest.budget_ps is not None:
        return duration(manifest.budget_ps)
    if manifest.ttft_ps is not None:
        return f"what a TTFT of {duration(manifest.ttft_ps)} leaves"
    return "no limit"


def _tail(row: Summary) -> str:
    if row.tail is None or row.q is None:
        return f"median hand-off {duration(row.median)}"
    return f"{name(row.q)} hand-off {duration_told(row.tail)}"


def _over(row: Summary) -> str:
    if row.over is None:
        return "no hand-off was due"
    return f"{percent(row.over.value)} over budget ({share_span(row.over)})"


def _headline(rows: Sequence[Summary], chosen: Summary | None, manifest: StudyManifest) -> str:
    where = conditions(manifest)
    asked = f"the budget of {budget(manifest)}{everywhere(where)}"
    if chosen is not None:
        price = cost(chosen)
        of_cost = f", {money(price)}" if isfinite(price) else ""
        told = f"Cheapest that meets {asked}: {named(chosen, where)}{of_cost}"
        return f"{told}{_sold(chosen, rows, where)}. {_found(chosen, where, manifest)}"
    ran = [case for case in cases(rows, where) if case.worst.over is not None]
    if not ran and any(row.seeds for row in rows):
        return "No request had a hand-off: there is nothing to decide."
    best = nearest(rows, where)
    if best is None:
        return "No alternative has run: there is nothing to decide."
    failed = sum(case.verdict == MISSED for case in ran)
    first = "No alternative meets" if failed == len(ran) else "No alternative is shown to meet"
    (mine,) = (case for case in ran if case.worst is best)
    often = f", in {mine.met} of {len(mine.rows)} cases" if len(mine.rows) > 1 else ""
    return (
        f"{first} {asked}: {failed} of {len(ran)} fail, {len(ran) - failed} undecided. Closest: "
        f"{named(best, where)}{often}. {_found(best, where, manifest)}"
    )


def _sold(chosen: Summary, rows: Sequence[Summary], where: Mapping[str, Condition]) -> str:
    """That a choice counts on smaller switches than were asked for, and what is chosen without."""
    told = sold(chosen)
    if not told or chosen.facts is None:
        return ""
    other = choice([row for row in rows if not smaller(row)], where)
    big = f"of those with {chosen.facts.ports_asked} ports, as asked for,"
    if other is None:
        return f"{told}; {big} none is shown to meet it"
    return f"{told}; {big} {named(other, where)}, {money(cost(other))}"


def _found(row: Summary, where: Mapping[str, Condition], manifest: StudyManifest) -> str:
    """The numbers of the row that decides about a design, and in which case they are."""
    case = at(where, row.fabric).text
    worst = f"At its worst, {case}: " if case else ""
    allowed = f"{percent(manifest.allowed)} allowed"
    return f"{worst}{_tail(row)}; {_over(row)}, {allowed}.{_lost(row)}"


def _lost(row: Summary) -> str:
    """Requests that were never served, which no share of hand-offs counts."""
    parts = ((row.rejected, "rejected"), (row.failed, "failed"))
    told = " and ".join(f"{many:,} {what}" for many, what in parts if many)
    return f" Requests not served: {told}." if told else ""


def _others(
    rows: Sequence[Summary], chosen: Summary | None, allowed: float, remedy: str
) -> list[str]:
    lines = []
    kinds = [row.verdict for row in rows]
    tally = [
        f"{kinds.count(kind)} {kind}"
        for kind in (MET, MISSED, UNDECIDED, LOCAL, IMPOSSIBLE, MISSING)
        if kind in kinds
    ]
    if len(rows) > 1:
        lines.append(f"Of {count(len(rows), 'alternative')}: {', '.join(tally)}.")
    open_rows = [row for row in rows if row.verdict == UNDECIDED and row.over is not None]
    if chosen is not None:
        open_rows = [row for row in open_rows if cost(row) < cost(chosen)]
    if open_rows:
        which = "cheaper alternative" if chosen is not None else "alternative"
        lines.append(
            f"{count(len(open_rows), which)} undecided: {_more(open_rows, allowed, remedy)}."
        )
    return lines


def _hopeless(rows: Sequence[Summary], manifest: StudyManifest) -> str:
    """Says so when the bytes alone, on an empty network, keep too many over the budget."""
    gaps = [(row.bandwidth, row.q) for row in rows if row.over is not None]
    limit = manifest.budget_ps
    if limit is None or not gaps:
        return ""
    for gap, q in gaps:
        if gap is None or q is None or gap.tail_ps <= limit or 1 - q < manifest.allowed:
            return ""
    least = min(gap.tail_ps for gap, _ in gaps if gap is not None)
    return (
        f"Bytes/bandwidth alone takes {duration(least)} or more at {name(gaps[0][1] or 0.5)}, "
        "above the budget: no fabric or policy helps; a faster NIC, fewer bytes or a longer "
        "budget would."
    )


def _more(rows: Sequence[Summary], allowed: float, remedy: str) -> str:
    """How many more hand-offs would decide the alternative that is nearest to a decision."""
    wants = [
        (more - row.n, row)
        for row in rows
        if row.over is not None
        and (more := needed(row.over.value, allowed, row.worth)) is not None
        and more > row.n
    ]
    if not wants:
        return "more hand-offs would hardly decide, the share lies on the limit"
    more, row = min(wants, key=lambda want: want[0])
    rounded = float(f"{more:.1g}") if more < 1000 else float(f"{more:.2g}")
    return (
        f"about {rounded:,.0f} more hand-offs would decide {alternative(row)}, "
        f"if its share stays as it is; {remedy}"
    )


def _estimates(rows: Sequence[Summary], study: Study) -> list[str]:
    lines, moved = [], emulated(study)
    for label, column in (("Bytes/bandwidth", "bandwidth"), ("Max-min sharing", "maxmin")):
        gaps: list[tuple[Gap, Summary]] = [
            (gap, row) for row in rows if (gap := getattr(row, column)) is not None
        ]
        if not gaps:
            continue
        gap, row = max(gaps, key=lambda pair: pair[0].ratio)
        middle = float(np.median([pair[0].ratio for pair in gaps]))
        q = name(row.q) if row.q is not None else "median"
        where = f" in the worst alternative ({alternative(row)}), {times(middle)} in the median one"
        lines.append(
            f"{label} against {moved} at {q}: the emulated transfer takes {times(gap.ratio)} the "
            f"estimate{where if len(gaps) > 1 else ''}."
        )
    return [*lines, unknown(study)] if lines else []


def _warnings(study: Study, parts: Sequence[Sample], rows: Sequence[Summary]) -> list[str]:
    lines = []
    engines = {cell.manifest.emulator for cell in study.cells}
    if "fluid" in engines:
        what = "Some alternatives are" if len(engines) > 1 else "All is"
        lines.append(
            f"{what} moved by max-min shares, not packet by packet: queues, pauses and congestion "
            "control are not in those numbers."
        )
    lost = sum(row.not_finished for row in rows)
    if lost:
        over = "counts" if lost == 1 else "count"
        lines.append(f"{count(lost, 'hand-off')} never finished and {over} as over budget.")
    for column, how in (("rejected", "rejected"), ("failed", "failed with their instances")):
        hit = [row for row in rows if getattr(row, column)]
        if hit:
            most = max(hit, key=lambda row: int(getattr(row, column)))
            where = f"in {count(len(hit), 'alternative')}, most in " if len(hit) > 1 else "in "
            lines.append(
                f"{count(sum(getattr(row, column) for row in hit), 'request')} {how}, {where}"
                f"{alternative(most)}: they have no hand-off and no part in these numbers; "
                "attainment counts them as missed."
            )
    lines += backlog.told(study, rows)
    dropped = [row for row in rows if row.drops > row.lossless]
    if dropped:
        most = max(dropped, key=lambda row: row.drops - row.lossless)
        lines.append(
            f"Packets were dropped in {count(len(dropped), 'alternative')}, most in "
            f"{alternative(most)}: {most.drops - most.lossless:,}."
        )
    lines.append(timer.sentence(parts))
    cycles = {row.fabric: row.facts.deadlock for row in rows if row.facts and row.facts.deadlock}
    lines += [f"{fabric}: deadlock is possible, {cycle}." for fabric, cycle in cycles.items()]
    stood = [cell.manifest for cell in study.cells if cell.manifest.totals.get("deadlocks")]
    if stood:
        first = stood[0]
        lines.append(
            f"Deadlock: queues waited for each other in {count(len(stood), 'cell')}, first in "
            f"{first.fabric} with {first.policy}, seed {first.seed}; the notes name their circles."
        )
    if _filling(study):
        lines.append(
            "The decode side was still filling: in every cell the last request arrived before the "
            "first finished, so policies that look at decode load saw a filling pool; a longer "
            "run (requests.count) shows them under steady load."
        )
    lines += _twins(study)
    if study.missing:
        lines.append(f"{count(study.missing, 'cell')} not run yet: this verdict is partial.")
    return lines


def _filling(study: Study) -> bool:
    """Whether no request finished before the last arrival, in any cell that ran."""
    ran = [cell.requests for cell in study.cells if len(cell.requests.get("request", ()))]
    for requests in ran:
        finish = requests["finish_ps"]
        finished = finish[finish >= np.int64(0)]
        if finished.size and finished.min() < requests["arrival_ps"].max():
            return False
    return bool(ran)


def _twins(study: Study) -> list[str]:
    """Policies that made the very same choices on a fabric in every seed."""
    chosen: dict[tuple[str, str], list[bytes]] = {}
    for cell in study.cells:
        if len(cell.requests.get("request", ())):
            picks = cell.requests["prefill"].tobytes() + cell.requests["decode"].tobytes()
            chosen.setdefault((cell.manifest.fabric, cell.manifest.policy), []).append(picks)
    alike: dict[tuple[str, ...], list[str]] = {}
    for fabric in study.manifest.fabrics:
        same: dict[tuple[bytes, ...], list[str]] = {}
        for policy in study.manifest.policies:
            if (fabric, policy) in chosen:
                same.setdefault(tuple(chosen[fabric, policy]), []).append(policy)
        for group in same.values():
            if len(group) > 1:
                alike.setdefault(tuple(group), []).append(fabric)
    return [
        f"{listed(group)} made the same choices on {listed(fabrics)}: one result, not {len(group)}."
        for group, fabrics in alike.items()
    ]


def _evidence(rows: Sequence[Summary]) -> str:
    ran = [row for row in rows if row.n]
    if not ran:
        return ""
    low, high = min(row.n for row in ran), max(row.n for row in ran)
    most = count(high, "hand-off")
    n = most if low == high else f"{low:,} to {most}"
    seeds = max(row.seeds for row in ran)
    q = next((row.q for row in ran if row.q is not None), None)
    read = f"read at {name(q)}, the highest quantile that n carries" if q else "too few for a tail"
    return (
        f"Evidence: {n} an alternative over {count(seeds, 'seed')}, {read}. Intervals widen where "
        "exceedances cluster in few seeds, so that equal shares can differ in verdict; each is a "
        "95 % interval of its own, not corrected for the number of alternatives."
    )


def _replayed(study: Study) -> str:
    """What seeds do not vary where they serve one recorded list of requests."""
    first: dict[tuple[str, str], Cell] = {}
    for cell in study.cells:
        other = first.setdefault((cell.manifest.fabric, cell.manifest.policy), cell)
        if other is not cell and replays((other, cell)):
            return (
                "All seeds serve the same recorded requests: paths and draws are what varies "
                "between them, so that intervals hold for this record and say nothing of such a "
                "load at other times."
            )
    return ""
