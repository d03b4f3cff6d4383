"""Orchestration: what a hand-off waits for beside its bytes.

A public report puts 197 ms between a prefill's token and the client's, of which the transfer takes
29 ms (vllm-project/vllm#51919, median, 3 prefill and 1 decode instance on one node). The rest is
orchestration: recomputing the first token (58 ms with its wait for a step, in this model the first
decode step), the decode side's parsing, tokenising and admission (32 ms: vllm-project/router#207),
and waits for step boundaries on the way. Every delay here is off unless it is set, since the same
report names changes that remove most of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import Final

from topo.unit import show_duration, size_text
from traffic.error import HandoffError

Boundary = Callable[[int, int], int]
"""(decode instance, time) -> its first step boundary at or after that time."""


@dataclass(frozen=True, slots=True)
class Orchestration:
    """The delays around a transfer, in picoseconds; 0 is none.

    dispatch_ps: what the router and the receiving front end need for one hand-off; ``routers``
        hand-offs are dispatched at a time, first come, first served, or any number when 0.
    handshake_ps: once for each pair of instances, at its first hand-off (about 2 s in the NIXL
        connector when new: neuralmagic/vllm#63); hand-offs of the pair meanwhile wait for it.
    align: the transfer is posted at a step boundary of the decode engine, as vLLM's scheduler
        hands pulls to its workers with a step (vllm-project/vllm#50913).
    message_bytes: size of the control messages that cross the fabric: metadata before the
        transfer, and a notification of its end.
    """

    dispatch_ps: int = 0
    routers: int = 0
    handshake_ps: int = 0
    align: bool = False
    message_bytes: int = 0

    def __post_init__(self) -> None:
        for name, value in (("dispatch", self.dispatch_ps), ("handshake", self.handshake_ps)):
            if value < 0:
                raise HandoffError(f"orchestration.{name} {show_duration(value)}: negative")
        if self.routers < 0 or self.message_bytes < 0:
            raise HandoffError(
                f"orchestration: {self.routers} routers and messages of "
                f"{size_text(self.message_bytes)}; write 0 or more of each"
            )
        if self.routers and not self.dispatch_ps:
            raise HandoffError(
                f"orchestration.routers {self.routers}: without a dispatch time they limit "
                "nothing; write dispatch, e.g. 32ms"
            )


NONE: Final = Orchestration()
"""No delay but the control delay."""


class Dispatcher:
    """When hand-offs leave the router, and which pairs of instances know each other."""

    def __init__(self, how: Orchestration) -> None:
        self._how = how
        self._free = [0] * how.routers
        heapify(self._free)
        self._known: dict[tuple[int, int], int] = {}

    def dispatched(self, pair: tuple[int, int], now_ps: int) -> int:
        """When a hand-off decided now may go on; calls come in the order of their times.

        >>> router = Dispatcher(Orchestration(dispatch_ps=5, routers=1, handshake_ps=100))
        >>> [router.dispatched(pair, 0) for pair in ((0, 0), (0, 0), (0, 1))]
        [105, 105, 115]
        """
        how, done = self._how, now_ps + self._how.dispatch_ps
        if self._free:
            done = max(now_ps, self._free[0]) + how.dispatch_ps
            heapreplace(self._free, done)
        if how.handshake_ps:
            done = max(done, self._known.setdefault(pair, done + how.handshake_ps))
        return done
