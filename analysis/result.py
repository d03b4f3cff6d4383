"""Everything that the numbers of a study say, computed once for table, report and conditions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from pathlib import Path

from analysis.baseline import base_of
from analysis.blame import Blame, blame
from analysis.choice import nearest
from analysis.condition import Condition, at, badness, conditions
from analysis.decision import Decision, decisions
from analysis.loss import Losses, losses
from analysis.movement import Movement
from analysis.record import FabricFact, Study
from analysis.service import offered_per_s
from analysis.shown import shown
from analysis.summary import Sample, Summary, common_quantile, samples, summary, tail_name
from analysis.sweep import Curve, curves
from analysis.use import moved
from analysis.verdict import Verdict, budget, verdict
from analysis.wording import NONE, count, duration, name, percent, share_span

_MEDIAN = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """A study with its samples and summaries, one an alternative, what it decides for workloads
    and tells of loads and losses, its verdict, and what moved.

    ``blames`` tells of every alternative whose packets were emulated what made its slowest
    hand-offs slow; ``place`` is the directory that the study was read from; ``base`` is the policy
    that the others are held against, the first where None.
    """

    study: Study
    samples: tuple[Sample, ...]
    summaries: tuple[Summary, ...]
    decisions: Sequence[Decision]
    curves: Sequence[Curve]
    losses: Sequence[Losses]
    verdict: Verdict
    moved: Mapping[tuple[str, str], Movement]
    blames: Mapping[tuple[str, str], Blame] = field(default_factory=dict)
    place: Path | None = None
    base: str | None = None

    def facts(self) -> dict[str, FabricFact]:
        """What each fabric consists of, in the study's order."""
        return {row.fabric: row.facts for row in reversed(self.summaries) if row.facts is not None}

    def tail_name(self) -> str:
        """The quantile at which the alternatives are read, as P99."""
        return tail_name(self.summaries)


def result(study: Study, place: Path | None = None, base: str | None = None) -> Result:
    """Samples, summaries and verdict of a study; ``place`` is where its cells' tables are.

    Raises `SummaryError` for a ``base`` that is none of its policies.
    """
    parts = samples(study)
    base_of(parts, base)
    q = common_quantile(parts)
    rows = [summary(part, q, study.manifest.allowed) for part in parts]
    asked = decisions(rows, study.manifest)
    given = parts, rows, study.manifest
    swept, hurt = curves(*given), losses(*given)
    charged = {(part.fabric, part.policy): blame(part, place) for part in parts}
    return Result(
        study,
        tuple(parts),
        tuple(rows),
        *(asked, swept, hurt, verdict(study, parts, rows, asked, swept, hurt)),
        moved(parts),
        {key: each for key, each in charged.items() if each is not None},
        place,
        base,
    )


def ranked(found: Result) -> list[tuple[str, str]]:
    """Fabric and policy of all alternatives, those that a reader looks for in front: the choice or
    what comes closest, then in turn the one with the least and the one with the most over budget;
    equals by their tails. What has not run comes last."""
    ran = sorted((row for row in found.summaries if row.over is not None), key=badness)
    ends = [row for pair in zip(ran, reversed(ran), strict=True) for row in pair]
    chosen = [(sample.fabric, sample.policy) for sample in closest(found)]
    keys = [(row.fabric, row.policy) for row in (*ends, *found.summaries)]
    return list(dict.fromkeys(chosen + keys))


def watched(found: Result, most: int = 4) -> list[Sample]:
    """The alternatives whose links are drawn: of each fabric the one with the least over budget,
    of many fabrics those that come first in `ranked`."""
    best: dict[str, tuple[float, Sample]] = {}
    for sample, row in zip(found.samples, found.summaries, strict=True):
        if row.over is None or not row.n:
            continue
        if row.fabric not in best or row.over.value < best[row.fabric][0]:
            best[row.fabric] = (row.over.value, sample)
    kept = shown(best, (fabric for fabric, _ in ranked(found)), most)
    return [best[fabric][1] for fabric in kept]


def closest(found: Result) -> list[Sample]:
    """The choice of the verdict, or the alternative with the least over budget; none without."""
    row = found.verdict.choice
    if row is None:
        row = nearest(found.summaries, conditions(found.study.manifest))
    if row is None:
        return []
    key = (row.fabric, row.policy)
    return [sample for sample in found.samples if (sample.fabric, sample.policy) == key]


def told_blames(found: Result, most: int) -> dict[tuple[str, str], Blame]:
    """What made the slowest hand-offs slow: of the choice, then of those with most over budget."""
    chosen = found.verdict.choice
    ranked = sorted(
        (row for row in found.summaries if row.over is not None),
        key=lambda row: (row is not chosen, -row.over.value if row.over else 0.0),
    )
    keys = [(row.fabric, row.policy) for row in ranked]
    return {key: found.blames[key] for key in [key for key in keys if key in found.blames][:most]}


def requirements(found: Result) -> list[tuple[str, str, str]]:
    """What was asked, by number, and what the choice gives: (requirement, asked, found)."""
    study, choice = found.study.manifest, found.verdict.choice
    told = {"hand-off": NONE, "ttft": NONE, "tpot": NONE}
    if choice is not None and choice.over is not None:
        told["hand-off"] = (
            f"{percent(choice.over.value)} over ({share_span(choice.over)}), "
            f"{count(choice.n, 'hand-off')}"
        )
        tail = ""
        if choice.q is not None and choice.q > _MEDIAN:
            tail = f", {duration(choice.ttft_tail)} {name(choice.q)}"
        told["ttft"] = f"{duration(choice.ttft_median)} P50{tail}"
        told["tpot"] = f"{duration(choice.tpot_median)} P50"
    rows = [
        ("hand-off", f"{budget(study)}, {percent(study.allowed)} may exceed it", told["hand-off"])
    ]
    for key, limit in (("ttft", study.ttft_ps), ("tpot", study.tpot_ps)):
        if limit is not None:
            rows.append((key.upper(), duration(limit), told[key]))
    drawn = _drawn(found)
    if study.load or drawn:
        rows.append(
            ("load", study.load or NONE, f"{drawn} arrived, median seed" if drawn else NONE)
        )
    facts = next(iter(found.facts().values()), None)
    if facts is not None:
        rows.append(("pools", f"{facts.prefill} prefill + {facts.decode} decode GPUs", "as placed"))
    return [(f"R{place} {key}", asked, got) for place, (key, asked, got) in enumerate(rows, 1)]


def _drawn(found: Result) -> str:
    """Requests a second as they arrived after the warm-up: of several loads the least and most."""
    where = conditions(found.study.manifest)
    rates: dict[Condition, list[float]] = {}
    for cell in found.study.cells:
        rate = offered_per_s(cell) if cell.requests else nan
        if rate > 0:
            one = at(where, cell.manifest.fabric)
            rates.setdefault(replace(one, design=""), []).append(rate)
    medians = [sorted(each)[len(each) // 2] for each in rates.values()]
    if not medians:
        return ""
    ends = dict.fromkeys(f"{end:,.4g}" for end in (min(medians), max(medians)))
    return f"{' to '.join(ends)} requests/s"
