"""What the policies did, as they count it themselves: one row an alternative with counts."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from analysis.breakdown import Breakdown
from analysis.summary import Sample

_PREFIX: Final = "policy."


def deeds(samples: Sequence[Sample]) -> Breakdown:
    """The counts of each policy, means a seed; no rows without policies that count."""
    rows = [(sample.fabric, sample.policy, told) for sample in samples if (told := _told(sample))]
    return Breakdown(
        "What the policies did",
        "Counts of the policies' own, means a seed, over all requests, warm-up included; "
        "`kvfabric policies NAME` says what each counts.",
        ("fabric", "policy", "what it did"),
        tuple(rows),
    )


def _told(sample: Sample) -> str:
    sums: Counter[str] = Counter()
    seeds = 0
    for cell in sample.cells:
        mine = {
            # A policy's name may have dots of its own: module.part:Class.
            key.rpartition(".")[2]: value
            for key, value in cell.manifest.totals.items()
            if key.startswith(_PREFIX)
        }
        seeds += bool(mine)
        sums.update(mine)
    return ", ".join(
        f"{key.replace('_', ' ')} {_number(sums[key] / seeds)}" for key in sorted(sums)
    )


def _number(mean: float) -> str:
    """A mean of counts.

    >>> _number(12345.6), _number(2 / 3), _number(3.0)
    ('12,346', '0.67', '3')
    """
    return f"{mean:,.0f}" if mean >= 100 else f"{mean:.2g}"
