"""The serving model: requests queue, prefill, hand their KV cache over, and decode.

Arrival -> the router picks a prefill instance -> first-in first-out queue, one prompt at a time ->
at the prefill's end the router picks a decode instance -> KV memory is reserved there for the
whole sequence, first in first out -> the flows of the hand-off are released one control delay
later -> when the last of them has arrived the cache is ready -> after another control delay the
request joins the batch at the next step boundary -> one token a step until it is finished. The
first visible token is the first decode step's (vllm-project/vllm#51919), so the time to first
token includes the hand-off. A layer-wise hand-off picks and reserves when the prefill starts and
releases each chunk of layers a control delay after it is computed; a pulled one waits for another
control delay and for the read request to travel from decode to prefill.

The emulator may have run past a completion that it reports, by less than the control delay; what
a completion causes therefore happens a control delay later. Events at one instant are taken in
the order (time, kind, id), kinds as in `_Kind`. Times are integer picoseconds; the only randomness
is the policy's. Not modelled: memory limits, batching and chunks in prefill; prefix reuse;
failures.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from heapq import heapify, heappop, heappush
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from topo.error import KvfabricError
from topo.unit import PS_PER_S, PS_PER_US
from traffic.batch import Batch, Sequence
from traffic.emulator import Emulator, Table
from traffic.instance import Deployment
from traffic.layer import all_layers, chunks
from traffic.policy.choice import Policy, PolicyError, Request, View, check_reach
from traffic.release import MOMENTS, Releases
from traffic.request import RequestTable

DEFAULT_CONTROL_DELAY_PS: Final = 20 * PS_PER_US
"""From a decision to its effect: routers need tens of microseconds."""

STALL_PS: Final = 100 * PS_PER_S
"""Emulated time without any completion, when nothing else can happen, after which a run ends."""

FINISHED: Final = 0
IN_FLIGHT: Final = 1
REJECTED: Final = 2

_TIMES: Final = (
    "prefill_start_ps",
    "prefill_end_ps",
    "kv_ready_ps",
    "decode_start_ps",
    "first_token_ps",
    "finish_ps",
)


class ServingError(KvfabricError):
    """A run that cannot be: a control delay of nothing, a distance table of the wrong shape."""


class _Kind(IntEnum):
    """What happens first at one instant."""

    PREFILL_END = 0
    READY = 1
    STEP = 2
    ARRIVAL = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of every request.

    requests: one row a request, int64, -1 where not reached: ``request arrival_ps input_tokens
    output_tokens kv_bytes prefill decode prefill_start_ps prefill_end_ps kv_ready_ps
    decode_start_ps first_token_ps finish_ps status`` (0 finished, 1 in flight when the run ended,
    2 rejected) and `traffic.release.MOMENTS`. ``kv_bytes`` is the cache of the prompt. A request
    without output ends with its prefill: no hand-off, no first token.

    flows: all submitted `FLOW` rows; a flow's hand-off carries the request's number.
    end_ps: when the run ended. notes: plain sentences on what a reader should know.
    """

    requests: Table
    flows: NDArray[np.void]
    end_ps: int
    notes: tuple[str, ...] = ()


def serve(
    requests: RequestTable,
    deployment: Deployment,
    policy: Policy,
    emulator: Emulator,
    *,
    hops: NDArray[np.int32],
    latency_ps: NDArray[np.int64] | None = None,
    control_delay_ps: int = DEFAULT_CONTROL_DELAY_PS,
    until_ps: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    seed: int = 0,
) -> Outcome:
    """Serve the requests until all are done, or until ``until_ps``.

    ``hops`` is prefill x decode instances, links crossed, -1 where there is no path (see
    `traffic.instance.links`); ``latency_ps`` likewise the time of a read request between them
    (`traffic.instance.latencies`), which a pulled hand-off needs. ``control_delay_ps`` must be at
    least the emulator's window. ``progress`` is called now and then with the requests done and
    their number. ``seed`` makes the entropy of the flows. The emulator must be fresh.

    Raises `PolicyError` when the policy may pick, or picks, a pair without a path.
    """
    shape = (len(deployment.prefill.instances), len(deployment.decode.instances))
    if hops.shape != shape:
        raise ServingError(f"hops {hops.shape}: must be prefill x decode instances, {shape}")
    if control_delay_ps < 1:
        raise ServingError(
            f"control delay {control_delay_ps} ps: a decision takes time; write e.g. 20us"
        )
    if deployment.handoff.pull and (latency_ps is None or latency_ps.shape != shape):
        raise ServingError(
            "a pulled hand-off starts with a read request: give latency_ps, one row a prefill "
            f"and one column a decode instance, {shape}"
        )
    check_reach(policy, hops)
    run = _Run(requests, deployment, policy, emulator, hops, latency_ps, control_delay_ps, seed)
    run.go(until_ps, progress)
    return run.outcome()


class _Run:
    """The state of one run."""

    def __init__(
        self,
        requests: RequestTable,
        deployment: Deployment,
        policy: Policy,
        emulator: Emulator,
        hops: NDArray[np.int32],
        latency_ps: NDArray[np.int64] | None,
        control_delay_ps: int,
        seed: int,
    ) -> None:
        self._deployment = deployment
        self._policy = policy
        self._emulator = emulator
        self._delay = control_delay_ps
        self._latency = latency_ps if deployment.handoff.pull else None
        count = self._count = len(requests)
        self._arrival: list[int] = requests.arrival_ps.tolist()
        self._input: list[int] = requests.input_tokens.tolist()
        self._output: list[int] = requests.output_tokens.tolist()
        self._about = list(
            zip(
                requests.session.tolist(),
                requests.tenant.tolist(),
                requests.priority.tolist(),
                strict=True,
            )
        )
        prefill, decode = deployment.prefill, deployment.decode
        self._capacity = decode.kv_capacity_bytes
        self._view = View.idle(hops, self._capacity)
        self._kv = [prefill.kv_bytes(tokens) for tokens in self._input]
        self._need = [
            decode.kv_bytes(i + o) for i, o in zip(self._input, self._output, strict=True)
        ]
        self._prefill = [-1] * count
        self._decode = [-1] * count
        self._at = {name: [-1] * count for name in _TIMES}
        self._status = [IN_FLIGHT] * count
        self._queue: list[deque[int]] = [deque() for _ in prefill.instances]
        self._batch = [
            Batch(decode.model, decode.decode_cost, decode.max_batch, decode.kv_dtype)
            for _ in decode.instances
        ]
        self._plan = [0] * len(decode.instances)
        self._reserved = [0] * len(decode.instances)
        self._waiting: list[deque[int]] = [deque() for _ in decode.instances]
        self._events = [(at, int(_Kind.ARRIVAL), r, 0) for r, at in enumerate(self._arrival)]
        heapify(self._events)
        self._prefill_ps: dict[int, int] = {}
        how, kind = deployment.handoff, prefill.model
        self._releases = Releases(
            deployment,
            emulator,
            count=count,
            seed=seed,
            delay_ps=control_delay_ps,
            prefix=requests.prefix,
        )
        self._whole = all_layers(kind)
        self._chunks = chunks(kind, how.layers_per_chunk) if how.layer_wise else ()
        self._done = 0
        self._end = 0

    def go(self, until_ps: int | None, progress: Callable[[int, int], None] | None) -> None:
        """Alternate between the emulator and the events until nothing is left to do."""
        told, step = 0, max(1, self._count // 200)
        while self._done < self._count:
            at = self._events[0][0] if self._events else self._end + STALL_PS
            if until_ps is not None:
                at = min(at, until_ps)
            if self._releases.under_way:
                advance = self._emulator.advance(at)
                self._end = advance.now_ps
                if advance.completions.size:
                    self._complete(advance.completions)
                    continue
            self._end = at
            if not self._events or self._events[0][0] > at:
                break
            while self._events and self._events[0][0] == at:
                _, kind, number, plan = heappop(self._events)
                self._take(kind, number, plan, at)
            if progress is not None and self._done - told >= step:
                told = self._done
                progress(told, self._count)
        if progress is not None:
            progress(self._done, self._count)

    def _take(self, kind: int, number: int, plan: int, now: int) -> None:
        if kind == _Kind.STEP:
            if plan == self._plan[number]:
                self._turn(number, now)
        elif kind == _Kind.READY:
            self._ready(number, now)
        elif kind == _Kind.PREFILL_END:
            self._prefilled(number, now)
        else:
            self._arrive(number, now)

    def _ask(self, request: int) -> Request:
        return Request(
            request,
            self._input[request],
            self._output[request],
            self._kv[request],
            *self._about[request],
        )

    def _arrive(self, request: int, now: int) -> None:
        if self._output[request] and self._need[request] > self._capacity:
            self._status[request] = REJECTED
            self._done += 1
            return
        view = self._view
        chosen = self._policy.prefill(self._ask(request), view)
        self._check("prefill", chosen, len(self._queue))
        self._prefill[request] = chosen
        view.prefill_requests[chosen] += 1
        view.prefill_tokens[chosen] += self._input[request]
        queue = self._queue[chosen]
        queue.append(request)
        if len(queue) == 1:
            self._start_prefill(request, now)

    def _check(self, side: str, chosen: int, count: int) -> None:
        if not 0 <= chosen < count:
            raise PolicyError(
                f"policy {self._policy.name}: chose {side} instance {chosen} of {count}; "
                f"answer 0 to {count - 1}"
            )

    def _start_prefill(self, request: int, now: int) -> None:
        tokens = self._input[request]
        duration = self._prefill_ps.get(tokens)
        if duration is None:
            duration = self._deployment.prefill.prefill_cost.ps(tokens)
            self._prefill_ps[tokens] = duration
        self._at["prefill_start_ps"][request] = now
        heappush(self._events, (now + duration, int(_Kind.PREFILL_END), request, 0))
        if self._chunks and self._output[request]:
            self._choose_decode(request, now)

    def _prefilled(self, request: int, now: int) -> None:
        prefill = self._prefill[request]
        view = self._view
        self._at["prefill_end_ps"][request] = now
        view.prefill_requests[prefill] -= 1
        view.prefill_tokens[prefill] -= self._input[request]
        queue = self._queue[prefill]
        queue.popleft()
        if queue:
            self._start_prefill(queue[0], now)
        if not self._output[request]:
            self._finish(request, now)
        elif not self._chunks:
            self._choose_decode(request, now)

    def _choose_decode(self, request: int, now: int) -> None:
        prefill, view = self._prefill[request], self._view
        chosen = self._policy.decode(self._ask(request), prefill, view)
        self._check("decode", chosen, len(self._batch))
        if view.hops[prefill, chosen] < 0:
            raise PolicyError(
                f"policy {self._policy.name}: chose prefill {prefill} -> decode {chosen}, which "
                "has no path in this fabric; let `pairs` tell so beforehand"
            )
        self._decode[request] = chosen
        view.decode_requests[chosen] += 1
        view.decode_bytes[chosen] += self._need[request]
        self._waiting[chosen].append(request)
        self._admit(chosen, now)

    def _admit(self, decode: int, now: int) -> None:
        """Reserve memory for those that wait at a decode instance, in turn, while it fits."""
        waiting = self._waiting[decode]
        while waiting and self._reserved[decode] + self._need[waiting[0]] <= self._capacity:
            request = waiting.popleft()
            self._reserved[decode] += self._need[request]
            self._send(request, now)

    def _send(self, request: int, now: int) -> None:
        prefill, decode = self._prefill[request], self._decode[request]
        release = now + self._delay
        if self._latency is not None:
            release += self._delay + int(self._latency[prefill, decode])
        parts = [(release, self._whole)]
        if self._chunks:
            start = self._at["prefill_start_ps"][request]
            took = self._prefill_ps[self._input[request]]
            parts = [
                (max(start + took * done // self._whole.total, now) + self._delay, layers)
                for layers, done in self._chunks
            ]
        self._releases.send(request, self._input[request], (prefill, decode), parts, now)

    def _complete(self, completions: NDArray[np.void]) -> None:
        for request, at in self._releases.ready(completions):
            self._at["kv_ready_ps"][request] = at
            heappush(self._events, (at + self._delay, int(_Kind.READY), request, 0))

    def _ready(self, request: int, now: int) -> None:
        decode = self._decode[request]
        sequence = Sequence(request, self._input[request], self._output[request])
        boundary = self._batch[decode].offer(sequence, now)
        if boundary is not None:
            self._plan_step(decode, boundary)

    def _plan_step(self, decode: int, at: int) -> None:
        self._plan[decode] += 1
        heappush(self._events, (at, int(_Kind.STEP), decode, self._plan[decode]))

    def _turn(self, decode: int, now: int) -> None:
        batch = self._batch[decode]
        left, joined = batch.turn(now)
        if len(batch):
            first = batch.boundary_ps(1)
            for sequence in joined:
                self._at["decode_start_ps"][sequence.request] = now
                self._at["first_token_ps"][sequence.request] = first
            self._plan_step(decode, batch.boundary_ps(batch.steps_to_go))
        for request in left:
            self._view.decode_requests[decode] -= 1
            self._view.decode_bytes[decode] -= self._need[request]
            self._reserved[decode] -= self._need[request]
            self._finish(request, now)
        if left:
            self._admit(decode, now)

    def _finish(self, request: int, now: int) -> None:
        self._at["finish_ps"][request] = now
        self._status[request] = FINISHED
        self._done += 1

    def outcome(self) -> Outcome:
        """The tables of the run so far; times beyond its end are not reached."""
        columns: dict[str, ArrayLike] = {
            "request": list(range(self._count)),
            "arrival_ps": self._arrival,
            "input_tokens": self._input,
            "output_tokens": self._output,
            "kv_bytes": self._kv,
            "prefill": self._prefill,
            "decode": self._decode,
            **{name: self._at[name] for name in _TIMES[:2]},
            **self._releases.moments,
            **{name: self._at[name] for name in _TIMES[2:]},
            "status": self._status,
        }
        table: Table = {name: np.array(values, np.int64) for name, values in columns.items()}
        for name in (*_TIMES, *MOMENTS):
            times = table[name]
            times[times > np.int64(self._end)] = -1
        notes: list[str] = []
        rejected = self._status.count(REJECTED)
        if rejected:
            notes.append(
                f"{rejected} request(s) were rejected: their context needs more KV memory than a "
                f"decode instance has ({self._capacity} bytes)."
            )
        empty = self._output.count(0)
        if empty:
            notes.append(f"{empty} request(s) have no output and end with their prefill.")
        return Outcome(table, self._releases.table(), self._end, tuple(notes))
