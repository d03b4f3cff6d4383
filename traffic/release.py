"""Hand-offs under way: from the decision to the cache in its place.

A hand-off passes the router, exchanges metadata, waits for the copies that gather it, and is then
handed to the emulator: all layers at one time, or one chunk of layers after the other. It is ready
when its last byte has arrived, the copies that scatter it are done and the notification of its end
is there. Each of these may be absent (`traffic.handoff.orchestration`, `traffic.handoff.copier`).
Control messages are flows of their own; their hand-off number is -1 - request, so that nothing
counts them as cache.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from traffic.cache.block import BlockCache, missing_tokens
from traffic.cache.holding import Holding
from traffic.cache.lookup import Blocks, block_bytes
from traffic.cache.prompt import PromptCache
from traffic.emulator import FLOW
from traffic.handoff.copier import Copier
from traffic.handoff.errand import of_pool
from traffic.handoff.flow import entropy, flows
from traffic.handoff.layer import Layers
from traffic.handoff.orchestration import Boundary, Dispatcher
from traffic.instance import Deployment, Pool
from traffic.record.book import Book


@dataclass(slots=True)
class _Open:
    """A hand-off that is not ready. ``waits`` counts the flows of its present stage."""

    tokens: int
    decode: int
    source: tuple[int, ...]
    destination: tuple[int, ...]
    chunks: Sequence[tuple[int, Layers]]
    overhead_ps: int
    posted: bool = False
    waits: int = 0
    scattered_ps: int = 0
    part: list[int] = field(default_factory=list)  # flows to come by chunk
    landing: list[NDArray[np.void]] = field(default_factory=list)  # their rows, to be scattered
    first_flow: int = 0
    stage: range = range(0)  # the flows that ``waits`` counted at first


class Releases:
    """Submits the hand-offs of one service and tells when they are ready.

    ``book`` is that of the run; hand-offs carry the numbers of their requests. ``delay_ps`` is the
    control delay, after which a side acts on a message; ``prefix`` the blocks of the prompts, for
    decode instances that keep them; ``priority`` that of every request, for hand-offs whose class
    on the network depends on it.
    """

    def __init__(
        self,
        deployment: Deployment,
        book: Book,
        *,
        seed: int,
        delay_ps: int,
        prefix: Blocks | None = None,
        priority: Sequence[int] = (),
    ) -> None:
        self._deployment = deployment
        self._handoff = how = deployment.handoff
        self._model = deployment.prefill.model
        self._dtype = deployment.prefill.kv_dtype
        self._book = book
        self._priority = priority
        self._seed = seed
        self._delay = delay_ps
        self.boundary: Boundary | None = None
        """The next step boundary of a decode instance, where transfers are posted at one."""
        self._router = Dispatcher(how.orchestration)
        lanes = deployment.servers if how.staging == "host" else {}
        self._copier = Copier(how.copy_bps, lanes) if how.copy_bps else None
        self._prefix = prefix
        self.holding: Holding | None = None
        """Which decode instance holds which blocks, where they keep some."""
        self._caches = self._kept(deployment.decode) if how.cache_bytes and prefix else []
        self.prompts: PromptCache | None = None
        """The caches of the prefill side, whose pool shares the emulator."""
        self._turn: dict[tuple[bool, int], int] = {}
        self._open: dict[int, _Open] = {}
        self._stray: set[int] = set()  # flows that no request waits for
        self._loose = 0  # those of them that are under way
        self.sent: dict[int, range] | None = None
        """The flows of every hand-off, where somebody asks."""
        self._moment = book.moment

    def _kept(self, pool: Pool) -> list[BlockCache]:
        assert self._prefix is not None
        most = self._handoff.cache_bytes // block_bytes(pool, self._prefix.block_tokens)
        self.holding = Holding(len(pool.instances))
        return [BlockCache(most, self.holding, i) for i in range(len(pool.instances))]

    @property
    def under_way(self) -> bool:
        """Whether the emulator has something of a hand-off or of the pool to deliver."""
        if self._open or self._loose > 0:
            return True
        return self.prompts is not None and self.prompts.under_way

    def send(
        self,
        request: int,
        tokens: int,
        pair: tuple[int, int],
        chunks: Sequence[tuple[int, Layers]],
        now_ps: int,
    ) -> None:
        """Hand chunks of layers from instance to instance of ``pair``, (prefill, decode).

        Each chunk leaves not before its time in picoseconds, at which it could without any
        orchestration; ``now_ps`` is when decode memory was reserved.
        """
        self._moment["admitted_ps"][request] = now_ps
        prefill, decode = pair
        # What orchestration puts off is the start: what follows it takes as long as without.
        overhead_ps = self._delay if self._handoff.layer_wise else chunks[0][0] - now_ps
        opened = self._open[request] = _Open(
            self.missing(request, tokens, decode),
            decode,
            self._ranks(self._deployment.prefill, prefill, False),
            self._ranks(self._deployment.decode, decode, True),
            chunks,
            overhead_ps,
        )
        start = self._router.dispatched(pair, now_ps)
        if self._handoff.orchestration.message_bytes:
            self._message(request, opened, start + self._delay, back=not self._handoff.pull)
        else:
            self._post(request, opened, start, now_ps)

    def abandon(self, request: int) -> None:
        """Nobody waits any more for a hand-off or a prompt's reads; what was released goes on."""
        opened = self._open.pop(request, None)
        if opened is not None:
            self._leave(opened)
        if self.prompts is not None:
            self.prompts.give_up(request)

    def clear(self, decode: int) -> None:
        """A decode instance lost all the blocks that it kept."""
        if self._caches:
            self._caches[decode].clear()

    def reset(self, request: int) -> None:
        """Write the moments of a hand-off as not reached."""
        for column in self._moment.values():
            column[request] = -1

    def _leave(self, opened: _Open) -> None:
        self._stray.update(opened.stage)
        self._loose += opened.waits

    def missing(self, request: int, tokens: int, decode: int) -> int:
        """Tokens that the decode instance does not hold; at least the last one of a prompt."""
        if not self._caches or self._prefix is None:
            return tokens
        blocks = self._prefix.of(request).tolist()
        return missing_tokens(tokens, self._caches[decode].held(blocks), self._prefix.block_tokens)

    def keep(self, request: int, decode: int) -> None:
        """The blocks of a prompt lie at a decode instance."""
        if self._caches and self._prefix is not None:
            self._caches[decode].keep(self._prefix.of(request).tolist())

    def _ranks(self, pool: Pool, instance: int, decode: bool) -> tuple[int, ...]:
        """The hosts that hold a request's cache: all, or those of the data-parallel rank whose
        turn it is."""
        hosts = pool.instances[instance]
        if pool.dp == 1:
            return hosts
        turn = self._turn.get((decode, instance), 0)
        self._turn[decode, instance] = (turn + 1) % pool.dp
        each = pool.tp // pool.dp
        return hosts[turn * each : (turn + 1) * each]

    def _post(self, request: int, opened: _Open, base_ps: int, now_ps: int) -> None:
        """Hand the flows to the emulator; nothing is sent before ``base_ps``."""
        if self._handoff.orchestration.align and self.boundary is not None:
            base_ps = self.boundary(opened.decode, base_ps)
        opened.posted = True
        opened.first_flow = next_flow = self._book.flows
        tables: list[NDArray[np.void]] = []
        for place, (first_ps, layers) in enumerate(opened.chunks):
            at_ps = max(first_ps, base_ps + opened.overhead_ps)
            if not place:
                self._moment["dispatched_ps"][request] = at_ps
            rows = flows(
                self._handoff,
                self._model,
                kv_bytes=layers.kv_bytes(self._model, opened.tokens, self._dtype),
                source=opened.source,
                destination=opened.destination,
                request=request,
                handoff_id=request,
                first_flow=next_flow,
                release_ps=at_ps,
                seed=self._seed,
                tokens=opened.tokens,
                layers=layers,
            )
            if self._copier is not None:
                end = self._copied(rows, "source", at_ps, now_ps)
                rows["release_ps"] = [end[host] for host in rows["source"].tolist()]
                opened.part.append(len(rows))
                opened.landing.append(rows)
            next_flow += len(rows)
            tables.append(rows)
        table = np.concatenate(tables) if len(tables) > 1 else tables[0]
        opened.waits = len(table)
        opened.stage = range(opened.first_flow, opened.first_flow + len(table))
        if self.sent is not None:
            self.sent[request] = opened.stage
        self._moment["handoff_release_ps"][request] = int(table["release_ps"].min())
        if self._handoff.classes:
            table["priority"] = self._class(request)
        self._book.submit(table)

    def _class(self, request: int) -> int:
        how = self._handoff
        return how.classes[self._priority[request]] if how.classes else how.priority

    def _copied(self, rows: NDArray[np.void], side: str, at_ps: int, now_ps: int) -> dict[int, int]:
        assert self._copier is not None
        return self._copier.copied(rows[side].tolist(), rows["bytes"].tolist(), at_ps, now_ps)

    def _message(self, request: int, opened: _Open, at_ps: int, *, back: bool) -> None:
        """A small flow for each rank of the side that has more, to its peer or from it."""
        ends = list(zip(opened.source, opened.destination, strict=False))
        p, d = len(opened.source), len(opened.destination)
        most = max(p, d)
        ends = [
            (opened.source[i * p // most], opened.destination[i * d // most]) for i in range(most)
        ]
        size = self._handoff.orchestration.message_bytes
        opened.waits = most
        opened.stage = range(self._book.flows, self._book.flows + most)
        rows = [
            (
                self._book.flows + rank,
                -1 - request,
                *((receiver, sender) if back else (sender, receiver)),
                size,
                1,
                entropy(self._seed, request, rank),
                -1,
                True,
                self._class(request),
                at_ps,
            )
            for rank, (sender, receiver) in enumerate(ends)
        ]
        self._book.submit(np.array(rows, FLOW))

    def ready(self, completions: NDArray[np.void]) -> Iterator[tuple[int, int]]:
        """The hand-offs that `COMPLETION` rows complete: (request, when its cache is ready)."""
        for flow, number, finish in completions.tolist():
            if self.prompts is not None and of_pool(number):
                self.prompts.arrived(flow, finish)
                continue
            request = number if number >= 0 else -1 - number
            if flow in self._stray:
                self._stray.remove(flow)
                self._loose -= 1
                continue
            opened = self._open[request]
            opened.waits -= 1
            if number < 0:
                if opened.waits:
                    continue
                if not opened.posted:
                    self._post(request, opened, finish, finish)
                    continue
                yield self._close(request, opened, finish)
                continue
            if self._copier is not None:
                self._landed(opened, flow, finish)
            if opened.waits:
                continue
            opened.scattered_ps = max(finish, opened.scattered_ps)
            self._moment["arrived_ps"][request] = finish
            self._moment["scattered_ps"][request] = opened.scattered_ps
            if not self._handoff.orchestration.message_bytes:
                yield self._close(request, opened, finish)
            elif self._handoff.pull:
                self._message(request, opened, opened.scattered_ps + self._delay, back=True)
                self._leave(opened)  # the reader's notification
                yield self._close(request, opened, finish)
            else:
                self._message(request, opened, finish + self._delay, back=False)

    def _landed(self, opened: _Open, flow: int, finish: int) -> None:
        """Scatter a chunk of layers when its last flow has arrived."""
        chunk, place = 0, flow - opened.first_flow
        while place >= len(opened.landing[chunk]):
            place -= len(opened.landing[chunk])
            chunk += 1
        opened.part[chunk] -= 1
        if not opened.part[chunk]:
            end = self._copied(opened.landing[chunk], "destination", finish, finish)
            opened.scattered_ps = max(opened.scattered_ps, *end.values())

    def _close(self, request: int, opened: _Open, finish: int) -> tuple[int, int]:
        """The hand-off is over: its blocks lie at the decode instance."""
        del self._open[request]
        self.keep(request, opened.decode)
        return request, max(finish, opened.scattered_ps)
