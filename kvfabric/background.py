"""The ``background`` of a scenario: what else crosses the fabric beside the hand-offs.

Every entry becomes a `traffic.background.Source`; docs/workloads.md tells what the kinds are.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from kvfabric.part import Part, Small
from kvfabric.quantity import Duration, Share, Size, written
from topo.fabric import Fabric, Role
from topo.unit import show_duration, show_size
from traffic.background import BackgroundError, Source

_NAME = r"^[A-Za-z0-9_-]+$"
_LETTERS = "1 to 40 letters, digits, _ and -"


class BackgroundPart(Part, frozen=True):
    """One source of background traffic among the hosts of a role, in groups of so many."""

    kind: Literal["all_to_all", "all_reduce", "weights", "fetch"]
    bytes: Size
    every: Duration
    among: Literal["prefill", "decode", "all"] = "all"
    group: Small | None = None
    duty: Share = written(Share, "100%")
    cycle: Duration = written(Duration, "1s")
    start: Duration | None = None
    priority: Annotated[int, Meta(ge=0, le=7)] = 3
    name: Annotated[str, Meta(max_length=40, pattern=_NAME, description=_LETTERS)] | None = None


def sources_of(parts: Sequence[BackgroundPart], fabric: Fabric) -> list[Source]:
    """The sources on the hosts of this fabric; a `BackgroundError` says what cannot be."""
    storage = tuple(fabric.hosts_with(Role.STORAGE))
    found: list[Source] = []
    for part in parts:
        name = part.name or part.kind
        if any(one.name == name for one in found):
            raise BackgroundError(f"background {name}: is there twice; give one of them a `name`")
        hosts = sorted(
            host
            for role in (Role.PREFILL, Role.DECODE)
            if part.among in ("all", role.value)
            for host in fabric.hosts_with(role)
        )
        found.append(
            Source(
                name=name,
                kind=part.kind,
                groups=_groups(part, hosts, name),
                size_bytes=int(part.bytes),
                every_ps=int(part.every),
                duty=float(part.duty),
                cycle_ps=int(part.cycle),
                start_ps=None if part.start is None else int(part.start),
                priority=part.priority,
                storage=storage,
            )
        )
    return found


def _groups(part: BackgroundPart, hosts: list[int], name: str) -> tuple[tuple[int, ...], ...]:
    """Neighbours together; a fetch is one host's, weights go to a group at a time."""
    if part.kind == "fetch":
        if part.group is not None:
            raise BackgroundError(f"background {name}: a fetch has no group; remove it")
        return tuple((host,) for host in hosts)
    each = part.group or len(hosts)
    if not hosts or len(hosts) % each:
        raise BackgroundError(
            f"background {name}: {len(hosts)} hosts do not divide into groups of {each}; write a "
            "divisor, or leave group out for a single one"
        )
    return tuple(tuple(hosts[i : i + each]) for i in range(0, len(hosts), each))


def background_told(parts: Sequence[BackgroundPart]) -> str:
    """The background as the report names it."""
    told: list[str] = []
    for part in parts:
        one = f"{part.name or part.kind}: {part.kind} of {show_size(part.bytes)} every "
        one += f"{show_duration(part.every)} among {part.among}"
        if part.group is not None:
            one += f" in groups of {part.group}"
        if part.duty < 1:
            one += f", {100 * part.duty:g}% of each {show_duration(part.cycle)}"
        told.append(f"{one}, priority {part.priority}")
    return "; ".join(told) or "none"
