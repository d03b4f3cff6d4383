"""Blame in words: the ranked table of the report, and the short one of terminal and summary."""

from collections.abc import Mapping
from typing import Final

from analysis.blame import Blame, Culprit
from analysis.breakdown import Breakdown
from analysis.charge import KINDS
from analysis.wording import NONE, duration, percent

_RANKS: Final = 5
_SHORT: Final = 2
_LEAST: Final = 0.005
"""Culprits below this share of the time are not told."""

COLUMNS: Final = ("fabric", "policy", "hand-offs", "what made their time")


def ranking(found: Mapping[tuple[str, str], Blame]) -> Breakdown:
    """The worst culprits of every alternative."""
    rows = [
        (
            *key,
            ", ".join(
                filter(None, (f"{each.handoffs:,} of {each.of:,}", each.asked, each.timeouts))
            ),
            f"{rank}",
            one.place or NONE,
            _causes(one, each),
            percent(each.share(one)),
            duration(one.ps / each.handoffs),
            f"{one.handoffs:,}",
        )
        for key, each in found.items()
        for rank, one in enumerate(each.culprits[:_RANKS], 1)
        if each.share(one) >= _LEAST
    ]
    return Breakdown(
        "What made the slowest hand-offs slow",
        "The hand-offs over budget, or the slowest 5 % where none is, by what held them from "
        "prefill end to KV ready. Time under congestion control is that of the port that marked "
        "last, a pause that of the port where its chain began, a retransmission that of the ports "
        "that lost frames. Ports are named with where they lead. Hand-offs that never finished "
        "have no parts.",
        (
            *("fabric", "policy", "which", "rank", "where", "causes", "share of their time"),
            *("mean of them", "hand-offs met"),
        ),
        tuple(rows),
    )


def _causes(one: Culprit, found: Blame) -> str:
    """The kinds of a culprit, the largest first, without those too small to matter."""
    ordered = sorted(one.kinds.items(), key=lambda item: -item[1])
    told = [KINDS[kind] for kind, ps in ordered if ps >= _LEAST * found.total_ps]
    return ", ".join(told or [KINDS[one.kind]])


def short(found: Mapping[tuple[str, str], Blame]) -> list[tuple[str, ...]]:
    """One row of `COLUMNS` an alternative: its two worst culprits."""
    return [(*key, f"{each.handoffs:,} {each.asked}", told(each)) for key, each in found.items()]


def told(found: Blame) -> str:
    """The worst culprits in a line."""
    worst = [one for one in found.culprits[:_SHORT] if found.share(one) >= _LEAST]
    parts = [
        f"{percent(found.share(one))} {one.place or 'everywhere'} ({_causes(one, found)})"
        for one in worst
    ]
    moving = percent(found.kinds["wire"] / found.total_ps) if found.total_ps else NONE
    return "; ".join(filter(None, [*parts, f"{moving} {KINDS['wire']}", found.timeouts]))
