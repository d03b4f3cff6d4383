"""What a prefill instance still knows of a prompt, and what that saves and costs.

A prompt's blocks are looked up when its turn comes, and what is found is loaded then: HBM costs
nothing; dram and ssd their bytes at the tier's rate, one tier after the other; the pool flows over
the fabric, released a control delay later, which count as arrived a control delay after their last
byte. With load time l, prefill time c of the rest (attention over the whole context) and L layers
the prompt ends, counted from its turn,

    before       max(l, pool arrives) + c
    overlapped   the later of max(l, c) + min(l, c) / L and pool arrives + c / L
    prefetched   as before, but loads begin when the prompt joins the line of its instance

overlapped being a pipeline of equal layers whose last is computed when its cache is there. From its
turn on the instance takes no other prompt. Prompts that wait load from dram and ssd one after the
other; what has come into the tiers meanwhile is found as well, what has gone down is loaded at the
turn, and the pool is not read a second time. When a prompt is computed its whole blocks lie in the
first tier; only they are found again, and never its last token, as in vLLM. Blocks move between an
instance's tiers beside its work and cost it no time.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from traffic.book import Book
from traffic.hierarchy import Hierarchy, Left
from traffic.holding import Holding
from traffic.instance import Deployment, Pool
from traffic.remote import Remote, Transfer
from traffic.shelf import NEVER
from traffic.step import StepTime
from traffic.tally import Tally
from traffic.tier import REMOTE, Caching
from traffic.worth import Worth

Computed = Callable[[int, int, int, int], None]
"""Told (request, begin, end, now) of a prompt's computation, as soon as begin and end are known."""

Later = Callable[[int, Callable[[int], None]], None]
"""Calls something with the time, at a time."""


class Blocks(Protocol):
    """The prefix blocks of every request, root first, each of ``block_tokens`` tokens."""

    @property
    def block_tokens(self) -> int:
        """Tokens of a block."""
        ...

    def of(self, request: int) -> NDArray[np.int64]:
        """The blocks of one request."""
        ...


@dataclass(frozen=True, slots=True)
class _Found:
    """A lookup: usable blocks, the tier of each that is used, and what they save."""

    looked: int
    tiers: tuple[int, ...]
    declined: int
    load_ps: int
    took_ps: int
    whole_ps: int


@dataclass(slots=True)
class _Ahead:
    """What is loaded while a prompt waits: until when, for how long, and its read of the pool."""

    loaded_ps: int
    load_ps: int
    blocks: frozenset[int]
    transfer: Transfer | None


@dataclass(frozen=True, slots=True)
class _Reading:
    """A prompt whose turn has come and whose read of the pool is under way."""

    transfer: Transfer
    found: _Found
    turn_ps: int
    load_ps: int
    computed: Computed


def prompt_ps(time: StepTime, tokens: int, cached: int) -> int:
    """The prefill of a prompt of which the first ``cached`` tokens are there.

    Attention is over the whole context, whose cached part is read once, as in a chunk of a prompt
    (`traffic.step`).
    """
    if not cached:
        return time.prefill_ps(tokens)
    return time.mixed_ps(0, 0, 0, [(cached, tokens - cached)])


class PromptCache:
    """The prefix caches of one service.

    ``pool`` has its prefill instances and ``times`` theirs; ``blocks`` the prompts'; ``remote`` is
    the pool of blocks where the tiers have one. Keeps the prefill side of
    `traffic.policy.view.PrefixView`.
    """

    def __init__(
        self,
        rules: Caching,
        pool: Pool,
        times: Sequence[StepTime],
        blocks: Blocks,
        tally: Tally,
        *,
        remote: Remote | None,
        delay_ps: int,
        later: Later,
    ) -> None:
        self._rules = rules
        self._times = times
        self._blocks = blocks
        self._tally = tally
        self._remote = remote
        self._delay = delay_ps
        self._later = later
        self._layers = max(1, pool.model.layers)
        self._size = size = block_bytes(pool, blocks.block_tokens)
        self._cost = rules.eviction == "cost"
        worth = Worth(pool.step_time, blocks.block_tokens, size, rules.ttft_ps)
        self._worth = worth if self._cost else None
        self.holding = Holding(len(pool.instances))
        """Which instance holds which blocks in tiers of its own."""
        self._own = [
            Hierarchy(rules, size, self.holding, instance, self._worth)
            for instance in range(len(pool.instances))
        ]
        self._loading = [0] * len(pool.instances)  # until when, of prompts that wait
        self._ahead: dict[int, _Ahead] = {}
        self._reading: dict[int, _Reading] = {}
        self._soonest = NEVER

    def _usable(self, request: int, tokens: int) -> list[int]:
        """The whole blocks that can save something: never the last token."""
        most = (tokens - 1) // self._blocks.block_tokens
        found: list[int] = self._blocks.of(request)[:most].tolist()
        return found

    def _find(
        self, request: int, tokens: int, instance: int, ahead: _Ahead | None = None
    ) -> tuple[list[int], _Found]:
        """The usable blocks and what is used of them; of the pool what was read ``ahead``."""
        blocks = self._usable(request, tokens)
        where, far = self._own[instance].where, len(self._rules.own)
        pool: Container[int] = () if self._remote is None else self._remote
        if ahead is not None:
            pool = ahead.blocks
        tiers: list[int] = []
        for block in blocks:
            tier = where.get(block)
            if tier is None:
                if block not in pool:
                    break
                tier = far
            tiers.append(tier)
        choose = self._cost and ahead is None
        used = self._wanted(tokens, instance, tiers) if choose else len(tiers)
        time, size = self._times[instance], self._blocks.block_tokens
        whole = time.prefill_ps(tokens)
        took = prompt_ps(time, tokens, used * size) if used else whole
        kept = tuple(tiers[:used])
        load = self._load_ps(kept)
        return blocks, _Found(len(blocks), kept, len(tiers) - used, load, took, whole)

    def _wanted(self, tokens: int, instance: int, tiers: Sequence[int]) -> int:
        """How many of the blocks found make the prompt end soonest, the most of them if equal."""
        time, size, far = self._times[instance], self._blocks.block_tokens, len(self._rules.own)
        best, soonest = 0, time.prefill_ps(tokens)
        for count in range(1, len(tiers) + 1):
            if count < len(tiers) and tiers[count] == tiers[count - 1]:
                continue
            load = self._load_ps(tiers[:count])
            pool, arrived = self._rules.pool, 0
            if pool is not None and far in tiers[:count]:
                arrived = pool.ps(self._size * tiers[:count].count(far)) + 2 * self._delay
            took = prompt_ps(time, tokens, count * size)
            end = self._end_ps(load, took, arrived)[1]
            if end <= soonest:
                best, soonest = count, end
        return best

    def _load_ps(self, tiers: Sequence[int]) -> int:
        own = self._rules.own
        return sum(tier.ps(self._size * tiers.count(place)) for place, tier in enumerate(own))

    def _end_ps(self, load: int, took: int, arrived: int) -> tuple[int, int]:
        """(begin, end) of the computation after the turn; ``arrived`` is when the pool's part is
        there, 0 without one."""
        if self._rules.load != "overlapped":
            begin = max(load, arrived)
            return begin, begin + took
        end = max(load, took) + -(-min(load, took) // self._layers)
        return 0, max(end, arrived + -(-took // self._layers) if arrived else 0)

    def expected_ps(self, request: int, tokens: int, instance: int) -> int:
        """What the prompt would take on an instance with what lies there now, the pool left out."""
        blocks, where = self._usable(request, tokens), self._own[instance].where
        held = next((i for i, block in enumerate(blocks) if block not in where), len(blocks))
        return prompt_ps(self._times[instance], tokens, held * self._blocks.block_tokens)

    def queued(self, request: int, tokens: int, instance: int, now: int) -> None:
        """The prompt joins the line of an instance: load ahead, if that is the rule."""
        if self._rules.load == "prefetched":
            self.expire(now)
            blocks, found = self._find(request, tokens, instance)
            transfer, wanted = self._ask(request, blocks, found, instance, now)
            loaded = max(now, self._loading[instance]) + found.load_ps
            self._loading[instance] = loaded
            self._ahead[request] = _Ahead(loaded, found.load_ps, frozenset(wanted), transfer)

    def _ask(
        self, request: int, blocks: Sequence[int], found: _Found, instance: int, now: int
    ) -> tuple[Transfer | None, list[int]]:
        """Read from the pool what was found there."""
        far = len(self._rules.own)
        wanted = [block for block, tier in zip(blocks, found.tiers, strict=False) if tier == far]
        if not wanted or self._remote is None:
            return None, wanted
        sent = self._remote.read(request, wanted, instance, now, now + self._delay)
        self._tally.add("read_bytes", request, sent.bytes)
        return sent, wanted

    def start(self, request: int, tokens: int, instance: int, now: int, computed: Computed) -> None:
        """The prompt's turn has come; ``computed`` is called now, or when its reads are done."""
        self.expire(now)
        ahead = self._ahead.pop(request, None)
        blocks, found = self._find(request, tokens, instance, ahead)
        self._count(request, tokens, found)
        if ahead is None:
            transfer, _ = self._ask(request, blocks, found, instance, now)
            load = found.load_ps
        else:
            transfer = ahead.transfer if len(self._rules.own) in found.tiers else None
            load = max(0, ahead.loaded_ps - now) + max(0, found.load_ps - ahead.load_ps)
        if transfer is None:
            self._computes(request, found, now, load, now, computed)
        else:
            self._reading[request] = _Reading(transfer, found, now, load, computed)

    def _computes(
        self, request: int, found: _Found, turn: int, load: int, now: int, computed: Computed
    ) -> None:
        begin, end = self._end_ps(load, found.took_ps, now - turn)
        self._tally.note("load_ps", request, end - found.took_ps)
        self._tally.sums["load_ps"] += end - found.took_ps
        computed(request, turn + begin, turn + end, now)

    @property
    def under_way(self) -> bool:
        """Whether the emulator has something of the pool to deliver."""
        return self._remote is not None and self._remote.under_way

    def arrived(self, flow: int, finish_ps: int) -> None:
        """A flow of the pool is over; the instance knows of a read a control delay later."""
        assert self._remote is not None
        transfer = self._remote.completed(flow, finish_ps)
        if transfer is not None:
            self._later(finish_ps + self._delay, partial(self._read, transfer))

    def _read(self, transfer: Transfer, now: int) -> None:
        """A read is done; it counts unless its prompt was given up."""
        request = transfer.request
        ahead, reading = self._ahead.get(request), self._reading.get(request)
        if ahead is not None and ahead.transfer is transfer:
            ahead.transfer = None
        if reading is not None and reading.transfer is transfer:
            del self._reading[request]
            self._computes(
                request, reading.found, reading.turn_ps, reading.load_ps, now, reading.computed
            )

    def first(self, blocks: Sequence[int]) -> int:
        """How many of the first blocks the pool holds."""
        return self._remote.first(blocks) if self._remote is not None else 0

    def give_up(self, request: int) -> None:
        """The prompt is not computed any more; what it reads still crosses the fabric."""
        self._ahead.pop(request, None)
        self._reading.pop(request, None)

    def end(self, request: int, tokens: int, instance: int, now: int) -> None:
        """The prompt is computed: keep its whole blocks, and write what the pool is to have."""
        whole = tokens // self._blocks.block_tokens
        blocks: list[int] = self._blocks.of(request)[:whole].tolist()
        own, remote = self._own[instance], self._remote
        self._soonest = min(self._soonest, now + self._rules.lifetime_ps)
        left = own.keep(blocks, now)
        if remote is None:
            return
        if self._rules.write == "through" or not self._rules.own:
            last = len(blocks) - 1
            left = [
                Left(block, depth, last, max(1, own.uses(block)))
                for depth, block in enumerate(blocks)
            ]
        pool, worth = self._rules.pool, self._worth
        assert pool is not None
        wanted = [one.block for one in left if worth is None or worth.admits(pool, *one[1:])]
        sent = remote.write(request, wanted, instance, now + self._delay)
        self._tally.add("written_bytes", request, sent)

    def expire(self, now: int) -> None:
        """Forget what was not used for a lifetime; cheap to ask again."""
        if not self._rules.lifetime_ps or now < self._soonest:
            return
        ends = [own.expire(now) for own in self._own]
        if self._remote is not None:
            ends.append(self._remote.expire(now))
        self._soonest = min(ends)

    def clear(self, instance: int) -> None:
        """An instance lost all that it held."""
        self._own[instance].clear()
        self._loading[instance] = 0

    def _count(self, request: int, tokens: int, found: _Found) -> None:
        sums, size, tally = self._tally.sums, self._size, self._tally
        tally.note("prompt_tokens", request, tokens)
        hits = 0
        for place, tier in enumerate(self._rules.tiers):
            count = found.tiers.count(place)
            tally.note(f"cached_{tier.kind}_tokens", request, count * self._blocks.block_tokens)
            sums[f"{tier.kind}.hit_bytes"] += count * size
            hits += count
        sums["prompt_tokens"] += tokens
        sums["cached_tokens"] += hits * self._blocks.block_tokens
        sums["looked_up_bytes"] += found.looked * size
        sums["declined_bytes"] += found.declined * size
        sums["missed_bytes"] += (found.looked - found.declined - hits) * size
        sums["saved_ps"] += found.whole_ps - found.took_ps

    def sums(self) -> None:
        """Add what the tiers did to the tally, at the end of a run."""
        sums = self._tally.sums
        for place, tier in enumerate(self._rules.own):
            sums[f"{tier.kind}.moved_in_bytes"] += self._size * sum(
                own.moved_in[place] for own in self._own
            )
            sums[f"{tier.kind}.evicted"] += sum(own.moved_out[place] for own in self._own)
        sums["expired"] += sum(own.ended for own in self._own)
        remote = self._remote
        if remote is not None:
            sums[f"{REMOTE}.read_bytes"] += remote.read_bytes
            sums[f"{REMOTE}.moved_in_bytes"] += remote.written_bytes
            sums[f"{REMOTE}.evicted"] += remote.moved_out
            sums["expired"] += remote.ended


def block_bytes(pool: Pool, block_tokens: int) -> int:
    """KV bytes of one block by itself; a sliding window counts as if the block were alone."""
    return max(1, pool.kv_bytes(block_tokens))


def prompt_cache(
    deployment: Deployment,
    blocks: Blocks | None,
    book: Book,
    tally: Tally,
    *,
    seed: int,
    delay_ps: int,
    later: Later,
) -> PromptCache | None:
    """The caches of a deployment; None where it has none, or the requests carry no blocks."""
    rules, pool = deployment.cache, deployment.prefill
    if rules is None or blocks is None:
        return None
    remote = None
    if rules.pool is not None:
        size = block_bytes(pool, blocks.block_tokens)
        remote = Remote(rules, pool, deployment.handoff, size, book, seed=seed)
    times = [pool.time_of(instance) for instance in range(len(pool.instances))]
    return PromptCache(
        rules, pool, times, blocks, tally, remote=remote, delay_ps=delay_ps, later=later
    )
