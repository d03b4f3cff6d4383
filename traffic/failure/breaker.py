"""Circuit breakers: an instance that fails again and again is left alone for a while.

Closed, open, half-open (Nygard, Release It!, 2007). In a half-open breaker only the trial counts:
answers of requests that were sent before it opened say nothing new. A dead instance behind an
immediate refusal looks idle to a router that counts load and draws every request to itself; a
breaker ends that sooner than slow health checks.
"""

from typing import Final

from traffic.failure.resilience import Circuit

_CLOSED: Final = 0
_OPEN: Final = 1
_HALF: Final = 2
_NOBODY: Final = -1


class Breakers:
    """One breaker for each of ``count`` instances; without a ``rule`` they never open."""

    def __init__(self, rule: Circuit | None, count: int) -> None:
        self._rule = rule
        self._state = [_CLOSED] * count
        self._failures = [0] * count
        self._successes = [0] * count
        self._trial = [_NOBODY] * count
        self.opened = 0
        """How often any of them opened."""

    def allows(self, instance: int) -> bool:
        """Whether a request may be sent to the instance."""
        state = self._state[instance]
        return state == _CLOSED or (state == _HALF and self._trial[instance] == _NOBODY)

    def sent(self, instance: int, request: int) -> bool:
        """A request goes there, the trial of a half-open breaker; whether it is one."""
        if self._state[instance] != _HALF:
            return False
        self._trial[instance] = request
        return True

    def succeeded(self, instance: int, request: int) -> bool:
        """The instance did what it was asked; whether that was a trial."""
        if self._state[instance] == _CLOSED:
            self._failures[instance] = 0
            return False
        if self._trial[instance] != request or self._rule is None:
            return False
        self._trial[instance] = _NOBODY
        self._successes[instance] += 1
        if self._successes[instance] >= self._rule.successes:
            self._state[instance] = _CLOSED
            self._failures[instance] = 0
        return True

    def failed(self, instance: int, request: int, now: int) -> int | None:
        """It did not; when the breaker has to be `tried`, if it opens now."""
        if self._rule is None:
            return None
        if self._state[instance] == _CLOSED:
            self._failures[instance] += 1
            if self._failures[instance] < self._rule.failures:
                return None
        elif self._trial[instance] != request:
            return None
        self._state[instance] = _OPEN
        self._trial[instance] = _NOBODY
        self.opened += 1
        return now + self._rule.open_ps

    def dropped(self, instance: int, request: int) -> bool:
        """A request left without an answer of this instance; whether another may be the trial."""
        if self._trial[instance] != request:
            return False
        self._trial[instance] = _NOBODY
        return True

    def tried(self, instance: int) -> None:
        """The time of an open breaker is over: let one request through."""
        self._state[instance] = _HALF
        self._successes[instance] = 0
