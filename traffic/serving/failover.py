"""Disaggregated serving whose instances fail; `traffic.failure.attempt` tells what becomes of
attempts.

What dies with an instance are prompts that wait or are computed and caches that are not handed
over, or sequences that decode. When the router gives an attempt up, a decode reservation, a place
in a prefill queue or a prompt that is computed is given back.

Flows that were released cannot be taken back from the network: those of an abandoned hand-off go
on to their end as if nobody had died, and no request waits for them. Messages that were to follow
are not sent. In the ledger a retried request has the times of its last attempt, so that what the
others took is queueing.
"""

from typing import Final

from traffic.failure.attempt import Attempts
from traffic.failure.resilience import Hazard
from traffic.failure.toll import Toll
from traffic.loop import Loop
from traffic.policy.choice import NOBODY
from traffic.record.ledger import FAILED, FINISHED, TIMES
from traffic.release import Releases
from traffic.serving.batch import Batch
from traffic.serving.disaggregated import Disaggregated
from traffic.serving.fleet import batch_of
from traffic.serving.line import Line
from traffic.serving.mode import Serving
from traffic.serving.router import Router

P: Final = 0
D: Final = 1
_NONE: Final = -1


class Failover(Disaggregated):
    """A `Disaggregated` service that meets its `Hazard`; the cost is entered in the ``toll``."""

    def __init__(
        self, loop: Loop, router: Router, releases: Releases, rules: Serving, toll: Toll
    ) -> None:
        super().__init__(loop, router, releases, rules)
        self._sent = releases.sent = {}
        self._toll = toll
        sizes = len(self._prefill.instances), len(self._decode.instances)
        hazard = (router.service.hazard or Hazard()).ordered(sizes)
        masks = self._view.prefill_healthy, self._view.decode_healthy
        self.attempts = Attempts(loop, hazard, masks, self, toll, router.seed)
        self._computing = [_NONE] * sizes[P]
        self._holds: dict[int, Batch] = {}  # who has memory reserved, and where

    def arrive(self, request: int, now: int) -> None:
        """A request is here."""
        self.attempts.arrived()
        super().arrive(request, now)

    def again(self, request: int, now: int) -> None:
        """Ask the router: for both instances, or for the decode instance of a computed prompt."""
        if self._ledger.prefill[request] < 0:
            self._place(request, now)
        else:
            self._choose_decode(request, now)

    def _place(self, request: int, now: int) -> None:
        super()._place(request, now)
        prefill, decode = self._ledger.prefill[request], self._ledger.decode[request]
        if prefill < 0 and decode < 0:
            return
        attempts = self.attempts
        attempts.sent(request)
        if prefill >= 0:
            attempts.bind(P, prefill, request, now)
        for side, instance in ((P, prefill), (D, decode)):
            if instance >= 0 and not attempts.up(side, instance):
                attempts.lose(request, side, instance, now)

    def _line_up(self, request: int, instance: int, now: int) -> None:
        if self.attempts.up(P, instance):
            super()._line_up(request, instance, now)

    def _start_prefill(self, instance: int, now: int) -> None:
        self._computing[instance] = self._queue[instance].first
        super()._start_prefill(instance, now)

    def prefilled(self, request: int, now: int) -> None:
        """A prompt is computed; if its decode instance died meanwhile, it is in vain."""
        instance = self._ledger.prefill[request]
        self._computing[instance] = _NONE
        super().prefilled(request, now)
        self.attempts.served(P, instance, request, now)

    def _choose_decode(self, request: int, now: int) -> None:
        if self.attempts.lost(request):
            return
        super()._choose_decode(request, now)
        decode = self._ledger.decode[request]
        if decode >= 0 and not self.attempts.up(D, decode):
            self.attempts.lose(request, D, decode, now)

    def _promise(self, request: int, decode: int) -> None:
        super()._promise(request, decode)
        self.attempts.bind(D, decode, request, self._view.now_ps)

    def _serve_here(self, request: int, decode: int, now: int) -> None:
        if self.attempts.up(D, decode):
            super()._serve_here(request, decode, now)

    def _admit(self, decode: int, now: int) -> None:
        if self.attempts.up(D, decode):
            super()._admit(decode, now)

    def _send(self, request: int, now: int) -> None:
        self._holds[request] = self._batch[self._ledger.decode[request]]
        super()._send(request, now)

    def ready(self, request: int, now: int) -> None:
        """A cache is in its place: the prefill instance has done its part."""
        if self.attempts.lost(request):
            return
        prefill, decode = self._ledger.prefill[request], self._ledger.decode[request]
        del self._holds[request]
        self.attempts.unbind(P, prefill, request)
        super().ready(request, now)
        self.attempts.served(D, decode, request, now)

    def _finish(self, request: int, now: int, status: int = FINISHED) -> None:
        prefill, decode = self._ledger.prefill[request], self._ledger.decode[request]
        if prefill >= 0:
            self.attempts.unbind(P, prefill, request)
        if decode >= 0:
            self.attempts.unbind(D, decode, request)
            self.attempts.served(D, decode, request, now)
        self._sent.pop(request, None)
        self.attempts.over(request)
        super()._finish(request, now, status)

    def fail(self, request: int, now: int) -> None:
        """A request has failed."""
        self._finish(request, now, FAILED)

    def _unplaced(self, request: int, answer: int, now: int) -> None:
        if answer != NOBODY or self.attempts.all_healthy:
            super()._unplaced(request, answer, now)
        else:
            self.attempts.wait(request, now)

    def empty(self, side: int, instance: int) -> None:
        """An instance died: prompts, sequences and prefix blocks are gone."""
        if side == P:
            self._queue[instance] = Line(self._priority)
            self._busy[instance] = False
            self._computing[instance] = _NONE
            self._view.prefill_running[instance] = 0
            if self._cache is not None:
                self._cache.clear(instance)
            return
        dead = self._batch[instance]
        self._batch[instance] = batch_of(self._decode, instance, self._rules, self._priority)
        self._batch[instance].follow(dead, self._loop.end_ps)
        self._waiting[instance] = Line(self._priority)
        self._loop.halt(self._first + instance)
        self._view.decode_running[instance] = 0
        self.releases.clear(instance)

    def outlives(self, request: int, side: int) -> bool:
        """Whether its cache has left the prefill instance."""
        return side == P and self._ledger.kv_ready_ps[request] >= 0

    def stop(self, request: int, side: int) -> None:
        """End a hand-off and the wait for memory; with the prefill instance, the prompt too."""
        self.releases.abandon(request)
        decode = self._ledger.decode[request]
        if decode >= 0:
            self._waiting[decode].drop(request)
        if side == P:
            self._loop.forget(request)
            self._read_no_more(request)

    def withdraw(self, request: int, until: int, now: int) -> None:
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
            self.attempts.leave(P, prefill, request, now)
            if end < 0:
                view.prefill_requests[prefill] -= 1
                view.prefill_tokens[prefill] -= tokens
                self._abort(request, prefill, now)
                if not self._busy[prefill]:
                    view.prefill_free_ps[prefill] = now
        if decode >= 0:
            self.attempts.leave(D, decode, request, now)
            view.decode_requests[decode] -= 1
            view.decode_tokens[decode] -= tokens
            view.decode_bytes[decode] -= self._need(request)
            if self._holds.pop(request, None) is self._batch[decode]:
                boundary = self._batch[decode].cancel(tokens, tokens + output, now)
                if boundary is not None:
                    self._loop.step(self._first + decode, boundary)
                self._admit(decode, now)
            if not self._waiting[decode]:
                self._batch[decode].forgo(now)

    def _abort(self, request: int, prefill: int, now: int) -> None:
        """Take a prompt out of its line, or stop computing it."""
        self._read_no_more(request)
        if self._computing[prefill] != request:
            self._queue[prefill].drop(request)
            return
        self._computing[prefill] = _NONE
        self._busy[prefill] = False
        self._view.prefill_running[prefill] = 0
        if self._queue[prefill]:
            self._start_prefill(prefill, now)

    def _read_no_more(self, request: int) -> None:
        if self._cache is not None:
            self._cache.give_up(request)
