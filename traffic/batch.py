"""Continuous batching on one decode instance, in closed form.

Every step gives each member of the batch one token. Members join and leave only at step
boundaries (iteration-level scheduling: Yu et al., Orca, OSDI 2022). Between two changes of the
membership nothing is random, so the end of the k-th step after a change at time t is

    t + k x base(batch) + kv_ps(KV bytes read in those k steps)

and no event is needed for a token. A step reads, for every member, the KV cache of the tokens
before the one that it makes: input + j - 1 tokens in the member's j-th step.
"""

from collections import deque
from heapq import heappop, heappush
from typing import NamedTuple

from traffic.compute import DecodeCost
from traffic.model import Model


class Sequence(NamedTuple):
    """A request whose KV cache has arrived. ``output_tokens`` is at least 1."""

    request: int
    input_tokens: int
    output_tokens: int


class Batch:
    """The batch of one instance: the members, those ready to join, and the present segment.

    A *segment* is a run of steps of one membership. Times are integer picoseconds.
    """

    def __init__(
        self, model: Model, cost: DecodeCost, max_batch: int, kv_dtype: str | None = None
    ) -> None:
        self._model = model
        self._cost = cost
        self._most = max_batch
        self._dtype = kv_dtype
        self._window = model.window_tokens if model.sliding_layers else 0
        # Past the window a context of n tokens holds n x token + window bytes.
        self._token_bytes = model.full_token_bytes(kv_dtype)
        self._window_bytes = model.kv_bytes(self._window, kv_dtype)
        self._window_bytes -= self._token_bytes * self._window
        self._base: dict[int, int] = {}
        self._base_ps = 0
        self._steps = 0
        self._start_ps = 0
        self._members: list[tuple[int, int, int]] = []  # (last step, request, final context)
        self._long = 0  # members whose context fills the sliding window
        self._long_tokens = 0  # their contexts together, at the segment's start
        self._short: list[int] = []  # the other contexts, at the segment's start
        self._ready: deque[Sequence] = deque()
        self.steps_to_go = 0
        """Steps from the segment's start to the planned boundary; 0 when idle."""

    def __len__(self) -> int:
        return len(self._members)

    def boundary_ps(self, steps: int) -> int:
        """The end of the given step of the segment, if the membership stays; 0 is its start."""
        return self._start_ps + steps * self._base_ps + self._cost.kv_ps(self._read(steps))

    def _read(self, steps: int) -> int:
        """KV bytes that the next ``steps`` steps of the segment read; long contexts together."""
        tokens = steps * self._long_tokens + self._long * (steps * (steps - 1) // 2)
        read = self._token_bytes * tokens + self._long * steps * self._window_bytes
        for context in self._short:
            read += self._model.kv_bytes_sum(context, steps, self._dtype)
        return read

    def offer(self, sequence: Sequence, now_ps: int) -> int | None:
        """Queue a sequence that is ready; the boundary at which it may join, if that is new.

        None when a boundary is planned that comes no later, or when the batch is full and the
        sequence waits for a member to leave.
        """
        self._ready.append(sequence)
        if not self._members:
            return now_ps if len(self._ready) == 1 else None
        if len(self._members) >= self._most:
            return None
        low, high = 1, self.steps_to_go
        while low < high:
            middle = (low + high) // 2
            if self.boundary_ps(middle) < now_ps:
                low = middle + 1
            else:
                high = middle
        if low == self.steps_to_go:
            return None
        self.steps_to_go = low
        return self.boundary_ps(low)

    def turn(self, now_ps: int) -> tuple[list[int], list[Sequence]]:
        """At a planned boundary: let members leave and ready sequences join.

        Returns the requests whose last token ended now, and the sequences that start now. A new
        segment begins, planned to end when its next member leaves.
        """
        self._pass(self.steps_to_go)
        left: list[int] = []
        while self._members and self._members[0][0] == self._steps:
            _, request, context = heappop(self._members)
            if context >= self._window:
                self._long -= 1
                self._long_tokens -= context
            else:
                self._short.remove(context)
            left.append(request)
        joined: list[Sequence] = []
        while self._ready and len(self._members) < self._most:
            sequence = self._ready.popleft()
            joined.append(sequence)
            context = sequence.input_tokens
            final = context + sequence.output_tokens
            heappush(self._members, (self._steps + sequence.output_tokens, sequence.request, final))
            if context >= self._window:
                self._long += 1
                self._long_tokens += context
            else:
                self._short.append(context)
        self._start_ps = now_ps
        size = len(self._members)
        if size not in self._base:
            self._base[size] = self._cost.base_ps(size)
        self._base_ps = self._base[size]
        self.steps_to_go = self._members[0][0] - self._steps if self._members else 0
        return left, joined

    def _pass(self, steps: int) -> None:
        self._steps += steps
        self._long_tokens += self._long * steps
        if self._short and steps:
            grown = [context + steps for context in self._short]
            self._short = [context for context in grown if context < self._window]
            filled = [context for context in grown if context >= self._window]
            self._long += len(filled)
            self._long_tokens += sum(filled)
