"""The hand-offs of a cell, one row each: what they took, what they could have taken, over or not.

A hand-off is due once its request's prefill has ended. One that never ended takes infinitely long,
so that it counts as over any budget and sorts last. Durations are picoseconds held as floats,
exact below 2^53 ps (2.5 hours). Requests that stay where they were prefilled have no hand-off.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analysis.budget import after_warmup
from analysis.record import FINISHED, REJECTED, Cell, StudyManifest
from traffic.emulator import Table
from traffic.record.ledger import FAILED

Floats = NDArray[np.float64]

_LONE: Final = ("release_ps", "bandwidth_ps", "ideal_ps")


@dataclass(frozen=True, slots=True, eq=False)
class Handoffs:
    """One row a due hand-off after warm-up.

    ``duration`` is KV ready - prefill end; ``transfer`` is last byte - release of its first flow.
    ``bandwidth`` and ``maxmin`` are the transfers that the two cheap estimates give (NaN: none),
    ``ideal`` that of its flows each alone on an idle fabric. ``payload`` is its bytes, ``touched``
    whether a packet of it was marked.
    ``slowdown`` has one value a finished flow of these hand-offs: completion time over ideal.
    """

    request: NDArray[np.int64]
    duration: Floats
    transfer: Floats
    bandwidth: Floats
    maxmin: Floats
    ideal: Floats
    payload: NDArray[np.int64]
    touched: NDArray[np.bool_]
    over: NDArray[np.bool_]
    slowdown: Floats
    packets: int
    marked: int
    bytes: int
    resent_bytes: int
    timeouts: int
    not_finished: int
    """Hand-offs that were due and did not end."""
    not_due: int
    """Requests whose prefill had not ended when the run did."""
    rejected: int
    failed: int
    """Requests whose instances died, or that nobody healthy took in time."""
    local: int
    """Requests that needed no hand-off."""


def handoffs(cell: Cell, study: StudyManifest) -> Handoffs:
    """The hand-offs of a cell, held against the budget of its study."""
    table = after_warmup(cell)
    end, ready, release = (
        table[name] for name in ("prefill_end_ps", "kv_ready_ps", "handoff_release_ps")
    )
    status = table["status"]
    admitted = (status != REJECTED) & (status != FAILED)
    prefilled = admitted & (end >= 0)
    moved = (release >= 0) | ((status != FINISHED) & (ready < 0))
    due = prefilled & moved
    request = table["request"][due]
    ended = ready[due] >= 0
    duration = np.where(ended, ready[due] - end[due], np.inf).astype(np.float64)
    arrived = np.where(table["arrived_ps"] >= 0, table["arrived_ps"], ready)[due]
    transfer = np.where(ended, arrived - release[due], np.inf).astype(np.float64)
    mine, row = _rows(cell, request)
    columns = {name: column[mine].astype(np.int64) for name, column in cell.flows.items()}
    whole = (columns["finish_ps"] >= 0) & (columns["ideal_ps"] > 0)
    took = (columns["finish_ps"] - columns["release_ps"])[whole]
    return Handoffs(
        request=request,
        duration=duration,
        transfer=transfer,
        bandwidth=_estimate(columns["release_ps"], columns["bandwidth_ps"], row, len(request)),
        maxmin=_estimate(columns["release_ps"], columns["maxmin_ps"], row, len(request)),
        ideal=_estimate(columns["release_ps"], columns["ideal_ps"], row, len(request)),
        payload=_sum(columns["bytes"], row, len(request)),
        touched=_sum(columns["marked"], row, len(request)) > 0,
        over=duration > _budget(table, due, study),
        slowdown=(took / columns["ideal_ps"][whole]).astype(np.float64),
        packets=int(columns["packets"].sum()),
        marked=int(columns["marked"].sum()),
        bytes=int(columns["bytes"].sum()),
        resent_bytes=int(columns["resent_bytes"].sum()),
        timeouts=int(columns["timeouts"].sum()),
        not_finished=int((~ended).sum()),
        not_due=int((admitted & (end < 0)).sum()),
        rejected=int((status == REJECTED).sum()),
        failed=int((status == FAILED).sum()),
        local=int((prefilled & ~moved).sum()),
    )


def lone_parts(cell: Cell, part: Handoffs, lone: Table) -> tuple[Floats, Floats]:
    """What the hand-offs of ``part`` would take, at the rate of the NIC with the headers of their
    frames; and each flow alone on an idle fabric, as a single descriptor.

    ``lone`` is the table `analysis.observed.LONE` of the cell, in the order of its flows.
    """
    mine, row = _rows(cell, part.request)
    flow = {name: cell.flows[name].astype(np.int64)[mine] for name in _LONE}
    added = {name: lone[name].astype(np.int64)[mine] for name in ("headers_ps", "descriptors_ps")}
    once = (
        np.where(flow["bandwidth_ps"] < 0, -1, flow["bandwidth_ps"] + added["headers_ps"]),
        np.where(flow["ideal_ps"] < 0, -1, flow["ideal_ps"] - added["descriptors_ps"]),
    )
    count = len(part.request)
    first, second = (_estimate(flow["release_ps"], took, row, count) for took in once)
    return first, second


def window_ps(cell: Cell) -> int:
    """How long the fabric had hand-offs to carry: first release to last byte, or the run's end.

    Port times are read against this window and not against the run, which goes on for as long as
    the last decode does. Warm-up is in it, since port counters include it.
    """
    release, finish = (cell.flows[name].astype(np.int64) for name in ("release_ps", "finish_ps"))
    if not len(release):
        return 0
    last = cell.manifest.duration_ps if (finish < 0).any() else int(finish.max())
    return max(0, last - int(release.min()))


def _budget(
    table: dict[str, NDArray[np.int64]], due: NDArray[np.bool_], study: StudyManifest
) -> Floats:
    """The time each due hand-off may take: the study's, or what the TTFT objective leaves."""
    if study.budget_ps is not None:
        return np.full(int(due.sum()), study.budget_ps, np.float64)
    if study.ttft_ps is None:
        return np.full(int(due.sum()), np.inf)
    arrival, end, ready, start = (
        table[name][due]
        for name in ("arrival_ps", "prefill_end_ps", "kv_ready_ps", "decode_start_ps")
    )
    waited = np.where((start >= 0) & (ready >= 0), start - ready, 0)
    return (study.ttft_ps - (end - arrival) - waited).astype(np.float64)


def _rows(cell: Cell, request: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which flows serve these requests, and the row of the request that each of them serves."""
    order = np.argsort(request)
    served = cell.flows["handoff"].astype(np.int64)
    place = np.searchsorted(request[order], served)
    inside = place < len(request)
    place = np.where(inside, place, 0)
    mine = inside & (request[order][place] == served) if len(request) else inside
    return mine, order[place[mine]]


def _sum(values: NDArray[np.int64], row: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The values of the flows of each hand-off, added up."""
    total = np.zeros(count, np.int64)
    np.add.at(total, row, values)
    return total


def _estimate(
    release: NDArray[np.int64],
    duration: NDArray[np.int64],
    row: NDArray[np.int64],
    count: int,
) -> Floats:
    """Last estimated finish - first release of each hand-off; NaN where a flow has no estimate."""
    first = np.full(count, np.inf)
    last = np.full(count, -np.inf)
    unknown = np.zeros(count, bool)
    np.minimum.at(first, row, release)
    np.maximum.at(last, row, release + duration)
    np.logical_or.at(unknown, row, duration < 0)
    known = np.isfinite(first) & ~unknown
    return np.where(known, last - np.where(known, first, 0), np.nan)
