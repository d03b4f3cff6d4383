"""What prefix caches found, saved and moved: one row an alternative, from the totals of its cells.

The totals are those of `traffic.cache.tally`: bytes of whole blocks, over all requests of a seed,
warm-up included, since a cache is warmed by it.
"""

from collections import Counter
from collections.abc import Sequence
from math import nan
from typing import Final

from analysis.breakdown import Breakdown
from analysis.record import Cell
from analysis.summary import Sample
from analysis.wording import NONE, duration, percent
from topo.unit import show_size
from traffic.cache.tier import KINDS

_PREFIX: Final = "cache."


def known(cell: Cell) -> float:
    """The share of a seed's prompt tokens that instances still knew; NaN without caches."""
    totals = cell.manifest.totals
    asked = totals.get(f"{_PREFIX}prompt_tokens", 0)
    return totals[f"{_PREFIX}cached_tokens"] / asked if asked else nan


def caching(samples: Sequence[Sample]) -> Breakdown:
    """Hit rates by tier, prefill time saved, bytes moved, and evictions; no rows without caches."""
    rows: list[tuple[str, ...]] = []
    for sample in samples:
        sums, seeds = _sums(sample)
        if not sums["looked_up_bytes"]:
            continue
        rows.append((sample.fabric, sample.policy, *_told(sums, seeds)))
    return Breakdown(
        "Prefix caches",
        "Prompt tokens that prefill instances still knew, as a share of all, and by tier as a "
        "share of the whole blocks looked up; then means a seed: KV bytes not computed again, the "
        "prefill time that this saved and the time that prompts waited for their loads, what was "
        "loaded from slower tiers of the instance, what was read from and written to the remote "
        "pool over the fabric, and the blocks that had to leave a tier.",
        (
            *("fabric", "policy", "known", "by tier", "prefill saved", "loads waited", "saved"),
            *("loaded", "pool read / written", "evicted"),
        ),
        tuple(rows),
    )


def short(told: Breakdown) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Its columns and rows for a terminal."""
    return told.columns[:6], [row[:6] for row in told.rows]


def _sums(sample: Sample) -> tuple[Counter[str], int]:
    """The totals of an alternative's cells, added up, and how many cells have some."""
    sums: Counter[str] = Counter()
    seeds = 0
    for cell in sample.cells:
        mine = {
            name.removeprefix(_PREFIX): value
            for name, value in cell.manifest.totals.items()
            if name.startswith(_PREFIX)
        }
        seeds += bool(mine)
        sums.update(mine)
    return sums, max(1, seeds)


def _told(sums: Counter[str], seeds: int) -> tuple[str, ...]:
    kinds = [kind for kind in KINDS if f"{kind}.hit_bytes" in sums]
    hits = {kind: sums[f"{kind}.hit_bytes"] for kind in kinds}
    asked = sums["looked_up_bytes"]
    loaded = sum(hits[kind] for kind in kinds if kind in ("dram", "ssd"))
    read, written = (sums[f"remote.{name}_bytes"] for name in ("read", "moved_in"))
    evicted = {kind: sums[f"{kind}.evicted"] // seeds for kind in kinds}
    return (
        percent(sums["cached_tokens"] / sums["prompt_tokens"]),
        ", ".join(f"{kind} {percent(hits[kind] / asked)}" for kind in kinds),
        duration(sums["saved_ps"] / seeds),
        duration(sums["load_ps"] / seeds),
        show_size(sum(hits.values()) // seeds),
        show_size(loaded // seeds),
        f"{show_size(read // seeds)} / {show_size(written // seeds)}" if "remote" in hits else NONE,
        ", ".join(f"{kind} {count:,}" for kind, count in evicted.items()),
    )
