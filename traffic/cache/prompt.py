"""What instances still know of prompts, over time: found, loaded, kept, written to the pool.

HBM costs a hit nothing; dram and ssd its bytes at the tier's rate, one tier after the other; the
pool flows over the fabric, released a control delay after the lookup, which count as arrived a
control delay after their last byte. With load time l, prefill time c of the rest (attention over
the whole context) and L layers a prompt on a prefill instance ends, counted from its turn,

    before       max(l, pool arrives) + c
    overlapped   the later of max(l, c) + min(l, c) / L and pool arrives + c / L
    prefetched   as before, but loads begin when the prompt joins the line of its instance

overlapped being a pipeline of equal layers whose last is computed when its cache is there. From its
turn on the instance takes no other prompt. Prompts that wait load from dram and ssd one after the
other; what has come into the tiers meanwhile is found as well, what has gone down is loaded at the
turn, and the pool is not read a second time. A colocated instance goes on with others: a prompt
joins its line when what was found at its arrival is loaded, whatever the rule.

When a prompt is computed its whole blocks lie in the first tier of its instance. Blocks move
between an instance's tiers beside its work and cost it no time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from traffic.cache.hierarchy import Hierarchy, Left
from traffic.cache.holding import Holding
from traffic.cache.lookup import Blocks, Found, Lookup, count_first
from traffic.cache.remote import Remote, Transfer
from traffic.cache.shelf import NEVER
from traffic.cache.tally import Tally
from traffic.cache.tier import REMOTE, Caching
from traffic.cache.worth import Worth
from traffic.compute.step import StepTime

Computed = Callable[[int, int, int, int], None]
"""Told (request, begin, end, now) of a prompt's computation, as soon as begin and end are known."""

Joins = Callable[[int, int, int], None]
"""Told (request, tokens that need not be computed, now) when a prompt may join a line."""

Later = Callable[[int, Callable[[int], None]], None]
"""Calls something with the time, at a time."""


@dataclass(slots=True)
class _Ahead:
    """What is loaded while a prompt waits: until when, for how long, and its read of the pool."""

    loaded_ps: int
    load_ps: int
    blocks: frozenset[int]
    transfer: Transfer | None


class PromptCache:
    """The prefix caches of one service, whose instances have the ``times``.

    ``blocks`` are the prompts', of ``size`` bytes each; ``remote`` is the pool of blocks where the
    tiers have one; ``layers`` are those of the model. ``holding`` and ``first`` keep the prefill
    side of `traffic.policy.view.PrefixView`.
    """

    def __init__(
        self,
        rules: Caching,
        times: Sequence[StepTime],
        blocks: Blocks,
        tally: Tally,
        *,
        size: int,
        layers: int,
        remote: Remote | None,
        delay_ps: int,
        later: Later,
    ) -> None:
        self._rules = rules
        self._tokens = blocks.block_tokens
        self._size = size
        self._tally = tally
        self._remote = remote
        self._delay = delay_ps
        self._later = later
        cost = rules.eviction == "cost"
        self._worth = Worth(times[0], self._tokens, size, rules.ttft_ps) if cost else None
        self.holding = Holding(len(times))
        """Which instance holds which blocks in tiers of its own."""
        self._own = [
            Hierarchy(rules, size, self.holding, instance, self._worth)
            for instance in range(len(times))
        ]
        self._lookup = Lookup(
            rules, times, blocks, self._own, size=size, layers=layers, delay_ps=delay_ps
        )
        self._loading = [0] * len(times)  # until when, of prompts that wait
        self._ahead: dict[int, _Ahead] = {}
        self._reading: dict[int, tuple[Transfer, Callable[[int], None]]] = {}
        self._soonest = NEVER
        self._computed: set[int] = set()

    def expected_ps(self, request: int, tokens: int, instance: int) -> int:
        """What the prompt would take on an instance with what lies there now, the pool left out."""
        return self._lookup.expected_ps(request, tokens, instance)

    def first(self, blocks: Sequence[int]) -> int:
        """How many of the first blocks the pool holds."""
        return self._remote.first(blocks) if self._remote is not None else 0

    def queued(self, request: int, tokens: int, instance: int, now: int) -> None:
        """The prompt joins the line of an instance: load ahead, if that is the rule."""
        if self._rules.load == "prefetched":
            found = self._find(request, tokens, instance, now)
            loaded = self._loaded_ps(found, instance, now)
            read = frozenset(found.of_tier(len(self._rules.own)))
            transfer = self._ask(request, found, instance, now)
            self._ahead[request] = _Ahead(loaded, found.load_ps, read, transfer)

    def start(self, request: int, tokens: int, instance: int, now: int, computed: Computed) -> None:
        """The prompt's turn has come; ``computed`` is called now, or when its reads are done."""
        ahead = self._ahead.pop(request, None)
        found = self._find(request, tokens, instance, now, ahead)
        self._count(request, tokens, found, instance)
        if ahead is None:
            transfer, load = self._ask(request, found, instance, now), found.load_ps
        else:
            transfer = ahead.transfer if len(self._rules.own) in found.tiers else None
            load = max(0, ahead.loaded_ps - now) + max(0, found.load_ps - ahead.load_ps)
        self._wait(
            request, transfer, partial(self._computes, request, found, now, load, computed), now
        )

    def _computes(
        self, request: int, found: Found, turn: int, load: int, computed: Computed, now: int
    ) -> None:
        begin, end = self._lookup.ends(load, found.took_ps, now - turn)
        self._tally.sums["idle_ps"] += end - found.took_ps
        self._waited(request, end - found.took_ps)
        computed(request, turn + begin, turn + end, now)

    def fetch(self, request: int, tokens: int, instance: int, now: int, joins: Joins) -> None:
        """The prompt is given to an instance that serves others meanwhile; ``joins`` is called when
        what lies there of it is loaded."""
        found = self._find(request, tokens, instance, now)
        self._count(request, tokens, found, instance)
        loaded = self._loaded_ps(found, instance, now)
        transfer = self._ask(request, found, instance, now)
        self._wait(request, transfer, partial(self._joins, request, found, loaded, now, joins), now)

    def _joins(
        self, request: int, found: Found, loaded: int, since: int, joins: Joins, now: int
    ) -> None:
        if loaded > now:
            self._later(loaded, partial(self._joins, request, found, loaded, since, joins))
            return
        self._waited(request, now - since)
        joins(request, len(found.tiers) * self._tokens, now)

    def _wait(
        self, request: int, transfer: Transfer | None, then: Callable[[int], None], now: int
    ) -> None:
        """Go on when the pool has been read: now, where nothing is."""
        if transfer is None:
            then(now)
        else:
            self._reading[request] = (transfer, then)

    def _waited(self, request: int, load_ps: int) -> None:
        self._tally.note("load_ps", request, load_ps)
        self._tally.sums["load_ps"] += load_ps

    def _find(
        self, request: int, tokens: int, instance: int, now: int, ahead: _Ahead | None = None
    ) -> Found:
        """Look a prompt up; of the pool, what was read ``ahead``."""
        self.expire(now)
        if ahead is not None:
            return self._lookup.find(request, tokens, instance, ahead.blocks, whatever=True)
        return self._lookup.find(
            request, tokens, instance, () if self._remote is None else self._remote
        )

    def _loaded_ps(self, found: Found, instance: int, now: int) -> int:
        """When what a prompt that waits found in slower tiers is loaded, in turn."""
        if not found.load_ps:
            return now
        loaded = max(now, self._loading[instance]) + found.load_ps
        self._loading[instance] = loaded
        return loaded

    def _ask(self, request: int, found: Found, instance: int, now: int) -> Transfer | None:
        """Read from the pool what was found there."""
        wanted = found.of_tier(len(self._rules.own))
        if not wanted or self._remote is None:
            return None
        sent = self._remote.read(request, wanted, instance, now, now + self._delay)
        self._tally.add("read_bytes", request, sent.bytes)
        return sent

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
        if reading is not None and reading[0] is transfer:
            del self._reading[request]
            reading[1](now)

    def give_up(self, request: int) -> None:
        """The prompt is not computed any more; what it reads still crosses the fabric."""
        self._ahead.pop(request, None)
        self._reading.pop(request, None)

    def end(self, request: int, tokens: int, instance: int, now: int) -> None:
        """The prompt is computed: keep its whole blocks, and write what the pool is to have."""
        blocks = self._lookup.whole(request, tokens)
        own, remote, pool = self._own[instance], self._remote, self._rules.pool
        self._computed.update(blocks)
        self._soonest = min(self._soonest, now + self._rules.lifetime_ps)
        left = own.keep(blocks, now)
        if remote is None or pool is None:
            return
        if self._rules.write == "through" or not self._rules.own:
            last = len(blocks) - 1
            left = [
                Left(block, depth, last, max(1, own.uses(block)))
                for depth, block in enumerate(blocks)
            ]
        worth = self._worth
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

    def _count(self, request: int, tokens: int, found: Found, instance: int) -> None:
        sums, tally = self._tally.sums, self._tally
        tally.note("prompt_tokens", request, tokens)
        for place, tier in enumerate(self._rules.tiers):
            hits = found.tiers.count(place)
            tally.note(f"cached_{tier.kind}_tokens", request, hits * self._tokens)
            sums[f"{tier.kind}.hit_bytes"] += hits * self._size
        used, looked = len(found.tiers), len(found.blocks)
        sums["prompt_tokens"] += tokens
        sums["cached_tokens"] += used * self._tokens
        sums["looked_up_bytes"] += looked * self._size
        sums["declined_bytes"] += found.declined * self._size
        sums["missed_bytes"] += (looked - found.declined - used) * self._size
        sums["saved_ps"] += found.whole_ps - found.took_ps
        once = count_first(found.blocks, self._computed)
        if once > used:
            sums["again_tokens"] += (once - used) * self._tokens
            sums["again_ps"] += found.took_ps - self._lookup.rest_ps(tokens, once, instance)

    def sums(self) -> None:
        """Add what the tiers did to the tally, at the end of a run."""
        sums = self._tally.sums
        for place, tier in enumerate(self._rules.own):
            moved = sum(own.moved_in[place] for own in self._own)
            sums[f"{tier.kind}.moved_in_bytes"] += self._size * moved
            sums[f"{tier.kind}.evicted"] += sum(own.moved_out[place] for own in self._own)
        sums["expired"] += sum(own.ended for own in self._own)
        remote = self._remote
        if remote is not None:
            sums[f"{REMOTE}.read_bytes"] += remote.read_bytes
            sums[f"{REMOTE}.moved_in_bytes"] += remote.written_bytes
            sums[f"{REMOTE}.evicted"] += remote.moved_out
            sums["expired"] += remote.ended
