"""What the packets of a cell met, in tables of their own beside the cell's: blame, pauses, queues.

They are written with the cell and read one at a time, since most readings of a study need none. A
cell of the fluid emulator has none. Times are integer picoseconds, sizes bytes; -1 stands for "not
reached" and for no port. docs/packet-model.md says what each number is.
"""

from pathlib import Path
from typing import Final

from analysis.error import RecordError
from analysis.parquet import decoded, sealed
from traffic.cache.tally import COLUMNS as PROMPTS
from traffic.emulator import Table
from traffic.failure.spell import COLUMNS as SPELLS
from traffic.failure.toll import COLUMNS as TOLL
from traffic.record.occupancy import COLUMNS as MEMORY

BLAME: Final = (
    "flow",
    "blame_wire_ps",
    "blame_queued_ps",
    "blame_paused_ps",
    "blame_source_ps",
    "blame_issue_ps",
    "blame_pacing_ps",
    "blame_window_ps",
    "blame_retransmission_ps",
    "last_mark_port",
)
"""The parts of each flow's time: their sum is ``finish_ps - release_ps`` of the flow table."""

OBSERVED: Final = {
    "blame": BLAME,
    "hops": ("flow", "hop", "port", "queued_ps", "paused_ps"),
    "pauses": ("port", "priority", "paused_ps", "pauses", "longest_ps"),
    "stops": ("port", "priority", "from_ps", "until_ps", "cause_port"),
    "innocence": ("port", "priority", "paused_bytes", "innocent_bytes"),
    "occupancy": ("port", "least_bytes", "samples"),
    "series": ("port", "from_ps", "span_ps", "mean_bytes", "max_bytes"),
    "egress": ("port", "far_port", "buffer_bytes", "blocked_ps"),
    "marking": ("port", "kmin_bytes", "kmax_bytes"),
}
"""Columns of the tables by name, all int64; `traffic.emulator.Telemetry` tells their rows.

``egress`` has one row a port: the port at the other end of its cable, the buffer of its switch (0
at a host), and how long it was blocked. ``marking`` has one row a port of a switch that marks: from
how many queued bytes of one class on it may, and beyond how many it always does."""

STAGES: Final = ("queueing", "prefill", "handoff", "joining", "decode")
"""The time of a request, cut: arrival, prefill start, its end, KV ready, decode start, finish."""

INSTANCES: Final = (
    *("side", "instance", "gpus", "steps", "messages", "latency_ps"),
    *("work_ps", "work_without_ps"),
    *MEMORY,
)
"""One row an instance, of side 0 (prefill) or 1 (decode, colocated): its GPUs, its steps, the
messages that they wait for and count times latency, its time at work with and without it (-1 where
that was not compared); then what its KV memory held, as `traffic.record.occupancy` tells it (-1 for
prefill instances, whose memory is not limited)."""

LONE: Final = ("flow", "headers_ps", "descriptors_ps")
"""One row a flow: what the headers of its frames and its descriptors add to its time alone."""

SERVED: Final = {"instances": INSTANCES, "lone": LONE}

COLLECTIVES: Final = {
    "latency": (
        *("request", "messages", "prompt_latency_ps", "answer_latency_ps"),
        *(f"caused_{name}_ps" for name in STAGES),
    ),
}
"""Columns of one more table, of cells in which steps wait for messages (docs/orchestration.md):
one row a request that finished with and without the latency of messages: their number, count times
latency of its own steps, and by stage what it took beyond that."""

CACHE: Final = {"cache": PROMPTS}
"""Columns of the table of prompts, of cells with prefix caches; see `traffic.cache.tally`."""

FAILURES: Final = {"toll": TOLL, "spells": SPELLS}
"""Columns of two more tables, of cells whose instances failed: what that cost each request
(`traffic.failure.toll`), and how each outage went (`traffic.failure.spell`)."""

_WHOSE: Final = {
    **dict.fromkeys(SERVED, "newer cells"),
    **dict.fromkeys(COLLECTIVES, "cells whose steps wait for messages"),
    **dict.fromkeys(CACHE, "cells with prefix caches"),
    **dict.fromkeys(FAILURES, "cells whose instances failed"),
}

BESIDE: Final = OBSERVED | SERVED | COLLECTIVES | CACHE | FAILURES
"""Every table that may lie beside the three of a cell."""


def read_observed(directory: Path, digest: dict[str, str], name: str) -> Table:
    """One table of the cell in ``directory``, with its digests from `read_cell`'s manifest.

    Raises `RecordError` for a name that is none of `BESIDE`, a cell without it, and damage.
    """
    if name not in BESIDE:
        raise RecordError(f"table {name!r}: write one of {', '.join(BESIDE)}")
    if name not in digest:
        whose = _WHOSE.get(name, "packet cells")
        raise RecordError(f"{directory}: no table {name}; only {whose} have one, run it anew")
    path = directory / f"{name}.parquet"
    return decoded(sealed(path, digest[name]), BESIDE[name], frozenset(), str(path))
