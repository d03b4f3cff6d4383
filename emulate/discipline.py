"""What a switch port runs: PFC with headroom, the shared buffer, ECN, priorities, the scheduler.

One frozen value that every emulator and report shares. Sizes are bytes. The defaults are those of
a SONiC lossless fabric where a source could be read.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from emulate.bound import MOST_BYTES, MOST_WAIT_PS, MOST_WAY_PS, refuse_beyond
from emulate.headroom import RULES
from emulate.marking import PROFILES, Threshold
from topo.error import KvfabricError
from topo.unit import PS_PER_MS, duration_text, size_text

PRIORITIES: Final = 8
_MOST_ALPHA: Final = 64.0
_ALPHA_PARTS: Final = 2**16


class DisciplineError(KvfabricError):
    """A queue discipline that cannot be."""


@dataclass(frozen=True, slots=True)
class Watchdog:
    """When a queue that its peer has stopped is given up, and taken back. Picoseconds.

    detect_ps: frames have waited in the stopped queue for so long: it is dropped, and so is what
        comes for it. restore_ps: no XOFF has come for so long. SONiC's defaults, 200 ms each
        (sonic-net/sonic-utilities pfcwd/main.py; action drop).
    """

    detect_ps: int = 200 * PS_PER_MS
    restore_ps: int = 200 * PS_PER_MS

    def __post_init__(self) -> None:
        for name, value in (("detect", self.detect_ps), ("restore", self.restore_ps)):
            refuse_beyond(DisciplineError, f"watchdog {name}", value, MOST_WAIT_PS, "ps")
            if value <= 0:
                raise DisciplineError(
                    f"watchdog {name} {duration_text(value)}: must be above 0; write 200ms"
                )


@dataclass(frozen=True, slots=True)
class Discipline:
    """The queue discipline of all switches.

    pfc: priority flow control for the ``lossless`` priorities; without it they drop like others.
    headroom: a rule of `emulate.headroom` by name, or bytes, of each lossless class of each port.
    alpha: dynamic threshold of a lossless ingress group (SONiC dynamic_th 0 is alpha 1:
        pg_profile_lookup.ini of the SN5610N).
    egress_alpha: dynamic threshold of a lossy egress queue; by default the same.
    xon_offset_bytes: how far below the threshold a stopped group is released (HPCC simulator,
        switch-mmu.cc: 3072).
    response_ps: from a pause frame's arrival to the last frame begun; None: the most that IEEE
        802.3 31B.3.7 allows at the link's rate. Simulators often take 0.
    reserve_bytes: guaranteed to each lossless group (HPCC simulator, switch-mmu.cc: 4096).
    ecn: a profile of `emulate.marking` by name, a `Threshold` of one's own, or ``off``.
    marking: the queue is looked at when a frame is put in, or when it is taken out.
    lossless: priorities under PFC (RoCE on priority 3: Cumulus Linux, RDMA over converged
        Ethernet).
    watchdog: over every queue under PFC of every switch; None for none, as switches come.
    deadlock_ps: queues that wait for each other in a circle, all stopped for longer without a
        break, are reported as a deadlock (a choice: one port of 400 Gbps sends 64 MiB in 1.3 ms).
    cut_through: a frame goes on when its first 64 bytes are in, if its egress is idle, unstopped
        and no faster; else, and by default, when it is in whole.
    strict: priorities served before the others, the highest first (there, CNP on priority 6).
    weights: of the other priorities, for deficit round robin (there, equal shares).
    """

    pfc: bool = True
    headroom: str | int = "sonic"
    alpha: float = 1.0
    egress_alpha: float = 1.0
    xon_offset_bytes: int = 3072
    reserve_bytes: int = 4096
    response_ps: int | None = None
    ecn: str | Threshold = "sonic"
    marking: Literal["enqueue", "dequeue"] = "enqueue"
    cut_through: bool = False
    watchdog: Watchdog | None = None
    deadlock_ps: int = 10 * PS_PER_MS
    lossless: tuple[int, ...] = (3,)
    strict: tuple[int, ...] = (6,)
    weights: tuple[int, ...] = (1,) * PRIORITIES

    def __post_init__(self) -> None:
        headroom = 0 if isinstance(self.headroom, str) else self.headroom
        for name, whole, most, unit in (
            ("headroom", headroom, MOST_BYTES, "B"),
            ("xon_offset", self.xon_offset_bytes, MOST_BYTES, "B"),
            ("reserve", self.reserve_bytes, MOST_BYTES, "B"),
            ("response", self.response_ps or 0, MOST_WAY_PS, "ps"),
            ("deadlock", self.deadlock_ps, MOST_WAIT_PS, "ps"),
        ):
            refuse_beyond(DisciplineError, name, whole, most, unit)
        if isinstance(self.headroom, str) and self.headroom not in RULES:
            raise DisciplineError(
                f"headroom {self.headroom!r}: no such rule; write {', '.join(RULES)}, or a "
                "size, as 40KiB"
            )
        if isinstance(self.headroom, int) and self.headroom < 0:
            raise DisciplineError(
                f"headroom {size_text(self.headroom)}: must not be negative; write 40KiB"
            )
        for name, alpha in (("alpha", self.alpha), ("egress_alpha", self.egress_alpha)):
            if not 0 < alpha <= _MOST_ALPHA:
                raise DisciplineError(
                    f"{name} {alpha:g}: must be above 0 and at most 64; write 1 or 1/8"
                )
            counted = max(1, round(alpha * _ALPHA_PARTS))
            if abs(counted / _ALPHA_PARTS - alpha) > alpha / 100:
                raise DisciplineError(
                    f"{name} {alpha:g}: is counted in 1/{_ALPHA_PARTS}, which is more than a "
                    f"hundredth off; write {counted}/{_ALPHA_PARTS}"
                )
        for name, value in (
            ("xon_offset", self.xon_offset_bytes),
            ("reserve", self.reserve_bytes),
        ):
            if value < 0:
                raise DisciplineError(
                    f"{name} {size_text(value)}: must not be negative; write 0B or more"
                )
        if self.response_ps is not None and self.response_ps < 0:
            raise DisciplineError(
                f"response {duration_text(self.response_ps)}: must not be negative; write 0ps or "
                "more, or leave it out for the standard's"
            )
        if isinstance(self.ecn, str) and self.ecn != "off" and self.ecn not in PROFILES:
            raise DisciplineError(
                f"ecn {self.ecn!r}: no such profile; write {', '.join(PROFILES)} or off"
            )
        if self.marking not in ("enqueue", "dequeue"):
            raise DisciplineError(f"marking {self.marking!r}: write enqueue or dequeue")
        _refuse_priorities("lossless", self.lossless)
        _refuse_priorities("strict", self.strict)
        if self.deadlock_ps <= 0:
            raise DisciplineError(
                f"deadlock {duration_text(self.deadlock_ps)}: must be above 0; write 10ms"
            )
        if self.watchdog is not None and not self.protected:
            raise DisciplineError(
                "watchdog: no class is under PFC, there is nothing to watch; leave it out, or "
                "write pfc: true"
            )
        if len(self.weights) != PRIORITIES or not all(1 <= w <= 255 for w in self.weights):
            raise DisciplineError(f"weights {self.weights}: write eight whole numbers, 1 to 255")

    def threshold(self, rate_bps: int) -> Threshold | None:
        """When a port of that rate marks; None when it never does."""
        if isinstance(self.ecn, Threshold):
            return self.ecn
        return None if self.ecn == "off" else PROFILES[self.ecn].threshold(rate_bps)

    @property
    def protected(self) -> tuple[int, ...]:
        """The priorities that are lossless in effect."""
        return self.lossless if self.pfc else ()


def _refuse_priorities(name: str, priorities: Iterable[int]) -> None:
    for priority in priorities:
        if not 0 <= priority < PRIORITIES:
            raise DisciplineError(f"{name} priority {priority}: write 0 to 7")
