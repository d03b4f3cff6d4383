"""Disaggregated serving whose instances fail: attempts are lost, noticed, and made again.

An instance that dies takes along what it has: prompts that wait or are computed, caches that are
not handed over, sequences that decode. Its router does not know at once. What was there, and what
is sent there until the router stops, is given up a timeout later; then everything the attempt
still holds elsewhere is given back (a decode reservation, a place in a prefill queue), the breaker
is told, and the request goes back to the router after a pause: another attempt, from its prompt.

Flows that were released cannot be taken back from the network: those of an abandoned hand-off go
on to their end as if nobody had died, and no request waits for them. Messages that were to follow
are not sent. A request that nobody can take waits at the router. In the ledger a retried request
has the times of its last attempt, so that what the others took is queueing.
"""

from functools import partial
from typing import Final

from traffic.batch import Batch, batch_of
from traffic.breaker import Breakers
from traffic.disaggregated import Disaggregated
from traffic.ledger import FAILED, FINISHED, TIMES
from traffic.line import Line
from traffic.loop import Loop
from traffic.mode import Serving
from traffic.outage import SIDES, Outage, ordered
from traffic.policy.choice import NOBODY
from traffic.release import Releases
from traffic.resilience import Hazard
from traffic.router import Router
from traffic.toll import BUDGET, DECODE_LOST, NOBODY_HEALTHY, RETRIES, Toll
from traffic.watch import Watch

P: Final = 0
D: Final = 1
_NONE: Final = -1


class Failover(Disaggregated):
    """A `Disaggregated` service with a `Hazard`; what that costs is entered in the ``toll``."""

    def __init__(
        self,
        loop: Loop,
        router: Router,
        releases: Releases,
        rules: Serving,
        hazard: Hazard,
        toll: Toll,
        seed: int,
    ) -> None:
        super().__init__(loop, router, releases, rules)
        self._sent = releases.sent = {}
        self._resilience = hazard.rules
        self._toll = toll
        self._seed = seed
        self._serving = rules
        self._priority = loop.ledger.priority if rules.order == "priority" else None
        sizes = len(self._prefill.instances), len(self._decode.instances)
        outages = ordered(hazard.outages, sizes, hazard.rules.load_ps)
        self.watch = [
            Watch(
                loop,
                hazard.rules,
                sizes[side],
                [outage for outage in outages if outage.side == name],
                partial(self._look, side),
            )
            for side, name in enumerate(SIDES)
        ]
        """What is true of the instances of each side, and known."""
        self.breakers = [Breakers(hazard.rules.breaker, size) for size in sizes]
        """The breakers of each side."""
        self._mask = self._view.prefill_healthy, self._view.decode_healthy
        for side in (P, D):
            self._mask[side][:] = [self.watch[side].used(i) for i in range(sizes[side])]
        self._on: list[list[set[int]]] = [[set() for _ in range(size)] for size in sizes]
        self._computing = [_NONE] * sizes[P]
        self._holds: dict[int, Batch] = {}  # who has memory reserved, and where
        self._doomed: dict[int, int] = {}  # attempts that are lost, and since when
        self._waits: dict[int, int] = {}  # who waits for somebody healthy, and until when
        self._retrying: set[int] = set()
        self._active = 0
        for outage in outages:
            loop.call(outage.from_ps, partial(self._strike, outage))

    def arrive(self, request: int, now: int) -> None:
        """A request is here."""
        self._active += 1
        super().arrive(request, now)

    def _place(self, request: int, now: int) -> None:
        super()._place(request, now)
        prefill, decode = self._ledger.prefill[request], self._ledger.decode[request]
        if prefill < 0 and decode < 0:
            return
        self._toll.attempts[request] += 1
        for side, instance in ((P, prefill), (D, decode)):
            if instance >= 0 and not self.watch[side].up[instance]:
                self._doom(request, side, instance, now)
        if prefill >= 0:
            self._bind(P, prefill, request, now)

    def _bind(self, side: int, instance: int, request: int, now: int) -> None:
        """The instance has the request from now on."""
        self._on[side][instance].add(request)
        if self.breakers[side].sent(instance, request):
            self._look(side, instance, now)

    def _look(self, side: int, instance: int, now: int) -> None:
        """Whether the router may choose the instance may have changed."""
        mask = self._mask[side]
        use = self.watch[side].used(instance) and self.breakers[side].allows(instance)
        if use and self._waits and not mask[instance]:
            self._loop.call(now, self._wake)
        mask[instance] = use

    def _line_up(self, request: int, instance: int, now: int) -> None:
        if self.watch[P].up[instance]:
            super()._line_up(request, instance, now)

    def _start_prefill(self, instance: int, now: int) -> None:
        self._computing[instance] = self._queue[instance].first
        super()._start_prefill(instance, now)

    def prefilled(self, request: int, now: int) -> None:
        """A prompt is computed; if its decode instance died meanwhile, it is in vain."""
        instance = self._ledger.prefill[request]
        self._computing[instance] = _NONE
        super().prefilled(request, now)
        if self.breakers[P].succeeded(instance, request):
            self._look(P, instance, now)

    def _choose_decode(self, request: int, now: int) -> None:
        if request in self._doomed:
            return
        super()._choose_decode(request, now)
        decode = self._ledger.decode[request]
        if decode >= 0 and not self.watch[D].up[decode]:
            self._doom(request, D, decode, now)

    def _promise(self, request: int, decode: int) -> None:
        super()._promise(request, decode)
        self._bind(D, decode, request, self._view.now_ps)

    def _serve_here(self, request: int, decode: int, now: int) -> None:
        if self.watch[D].up[decode]:
            super()._serve_here(request, decode, now)

    def _admit(self, decode: int, now: int) -> None:
        if self.watch[D].up[decode]:
            super()._admit(decode, now)

    def _send(self, request: int, now: int) -> None:
        self._holds[request] = self._batch[self._ledger.decode[request]]
        super()._send(request, now)

    def ready(self, request: int, now: int) -> None:
        """A cache is in its place: the prefill instance has done its part."""
        if request in self._doomed:
            return
        prefill, decode = self._ledger.prefill[request], self._ledger.decode[request]
        del self._holds[request]
        self._on[P][prefill].discard(request)
        super().ready(request, now)
        if self.breakers[D].succeeded(decode, request):
            self._look(D, decode, now)

    def _finish(self, request: int, now: int, status: int = FINISHED) -> None:
        prefill, decode = self._ledger.prefill[request], self._ledger.decode[request]
        if prefill >= 0:
            self._on[P][prefill].discard(request)
        if decode >= 0:
            self._on[D][decode].discard(request)
            if self.breakers[D].succeeded(decode, request):
                self._look(D, decode, now)
        self._sent.pop(request, None)
        self._doomed.pop(request, None)
        self._retrying.discard(request)
        self._active -= 1
        super()._finish(request, now, status)

    def _unplaced(self, request: int, answer: int, now: int) -> None:
        if answer != NOBODY or (self._mask[P].all() and self._mask[D].all()):
            super()._unplaced(request, answer, now)
            return
        until = self._waits[request] = now + self._resilience.wait_ps
        self._loop.call(until, partial(self._give_up, request, until))

    def _wake(self, now: int) -> None:
        """Somebody is healthy again: ask once more for those that wait, first come first."""
        for request, until in list(self._waits.items()):
            if self._waits.pop(request, None) is None:
                continue
            if self._ledger.prefill[request] < 0:
                self._place(request, now)
            else:
                self._choose_decode(request, now)
            if request in self._waits:
                self._waits[request] = until

    def _give_up(self, request: int, until: int, now: int) -> None:
        if self._waits.get(request) == until:
            del self._waits[request]
            self._withdraw(request, now, now)
            self._fail(request, NOBODY_HEALTHY, now)

    def _fail(self, request: int, reason: int, now: int) -> None:
        self._toll.reason[request] = reason
        self._toll.failed_ps[request] = now
        self._finish(request, now, FAILED)

    def _strike(self, outage: Outage, now: int) -> None:
        """An outage begins."""
        side = SIDES.index(outage.side)
        self.watch[side].starts(outage, now)
        if outage.kind != "fail":
            return
        instance = outage.instance
        if side == P:
            self._queue[instance] = Line(self._priority)
            self._busy[instance] = False
            self._computing[instance] = _NONE
            self._view.prefill_running[instance] = 0
            if self._cache is not None:
                self._cache.clear(instance)
        else:
            steps = self._batch[instance].steps
            self._batch[instance] = batch_of(self._decode, instance, self._serving, self._priority)
            self._batch[instance].steps = steps
            self._waiting[instance] = Line(self._priority)
            self._loop.halt(self._first + instance)
            self._view.decode_running[instance] = 0
            self.releases.clear(instance)
        for request in sorted(self._on[side][instance]):
            if side == P and self._ledger.kv_ready_ps[request] >= 0:
                continue  # its cache has left
            if side == P:
                self._loop.forget(request)
            self._doom(request, side, instance, now)

    def _doom(self, request: int, side: int, instance: int, now: int) -> None:
        """An attempt is lost; the router notices later."""
        if request in self._doomed:
            return
        self._doomed[request] = now
        self._waits.pop(request, None)
        self.releases.abandon(request)
        decode = self._ledger.decode[request]
        if side == P:
            self._stop(request)
        if decode >= 0:
            self._waiting[decode].drop(request)
        notice = partial(self._notice, request, side, instance)
        self._loop.call(now + self._resilience.timeout_ps, notice)

    def _notice(self, request: int, side: int, instance: int, now: int) -> None:
        since = self._doomed.pop(request, None)
        if since is None:
            return
        trial = self.breakers[side].failed(instance, request, now)
        if trial is not None:
            self._loop.call(trial, partial(self._half_open, side, instance))
        told = 0 <= self._ledger.first_token_ps[request] <= since
        self._withdraw(request, since if side == P else now, now)
        self._look(side, instance, now)
        if told and self._resilience.decode_loss == "fail":
            self._fail(request, DECODE_LOST, now)
        else:
            self._again(request, now)

    def _half_open(self, side: int, instance: int, now: int) -> None:
        self.breakers[side].tried(instance)
        self._look(side, instance, now)

    def _again(self, request: int, now: int) -> None:
        """Send the request once more, if that is allowed."""
        retry, retries = self._resilience.retry, self._toll.attempts[request] - 1
        if retries >= retry.retries:
            self._fail(request, RETRIES, now)
        elif request not in self._retrying and not retry.admits(len(self._retrying), self._active):
            self._fail(request, BUDGET, now)
        else:
            self._retrying.add(request)
            at = now + retry.delay_ps(retries, request, self._seed)
            self._loop.call(at, partial(self._place, request))

    def _withdraw(self, request: int, until: int, now: int) -> None:
        """Give back what an attempt holds, as if it had not been made; it computed ``until``."""
        ledger, view = self._ledger, self._view
        self._loop.forget(request)
        self.releases.abandon(request)
        self._span.pop(request, None)
        if request in self._sent:
            self._toll.strays.append(self._sent.pop(request))
        prefill, decode = ledger.prefill[request], ledger.decode[request]
        start, end = ledger.prefill_start_ps[request], ledger.prefill_end_ps[request]
        tokens, output = ledger.input_tokens[request], ledger.output_tokens[request]
        if start >= 0:
            self._toll.wasted_prefill_ps[request] += (end if end >= 0 else until) - start
        for column in ("prefill", "decode", *TIMES):
            getattr(ledger, column)[request] = -1
        self.releases.reset(request)
        if prefill >= 0:
            self._leave(P, prefill, request, now)
            if end < 0:
                view.prefill_requests[prefill] -= 1
                view.prefill_tokens[prefill] -= tokens
                self._abort(request, prefill, now)
                if not self._busy[prefill]:
                    view.prefill_free_ps[prefill] = now
        if decode >= 0:
            self._leave(D, decode, request, now)
            view.decode_requests[decode] -= 1
            view.decode_tokens[decode] -= tokens
            view.decode_bytes[decode] -= self._need(request)
            if self._holds.pop(request, None) is self._batch[decode]:
                boundary = self._batch[decode].cancel(tokens, tokens + output, now)
                if boundary is not None:
                    self._loop.step(self._first + decode, boundary)
                self._admit(decode, now)

    def _leave(self, side: int, instance: int, request: int, now: int) -> None:
        self._on[side][instance].discard(request)
        if self.breakers[side].dropped(instance, request):
            self._look(side, instance, now)

    def _stop(self, request: int) -> None:
        """A prompt is not computed to its end."""
        if self._cache is not None:
            self._cache.give_up(request)

    def _abort(self, request: int, prefill: int, now: int) -> None:
        """Take a prompt out of its line, or stop computing it."""
        self._stop(request)
        if self._computing[prefill] != request:
            self._queue[prefill].drop(request)
            return
        self._computing[prefill] = _NONE
        self._busy[prefill] = False
        self._view.prefill_running[prefill] = 0
        if self._queue[prefill]:
            self._start_prefill(prefill, now)
