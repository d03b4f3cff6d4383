"""What the machine does meanwhile: stolen time and lost frames, between two readings."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Reading:
    """Counters since boot. Clock ticks of all processors, those stolen, and frames dropped."""

    ticks: int
    stolen: int
    softnet_drops: int


def reading() -> Reading:
    """The counters now: proc(5), /proc/stat and /proc/net/softnet_stat."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    ticks = [int(field) for field in fields]
    rows = Path("/proc/net/softnet_stat").read_text().splitlines()
    return Reading(sum(ticks), ticks[7], sum(int(row.split()[1], 16) for row in rows))


def between(before: Reading, after: Reading) -> tuple[float, int]:
    """The share of time that was stolen, and the frames that were dropped."""
    ticks = after.ticks - before.ticks
    return (
        (after.stolen - before.stolen) / ticks if ticks else 0.0,
        after.softnet_drops - before.softnet_drops,
    )
