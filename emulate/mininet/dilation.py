"""Time dilation: how many times slower than the fabric's clock a run must go on this machine.

Three limits are measured. A sleeping loop wakes late by some microseconds, which must be small
beside the time of a frame; now and then it wakes very late, which queues must bridge; and one
processor forwards so many frames a second, which must be above what the fabric's NICs can send at
once, over all switches on their paths. The largest of the three is taken, rounded up. Whether it
was enough the guard decides, not this estimate.
"""

import contextlib
import ctypes
import math
import os
import time
from dataclasses import dataclass
from threading import Thread
from typing import Final

import numpy as np
from numpy.typing import NDArray

from emulate.ideal import FRAME_OVERHEAD
from emulate.mininet.error import EmulationError
from emulate.mininet.guard import Limits
from topo.fabric import Fabric
from topo.route import Routes
from topo.unit import PS_PER_S, show_duration

FRAME_COST_NS: Final = 8_000
"""Of one processor for a frame that crosses one switch by veth: 156,000 frames of 1,514 bytes a
second over four switches were measured on one core at 2.8 GHz, rounded to the safe side."""

BUSY: Final = 0.5
"""Share of a processor's time that may be planned with; the rest is for bursts and the kernel."""

STALL_NS: Final = 10_000_000
"""What a run of minutes must expect where a second of measuring saw nothing: stalls of some
milliseconds are common on virtual machines."""

_SLEEPS: Final = 1500
_PATIENCE_S: Final = 30.0
_SLEEP_S: Final = 0.0005
_TIMER_SLACK: Final = 29


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured, and the dilation that follows.

    wake_ns, stall_ns: P99 and most of how much later than asked a sleeping thread woke up.
    by_clock, by_stall, by_load: the least dilation that each limit allows.
    """

    wake_ns: int
    stall_ns: int
    by_clock: int
    by_stall: int
    by_load: int

    @property
    def dilation(self) -> int:
        """The largest of the three, rounded up to two digits."""
        return rounded(max(self.by_clock, self.by_stall, self.by_load))

    def text(self) -> str:
        """How it came about, in one line."""
        wake, stall = show_duration(self.wake_ns * 1000), show_duration(self.stall_ns * 1000)
        return (
            f"dilation {self.dilation:,}: sleeps end {wake} late (P99) and ask for "
            f"{self.by_clock:,}; stalls of {stall} ask for {self.by_stall:,}, forwarding at line "
            f"rate for {self.by_load:,}"
        )


def calibration(
    fabric: Fabric, routes: Routes, mtu: int, bridge_ps: int, limits: Limits | None = None
) -> Calibration:
    """Measure this machine for a fabric, in about a second.

    mtu: a packet's payload. bridge_ps: what queues bridge, of `emulate.mininet.guard.bridge_ps`.
    """
    limits = limits or Limits()
    late = wake_lateness_ns()
    wake = int(np.quantile(late, 0.99, method="higher"))
    stall = max(STALL_NS, int(late.max()))
    fastest = int(fabric.ports.rate_bps.max())
    frame_ps = (mtu + FRAME_OVERHEAD) * 8 * PS_PER_S / fastest
    by_clock = math.ceil(wake * 1000 / (limits.late_p99 * frame_ps))
    by_stall = math.ceil(stall * 1000 / max(bridge_ps, 1))
    return Calibration(
        wake, stall, max(by_clock, 1), max(by_stall, 1), by_load(fabric, routes, mtu)
    )


def by_load(fabric: Fabric, routes: Routes, mtu: int, cost_ns: int = FRAME_COST_NS) -> int:
    """The least dilation at which one processor forwards what all NICs can send at once.

    Every frame is counted once a switch on the mean path between two hosts.
    """
    hosts = [node.index for node in fabric.hosts]
    ports = fabric.ports
    sending = np.isin(ports.node, hosts)
    frames = float(ports.rate_bps[sending].sum()) / (8 * (mtu + FRAME_OVERHEAD))
    hops = routes.distances(hosts, hosts)
    switches = float((hops[hops > 0] - 1).mean()) if (hops > 0).any() else 1.0
    return max(1, math.ceil(frames * switches * cost_ns / 1e9 / BUSY))


def wake_lateness_ns() -> NDArray[np.int64]:
    """How late sleeps of half a millisecond end, of a thread as a run's processes have."""
    late: list[int] = []

    def sleep() -> None:
        ctypes.CDLL(None).prctl(_TIMER_SLACK, 1, 0, 0, 0)
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(20))
        for _ in range(_SLEEPS):
            begin = time.monotonic_ns()
            time.sleep(_SLEEP_S)
            late.append(time.monotonic_ns() - begin - round(_SLEEP_S * 1e9))

    thread = Thread(target=sleep)
    thread.start()
    thread.join()
    return np.array(late, np.int64)


def rounded(value: int) -> int:
    """The next number with two digits that count.

    >>> rounded(12_001), rounded(99), rounded(100), rounded(997)
    (13000, 99, 100, 1000)
    """
    scale = int(10 ** max(len(str(value)) - 2, 0))
    return -(-value // scale) * scale


def wall_s(duration_ps: int, dilation: int) -> float:
    """Real seconds that a span of the fabric's time takes."""
    return duration_ps * dilation / PS_PER_S


def patience_s(duration_ps: int, dilation: int) -> float:
    """Real seconds after which a run that should take so long is given up."""
    return 2 * wall_s(duration_ps, dilation) + _PATIENCE_S


def prospect(now_ps: int, busy_ps: int, dilation: int) -> tuple[float, str]:
    """The share of a run that is over, and in words how long the rest takes.

    busy_ps: what it should take of the fabric's time. Beyond, the run is said to be late, and when
    it will be given up.

    >>> prospect(5_000_000, 20_000_000, 1_000_000)
    (0.25, 'dilation 1,000,000, 15 s of network time left')
    >>> prospect(45_000_000, 20_000_000, 1_000_000)
    (0.999, 'dilation 1,000,000, 25 s later than expected, given up in 25 s')
    """
    share = min(max(now_ps, 0) / max(busy_ps, 1), 0.999)
    late = wall_s(now_ps - busy_ps, dilation)
    if late < 1:
        left = wall_s(busy_ps, dilation) * (1 - share)
        return share, f"dilation {dilation:,}, {left:.0f} s of network time left"
    rest = max(patience_s(busy_ps, dilation) - wall_s(now_ps, dilation), 0.0)
    return share, (
        f"dilation {dilation:,}, {late:.0f} s later than expected, given up in {rest:.0f} s"
    )


def refuse_wall(duration_ps: int, dilation: int, most_s: float, *, given: bool = True) -> None:
    """Raise `EmulationError` for a run that would take longer than it may.

    given: the dilation is the user's, who may write a smaller one; a measured one is the least.
    """
    takes = wall_s(duration_ps, dilation)
    if takes <= most_s:
        return
    fits = int(most_s * PS_PER_S / max(duration_ps, 1)) if given else 0
    raise EmulationError(
        f"dilation {dilation:,}: {show_duration(duration_ps)} of the fabric take "
        f"{_minutes(takes)}, more than --wall {_minutes(most_s)}; write "
        + (f"a --dilation of at most {fits:,}, fewer requests" if fits else "fewer requests")
        + f" (--count) or --wall {_minutes(math.ceil(1.1 * takes))}"
    )


def _minutes(seconds: float) -> str:
    if seconds >= 7200:
        return f"{seconds / 3600:,.0f}h"
    return f"{seconds:.3g}s" if seconds < 120 else f"{seconds / 60:.3g}min"
