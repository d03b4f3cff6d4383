"""What befalls links during a run: down, degraded or lossy for a while, or a storm of pauses.

Faults are known from the start and routes do not change: a flow keeps its path and retransmits,
as it does until the routing protocol has converged. Times are picoseconds.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from emulate import _engine
from topo.error import KvfabricError
from topo.fabric import Fabric
from topo.unit import duration_text, rate_text

Kind = Literal["down", "degraded", "lossy", "storm"]
Direction = Literal["both", "forward", "back"]

FOREVER: Final = 2**62
"""The end of a fault that does not end."""

_KINDS: Final = {
    "down": _engine.FaultKind.down,
    "degraded": _engine.FaultKind.degraded,
    "lossy": _engine.FaultKind.lossy,
    "storm": _engine.FaultKind.storm,
}
_LEAST_RATE_BPS: Final = 10**6


class FaultError(KvfabricError):
    """A fault that cannot be."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One link, out of order from ``from_ps`` until before ``until_ps``.

    kind: ``down``: frames, pause frames among them, that are on the wire at some moment of the
        span are lost; ``degraded``: frames that start inside take ``share`` of the rate;
        ``lossy``: a frame is lost with probability ``share``; ``storm``: the sending end tells its
        peer to stop all lossless classes, again and again, whatever its buffer says.
    link: index in `Fabric.links`. direction: ``forward`` is from the link's node ``a`` to ``b``.
    share: above 0 and below 1; of the kinds that take one.
    """

    kind: Kind
    link: int
    from_ps: int
    until_ps: int = FOREVER
    share: float | None = None
    direction: Direction = "both"

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise FaultError(f"fault {self.kind!r}: write {', '.join(_KINDS)}")
        if self.direction not in ("both", "forward", "back"):
            raise FaultError(f"direction {self.direction!r}: write both, forward or back")
        if not 0 <= self.from_ps < self.until_ps <= FOREVER:
            raise FaultError(
                f"{self.kind} from {duration_text(self.from_ps)} until "
                f"{duration_text(self.until_ps)}: write 0ms or later, and an end after it"
            )
        takes = self.kind in ("degraded", "lossy")
        if takes and not (self.share is not None and 0 < self.share < 1):
            raise FaultError(
                f"{self.kind} share {_share_text(self.share)}: write what is "
                f"{'left of the rate' if self.kind == 'degraded' else 'lost'}, above 0% and "
                "below 100%; a link that carries nothing is down"
            )
        if not takes and self.share is not None:
            raise FaultError(
                f"{self.kind} share {_share_text(self.share)}: takes none; leave it out"
            )


def _share_text(share: float | None) -> str:
    return "is missing" if share is None else f"{100 * share:g}%"


def node_down(fabric: Fabric, node: int, from_ps: int, until_ps: int = FOREVER) -> list[Fault]:
    """A node without power: all its links are down.

    >>> from topo.family.registry import build
    >>> len(node_down(build("fat_tree", {"k": 4}), 16, from_ps=0))  # the first edge switch
    4
    """
    return [
        Fault("down", link.index, from_ps, until_ps)
        for link in fabric.links
        if node in (link.a, link.b)
    ]


def fault_settings(fabric: Fabric, faults: Sequence[Fault]) -> list[_engine.FaultSetting]:
    """The faults as the engine reads them: one row a direction, in order of time.

    Spans of one kind on one direction are joined where they touch, which degraded and lossy ones
    must not, since it would not be said what then holds.
    """
    spans: dict[tuple[int, Kind], list[Fault]] = {}
    for fault in sorted(faults, key=lambda f: (f.from_ps, f.until_ps)):
        if not 0 <= fault.link < len(fabric.links):
            raise FaultError(
                f"{fault.kind} link {fault.link}: the fabric has {len(fabric.links)} links, from 0"
            )
        for port in _ports(fabric, fault):
            spans.setdefault((port, fault.kind), []).append(fault)
    rows = [
        (_KINDS[kind].value, port, start, end, _value(fabric, port, fault))
        for (port, kind), several in sorted(spans.items())
        for start, end, fault in _joined(fabric, port, several)
    ]
    columns = [np.array(column) for column in zip(*rows, strict=True)] or [np.zeros(0)] * 5
    return _engine.fault_settings(
        kind=columns[0].astype(np.uint8),
        port=columns[1].astype(np.uint32),
        from_ps=columns[2].astype(np.int64),
        until_ps=columns[3].astype(np.int64),
        value=columns[4].astype(np.int64),
    )


def _ports(fabric: Fabric, fault: Fault) -> list[int]:
    """The directed links that a fault concerns, by their sending ports."""
    link = fabric.links[fault.link]
    there = int(fabric.ports.first[link.a]) + link.a_port
    back = int(fabric.ports.first[link.b]) + link.b_port
    return {"both": [there, back], "forward": [there], "back": [back]}[fault.direction]


def _joined(fabric: Fabric, port: int, several: Iterable[Fault]) -> list[tuple[int, int, Fault]]:
    found: list[tuple[int, int, Fault]] = []
    for fault in several:
        if found and fault.from_ps <= found[-1][1] and fault.share is None:
            start, end, first = found.pop()
            found.append((start, max(end, fault.until_ps), first))
        elif found and fault.from_ps < found[-1][1]:
            raise FaultError(
                f"{fabric.port_name(port)} {fault.kind} from {duration_text(fault.from_ps)}: "
                f"already so until {duration_text(found[-1][1])}; write spans that do not overlap"
            )
        else:
            found.append((fault.from_ps, fault.until_ps, fault))
    return found


def _value(fabric: Fabric, port: int, fault: Fault) -> int:
    """Bit/s that are left, or the share of 2^32 that is lost; 0 for the other kinds."""
    if fault.share is None:
        return 0
    if fault.kind == "lossy":
        return max(1, round(fault.share * 2**32))
    rate = round(int(fabric.ports.rate_bps[port]) * fault.share)
    if rate < _LEAST_RATE_BPS:
        raise FaultError(
            f"{fabric.port_name(port)} degraded to {rate_text(rate)}: the packet engine takes "
            "1Mbps or more; write a larger share; a link that carries nothing is down"
        )
    return rate
