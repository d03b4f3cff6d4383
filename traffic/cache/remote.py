"""The remote pool: prefix blocks of all instances of a service, on storage hosts of the fabric.

Reads and writes are flows between the ranks of a prefill instance and the storage hosts, beside
the hand-offs and like them in all else. A block lies on the host that a hash of its number gives,
so that a prompt's blocks spread over all of them; each rank moves its own share of the heads, as in
a hand-off to or from one rank (`traffic.handoff.reshard`). A block can be read when its last byte
has been written. Storage media are taken to be as fast as the NIC before them, and the pool's
directory to answer within the control delay.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from topo.unit import size_text
from traffic.cache.shelf import NEVER, Lifetime, shelf
from traffic.cache.tier import REMOTE, CacheError, Caching
from traffic.draw import mix
from traffic.emulator import FLOW
from traffic.handoff.errand import Errand, number_of
from traffic.handoff.flow import Handoff, entropy
from traffic.handoff.reshard import moves
from traffic.model import Model
from traffic.record.book import Book

_SALT: Final = 0x6B76
"""Keeps the queue pairs of a request's errands apart from those of its hand-off."""


@dataclass(slots=True, eq=False)
class Transfer:
    """Flows under way that belong together; ``blocks`` are those that a write brings.

    ``waits`` counts the flows, which carry ``bytes`` of payload.
    """

    errand: Errand
    request: int
    waits: int
    blocks: Sequence[int]
    bytes: int = 0


class Remote:
    """The pool of one service of a model.

    ``ranks`` has, by instance, the hosts of each group of ranks that holds a prompt's cache.
    ``book`` is that of the run. Blocks are ``block_bytes`` each.
    """

    def __init__(
        self,
        rules: Caching,
        model: Model,
        ranks: Sequence[Sequence[tuple[int, ...]]],
        handoff: Handoff,
        block_bytes: int,
        book: Book,
        *,
        seed: int,
    ) -> None:
        assert rules.pool is not None
        if rules.pool.size_bytes < block_bytes:
            raise CacheError(
                f"cache tier {REMOTE}: {size_text(rules.pool.size_bytes)} hold no block of "
                f"{size_text(block_bytes)}; write more"
            )
        self._rules = rules
        self._model = model
        self._ranks = ranks
        self._handoff = handoff
        self._bytes = block_bytes
        self._book = book
        self._seed = seed
        self._most = rules.pool.size_bytes // block_bytes
        self._shelf = shelf(rules.eviction)
        self._age = Lifetime(rules.lifetime_ps) if rules.lifetime_ps else None
        self._uses: dict[int, int] = {}
        self._coming: set[int] = set()
        self._of_flow: dict[int, Transfer] = {}
        self.read_bytes = 0
        """Payload that reads have moved over the fabric, or are moving."""
        self.written_bytes = 0
        """The same for writes."""
        self.moved_in = 0
        """Blocks written."""
        self.moved_out = 0
        """Blocks that had to leave."""
        self.ended = 0
        """Blocks whose lifetime was over."""

    def __contains__(self, block: object) -> bool:
        return block in self._uses

    def __len__(self) -> int:
        return len(self._uses)

    @property
    def under_way(self) -> bool:
        """Whether the emulator has something of the pool to deliver."""
        return bool(self._of_flow)

    def read(
        self, request: int, blocks: Sequence[int], instance: int, now_ps: int, at_ps: int
    ) -> Transfer:
        """Read blocks that are there to an instance, from ``at_ps`` on."""
        for block in reversed(blocks):
            self._use(block, now_ps)
        sent = self._submit(Errand.READ, request, blocks, instance, at_ps)
        self.read_bytes += sent.bytes
        return sent

    def write(self, request: int, blocks: Sequence[int], instance: int, at_ps: int) -> int:
        """Write what is neither there nor on its way from an instance; the bytes that move."""
        new = [block for block in blocks if block not in self._uses and block not in self._coming]
        if not new:
            return 0
        self._coming.update(new)
        sent = self._submit(Errand.WRITE, request, new, instance, at_ps)
        self.written_bytes += sent.bytes
        return sent.bytes

    def _use(self, block: int, now_ps: int) -> None:
        uses = self._uses[block] = self._uses.get(block, 0) + 1
        self._shelf.add(block, uses)
        if self._age is not None:
            self._age.use(block, now_ps)

    def _submit(
        self, errand: Errand, request: int, blocks: Sequence[int], instance: int, at_ps: int
    ) -> Transfer:
        """Hand the flows over, those of each storage host together."""
        storage = self._rules.storage
        count: dict[int, int] = {}
        for block in blocks:
            host = storage[mix(block) % len(storage)]
            count[host] = count.get(host, 0) + 1
        groups = self._ranks[instance]
        hosts = groups[request % len(groups)]
        reads = errand is Errand.READ
        transfer = Transfer(errand, request, 0, () if reads else blocks)
        number, first = number_of(errand, request), self._book.flows
        rows: list[tuple[int, ...]] = []
        for store, held in sorted(count.items()):
            shape = (1, len(hosts)) if reads else (len(hosts), 1)
            for move in moves(
                self._model, held * self._bytes, *shape, seed=self._seed, request=request
            ):
                rank = hosts[move.destination if reads else move.source]
                rows.append(
                    (
                        first + len(rows),
                        number,
                        *((store, rank) if reads else (rank, store)),
                        move.bytes,
                        -(-move.bytes // self._handoff.block_bytes),
                        entropy(self._seed ^ _SALT ^ errand, request, len(rows)),
                        -1,
                        not reads,
                        self._rules.priority,
                        at_ps,
                    )
                )
        transfer.waits = len(rows)
        for flow in range(first, first + len(rows)):
            self._of_flow[flow] = transfer
        self._book.submit(np.array(rows, FLOW))
        transfer.bytes = sum(row[4] for row in rows)
        return transfer

    def completed(self, flow: int, finish_ps: int) -> Transfer | None:
        """A flow of the pool has arrived; its transfer, if that was a read and is over."""
        transfer = self._of_flow.pop(flow)
        transfer.waits -= 1
        if transfer.waits:
            return None
        if transfer.errand is Errand.READ:
            return transfer
        self._coming.difference_update(transfer.blocks)
        for block in reversed(transfer.blocks):
            self._use(block, finish_ps)
            self.moved_in += 1
            if len(self._uses) > self._most:
                gone = self._shelf.pop()
                del self._uses[gone]
                if self._age is not None:
                    self._age.forget(gone)
                self.moved_out += 1
        return None

    def expire(self, now_ps: int) -> int:
        """Forget what was not used for a lifetime; when the next lifetime is over."""
        if self._age is None:
            return NEVER
        for block in self._age.ended(now_ps):
            self._shelf.drop(block)
            del self._uses[block]
            self.ended += 1
        return self._age.next_ps

    def first(self, blocks: Sequence[int]) -> int:
        """How many of the first blocks are there.

        They do not count as used.
        """
        for place, block in enumerate(blocks):
            if block not in self._uses:
                return place
        return len(blocks)
