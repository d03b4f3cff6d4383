"""The attempts of a service's requests: sent, lost, noticed, made again, or given up.

An instance that dies takes along what it has. Its router does not know at once: what was there, and
what is sent there until the router stops, is given up a timeout later. Then everything the attempt
still holds elsewhere is given back, the breaker is told, and the request goes back to the router
after a pause: another attempt, from its prompt. A request that nobody can take waits at the router.

How a service computes is not known here: its `Owner` says what an attempt holds. Sides are 0
(prefill) and 1 (decode); colocated instances are all of side 0.
"""

from collections.abc import Sequence
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from traffic.failure.breaker import Breakers
from traffic.failure.outage import SIDES, Outage
from traffic.failure.resilience import Hazard
from traffic.failure.toll import BUDGET, DECODE_LOST, NOBODY_HEALTHY, RETRIES, Toll
from traffic.failure.watch import Watch
from traffic.loop import Loop


class Owner(Protocol):
    """What a service does with its attempts."""

    def again(self, request: int, now: int) -> None:
        """Ask the router for a request that waits for one, or for another attempt."""
        ...

    def empty(self, side: int, instance: int) -> None:
        """An instance died: it has nothing and does nothing any more."""
        ...

    def outlives(self, request: int, side: int, /) -> bool:
        """Whether an attempt needs nothing of its instance any more."""
        ...

    def stop(self, request: int, side: int, /) -> None:
        """An attempt is lost with its instance of the side: what it does ends, unnoticed so far.

        May be told again, for the other side."""
        ...

    def withdraw(self, request: int, until: int, now: int, /) -> None:
        """Give back what an attempt holds, as if it had not been made; it computed ``until``."""
        ...

    def fail(self, request: int, now: int) -> None:
        """A request has failed."""
        ...


class Attempts:
    """The attempts at the instances of both ``masks``, which tell whom the router may choose.

    The outages of the ``hazard`` are ordered and befall the instances by their places in the masks;
    what they cost is entered in the ``toll``.
    """

    def __init__(
        self,
        loop: Loop,
        hazard: Hazard,
        masks: Sequence[NDArray[np.bool_]],
        owner: Owner,
        toll: Toll,
        seed: int,
    ) -> None:
        self._loop = loop
        self._rules = rules = hazard.rules
        self._masks = masks
        self._owner = owner
        self._toll = toll
        self._seed = seed
        self.watch = [
            Watch(
                loop,
                rules,
                len(mask),
                [outage for outage in hazard.outages if outage.side == SIDES[side]],
                partial(self._look, side),
            )
            for side, mask in enumerate(masks)
        ]
        """What is true of the instances of each side, and known."""
        self.breakers = [Breakers(rules.breaker, len(mask)) for mask in masks]
        """The breakers of each side."""
        self._on: list[list[set[int]]] = [[set() for _ in mask] for mask in masks]
        self._lost: dict[int, int] = {}  # attempts that are lost, and since when
        self._waits: dict[int, int] = {}  # who waits for somebody healthy, and until when
        self._retrying: set[int] = set()
        self._active = 0
        for mask, watch in zip(masks, self.watch, strict=True):
            mask[:] = [watch.used(instance) for instance in range(len(mask))]
        for outage in hazard.outages:
            loop.call(outage.from_ps, partial(self._strike, outage))

    def up(self, side: int, instance: int) -> bool:
        """Whether an instance works."""
        return self.watch[side].up[instance]

    def lost(self, request: int) -> bool:
        """Whether the request's attempt is lost, and not yet given up."""
        return request in self._lost

    @property
    def all_healthy(self) -> bool:
        """Whether the router may choose anybody."""
        return all(bool(mask.all()) for mask in self._masks)

    def arrived(self) -> None:
        """A request is here."""
        self._active += 1

    def sent(self, request: int) -> None:
        """An attempt is made, at instances that are told by `bind`."""
        self._toll.attempts[request] += 1

    def bind(self, side: int, instance: int, request: int, now: int) -> None:
        """The instance has the request from now on."""
        self._on[side][instance].add(request)
        if self.breakers[side].sent(instance, request):
            self._look(side, instance, now)

    def served(self, side: int, instance: int, request: int, now: int) -> None:
        """The instance did what it was asked."""
        if self.breakers[side].succeeded(instance, request):
            self._look(side, instance, now)

    def unbind(self, side: int, instance: int, request: int) -> None:
        """The request needs nothing of the instance any more."""
        self._on[side][instance].discard(request)

    def leave(self, side: int, instance: int, request: int, now: int) -> None:
        """The request leaves the instance without an answer."""
        self._on[side][instance].discard(request)
        if self.breakers[side].dropped(instance, request):
            self._look(side, instance, now)

    def over(self, request: int) -> None:
        """A request has ended."""
        self._lost.pop(request, None)
        self._retrying.discard(request)
        self._active -= 1

    def wait(self, request: int, now: int) -> None:
        """Nobody can take the request: it waits, but not without end."""
        until = self._waits[request] = now + self._rules.wait_ps
        self._loop.call(until, partial(self._give_up, request, until))

    def lose(self, request: int, side: int, instance: int, now: int) -> None:
        """The attempt is lost with its instance; the router notices later."""
        self._owner.stop(request, side)
        if request in self._lost:
            return
        self._lost[request] = now
        self._waits.pop(request, None)
        notice = partial(self._notice, request, side, instance)
        self._loop.call(now + self._rules.timeout_ps, notice)

    def _look(self, side: int, instance: int, now: int) -> None:
        """Whether the router may choose the instance may have changed."""
        mask = self._masks[side]
        use = self.watch[side].used(instance) and self.breakers[side].allows(instance)
        if use and self._waits and not mask[instance]:
            self._loop.call(now, self._wake)
        mask[instance] = use

    def _wake(self, now: int) -> None:
        """Somebody is healthy again: ask once more for those that wait, first come first."""
        for request, until in list(self._waits.items()):
            if self._waits.pop(request, None) is None:
                continue
            self._owner.again(request, now)
            if request in self._waits:
                self._waits[request] = until

    def _give_up(self, request: int, until: int, now: int) -> None:
        if self._waits.get(request) == until:
            del self._waits[request]
            self._owner.withdraw(request, now, now)
            self._fail(request, NOBODY_HEALTHY, now)

    def _fail(self, request: int, reason: int, now: int) -> None:
        self._toll.reason[request] = reason
        self._toll.failed_ps[request] = now
        self._owner.fail(request, now)

    def _strike(self, outage: Outage, now: int) -> None:
        """An outage begins."""
        side, instance = SIDES.index(outage.side), outage.instance
        self.watch[side].starts(outage, now)
        if outage.kind != "fail":
            return
        self._owner.empty(side, instance)
        for request in sorted(self._on[side][instance]):
            if not self._owner.outlives(request, side):
                self.lose(request, side, instance, now)

    def _notice(self, request: int, side: int, instance: int, now: int) -> None:
        since = self._lost.pop(request, None)
        if since is None:
            return
        trial = self.breakers[side].failed(instance, request, now)
        if trial is not None:
            self._loop.call(trial, partial(self._half_open, side, instance))
        told = 0 <= self._loop.ledger.first_token_ps[request] <= since
        self._owner.withdraw(request, since if side == 0 else now, now)
        self._look(side, instance, now)
        if told and self._rules.decode_loss == "fail":
            self._fail(request, DECODE_LOST, now)
        else:
            self._retry(request, now)

    def _half_open(self, side: int, instance: int, now: int) -> None:
        self.breakers[side].tried(instance)
        self._look(side, instance, now)

    def _retry(self, request: int, now: int) -> None:
        """Send the request once more, if that is allowed."""
        retry, retries = self._rules.retry, self._toll.attempts[request] - 1
        if retries >= retry.retries:
            self._fail(request, RETRIES, now)
        elif request not in self._retrying and not retry.admits(len(self._retrying), self._active):
            self._fail(request, BUDGET, now)
        else:
            self._retrying.add(request)
            at = now + retry.delay_ps(retries, request, self._seed)
            self._loop.call(at, partial(self._owner.again, request))
