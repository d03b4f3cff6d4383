"""What matters of all that is compared, a sentence a key, each no more than its intervals claim.

A key is said not to matter only when every pair's interval stays within a tenth of the budget;
"no difference found" is weaker and says so. Pairs differ in that key alone: they are compared under
the same load, with the same policy and the same values of the other keys.
"""

from collections.abc import Hashable, Sequence
from typing import Final

from analysis.comparison import Comparison, Difference, compare_fabrics, compare_policies
from analysis.condition import conditions
from analysis.factor import FABRIC, factors, topic
from analysis.record import StudyManifest
from analysis.summary import MET, MISSED, Sample, Summary
from analysis.turn import turn
from analysis.wording import count, duration, duration_span, more_seeds, percent

NEGLIGIBLE: Final = 0.1
"""A difference within this share of the budget does not change a design; a convention of ours."""


def design_matters(
    parts: Sequence[Sample], rows: Sequence[Summary], manifest: StudyManifest
) -> list[str]:
    """Whether each key beside the policy does that the alternatives differ in."""
    found = []
    for factor in factors([row.fabric for row in rows], manifest):
        name = topic(factor, [row.facts for row in rows])
        split = _split(rows, [(factor.rest[row.fabric], row.policy) for row in rows])
        other = "policy" if len({*factor.rest.values()}) == 1 else "case"
        compared = compare_fabrics(parts, factor=factor)
        told = _matters(name, factor.place, other, compared, split, manifest)
        found.append(told or f"{name}: fewer than two to compare, nothing to say.")
    return found


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
    keys = {factor.key for factor in factors([row.fabric for row in rows], manifest)}
    cased = keys - {FABRIC} or any(one.text for one in conditions(manifest).values())
    split = _split(rows, [row.fabric for row in rows])
    other = "case" if cased else "fabric"
    told = _matters("Policy", "with", other, compare_policies(parts), split, manifest)
    several = len({row.policy for row in rows}) > 1
    return told or ("Policy: fewer than two to compare, nothing to say." if several else "")


def _matters(
    name: str,
    place: str,
    other: str,
    comparison: Comparison,
    split: str,
    manifest: StudyManifest,
) -> str:
    """Whether what is called so matters; empty where there are no two to compare."""
    widest = comparison.widest
    if widest is None:
        return ""
    span = (
        f"{duration_span(widest.ps)}, {count(widest.seeds, 'common seed')}, "
        f"mean over {count(widest.over, other)}{_alone(widest)}"
    )
    size = _size(widest.ps.value, widest.share, manifest)
    limit = manifest.budget_ps or manifest.ttft_ps
    if limit is not None and comparison.bound <= NEGLIGIBLE * limit and not split:
        return (
            f"{name} does not matter here: mean hand-offs of any two lie within "
            f"{_size(comparison.bound, 0.0, manifest)} of each other "
            f"({count(widest.seeds, 'common seed')})."
        )
    if comparison.found:
        small = limit is not None and widest.ps.value <= NEGLIGIBLE * limit and not split
        verb = "makes a small difference" if small else "matters"
        return (
            f"{name} {verb}: the mean hand-off {place} {widest.fast} is {size} shorter than "
            f"{place} {widest.slow} ({span}). {comparison.found} of "
            f"{count(comparison.pairs, 'pair')} differ.{split}"
        )
    if widest.seeds < 2:
        return f"{name}: one common seed cannot show a difference; run more seeds.{split}"
    return (
        f"{name}: no difference found in mean hand-off; the largest, {widest.fast} against "
        f"{widest.slow}, is {size} and its interval includes zero ({span})"
        f"{more_seeds(widest.more_seeds)}.{split}"
    )


def _alone(pair: Difference) -> str:
    """In how many of the cases that are averaged the difference is found, where they disagree."""
    if pair.contrary:
        return f": so in {pair.alike} of them, the other way round in {pair.contrary}"
    if pair.alike and not pair.found and pair.over > 1:
        return f": so in {pair.alike} of them, in no other either way"
    return ""


def _size(ps: float, share: float, manifest: StudyManifest) -> str:
    """A difference, and what it is of the budget, which decides whether it is small; without a
    budget, as a share of the longer."""
    limit = manifest.budget_ps or manifest.ttft_ps
    if limit is None:
        return f"{duration(ps)} ({percent(share)})"
    of = "budget" if manifest.budget_ps else "TTFT objective"
    return f"{duration(ps)} ({percent(ps / limit)} of the {of})"


def _split(rows: Sequence[Summary], rests: Sequence[Hashable]) -> str:
    """A pair of decided alternatives that differ in the verdict, with the same ``rests``."""
    pairs = list(zip(rests, rows, strict=True))
    missed = {rest: row for rest, row in reversed(pairs) if row.verdict == MISSED}
    for rest, row in pairs:
        peer = missed.get(rest)
        if row.verdict == MET and peer is not None:
            if row.policy == peer.policy:
                return f" With {row.policy}, {row.fabric} passes and {peer.fabric} fails."
            return f" On {row.fabric}, {row.policy} passes and {peer.policy} fails."
    return ""
