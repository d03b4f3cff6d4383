"""Memory copies at the ends of a hand-off, and what they wait for.

A lane does one copy at a time: the copy engine of a GPU that gathers and scatters its own cache,
or the memory of a server when the cache is staged through its host processor, which all GPUs of the
server share. Copies are booked when a hand-off is decided, some of them for later; each takes the
first gap that is long enough.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping

from topo.unit import PS_PER_S


class Lane:
    """The busy times of one copy engine, booked ahead."""

    def __init__(self) -> None:
        self._busy: list[tuple[int, int]] = []

    def book(self, at_ps: int, duration_ps: int, now_ps: int) -> int:
        """The end of a copy that starts at ``at_ps`` or in the first gap after it.

        >>> lane = Lane()
        >>> lane.book(100, 10, 0), lane.book(0, 50, 0), lane.book(40, 60, 0)
        (110, 50, 170)
        """
        done = bisect_right(self._busy, now_ps, key=lambda span: span[1])
        del self._busy[:done]
        start = at_ps
        for first, last in self._busy:
            if start + duration_ps <= first:
                break
            start = max(start, last)
        if duration_ps:
            insort(self._busy, (start, start + duration_ps))
        return start + duration_ps


class Copier:
    """The copies of all hand-offs, at ``copy_bps`` bits of cache a second on every lane.

    ``lane_of`` names the lane of a host; a host that is not in it has one of its own.
    """

    def __init__(self, copy_bps: int, lane_of: Mapping[int, int]) -> None:
        self._rate = copy_bps
        self._lane_of = lane_of
        self._lanes: dict[tuple[bool, int], Lane] = {}

    def copied(
        self, hosts: Iterable[int], sizes: Iterable[int], at_ps: int, now_ps: int
    ) -> dict[int, int]:
        """When each host's bytes are copied, by host; those of one lane are copied together."""
        lane_of = {host: self._key(host) for host in hosts}
        total: dict[tuple[bool, int], int] = {}
        for host, size in zip(hosts, sizes, strict=True):
            total[lane_of[host]] = total.get(lane_of[host], 0) + size
        end = {
            key: self._lanes.setdefault(key, Lane()).book(at_ps, self._duration(size), now_ps)
            for key, size in total.items()
        }
        return {host: end[key] for host, key in lane_of.items()}

    def _key(self, host: int) -> tuple[bool, int]:
        lane = self._lane_of.get(host, -1)
        return (True, lane) if lane >= 0 else (False, host)

    def _duration(self, size: int) -> int:
        return -(-size * 8 * PS_PER_S // self._rate)
