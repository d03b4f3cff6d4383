"""Why a process of a run was late at its worst: alone, together with the other, or with its work.

Each process keeps the spans in which it ran a millisecond or more later than it asked to, with the
processor time that it used in them. One that used its processor had more to do than time. One that
did not was not let run: where the other process stood still at the same instants, on a processor
of its own, the machine did, or the hypervisor below it; where it went on, one processor was taken
away.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from traffic.emulator import Table

HALF: Final = 0.5
"""Share of a span from which on it is called busy, and shared with the other process."""


def why_late(process: str, stalls: Mapping[str, Table], start_ns: int) -> str:
    """What the longest span of a process was, in words; empty where none was kept.

    stalls: of each process ``from_ns until_ns ran_ns``, by CLOCK_MONOTONIC. start_ns: when the run
    began.

    >>> def one(begin, end):
    ...     return {"from_ns": np.r_[begin], "until_ns": np.r_[end], "ran_ns": np.r_[0]}
    >>> ms = 10**6
    >>> why_late("switch", {"switch": one(5 * ms, 30 * ms), "agent": one(6 * ms, 30 * ms)}, 0)
    'at 0.005 s both processes did: the machine stood still, or its hypervisor'
    """
    if not len(stalls.get(process, {}).get("from_ns", ())):
        return ""
    begin, end, ran = _spans(stalls[process])
    worst = int(np.argmax(end - begin))
    length = int(end[worst] - begin[worst])
    at = f"at {max(int(begin[worst]) - start_ns, 0) / 1e9:.3g} s"
    if ran[worst] >= HALF * length:
        return f"{at} it had more to do than time, its processor was busy"
    shared = 0
    for name, table in stalls.items():
        if name != process:
            from_ns, until_ns, used = _spans(table)
            common = np.minimum(until_ns, end[worst]) - np.maximum(from_ns, begin[worst])
            stood = used < HALF * (until_ns - from_ns)
            shared = max(shared, int(np.clip(common[stood], 0, None).sum()))
    if shared >= HALF * length:
        return f"{at} both processes did: the machine stood still, or its hypervisor"
    return f"{at} it did alone: its processor was taken from it, and the machine went on"


def _spans(table: Table) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    begin, end, ran = (np.asarray(table[n], np.int64) for n in ("from_ns", "until_ns", "ran_ns"))
    return begin, end, ran
