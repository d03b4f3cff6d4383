"""Disaggregated serving: one pool prefills, the KV cache crosses the fabric, another pool decodes.

Arrival -> the router picks a prefill instance -> first in, first out, one prompt at a time -> at
the prefill's end the router picks a decode instance -> KV memory is reserved there, first in first
out -> the flows of the hand-off are released one control delay later -> when the last of them has
arrived the cache is ready -> after another control delay the request joins the batch at the next
step boundary -> one token a step until it is finished. The first visible token is the first decode
step's (vllm-project/vllm#51919), so the time to first token includes the hand-off.

A layer-wise hand-off picks and reserves when the prefill starts and releases each chunk of layers
a control delay after it is computed; a pulled one waits for another control delay and for the read
request to travel from decode to prefill.

Where decode is chosen first or with prefill, that happens at arrival (`traffic.serving.router`). A
prompt that its decode instance computes itself (`traffic.serving.local`) shares the steps of the
batch there, as in `traffic.serving.colocated`: no prefill instance, no hand-off, and the end of its
last chunk is the first token.
"""

from functools import partial
from typing import Final

from topo.unit import PS_PER_MS, show_duration
from traffic.cache.holding import Held
from traffic.handoff.layer import all_layers, chunks
from traffic.loop import PREFILL_END, STALL_PS, Loop
from traffic.policy.choice import LATER, REFUSED, PolicyError, View
from traffic.record.ledger import FINISHED, REJECTED
from traffic.record.occupancy import Occupancy
from traffic.release import Releases
from traffic.serving.fleet import batches
from traffic.serving.line import Line
from traffic.serving.member import Sequence
from traffic.serving.mode import Serving
from traffic.serving.router import Router
from traffic.view.forecast import Forecast

HOLD_PS: Final = PS_PER_MS
"""After so long a request that its policy holds back is asked about again."""


class Disaggregated:
    """The state of one service: its queues, batches and what its router sees."""

    def __init__(self, loop: Loop, router: Router, releases: Releases, rules: Serving) -> None:
        deployment = router.service.deployment
        prefill, decode = deployment.prefill, deployment.decode
        ledger = loop.ledger
        self._rules = rules
        self._priority = priority = ledger.priority if rules.order == "priority" else None
        self.releases = releases
        self._loop = loop
        self._ledger = ledger
        self._router = router
        self._prefill = prefill
        self._decode = decode
        self._capacity = decode.kv_capacity_bytes
        self._latency = router.service.latency_ps if deployment.handoff.pull else None
        self._view = View.idle(router.service.hops, self._capacity)
        self._view.network = router.service.network
        self._view.nic_share = deployment.nic_share
        self._view.time = Forecast(prefill, decode)
        self._queue = [Line(priority) for _ in prefill.instances]
        self._busy = [False] * len(prefill.instances)
        self._waiting = [Line(priority) for _ in decode.instances]
        self._batch = batches(decode, rules, priority)
        if router.service.local is not None:
            rules.check_batch(decode.max_batch)
        self._prompt = [prefill.time_of(i) for i in range(len(prefill.instances))]
        self._first = loop.batches(self, len(self._batch))
        releases.boundary = lambda decode, at: self._batch[decode].next_boundary(at)
        self._whole = all_layers(prefill.model)
        how = deployment.handoff
        self._chunks = chunks(prefill.model, how.layers_per_chunk) if how.layer_wise else ()
        self._span: dict[int, tuple[int, int]] = {}  # when layers are computed, for their release
        self._cache = cache = releases.prompts
        if cache is not None or releases.holding is not None:
            sizes = len(prefill.instances), len(decode.instances)
            self._view.prefix = (
                Held(sizes, None, releases.holding, None)
                if cache is None
                else Held(sizes, cache.holding, releases.holding, cache.first)
            )

    def _need(self, request: int) -> int:
        """The decode memory of the whole sequence."""
        ledger = self._ledger
        return self._decode.kv_bytes(ledger.input_tokens[request] + ledger.output_tokens[request])

    @property
    def steps(self) -> list[int]:
        """Steps that have ended, of every batch."""
        return [batch.steps for batch in self._batch]

    def end(self, now: int) -> list[Occupancy]:
        """The run ends: what the memory of every batch held."""
        return [batch.end(now) for batch in self._batch]

    def arrive(self, request: int, now: int) -> None:
        """Choose a prefill instance and wait there; refuse what no decode memory can hold."""
        ledger = self._ledger
        ledger.kv_bytes[request] = self._prefill.kv_bytes(ledger.input_tokens[request])
        if ledger.output_tokens[request] and self._need(request) > self._capacity:
            self._finish(request, now, REJECTED)
            return
        self._place(request, now)

    def _place(self, request: int, now: int) -> None:
        """Ask the router where a request goes."""
        ledger, view = self._ledger, self._view
        view.now_ps = now
        if self._cache is not None:
            self._cache.expire(now)
        need = self._need(request) if self._router.service.local is not None else 0
        chosen, decode, local = self._router.place(request, view, need)
        if chosen < 0:
            self._unplaced(request, chosen, now)
            return
        if decode >= 0:
            self._promise(request, decode)
        if local:
            self._serve_here(request, decode, now)
            return
        ledger.prefill[request] = chosen
        view.prefill_requests[chosen] += 1
        view.prefill_tokens[chosen] += ledger.input_tokens[request]
        took = self._expected(request, chosen)
        view.prefill_free_ps[chosen] = max(int(view.prefill_free_ps[chosen]), now) + took
        self._line_up(request, chosen, now)

    def _line_up(self, request: int, instance: int, now: int) -> None:
        """A prompt joins the line of a prefill instance."""
        self._queue[instance].add(request)
        if self._cache is not None:
            self._cache.queued(request, self._ledger.input_tokens[request], instance, now)
        if not self._busy[instance]:
            self._start_prefill(instance, now)

    def _unplaced(self, request: int, answer: int, now: int) -> None:
        """The router turned a request away, holds it back, or found nobody although all are
        healthy."""
        if answer == LATER:
            self._hold(request, now)
            return
        if answer != REFUSED:
            raise PolicyError(
                f"policy {self._router.service.policy.name}: chose nobody for request {request} "
                "although every instance is healthy; answer an instance, or REFUSED"
            )
        self._finish(request, now, REJECTED)

    def _finish(self, request: int, now: int, status: int = FINISHED) -> None:
        self._loop.finish(request, now, status)

    def _hold(self, request: int, now: int) -> None:
        """Ask the router again a little later, but not without end."""
        if now - self._ledger.arrival_ps[request] > STALL_PS:
            raise PolicyError(
                f"policy {self._router.service.policy.name}: held request {request} back for more "
                f"than {show_duration(STALL_PS)}; answer REFUSED to turn it away"
            )
        self._loop.call(now + HOLD_PS, partial(self._place, request))

    def _serve_here(self, request: int, decode: int, now: int) -> None:
        """Let the decode instance compute the prompt, in the steps of its batch."""
        ledger = self._ledger
        tokens, output = ledger.input_tokens[request], ledger.output_tokens[request]
        held = tokens - self.releases.missing(request, tokens, decode)
        boundary = self._batch[decode].offer_prompt(Sequence(request, tokens, output), now, held)
        if boundary is not None:
            self._loop.step(self._first + decode, boundary)

    def _start_prefill(self, instance: int, now: int) -> None:
        request = self._queue[instance].take()
        self._busy[instance] = True
        self._view.prefill_running[instance] = 1
        self._ledger.prefill_start_ps[request] = now
        tokens = self._ledger.input_tokens[request]
        if self._cache is None:
            took = self._prompt[instance].prefill_ps(tokens)
            self._compute(request, now, now + took, now)
        else:
            self._cache.start(request, tokens, instance, now, self._compute)

    def _expected(self, request: int, instance: int) -> int:
        """The prefill's time as the router predicts it."""
        tokens = self._ledger.input_tokens[request]
        if self._cache is None:
            return self._prompt[instance].prefill_ps(tokens)
        return self._cache.expected_ps(request, tokens, instance)

    def _compute(self, request: int, begin: int, end: int, now: int) -> None:
        """The layers of a prompt are computed from begin to end, as is known now."""
        self._loop.at(end, PREFILL_END, request)
        if self._chunks and self._ledger.output_tokens[request]:
            self._span[request] = (begin, end - begin)
            self._choose_decode(request, now)

    def prefilled(self, request: int, now: int) -> None:
        """Free the instance for the next prompt and hand the cache over."""
        ledger, view = self._ledger, self._view
        instance = ledger.prefill[request]
        ledger.prefill_end_ps[request] = now
        view.prefill_requests[instance] -= 1
        view.prefill_tokens[instance] -= ledger.input_tokens[request]
        view.prefill_running[instance] = 0
        self._busy[instance] = False
        if self._cache is not None:
            self._cache.end(request, ledger.input_tokens[request], instance, now)
        if self._queue[instance]:
            self._start_prefill(instance, now)
        else:
            view.prefill_free_ps[instance] = now
        if not ledger.output_tokens[request]:
            self._finish(request, now)
        elif not self._chunks:
            self._choose_decode(request, now)

    def _choose_decode(self, request: int, now: int) -> None:
        ledger, view = self._ledger, self._view
        view.now_ps = now
        chosen = ledger.decode[request]
        if chosen < 0:
            chosen = self._router.decode(request, ledger.prefill[request], view)
            if chosen < 0:
                self._unplaced(request, chosen, now)
                return
            self._promise(request, chosen)
        self._waiting[chosen].add(request)
        self._admit(chosen, now)

    def _promise(self, request: int, decode: int) -> None:
        """A decode instance is chosen; the router counts the request there from now on."""
        ledger, view = self._ledger, self._view
        ledger.decode[request] = decode
        view.decode_requests[decode] += 1
        view.decode_tokens[decode] += ledger.input_tokens[request]
        view.decode_bytes[decode] += self._need(request)

    def _admit(self, decode: int, now: int) -> None:
        """Reserve memory for those that wait at a decode instance, in turn, while it fits."""
        waiting, batch, ledger = self._waiting[decode], self._batch[decode], self._ledger
        while waiting:
            request = waiting.first
            tokens = ledger.input_tokens[request]
            fits, boundary = batch.reserve(tokens, tokens + ledger.output_tokens[request], now)
            if boundary is not None:
                self._loop.step(self._first + decode, boundary)
            if not fits:
                break
            waiting.take()
            self._send(request, now)

    def _send(self, request: int, now: int) -> None:
        ledger, delay = self._ledger, self._loop.delay_ps
        prefill, decode = ledger.prefill[request], ledger.decode[request]
        tokens = ledger.input_tokens[request]
        release = now + delay
        if self._latency is not None:
            release += delay + int(self._latency[prefill, decode])
        parts = [(release, self._whole)]
        if self._chunks:
            start, took = self._span.pop(request)
            parts = [
                (max(start + took * done // self._whole.total, now) + delay, layers)
                for layers, done in self._chunks
            ]
        self.releases.send(request, tokens, (prefill, decode), parts, now)

    def ready(self, request: int, now: int) -> None:
        """Wait for the next step of the decode instance."""
        ledger = self._ledger
        decode = ledger.decode[request]
        self._view.handoff_ps.append(ledger.kv_ready_ps[request] - ledger.prefill_end_ps[request])
        sequence = Sequence(request, ledger.input_tokens[request], ledger.output_tokens[request])
        boundary = self._batch[decode].offer(sequence, now)
        if boundary is not None:
            self._loop.step(self._first + decode, boundary)

    def turn(self, batch: int, now: int) -> None:
        """Let members leave and join, and those that wait for memory send their caches."""
        ledger, view, running = self._ledger, self._view, self._batch[batch]
        prefilled, left, evicted, joined, began = running.turn(now)
        if running.working:
            self._loop.step(self._first + batch, running.boundary_ps(running.steps_to_go))
        if joined:
            first = running.boundary_ps(1)
            for request in joined:
                if ledger.first_token_ps[request] < 0:
                    ledger.decode_start_ps[request] = now
                    ledger.first_token_ps[request] = first
        for request in evicted:
            ledger.preemptions[request] += 1
        for request in began:
            if ledger.prefill[request] < 0:
                if ledger.prefill_start_ps[request] < 0:
                    ledger.prefill_start_ps[request] = now
            elif ledger.decode_start_ps[request] < 0:
                ledger.decode_start_ps[request] = now
        for request in prefilled:
            if ledger.first_token_ps[request] >= 0:
                continue
            ledger.first_token_ps[request] = now
            if ledger.prefill[request] < 0:
                ledger.prefill_end_ps[request] = now
                ledger.kv_ready_ps[request] = now
                ledger.decode_start_ps[request] = now
                self.releases.keep(request, batch)
        for request in left:
            view.decode_requests[batch] -= 1
            view.decode_bytes[batch] -= self._need(request)
            view.decode_tokens[batch] -= ledger.input_tokens[request]
            self._finish(request, now)
        view.decode_running[batch] = len(running)
        if self._waiting[batch]:
            self._admit(batch, now)
