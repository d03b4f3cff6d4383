"""Whether a run served the load that was asked of it: who was cut off, and who still waited.

A hand-off budget says nothing of requests that never came to their hand-off. Where prefill cannot
keep up with the arrivals, it is prefill that spaces the hand-offs, which then look easy for the
network. With work arriving rho times as fast as it is done, a share of 1 - 1 / rho of all requests
waits at the last arrival, however long the run; where prefill keeps up, the share falls with it.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from analysis.record import REJECTED, Cell, Study
from analysis.summary import Summary
from analysis.wording import count, percent
from traffic.record.ledger import FAILED

WAITING: Final = 0.25
"""The share of the requests that may wait for prefill at the last arrival, on average over the
seeds, without being told: a convention of this program, overload by a third in a long run. Uneven
choices in a short one stay below it."""

FEWEST: Final = 10
"""Fewer that wait are a burst at the end of a short run, and no backlog."""


def waiting(cell: Cell) -> float:
    """The share of a run's requests that waited for prefill at the last arrival.

    Rejected and failed requests wait for nothing; fewer than `FEWEST` that wait count as none.
    """
    table = cell.requests
    if not len(table.get("request", ())):
        return 0.0
    start = table["prefill_start_ps"].astype(np.int64)
    late = (start < 0) | (start > table["arrival_ps"].max())
    late &= (table["status"] != REJECTED) & (table["status"] != FAILED)
    return float(late.mean()) if np.count_nonzero(late) >= FEWEST else 0.0


def told(study: Study, rows: Sequence[Summary]) -> list[str]:
    """Sentences for the verdict, none where every request was served in time."""
    lines: list[str] = []
    cut = sum(row.not_due for row in rows)
    if cut:
        lines.append(
            f"{count(cut, 'request')} had not ended their prefill when the run stopped "
            "(run.limit): they have no hand-off and no part in its numbers; attainment counts them "
            "as missed."
        )
    shares: dict[tuple[str, str], list[float]] = {}
    for cell in study.cells:
        one = cell.manifest
        shares.setdefault((one.fabric, one.policy), []).append(waiting(cell))
    means = {one: sum(each) / len(each) for one, each in shares.items()}
    behind = {one: share for one, share in means.items() if share > WAITING}
    if behind:
        fabric, policy = max(behind, key=behind.__getitem__)
        lines.append(
            f"Prefill fell behind the arrivals in {count(len(behind), 'alternative')}: when the "
            f"last request came, {percent(behind[fabric, policy])} of the requests still waited "
            f"for it ({fabric} with {policy}). Prefill then spaces the hand-offs, and waits "
            "grow with the length of the run; `kvfabric traffic size` tells the pools that the "
            "load needs."
        )
    return lines
