"""Where the time of a hand-off goes, beside its transfer, and what else took time or bytes.

A hand-off, prefill end to KV ready, is cut at its moments (`traffic.record.book.MOMENTS`) into
parts that add up to it to the picosecond; what happened before the prefill's end, layer by layer,
counts for nothing. Background traffic and collectives are told from the totals of the cells'
manifests.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analysis.budget import after_warmup
from analysis.record import Cell
from analysis.summary import Sample
from analysis.wording import NONE, duration, percent, times
from topo.unit import PS_PER_S, show_rate

PARTS: Final = ("memory", "orchestration", "copies", "transfer")
"""Waiting for decode memory; dispatch, handshake, messages, alignment and control delay; gathering
and scattering, with the wait for a copy engine; first flow released to last byte."""


@dataclass(frozen=True, slots=True)
class Breakdown:
    """One table of the report, its cells written out."""

    title: str
    text: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def handoff_parts(cell: Cell) -> dict[str, NDArray[np.int64]]:
    """`PARTS` of every hand-off that became ready after warm-up, and ``joining``, picoseconds.

    Joining is KV ready to decode start: the control delay, the wait for a step boundary and a slot
    of the batch. It is no part of the hand-off.
    """
    table = after_warmup(cell)
    whole = (table["handoff_release_ps"] >= 0) & (table["kv_ready_ps"] >= 0)
    column = {name: values[whole] for name, values in table.items() if name.endswith("_ps")}
    marks = [column["prefill_end_ps"]]
    for name in ("admitted_ps", "dispatched_ps", "handoff_release_ps", "arrived_ps"):
        marks.append(np.maximum(marks[-1], column[name]))
    marks.append(np.maximum(marks[-1], column["scattered_ps"]))
    marks.append(column["kv_ready_ps"])
    memory, dispatch, gather, transfer, scatter, notice = (
        later - earlier for earlier, later in pairwise(marks)
    )
    start, ready = column["decode_start_ps"], column["kv_ready_ps"]
    return {
        "memory": memory,
        "orchestration": dispatch + notice,
        "copies": gather + scatter,
        "transfer": transfer,
        "joining": np.where(start >= 0, start - ready, 0),
    }


def breakdowns(samples: Sequence[Sample]) -> list[Breakdown]:
    """The tables that these results can fill."""
    ran = [sample for sample in samples if sample.cells and sample.impossible is None]
    made = [_handoffs(ran), _background(ran), _collectives(ran)]
    return [one for one in made if one.rows]


def _handoffs(samples: Sequence[Sample]) -> Breakdown:
    rows: list[tuple[str, ...]] = []
    for sample in samples:
        each = [handoff_parts(cell) for cell in sample.cells]
        pooled = {name: np.concatenate([one[name] for one in each]) for name in each[0]}
        if not len(pooled["transfer"]):
            continue
        mean = {name: float(values.mean()) for name, values in pooled.items()}
        total = sum(mean[name] for name in PARTS)
        rows.append(
            (
                sample.fabric,
                sample.policy,
                *(duration(mean[name]) for name in PARTS),
                duration(total),
                percent(mean["transfer"] / total) if total else NONE,
                percent(_moved(sample.cells)),
                duration(mean["joining"]),
            )
        )
    return Breakdown(
        "Where a hand-off's time goes",
        "Means over the hand-offs that ended, after warm-up; the first four add up to the fifth. "
        "Orchestration is all that is neither memory, copy nor transfer: router, handshake, "
        "messages, alignment, control delay. Bytes moved are those of the flows over those of the "
        "prompts' caches: less where the decode side held blocks, more where ranks hold copies. "
        "Joining the batch comes after the hand-off.",
        (
            *("fabric", "policy", "waiting for memory", "orchestration", "copies", "transfer"),
            *("hand-off", "transfer's share", "bytes moved", "then joining the batch"),
        ),
        tuple(rows),
    )


def _moved(cells: Sequence[Cell]) -> float:
    """Bytes of the hand-offs' flows over those of the caches handed over, warm-up included."""
    sent = held = 0
    for cell in cells:
        own = cell.flows["handoff"].astype(np.int64) >= 0
        sent += int(cell.flows["bytes"].astype(np.int64)[own].sum())
        released = cell.requests["handoff_release_ps"].astype(np.int64) >= 0
        held += int(cell.requests["kv_bytes"].astype(np.int64)[released].sum())
    return sent / held if held else float("nan")


def _background(samples: Sequence[Sample]) -> Breakdown:
    rows: list[tuple[str, ...]] = []
    for sample in samples:
        for name in sorted(set(_sources(sample.cells))):
            told = [_totals(cell, f"background.{name}.") for cell in sample.cells]
            seconds = sum(cell.manifest.duration_ps for cell in sample.cells) / PS_PER_S
            moved = sum(one.get("bytes_finished", 0) for one in told)
            slow = [one["slowdown_p99_permille"] for one in told if "slowdown_p99_permille" in one]
            rows.append(
                (
                    sample.fabric,
                    sample.policy,
                    name,
                    f"{sum(one.get('bursts', 0) for one in told):,}",
                    f"{sum(one.get('finished', 0) for one in told):,} of "
                    f"{sum(one.get('flows', 0) for one in told):,}",
                    show_rate(8 * moved / seconds) if seconds else NONE,
                    _mean(one.get("fct_p50_ps") for one in told),
                    _mean(one.get("fct_p99_ps") for one in told),
                    times(float(np.mean(slow)) / 1000) if slow else NONE,
                )
            )
    return Breakdown(
        "Background traffic",
        "What crossed the fabric beside the hand-offs, from the run's start to the last hand-off's "
        "end, warm-up included. The rate is over all hosts; quantiles are means over seeds.",
        (
            *("fabric", "policy", "source", "bursts", "flows finished", "delivered"),
            *("flow P50", "flow P99", "slowdown P99"),
        ),
        tuple(rows),
    )


def _collectives(samples: Sequence[Sample]) -> Breakdown:
    rows: list[tuple[str, ...]] = []
    counted = [(sample, *_waiting(sample)) for sample in samples]
    counted = [one for one in counted if one[1]]
    least = min(counted, key=lambda one: one[2], default=None)
    for sample, messages, waited, whole in counted:
        row = (
            *(sample.fabric, sample.policy, f"{messages:,.0f}", duration(waited)),
            *(duration(whole), percent(waited / whole) if whole else NONE, _gpu_time(sample)),
        )
        if least is None or sample is least[0]:
            rows.append((*row, NONE, NONE))
            continue
        more, direct = whole - least[3], waited - least[2]
        rows.append((*row, _signed(more), _signed(more - direct)))
    return Breakdown(
        "Collectives on the critical path",
        "Count times latency of the messages that a request's own steps wait for, means over "
        "finished requests. Longer steps also let requests queue, wait and batch differently: that "
        "is the last column, what a request takes more than with the least such waiting beyond "
        "the messages themselves. The ranks of an instance idle together, once a step for the "
        "whole batch.",
        (
            *("fabric", "policy", "messages a request", "count x latency", "end to end"),
            *("its share", "GPU time idle for it, a request"),
            *("more than the least", "of which not the messages"),
        ),
        tuple(rows),
    )


def _waiting(sample: Sample) -> tuple[float, float, float]:
    """(messages, count x latency, end-to-end time) of a finished request, means; ps."""
    told = [_totals(cell, "collective.") for cell in sample.cells]
    requests = sum(one.get("requests", 0) for one in told)
    if not requests:
        return 0.0, 0.0, 0.0
    ends = np.concatenate([part.end_to_end for part in sample.budgets])
    return (
        sum(one["messages"] for one in told if one) / requests,
        sum(one["latency_ps"] for one in told if one) / requests,
        float(ends.mean()) if len(ends) else 0.0,
    )


def _gpu_time(sample: Sample) -> str:
    told = [_totals(cell, "collective.") for cell in sample.cells]
    requests = sum(one.get("requests", 0) for one in told)
    idle = sum(one.get("gpu_ps", 0) for one in told)
    return duration(idle / requests) if requests else NONE


def _sources(cells: Sequence[Cell]) -> Iterator[str]:
    for cell in cells:
        for name in cell.manifest.totals:
            if name.startswith("background."):
                yield name.split(".")[1]


def _totals(cell: Cell, prefix: str) -> dict[str, int]:
    return {
        name.removeprefix(prefix): value
        for name, value in cell.manifest.totals.items()
        if name.startswith(prefix)
    }


def _mean(values: Iterator[int | None]) -> str:
    known = [value for value in values if value is not None]
    return duration(float(np.mean(known))) if known else NONE


def _signed(ps: float) -> str:
    return ("-" if ps < 0 else "+") + duration(abs(ps))
