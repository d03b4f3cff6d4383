"""The retransmission timer: what a hand-off waits for when no later packet tells of a loss.

It is milliseconds long whatever the hand-off takes, so that losses show as hand-offs of one, two or
three times the timer, and not of a little more than usual.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from analysis.budget import after_warmup
from analysis.record import Cell
from analysis.summary import Sample
from analysis.wording import count, duration

TIMER: Final = "retransmission_timer_ps"
"""The total of a cell that has it."""


def timer_ps(cell: Cell) -> int:
    """The timer of a cell's senders, ps; 0 where the cell does not say."""
    return cell.manifest.totals.get(TIMER, 0)


def timeouts(many: int, each_ps: int) -> str:
    """So many timeouts, with their length where that is known.

    >>> timeouts(3, 67_108_864_000), timeouts(1, 0)
    ('3 timeouts of 67.1 ms', '1 timeout')
    """
    return count(many, "timeout") + (f" of {duration(each_ps)}" if each_ps else "")


def sentence(parts: Sequence[Sample]) -> str:
    """Where most counted hand-offs met a timeout, how many, and for how long; empty for none."""
    met = [([many for cell in part.cells for many in _of(cell).values()], part) for part in parts]
    hit = [(each, part) for each, part in met if each]
    if not hit:
        return ""
    each, part = max(hit, key=lambda one: len(one[0]))
    told = timeouts(sum(each), timer_ps(part.cells[0]))
    others = f"; so did some of {count(len(hit) - 1, 'more alternative')}" if hit[1:] else ""
    return (
        f"Retransmission timeouts: {len(each):,} of {count(part.n, 'hand-off')} of {part.fabric} "
        f"with {part.policy} met {told}{others}. A flow waits for its timer where no later packet "
        "tells of a loss."
    )


def _of(cell: Cell) -> Counter[int]:
    """How many timeouts the flows of each counted hand-off had that had any."""
    if not len(cell.flows.get("timeouts", ())):
        return Counter()
    flows = {name: cell.flows[name].astype(np.int64) for name in ("handoff", "timeouts")}
    mine = np.isin(flows["handoff"], after_warmup(cell)["request"]) & (flows["timeouts"] > 0)
    found = Counter[int]()
    for request, many in zip(*(flows[name][mine].tolist() for name in flows), strict=True):
        found[request] += many
    return found
