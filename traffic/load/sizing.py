"""How many instances of each phase a load asks for, and what their hand-offs ask of the fabric.

Prefill serves one prompt at a time, so a pool needs rate x mean prefill time instances at full
use. Decode serves a batch, so an instance finishes at most

    batch / (output tokens x step time of that batch)

sequences a second, the batch being what its rules or its KV memory allow, whichever is less;
Little's law then gives the sequences that are in decode. Long answers are in a batch for long: the
memory of a sequence and the cache that a step reads of it are means over the steps and not over the
requests, a request counting once a token of its answer. Both pools scale apart (Zhong et al.,
DistServe, OSDI 2024): prefill with input tokens, decode with output tokens and memory. Means
decide: bursts, imbalance between instances and tails are what a run is for, and ``use`` leaves room
for them.

A hand-off moves its cache as often as decode ranks hold copies of it, and a request without output
has none.

The rate is the one that was declared, where there is one: that of a sample of n arrivals is off by
1 / sqrt(n) of itself for Poisson, and by far more where it shows a single burst. Requests that a
decode instance could never hold are rejected by a run and ask for nothing.
"""

from dataclasses import dataclass
from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

from topo.unit import PS_PER_S, show_size
from traffic.error import ComputeError
from traffic.instance import Deployment, Pool
from traffic.request import RequestTable

DEFAULT_USE: Final = 0.7
"""Share of its time that an instance should work at most: a convention of queueing practice; at 0.7
the mean wait before one server is 1.2 services (M/D/1, Pollaczek-Khinchine)."""


@dataclass(frozen=True, slots=True)
class Sizing:
    """What a load asks for.

    prefill_ps: mean prompt; prefill, decode: instances at the ``use`` asked for, and ``*_used``:
        share of its time that the present pool would work. batch: sequences that a decode instance
        holds at most; ``by_memory`` tells whether memory or the rules limit it. step_ps: a step of
        that batch at its mean context. decoding: sequences in decode on average, by Little's law.
    kv_bps: payload of all hand-offs, copies included; sender_bps, receiver_bps: the share of one
        NIC of the present pools, when all of them carry the same.
    misfits: requests of the table that no decode instance can hold.
    """

    rate_per_s: float
    prefill_ps: float
    prefill: int
    prefill_used: float
    batch: int
    by_memory: bool
    step_ps: float
    decoding: float
    decode: int
    decode_used: float
    kv_bps: float
    sender_bps: float
    receiver_bps: float
    misfits: int = 0


def sizing(
    table: RequestTable,
    deployment: Deployment,
    use: float = DEFAULT_USE,
    rate_per_s: float | None = None,
) -> Sizing:
    """The pools that a table's lengths ask for, at ``rate_per_s`` or else at its own mean rate.

    ``use`` lies above 0 and below 1.
    """
    if not 0 < use < 1:
        raise ComputeError(f"use {use:g}: must lie above 0 and below 1; write e.g. 70%")
    if rate_per_s is None and (len(table) < 2 or not table.span_ps):
        raise ComputeError("requests: too few to tell a rate; give at least two, apart in time")
    one, other = deployment.prefill, deployment.decode
    rate = (len(table) - 1) * PS_PER_S / table.span_ps if rate_per_s is None else rate_per_s
    fits = _fits(table, other)
    if not fits.any():
        raise ComputeError(
            f"requests: none fits the {show_size(other.kv_capacity_bytes)} of KV memory that a "
            "decode instance has; write shorter lengths, a larger tp or another GPU"
        )
    misfits = int(np.count_nonzero(~fits))
    rate *= float(fits.mean())
    if misfits:
        kept = np.flatnonzero(fits)
        table = table.take(kept, table.arrival_ps[kept])
    lengths, place = np.unique(table.input_tokens, return_inverse=True)
    counts = np.bincount(place)
    times = [one.time_of(0).prefill_ps(int(n)) for n in lengths.tolist()]
    prompt_ps = float(np.average(times, weights=counts))
    handed = np.bincount(place, table.output_tokens > 0)
    prompt_bytes = np.dot([one.kv_bytes(int(n)) for n in lengths.tolist()], handed) / len(table)
    kv_bps = 8 * float(prompt_bytes) * other.copies * rate
    output = float(table.output_tokens.mean())
    whole, context, read = _step(table, other)
    room = int(other.kv_capacity_bytes // max(1.0, whole))
    batch = max(1, min(other.max_batch, room))
    step = float(
        other.time_of(0).steps_ps(batch, max(1, round(batch * context)), round(batch * read), 1)
    )
    capacity = batch * PS_PER_S / (output * step) if output else float("inf")
    return Sizing(
        rate_per_s=rate,
        prefill_ps=prompt_ps,
        prefill=max(1, ceil(rate * prompt_ps / PS_PER_S / use)),
        prefill_used=rate * prompt_ps / PS_PER_S / len(one.instances),
        batch=batch,
        by_memory=room < other.max_batch,
        step_ps=step,
        decoding=rate * output * step / PS_PER_S,
        decode=max(1, ceil(rate / capacity / use)),
        decode_used=rate / capacity / len(other.instances),
        kv_bps=kv_bps,
        sender_bps=kv_bps / (len(one.instances) * one.tp),
        receiver_bps=kv_bps / (len(other.instances) * other.tp),
        misfits=misfits,
    )


def _step(table: RequestTable, pool: Pool) -> tuple[float, float, float]:
    """Of a sequence in a step of decode, means over all steps: the bytes that its whole cache will
    take, its tokens and the bytes that the step reads of it. Zeros without output."""
    first, more = table.input_tokens.astype(np.int64), table.output_tokens.astype(np.int64)
    steps = int(more.sum())
    if not steps:
        return 0.0, 0.0, 0.0
    ends, place = np.unique(first + more, return_inverse=True)
    held = [pool.kv_bytes(int(n)) for n in ends]
    whole = float(np.average(held, weights=np.bincount(place, more)))
    tokens = float(np.dot(more, first + (more - 1) / 2))
    # what a context reads that grows from nothing to its end, less what it reads to its start
    read = _grown(first + more, pool) - _grown(first, pool)
    return whole, tokens / steps, read / steps


def _grown(contexts: NDArray[np.int64], pool: Pool) -> int:
    """The bytes that steps read of contexts which grow from nothing to these tokens."""
    ends, counts = np.unique(contexts, return_counts=True)
    each = (pool.model.kv_bytes_sum(0, n, pool.kv_dtype) for n in ends.tolist())
    return sum(bytes_ * many for bytes_, many in zip(each, counts.tolist(), strict=True))


def _fits(table: RequestTable, pool: Pool) -> NDArray[np.bool_]:
    """Which requests a decode instance can hold to their last token; without output, all."""
    whole = table.input_tokens.astype(np.int64) + table.output_tokens
    contexts, place = np.unique(whole, return_inverse=True)
    room = pool.kv_capacity_bytes
    held = np.array([pool.kv_bytes(int(n)) <= room for n in contexts], np.bool_)
    return np.asarray(held[place] | (table.output_tokens == 0), np.bool_)
