"""Colocated serving: every instance prefills and decodes its own requests, and no cache moves.

Arrival -> the router picks an instance -> first in, first out -> the prompt is computed in chunks
that share the steps of the decoding batch -> the end of its last chunk is the first token -> one
token a step for the rest. A request with n tokens of output takes n - 1 decode steps, where a
disaggregated one takes n: there the decode side makes the first token anew.

Instances are those of the prefill pool and, numbered on, those of the decode pool, each with the
times and the memory of its own GPUs. ``prefill`` and ``decode`` of a request are the same number.
"""

from traffic.cache.holding import Held
from traffic.instance import Pool
from traffic.loop import Loop
from traffic.policy.choice import REFUSED, PolicyError, View
from traffic.record.ledger import FINISHED, REJECTED
from traffic.record.occupancy import Occupancy
from traffic.release import Releases
from traffic.serving.fleet import batches
from traffic.serving.member import Sequence
from traffic.serving.mode import Serving
from traffic.serving.router import Router


class Colocated:
    """The state of one service: its batches and what its router sees."""

    def __init__(self, loop: Loop, router: Router, releases: Releases, rules: Serving) -> None:
        deployment = router.service.deployment
        pools = (deployment.prefill, deployment.decode)
        ledger = loop.ledger
        self._rules = rules
        self._priority = ledger.priority if rules.order == "priority" else None
        self.releases = releases
        self._loop = loop
        self._ledger = ledger
        self._router = router
        self._pool: list[Pool] = [pool for pool in pools for _ in pool.instances]
        self._least = max(pool.kv_capacity_bytes for pool in pools)
        self._view = View.idle(router.service.hops, self._least)
        self._view.network = router.service.network
        self._cache = releases.prompts
        if self._cache is not None:
            sizes = len(self._pool), len(self._pool)
            self._view.prefix = Held(sizes, self._cache.holding, None, self._cache.first)
        for pool in pools:
            rules.check_batch(pool.max_batch)
        self._batch = [batch for pool in pools for batch in batches(pool, rules, self._priority)]
        self._began: dict[int, int] = {}  # steps made before, by prompt under way
        self._first = loop.batches(self, len(self._batch))

    @property
    def steps(self) -> list[int]:
        """Steps that have ended, of every batch."""
        return [batch.steps for batch in self._batch]

    def end(self, now: int) -> list[Occupancy]:
        """The run ends: what the memory of every batch held."""
        return [batch.end(now) for batch in self._batch]

    def arrive(self, request: int, now: int) -> None:
        """Choose an instance and wait there; refuse what its memory cannot hold."""
        ledger = self._ledger
        ledger.kv_bytes[request] = self._pool[0].kv_bytes(ledger.input_tokens[request])
        self._place(request, now)

    def _place(self, request: int, now: int) -> None:
        ledger, view = self._ledger, self._view
        tokens, output = ledger.input_tokens[request], ledger.output_tokens[request]
        view.now_ps = now
        if self._cache is not None:
            self._cache.expire(now)
        chosen = self._router.prefill(request, view)
        if chosen < 0:
            self._unplaced(request, chosen, now)
            return
        pool = self._pool[chosen]
        if pool.kv_bytes(tokens + max(output, 1)) > pool.kv_capacity_bytes:
            self._finish(request, now, REJECTED)
            return
        ledger.prefill[request] = chosen
        view.prefill_requests[chosen] += 1
        view.prefill_tokens[chosen] += tokens
        self._line_up(request, chosen, now)

    def _line_up(self, request: int, instance: int, now: int) -> None:
        """A prompt is given to an instance."""
        if self._cache is None:
            self._offer(request, 0, now)
        else:
            tokens = self._ledger.input_tokens[request]
            self._cache.fetch(request, tokens, instance, now, self._offer)

    def _unplaced(self, request: int, answer: int, now: int) -> None:
        """The router turned a request away, or found nobody although all are healthy."""
        if answer != REFUSED:
            raise PolicyError(
                f"policy {self._router.service.policy.name}: gave request {request} to nobody; "
                "answer a colocated instance, or REFUSED"
            )
        self._finish(request, now, REJECTED)

    def _finish(self, request: int, now: int, status: int = FINISHED) -> None:
        self._loop.finish(request, now, status)

    def _offer(self, request: int, cached: int, now: int) -> None:
        """Let a prompt join the line of its instance, which knows its first tokens."""
        ledger = self._ledger
        chosen = ledger.prefill[request]
        prompt = Sequence(request, ledger.input_tokens[request], ledger.output_tokens[request])
        boundary = self._batch[chosen].offer_prompt(prompt, now, cached)
        if boundary is not None:
            self._loop.step(self._first + chosen, boundary)

    def prefilled(self, request: int, now: int) -> None:
        """Never planned: prompts end at step boundaries."""

    def ready(self, request: int, now: int) -> None:
        """Never planned: nothing is handed over."""

    def turn(self, batch: int, now: int) -> None:
        """Let members leave and join, and note what the step that ended has done."""
        ledger, view, running = self._ledger, self._view, self._batch[batch]
        prefilled, left, evicted, _, began = running.turn(now)
        if running.working:
            self._loop.step(self._first + batch, running.boundary_ps(running.steps_to_go))
        for request in began:
            if ledger.prefill_start_ps[request] < 0:
                ledger.prefill_start_ps[request] = now
                self._began[request] = running.steps
        for request in evicted:
            ledger.preemptions[request] += 1
        for request in prefilled:
            if ledger.prefill_end_ps[request] >= 0:
                continue
            ledger.prefill_end_ps[request] = now
            ledger.prompt_steps[request] = running.steps - self._began.pop(request)
            if self._cache is not None:
                self._cache.end(request, ledger.input_tokens[request], batch, now)
            if ledger.output_tokens[request]:
                ledger.decode[request] = batch
                ledger.kv_ready_ps[request] = now
                ledger.decode_start_ps[request] = now
                ledger.first_token_ps[request] = now
        for request in left:
            view.prefill_requests[batch] -= 1
            view.prefill_tokens[batch] -= ledger.input_tokens[request]
            self._finish(request, now)
