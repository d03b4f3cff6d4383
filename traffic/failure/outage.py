"""What befalls instances during a run: they fail and return, are drained, or join later.

Times are integer picoseconds. An outage starts at ``from_ps``. A failed instance is started again
at ``until_ps``, or never; then its model is loaded. A drained one gets nothing new and finishes
what it has; ``until_ps`` is when it is started anew. One that joins has been placed in the fabric
and does nothing before ``from_ps``, when its model is loaded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from topo.error import KvfabricError
from topo.unit import show_duration
from traffic.seed import generator

SIDES: Final = ("prefill", "decode")
KINDS: Final = ("fail", "drain", "join")


class OutageError(KvfabricError):
    """An outage that cannot be: of an instance that is not there, or inside another one."""


@dataclass(frozen=True, slots=True)
class Outage:
    """One outage of one instance, by its number in its pool."""

    kind: str
    side: str
    instance: int
    from_ps: int
    until_ps: int | None = None

    def __post_init__(self) -> None:
        for key, known in (("kind", KINDS), ("side", SIDES)):
            value: str = getattr(self, key)
            if value not in known:
                raise OutageError(f"{key} {value[:40]!r}: unknown; write {' or '.join(known)}")
        if self.from_ps < 0:
            raise OutageError(
                f"from {show_duration(self.from_ps)}: before the run; write 0s or later"
            )
        if self.until_ps is not None and self.until_ps <= self.from_ps:
            raise OutageError(
                f"until {show_duration(self.until_ps)}: not after from "
                f"{show_duration(self.from_ps)}; write a later time, or leave it out for good"
            )
        if self.kind == "join" and self.until_ps is not None:
            raise OutageError(
                f"until {show_duration(self.until_ps)}: an instance joins once; write a drain or a "
                "failure for its end"
            )

    @property
    def name(self) -> str:
        """The instance, as scenarios write it."""
        return f"{self.side} {self.instance}"


def ordered(outages: Sequence[Outage], sizes: tuple[int, int], load_ps: int) -> list[Outage]:
    """The outages by time, checked against pools of ``sizes`` instances (prefill, decode).

    Raises `OutageError` for an instance that the pools have not, for one that joins after
    something else befell it, and where one outage starts before the last is over, its model load
    of ``load_ps`` included.
    """
    found = sorted(outages, key=lambda o: (o.from_ps, SIDES.index(o.side), o.instance))
    last: dict[tuple[str, int], Outage] = {}
    for outage in found:
        count = sizes[SIDES.index(outage.side)]
        if not 0 <= outage.instance < count:
            raise OutageError(
                f"instance {outage.name}: the pool has {count}; write {outage.side} 0 to "
                f"{outage.side} {count - 1}"
            )
        key = (outage.side, outage.instance)
        before = last.get(key)
        if before is not None:
            start = before.from_ps if before.kind == "join" else before.until_ps
            if outage.kind == "join" or start is None or outage.from_ps <= start + load_ps:
                raise OutageError(
                    f"instance {outage.name}: {outage.kind} at {show_duration(outage.from_ps)} "
                    f"while its {before.kind} is not over; write a time after it and the "
                    "model's load"
                )
        last[key] = outage
    return found


def drawn(
    side: str,
    instances: Sequence[int],
    *,
    mtbf_ps: int,
    mttr_ps: int,
    load_ps: int,
    until_ps: int,
    seed: int,
) -> list[Outage]:
    """Failures of every given instance, up to ``until_ps``, as an alternating renewal process.

    Times between the end of a repair (with the model's load) and the next failure are exponential
    with mean ``mtbf_ps``, those from a failure to the restart with mean ``mttr_ps``: availability
    is then MTBF / (MTBF + MTTR + load). Each instance has a stream of its own, so that more
    instances leave the others' failures as they were.
    """
    for key, value in (("mtbf", mtbf_ps), ("mttr", mttr_ps)):
        if value <= 0:
            raise OutageError(f"{key} {show_duration(value)}: must be above 0; write e.g. 1h")
    found: list[Outage] = []
    for instance in instances:
        stream = generator(seed, f"outage {side} {instance}")
        now = 0
        while True:
            start = now + max(1, round(float(stream.exponential(mtbf_ps))))
            if start >= until_ps:
                break
            end = start + max(1, round(float(stream.exponential(mttr_ps))))
            found.append(Outage("fail", side, instance, start, end))
            now = end + load_ps
    return found
