"""Colocated serving whose instances fail; `traffic.failure.attempt` tells what becomes of attempts.

An instance that dies takes along its prompts, its sequences and its prefix blocks; nothing is held
elsewhere, and nothing of it is under way but reads of the pool of prefix blocks, which go on to
their end. Outages name an instance by its pool, and so by its GPUs; in the tables they are numbered
through, as colocated instances are.
"""

from dataclasses import replace
from functools import partial
from typing import Final

from traffic.failure.attempt import Attempts
from traffic.failure.outage import SIDES
from traffic.failure.resilience import Hazard
from traffic.failure.toll import Toll
from traffic.loop import Loop
from traffic.policy.choice import NOBODY
from traffic.record.ledger import FAILED, FINISHED, TIMES
from traffic.release import Releases
from traffic.serving.colocated import Colocated
from traffic.serving.fleet import batch_of
from traffic.serving.mode import Serving
from traffic.serving.router import Router

_ONLY: Final = 0


class ColocatedFailover(Colocated):
    """A `Colocated` service that meets its `Hazard`; the cost is entered in the ``toll``."""

    def __init__(
        self, loop: Loop, router: Router, releases: Releases, rules: Serving, toll: Toll
    ) -> None:
        super().__init__(loop, router, releases, rules)
        self._toll = toll
        deployment = router.service.deployment
        sizes = len(deployment.prefill.instances), len(deployment.decode.instances)
        self._place_of = [
            (pool, number)
            for pool in (deployment.prefill, deployment.decode)
            for number in range(len(pool.instances))
        ]
        before: dict[str, int] = dict(zip(SIDES, (0, sizes[0]), strict=True))
        hazard = (router.service.hazard or Hazard()).ordered(sizes)
        numbered = [
            replace(one, side=SIDES[_ONLY], instance=before[one.side] + one.instance)
            for one in hazard.outages
        ]
        masks = [self._view.prefill_healthy]
        self.attempts = Attempts(
            loop, replace(hazard, outages=numbered), masks, self, toll, router.seed
        )

    def arrive(self, request: int, now: int) -> None:
        """A request is here."""
        self.attempts.arrived()
        super().arrive(request, now)

    def again(self, request: int, now: int) -> None:
        """Ask the router."""
        self._place(request, now)

    def _place(self, request: int, now: int) -> None:
        super()._place(request, now)
        chosen = self._ledger.prefill[request]
        if chosen < 0:
            return
        self.attempts.sent(request)
        self.attempts.bind(_ONLY, chosen, request, now)
        if not self.attempts.up(_ONLY, chosen):
            self.attempts.lose(request, _ONLY, chosen, now)

    def _line_up(self, request: int, instance: int, now: int) -> None:
        if not self.attempts.up(_ONLY, instance):
            return
        if self._cache is None:
            super()._line_up(request, instance, now)
            return
        tokens, attempt = self._ledger.input_tokens[request], self._toll.attempts[request]
        self._cache.fetch(request, tokens, instance, now, partial(self._fetched, attempt))

    def _fetched(self, attempt: int, request: int, cached: int, now: int) -> None:
        """What lies at the instance is loaded, if this is still the attempt that asked for it."""
        made = self._toll.attempts[request]
        if made <= attempt + 1 and self._ledger.prefill[request] >= 0:
            self._offer(request, cached, now)

    def _offer(self, request: int, cached: int, now: int) -> None:
        if not self.attempts.lost(request):
            super()._offer(request, cached, now)

    def _unplaced(self, request: int, answer: int, now: int) -> None:
        if answer != NOBODY or self.attempts.all_healthy:
            super()._unplaced(request, answer, now)
        else:
            self.attempts.wait(request, now)

    def _finish(self, request: int, now: int, status: int = FINISHED) -> None:
        instance = self._ledger.prefill[request]
        if instance >= 0:
            self.attempts.unbind(_ONLY, instance, request)
            self.attempts.served(_ONLY, instance, request, now)
        self.attempts.over(request)
        super()._finish(request, now, status)

    def fail(self, request: int, now: int) -> None:
        """A request has failed."""
        self._finish(request, now, FAILED)

    def empty(self, side: int, instance: int) -> None:
        """An instance died: prompts, sequences and prefix blocks are gone."""
        assert side == _ONLY
        pool, number = self._place_of[instance]
        dead = self._batch[instance]
        self._batch[instance] = batch_of(pool, number, self._rules, self._priority)
        self._batch[instance].follow(dead, self._loop.end_ps)
        self._loop.halt(self._first + instance)
        if self._cache is not None:
            self._cache.clear(instance)

    def outlives(self, _request: int, _side: int) -> bool:
        """Nothing outlives its only instance."""
        return False

    def stop(self, request: int, _side: int) -> None:
        """Read no more of the pool."""
        if self._cache is not None:
            self._cache.give_up(request)

    def withdraw(self, request: int, until: int, now: int) -> None:
        """Write the attempt as not made; it computed ``until``."""
        ledger, view = self._ledger, self._view
        instance = ledger.prefill[request]
        start, end = ledger.prefill_start_ps[request], ledger.prefill_end_ps[request]
        if start >= 0:
            self._toll.wasted_prefill_ps[request] += (end if end >= 0 else until) - start
        for column in ("prefill", "decode", *TIMES):
            getattr(ledger, column)[request] = -1
        self._began.pop(request, None)
        if instance >= 0:
            self.attempts.leave(_ONLY, instance, request, now)
            view.prefill_requests[instance] -= 1
            view.prefill_tokens[instance] -= ledger.input_tokens[request]
