"""The members of a decode batch, in closed form.

Every step gives each member one token, so that what n steps read, and what memory is held after
them, follows from the contexts at their start. A context of at least the model's sliding window
grows by a constant number of bytes a token; only the shorter ones are held one by one.
"""

from heapq import heappop, heappush
from typing import NamedTuple

from traffic.model import Model


class Sequence(NamedTuple):
    """A request in a batch.

    ``input_tokens`` are those whose KV cache it needs before its next token: the prompt, and what
    has been written so far. ``output_tokens`` are still to come: at least 1, or 0 for a prompt
    that is only computed.
    """

    request: int
    input_tokens: int
    output_tokens: int


class Members:
    """The sequences that decode together, between two changes of the membership."""

    def __init__(self, model: Model, kv_dtype: str | None = None) -> None:
        self._model = model
        self._dtype = kv_dtype
        self._window = model.window_tokens if model.sliding_layers else 0
        # Past the window a context of n tokens holds n x token + window bytes.
        self._token_bytes = model.full_token_bytes(kv_dtype)
        self._window_bytes = model.kv_bytes(self._window, kv_dtype)
        self._window_bytes -= self._token_bytes * self._window
        self._steps = 0  # since the batch began
        self._leave: list[tuple[int, int]] = []  # (last step, request); some no longer true
        self._of: dict[int, tuple[int, int]] = {}  # request -> (last step, final context)
        self._long = 0  # members whose context fills the sliding window
        self._long_tokens = 0  # their contexts together
        self._short: list[int] = []  # the other contexts

    def __len__(self) -> int:
        return len(self._of)

    @property
    def requests(self) -> list[int]:
        """Who is in, in order of joining."""
        return list(self._of)

    @property
    def tokens(self) -> int:
        """The contexts of all members together."""
        return self._long_tokens + sum(self._short)

    @property
    def until_leave(self) -> int:
        """Steps until the next member has its last token; 0 without members."""
        leave = self._leave
        while leave and self._of.get(leave[0][1], (0, 0))[0] != leave[0][0]:
            heappop(leave)
        return leave[0][0] - self._steps if leave else 0

    def read(self, steps: int) -> int:
        """KV bytes that the next ``steps`` steps read; long contexts together."""
        tokens = steps * self._long_tokens + self._long * (steps * (steps - 1) // 2)
        read = self._token_bytes * tokens + self._long * steps * self._window_bytes
        for context in self._short:
            read += self._model.kv_bytes_sum(context, steps, self._dtype)
        return read

    def held(self, steps: int) -> int:
        """KV bytes that the members hold when ``steps`` more steps have been made."""
        held = self._token_bytes * (self._long_tokens + self._long * steps)
        held += self._long * self._window_bytes
        for context in self._short:
            held += self._model.kv_bytes(context + steps, self._dtype)
        return held

    def fit(self, room: int, low: int, high: int) -> int:
        """The most steps, from low to high, after which they hold at most ``room`` bytes; low is
        known to be so few."""
        if self.held(high) <= room:
            return high
        while low < high:
            middle = (low + high + 1) // 2
            if self.held(middle) <= room:
                low = middle
            else:
                high = middle - 1
        return low

    def join(self, sequence: Sequence) -> None:
        """Let a sequence take part from the next step on."""
        request, context, steps = sequence
        last = self._steps + steps
        self._of[request] = (last, context + steps)
        heappush(self._leave, (last, request))
        if context >= self._window:
            self._long += 1
            self._long_tokens += context
        else:
            self._short.append(context)

    def pass_by(self, steps: int) -> list[Sequence]:
        """Make steps; who has written the last token leaves, with its final context."""
        self._steps += steps
        self._long_tokens += self._long * steps
        if self._short and steps:
            grown = [context + steps for context in self._short]
            self._short = [context for context in grown if context < self._window]
            filled = [context for context in grown if context >= self._window]
            self._long += len(filled)
            self._long_tokens += sum(filled)
        left: list[Sequence] = []
        while self._leave and self._leave[0][0] <= self._steps:
            last, request = heappop(self._leave)
            if self._of.get(request, (0, 0))[0] == last:
                left.append(self.take_out(request))
        return left

    def take_out(self, request: int) -> Sequence:
        """Remove a member as it stands between two steps."""
        last, final = self._of.pop(request)
        to_go = last - self._steps
        context = final - to_go
        if context >= self._window:
            self._long -= 1
            self._long_tokens -= context
        else:
            self._short.remove(context)
        return Sequence(request, context, to_go)
