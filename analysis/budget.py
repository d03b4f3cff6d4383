"""The four budgets of a request: queueing, prefill, hand-off and decode, which add up to its time.

Queueing is the wait for a prefill slot plus the wait, with the KV cache ready, for a decode slot:
(prefill start - arrival) + (decode start - KV ready). Prefill is its run, hand-off is KV ready
- prefill end, decode is finish - decode start. The sum is finish - arrival, to the picosecond.
TTFT is first token - arrival; TPOT is (end to end - TTFT) / (output tokens - 1).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analysis.record import FINISHED, Cell

PARTS = ("queueing", "prefill", "handoff", "decode")
"""The budgets, in the order of a request's life."""

_KEPT: Final = 32
"""Cells whose counted requests are kept, since nearly every number asks for them in turn."""


@dataclass(frozen=True, slots=True, eq=False)
class Budgets:
    """One row a finished request after warm-up; picoseconds. TPOT is NaN below 2 output tokens."""

    request: NDArray[np.int64]
    queueing: NDArray[np.int64]
    prefill: NDArray[np.int64]
    handoff: NDArray[np.int64]
    decode: NDArray[np.int64]
    end_to_end: NDArray[np.int64]
    ttft: NDArray[np.int64]
    tpot: NDArray[np.float64]

    def part(self, name: str) -> NDArray[np.int64]:
        """One of `PARTS`."""
        parts = (self.queueing, self.prefill, self.handoff, self.decode)
        return parts[PARTS.index(name)]


def after_warmup(cell: Cell) -> dict[str, NDArray[np.int64]]:
    """The request table without the first arrivals that the manifest calls warm-up.

    Its columns are shared by all who ask, and not to be written to.
    """
    return dict(_counted(cell))


@lru_cache(maxsize=_KEPT)
def _counted(cell: Cell) -> dict[str, NDArray[np.int64]]:
    table = cell.requests
    order = np.lexsort((table["request"], table["arrival_ps"]))
    keep = np.sort(order[cell.manifest.warmup_requests :])
    counted = {name: column[keep].astype(np.int64) for name, column in table.items()}
    for column in counted.values():
        column.setflags(write=False)
    return counted


def budgets(cell: Cell) -> Budgets:
    """The budgets of the finished requests of a cell, warm-up left out.

    A request that ends with its prefill (no decode) has zero hand-off and decode.
    """
    table = after_warmup(cell)
    whole = (table["status"] == FINISHED) & (table["finish_ps"] >= 0)
    columns = {name: column[whole] for name, column in table.items()}
    end = columns["prefill_end_ps"]
    ready = np.where(columns["kv_ready_ps"] < 0, end, columns["kv_ready_ps"])
    decode_start = np.where(columns["decode_start_ps"] < 0, ready, columns["decode_start_ps"])
    arrival, start = columns["arrival_ps"], columns["prefill_start_ps"]
    end_to_end = columns["finish_ps"] - arrival
    first = columns["first_token_ps"]
    ttft = np.where(first < 0, end_to_end, first - arrival)
    output = columns["output_tokens"]
    tpot = np.full(len(output), np.nan)
    several = output >= 2
    tpot[several] = (end_to_end - ttft)[several] / (output[several] - 1)
    return Budgets(
        request=columns["request"],
        queueing=(start - arrival) + (decode_start - ready),
        prefill=end - start,
        handoff=ready - end,
        decode=columns["finish_ps"] - decode_start,
        end_to_end=end_to_end,
        ttft=ttft,
        tpot=tpot,
    )
