"""Whether fabric or policy matter, each in a sentence that claims no more than its intervals.

Either is said not to matter only when every pair's interval stays within a tenth of the budget;
"no difference found" is weaker and says so. Under several loads or losses, designs are compared
under the same one.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from analysis.comparison import Comparison, compare_fabrics, compare_policies
from analysis.condition import Condition, at, conditions
from analysis.record import StudyManifest
from analysis.summary import MET, MISSED, Sample, Summary
from analysis.turn import turn
from analysis.wording import count, duration, duration_span, more_seeds, percent

NEGLIGIBLE: Final = 0.1
"""A difference within this share of the budget does not change a design; a convention of ours."""


def fabric_matters(
    parts: Sequence[Sample], rows: Sequence[Summary], manifest: StudyManifest
) -> str:
    """Whether the fabric does, or a setting where it is all that differs; empty where one design
    under several conditions is all there is."""
    where = conditions(manifest)
    if len(where) > 1 and len({one.design for one in where.values()}) == 1:
        return ""
    compared = compare_fabrics(parts, where=where)
    return _matters(_varied(rows), "fabric", "policy", compared, rows, manifest)


def policy_matters(
    parts: Sequence[Sample], rows: Sequence[Summary], manifest: StudyManifest
) -> str:
    """Whether the policy does; first of all, whether that depends on the fabric."""
    turned = turn(parts)
    if turned is not None:
        limit = manifest.budget_ps or manifest.ttft_ps
        small = limit is not None and turned.most <= NEGLIGIBLE * limit
        verb = "makes a small difference" if small else "matters"
        told = turned.text(lambda ps, share: _size(ps, share, manifest))
        return f"Policy {verb}, and which is better depends on the fabric: {told}"
    return _matters("Policy", "policy", "fabric", compare_policies(parts), rows, manifest)


def _varied(rows: Sequence[Summary]) -> str:
    """What differs between the fabrics: topology, or on one and the same a setting alone."""
    facts, labels = [row.facts for row in rows], {row.fabric for row in rows}
    alike = None not in facts and all(each == facts[0] for each in facts)
    words = {label.partition(" ")[0] for label in labels}
    return "The setting" if alike and len(labels) > len(words) == 1 else "Topology"


def _matters(
    topic: str,
    kind: str,
    other: str,
    comparison: Comparison,
    rows: Sequence[Summary],
    manifest: StudyManifest,
) -> str:
    stands = conditions(manifest)
    split, cased = _split(rows, kind, stands), any(one.text for one in stands.values())
    widest = comparison.widest
    if widest is None:
        several = len({getattr(row, kind) for row in rows}) > 1
        return f"{topic}: fewer than two to compare, nothing to say." if several else ""
    span = (
        f"{duration_span(widest.ps)}, {count(widest.seeds, 'common seed')}, "
        f"mean over {count(widest.over, 'case' if cased else other)}"
    )
    place = "on" if kind == "fabric" else "with"
    size = _size(widest.ps.value, widest.share, manifest)
    limit = manifest.budget_ps or manifest.ttft_ps
    if limit is not None and comparison.bound <= NEGLIGIBLE * limit and not split:
        return (
            f"{topic} does not matter here: mean hand-offs of any two lie within "
            f"{_size(comparison.bound, 0.0, manifest)} of each other "
            f"({count(widest.seeds, 'common seed')})."
        )
    if comparison.found:
        small = limit is not None and widest.ps.value <= NEGLIGIBLE * limit and not split
        verb = "makes a small difference" if small else "matters"
        return (
            f"{topic} {verb}: the mean hand-off {place} {widest.fast} is {size} shorter than "
            f"{place} {widest.slow} ({span}). {comparison.found} of "
            f"{count(comparison.pairs, 'pair')} differ.{split}"
        )
    if widest.seeds < 2:
        return f"{topic}: one common seed cannot show a difference; run more seeds.{split}"
    return (
        f"{topic}: no difference found in mean hand-off; the largest, {widest.fast} against "
        f"{widest.slow}, is {size} and its interval includes zero ({span})"
        f"{more_seeds(widest.more_seeds)}.{split}"
    )


def _size(ps: float, share: float, manifest: StudyManifest) -> str:
    """A difference, and what it is of the budget, which decides whether it is small; without a
    budget, as a share of the longer."""
    limit = manifest.budget_ps or manifest.ttft_ps
    if limit is None:
        return f"{duration(ps)} ({percent(share)})"
    of = "budget" if manifest.budget_ps else "TTFT objective"
    return f"{duration(ps)} ({percent(ps / limit)} of the {of})"


def _split(rows: Sequence[Summary], kind: str, stands: Mapping[str, Condition]) -> str:
    """A pair of decided alternatives that differ in one thing alone and in the verdict."""

    def held(row: Summary) -> tuple[str, str]:
        return (row.policy if kind == "fabric" else row.fabric, at(stands, row.fabric).text)

    missed = {held(row): row for row in reversed(rows) if row.verdict == MISSED}
    for row in rows:
        peer = missed.get(held(row))
        if row.verdict == MET and peer is not None:
            mine, theirs = (
                (row.fabric, peer.fabric) if kind == "fabric" else (row.policy, peer.policy)
            )
            where = f"with {row.policy}" if kind == "fabric" else f"on {row.fabric}"
            return f" {where[0].upper()}{where[1:]}, {mine} passes and {theirs} fails."
    return ""
