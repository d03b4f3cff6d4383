"""What is found of a prompt on an instance, and how long the prompt then takes.

A prompt's blocks are followed from the first on, through the tiers of its instance and the remote
pool, up to the first that is nowhere: whole blocks only, and never the last token of the prompt,
which has to be computed (as in vLLM). With cost-aware eviction a hit is used only as far as that
ends the prompt sooner than computing it. `traffic.cache.prompt` tells when what is found is loaded.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from traffic.cache.hierarchy import Hierarchy
from traffic.cache.tier import Caching
from traffic.compute.step import StepTime
from traffic.instance import Pool


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
class Found:
    """A lookup.

    blocks: that could save something; tiers: the number of the tier of each that is used, from the
    first on, the pool's being the last; declined: how many more were found. load_ps: what the used
    ones take to come from the instance's own tiers; took_ps: what the rest of the prompt takes to
    compute; whole_ps: all of it.
    """

    blocks: tuple[int, ...]
    tiers: tuple[int, ...]
    declined: int
    load_ps: int
    took_ps: int
    whole_ps: int

    def of_tier(self, tier: int) -> list[int]:
        """The used blocks that lie in a tier."""
        return [block for block, at in zip(self.blocks, self.tiers, strict=False) if at == tier]


def block_bytes(pool: Pool, block_tokens: int) -> int:
    """KV bytes of one block by itself; a sliding window counts as if the block were alone."""
    return max(1, pool.kv_bytes(block_tokens))


def prompt_ps(time: StepTime, tokens: int, cached: int) -> int:
    """The prefill of a prompt of which the first ``cached`` tokens are there.

    Attention is over the whole context, whose cached part is read once, as in a chunk of a prompt
    (`traffic.compute.step`).
    """
    if not cached:
        return time.prefill_ps(tokens)
    return time.mixed_ps(0, 0, 0, [(cached, tokens - cached)])


def count_first(blocks: Sequence[int], among: Container[int]) -> int:
    """How many of the first blocks are all there.

    >>> count_first([3, 4, 5, 6], {3, 4, 6})
    2
    """
    return next((i for i, block in enumerate(blocks) if block not in among), len(blocks))


class Lookup:
    """Looks prompts up; ``times`` and ``own`` tiers are by instance.

    A block has ``size`` bytes; ``delay_ps`` is the control delay, ``layers`` those of the model.
    """

    def __init__(
        self,
        rules: Caching,
        times: Sequence[StepTime],
        blocks: Blocks,
        own: Sequence[Hierarchy],
        *,
        size: int,
        layers: int,
        delay_ps: int,
    ) -> None:
        self._rules = rules
        self._times = times
        self._blocks = blocks
        self._tokens = blocks.block_tokens
        self._own = own
        self._size = size
        self._layers = max(1, layers)
        self._delay = delay_ps
        self._far = len(rules.own)
        self._choosy = rules.eviction == "cost"

    def usable(self, request: int, tokens: int) -> list[int]:
        """The whole blocks that can save something."""
        found: list[int] = self._blocks.of(request)[: (tokens - 1) // self._tokens].tolist()
        return found

    def whole(self, request: int, tokens: int) -> list[int]:
        """The whole blocks of a prompt."""
        found: list[int] = self._blocks.of(request)[: tokens // self._tokens].tolist()
        return found

    def find(
        self,
        request: int,
        tokens: int,
        instance: int,
        pool: Container[int],
        *,
        whatever: bool = False,
    ) -> Found:
        """What the instance and the pool hold; with ``whatever`` all of it is used at any cost."""
        blocks, where = self.usable(request, tokens), self._own[instance].where
        tiers: list[int] = []
        for block in blocks:
            tier = where.get(block)
            if tier is None:
                if block not in pool:
                    break
                tier = self._far
            tiers.append(tier)
        choose = self._choosy and not whatever
        used = self._wanted(tokens, instance, tiers) if choose else len(tiers)
        time = self._times[instance]
        whole = time.prefill_ps(tokens)
        took = prompt_ps(time, tokens, used * self._tokens) if used else whole
        kept = tuple(tiers[:used])
        return Found(tuple(blocks), kept, len(tiers) - used, self._load_ps(kept), took, whole)

    def _wanted(self, tokens: int, instance: int, tiers: Sequence[int]) -> int:
        """How many of the blocks found make the prompt end soonest, the most of them if equal."""
        time, far, pool = self._times[instance], self._far, self._rules.pool
        best, soonest = 0, time.prefill_ps(tokens)
        for count in range(1, len(tiers) + 1):
            if count < len(tiers) and tiers[count] == tiers[count - 1]:
                continue
            used, arrived = tiers[:count], 0
            if pool is not None and far in used:
                arrived = pool.ps(self._size * used.count(far)) + 2 * self._delay
            took = prompt_ps(time, tokens, count * self._tokens)
            end = self.ends(self._load_ps(used), took, arrived)[1]
            if end <= soonest:
                best, soonest = count, end
        return best

    def _load_ps(self, tiers: Sequence[int]) -> int:
        own = self._rules.own
        return sum(tier.ps(self._size * tiers.count(place)) for place, tier in enumerate(own))

    def ends(self, load: int, took: int, arrived: int) -> tuple[int, int]:
        """(begin, end) of the computation after the prompt's turn, at which loads take ``load``
        more; ``arrived`` is when the pool's part is there, 0 without one."""
        if self._rules.load != "overlapped":
            begin = max(load, arrived)
            return begin, begin + took
        end = max(load, took) + -(-min(load, took) // self._layers)
        return 0, max(end, arrived + -(-took // self._layers) if arrived else 0)

    def expected_ps(self, request: int, tokens: int, instance: int) -> int:
        """What the prompt would take on an instance with what lies there now, the pool left out."""
        blocks, where = self.usable(request, tokens), self._own[instance].where
        return self.rest_ps(tokens, count_first(blocks, where), instance)

    def rest_ps(self, tokens: int, held: int, instance: int) -> int:
        """What a prompt takes on an instance to which its first ``held`` blocks cost nothing."""
        return prompt_ps(self._times[instance], tokens, held * self._tokens)
