"""The fidelity guard: could this machine keep up with the fabric that it was asked to be?

A run that could not is told apart by its clocks, not by its throughput: a late run still delivers
every byte. So what decides is the lateness of frames against the time that a frame takes, stalls
against what a queue can bridge, losses outside the emulated buffers, and two control experiments
whose results are known. Thresholds are stored with the results; a verdict is valid, warn (a reader
should know) or invalid (the numbers are withheld).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from emulate.discipline import Discipline
from emulate.ideal import FRAME_OVERHEAD
from emulate.mininet.stall import why_late
from topo.fabric import Fabric
from topo.unit import PS_PER_S
from traffic.emulator import Table

Standing = Literal["valid", "warn", "invalid"]

_ORDER: Final = ("valid", "warn", "invalid")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a run may be off by.

    late_p99, late_p999: lateness of frames, as a share of the time that a full frame takes on its
    link; beyond the second a warning says that no tail beyond P99 is honest. control: how far the
    control experiments may be from what they must give. waited, stolen: share of the time that a
    process waited for a processor, and that the hypervisor took; both are reported, lateness
    decides.
    """

    late_p99: float = 0.25
    late_p999: float = 1.0
    control: float = 0.05
    waited: float = 0.01
    stolen: float = 0.01


class Check(msgspec.Struct, frozen=True):
    """One thing that was measured: its value, the most it may be, and what follows.

    told: why it is not valid, in words for the reader; empty when it is.
    """

    what: str
    value: float
    limit: float
    standing: Standing
    told: str = ""


def _check(what: str, value: float, limit: float, worse: Standing, told: str) -> Check:
    """Valid up to the limit, else worse, with the reason."""
    good = value <= limit
    return Check(what, value, limit, "valid" if good else worse, "" if good else told)


class Verdict(msgspec.Struct, frozen=True):
    """Everything that was checked, in one word and in full."""

    standing: Standing
    checks: list[Check]
    limits: Limits

    @property
    def reasons(self) -> list[str]:
        """Why it is not valid, the gravest first."""
        bad = [check for check in self.checks if check.standing != "valid"]
        bad.sort(key=lambda check: -_ORDER.index(check.standing))
        return [check.told for check in bad]

    def text(self) -> str:
        """The verdict in one line."""
        return self.standing if not self.reasons else f"{self.standing}: {'; '.join(self.reasons)}"


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run left for the guard.

    late: rows as `emulate.mininet.driver.LATE` says, of all processes. counters: of each process,
    by its name, those of the driver with ``ran_ns waited_ns``. elapsed_ns: real time of the run.
    stolen: share of all processors' time that the hypervisor took. softnet_drops: of the kernel.
    late_notices: completions that were told later than the serving loop could use them. overran:
    whether the run was ended because it took far longer than it must. stalls: of each process, as
    `emulate.mininet.stall` has them. start_ns: CLOCK_MONOTONIC when the run began.
    """

    late: Table
    counters: Mapping[str, Mapping[str, int]]
    elapsed_ns: int
    stolen: float
    softnet_drops: int
    late_notices: int = 0
    overran: bool = False
    stalls: Mapping[str, Table] = field(default_factory=dict)
    start_ns: int = 0


@dataclass(frozen=True, slots=True)
class Control:
    """A control experiment: what it is, what it gave and what it must give, in picoseconds."""

    what: str
    found_ps: int
    expected_ps: int

    @property
    def off(self) -> float:
        """How far it is off, as a share; infinite when it did not end."""
        return abs(self.found_ps / self.expected_ps - 1) if self.found_ps > 0 else np.inf


def verdict(
    measured: Measured,
    controls: list[Control],
    *,
    dilation: int,
    mtu: int,
    bridge_ps: int,
    limits: Limits | None = None,
) -> Verdict:
    """Judge a run. ``mtu`` is the payload of a full packet; ``bridge_ps`` that of `bridge_ps`."""
    limits = limits or Limits()
    checks = [
        *_lateness(measured.late, dilation, mtu, limits),
        _stall(measured, dilation, bridge_ps),
        *_losses(measured),
        *_controls(controls, limits),
        *_processors(measured, limits),
    ]
    worst = max((_ORDER.index(check.standing) for check in checks), default=0)
    return Verdict(_ORDER[worst], checks, limits)


def bridge_ps(fabric: Fabric, discipline: Discipline, kept: NDArray[np.int64]) -> int:
    """How long the fabric's queues keep their links busy, at least, after their senders go on.

    When a stopped group is released it has its threshold less the offset in bytes; a switch that
    stalls for longer than those take leaves a link idle that the fabric would have used. The
    threshold is lowest when every port of a switch has a group at it: with alpha a, n ports and a
    pool of P bytes, a P / (1 + a n) (Choudhury and Hahne, ToN 1998). ``kept``: headroom of each
    port. Without PFC nothing is stopped, and a stall may last as long as the fullest buffer drains.
    """
    ports, least = fabric.ports, None
    for node in fabric.nodes:
        if node.switch is None:
            continue
        own = slice(int(ports.first[node.index]), int(ports.first[node.index + 1]))
        degree = own.stop - own.start
        classes = len(discipline.protected)
        reserved = classes * (int(kept[own].sum()) + degree * discipline.reserve_bytes)
        pool = node.switch.buffer_bytes - reserved
        if classes:
            level = discipline.alpha * pool / (1 + discipline.alpha * degree)
            level += discipline.reserve_bytes - discipline.xon_offset_bytes
        else:
            level = pool / max(degree, 1)
        drain = max(level, 0) * 8 * PS_PER_S / int(ports.rate_bps[own].max())
        least = drain if least is None else min(least, drain)
    return round(least or 0)


def late_quantile(late: Table, quantile: float, dilation: int, mtu: int) -> float:
    """A quantile of lateness, as a share of a full frame's time on its link; 0 without frames."""
    frames = np.asarray(late["frames"], np.float64)
    if not frames.sum():
        return 0.0
    whole_ns = (mtu + FRAME_OVERHEAD) * 8e9 / np.asarray(late["rate_bps"], np.float64) * dilation
    share = np.asarray(late["to_ns"], np.float64) / whole_ns
    order = np.argsort(share, kind="stable")
    reached = np.cumsum(frames[order]) >= quantile * frames.sum()
    return float(share[order][int(np.argmax(reached))])


def _lateness(late: Table, dilation: int, mtu: int, limits: Limits) -> list[Check]:
    p99, p999 = (late_quantile(late, q, dilation, mtu) for q in (0.99, 0.999))
    return [
        _check(
            "lateness P99",
            p99,
            limits.late_p99,
            "invalid",
            f"1 in 100 frames left {p99:.2g} frame times late or more, above {limits.late_p99:g}; "
            "write a larger dilation",
        ),
        _check(
            "lateness P99.9",
            p999,
            limits.late_p999,
            "warn",
            f"1 in 1000 frames left {p999:.2g} frame times late or more: tails beyond P99 are not "
            "honest",
        ),
    ]


def _stall(measured: Measured, dilation: int, bridge: int) -> Check:
    longest, process = max(
        ((numbers.get("longest_stall_ns", 0), name) for name, numbers in measured.counters.items()),
        default=(0, "none"),
    )
    limit = bridge * dilation / 1000
    why = why_late(process, measured.stalls, measured.start_ns)
    return _check(
        "longest stall",
        longest / 1e9,
        limit / 1e9,
        "invalid",
        f"the {process} process stood still for {longest / 1e6:.3g} ms, longer than the "
        f"{limit / 1e6:.3g} ms that queues bridge{f' ({why})' if why else ''}; write a larger "
        "dilation",
    )


def _losses(measured: Measured) -> list[Check]:
    def total(name: str) -> int:
        return sum(numbers.get(name, 0) for numbers in measured.counters.values())

    counts = {
        "socket drops": (total("socket_drops"), "frame(s) were lost in sockets"),
        "softnet drops": (measured.softnet_drops, "frame(s) were lost by the kernel's backlog"),
        "oversized frames": (total("oversized"), "frame(s) were above the MTU: offloads are on"),
        "late submissions": (total("late_submissions"), "flow(s) came after their release"),
        "late notices": (measured.late_notices, "completion(s) came too late for the serving loop"),
        "overrun": (
            int(measured.overran),
            "run took far longer than it must, as when frames are lost outside the fabric",
        ),
    }
    return [
        _check(what, count, 0, "invalid", f"{count} {told}")
        for what, (count, told) in counts.items()
    ]


def _controls(controls: list[Control], limits: Limits) -> list[Check]:
    checks = []
    for one in controls:
        told = f"{one.what} did not end"
        if np.isfinite(one.off):
            told = f"{one.what} is {100 * one.off:.3g} % off what it must be, "
            told += f"more than {100 * limits.control:g} %"
        checks.append(_check(one.what, one.off, limits.control, "invalid", told))
    return checks


def _processors(measured: Measured, limits: Limits) -> list[Check]:
    checks = []
    for name, numbers in measured.counters.items():
        share = numbers.get("waited_ns", 0) / max(measured.elapsed_ns, 1)
        checks.append(
            _check(
                f"run-queue wait of {name}",
                share,
                limits.waited,
                "warn",
                f"the {name} process waited {100 * share:.2g} % of the time for a processor",
            )
        )
        checks.append(
            _check(
                f"ordinary scheduling of {name}",
                1 - numbers.get("realtime", 0),
                0,
                "warn",
                f"SCHED_FIFO was not granted to the {name} process",
            )
        )
    checks.append(
        _check(
            "steal",
            measured.stolen,
            limits.stolen,
            "warn",
            f"the hypervisor took {100 * measured.stolen:.2g} % of the processors' time",
        )
    )
    return checks
