"""The tiers that prefill instances keep prefix blocks in, and the rules by which blocks move.

| tier | whose | a hit costs |
|---|---|---|
| hbm | each instance its own | nothing |
| dram, ssd | each instance its own | its bytes at the tier's rate |
| remote | one pool of all instances, on the storage hosts | flows over the fabric |

A block lies in one of its instance's own tiers at most, and a copy may lie in the pool. The place
below a tier that is full is the next one that the scenario has. Sizes are bytes of KV cache, rates
bits a second, for reading and for writing.
"""

from dataclasses import dataclass
from typing import Final

from topo.error import KvfabricError
from topo.unit import PS_PER_S, show_duration, size_text

KINDS: Final = ("hbm", "dram", "ssd", "remote")
"""The tiers, fastest first."""

REMOTE: Final = "remote"

_CHOICES: Final = {
    "eviction": ("lru", "cost"),
    "load": ("before", "overlapped", "prefetched"),
    "write": ("through", "back"),
}


class CacheError(KvfabricError):
    """Prefix caches that cannot be."""


@dataclass(frozen=True, slots=True)
class Tier:
    """One tier: ``size_bytes`` of each instance, or of the whole pool.

    ``rate_bps`` of dram and ssd is what one instance reads; of the pool what one instance could
    read at most over an idle fabric, which only the estimates of cost-aware eviction use. HBM has
    none.
    """

    kind: str
    size_bytes: int
    rate_bps: int = 0

    def __post_init__(self) -> None:
        where = f"cache tier {self.kind[:40]}"
        if self.kind not in KINDS:
            raise CacheError(f"{where}: not known; write one of {', '.join(KINDS)}")
        if self.size_bytes < 1:
            raise CacheError(f"{where}: size {size_text(self.size_bytes)}; write e.g. 100GB")
        if self.kind == "hbm" and self.rate_bps:
            raise CacheError(f"{where}: a hit there loads nothing; remove its rate")
        if self.kind in ("dram", "ssd") and self.rate_bps < 1:
            raise CacheError(
                f"{where}: needs the rate at which an instance reads it; write e.g. rate: 400Gbps"
            )

    def ps(self, size_bytes: int) -> int:
        """What so many bytes take to come or go, rounded up.

        >>> Tier("dram", 10**9, 8 * 10**9).ps(1000)
        1000000
        """
        return -(-size_bytes * 8 * PS_PER_S // self.rate_bps) if self.rate_bps else 0


@dataclass(frozen=True, slots=True)
class Caching:
    """The prefix caches of a deployment.

    tiers: in the order of `KINDS`, each at most once.
    eviction: ``lru``, the least recently used leave and go one tier down; ``cost``, see
        `traffic.cache.worth`.
    lifetime_ps: after which a block that was not used is forgotten, everywhere; 0 keeps all.
    load: a hit is loaded ``before`` its prompt is computed, ``overlapped`` with it layer by layer,
        or ``prefetched`` while the prompt waits in line, see `traffic.cache.prompt`.
    write: blocks are copied to the pool when they are computed (``through``), or when they leave
        the last tier of their instance (``back``).
    storage: hosts of the pool. Each has the blocks that a hash of their number gives it.
    ttft_ps: the objective that cost-aware moves have to fit into; 0 without one.
    priority: class of the pool's flows on the network, 0..7.
    """

    tiers: tuple[Tier, ...]
    eviction: str = "lru"
    lifetime_ps: int = 0
    load: str = "before"
    write: str = "through"
    storage: tuple[int, ...] = ()
    ttft_ps: int = 0
    priority: int = 3

    def __post_init__(self) -> None:
        for key, known in _CHOICES.items():
            value: str = getattr(self, key)
            if value not in known:
                raise CacheError(
                    f"cache.{key} {value[:40]!r}: not modelled; write {' or '.join(known)}"
                )
        order = [KINDS.index(tier.kind) for tier in self.tiers]
        if not order or order != sorted(set(order)):
            names = ", ".join(tier.kind for tier in self.tiers) or "none"
            raise CacheError(
                f"cache.tiers {names}: write at least one, each once, in the order "
                f"{', '.join(KINDS)}"
            )
        if self.pool is not None and not self.storage:
            raise CacheError(
                "cache tier remote: lies on storage hosts; write placement.storage, e.g. 1"
            )
        if self.lifetime_ps < 0 or self.ttft_ps < 0:
            raise CacheError(
                f"cache.lifetime {show_duration(self.lifetime_ps)}, objective "
                f"{show_duration(self.ttft_ps)}: write 0 or more"
            )
        if not 0 <= self.priority <= 7:
            raise CacheError(f"cache.priority {self.priority}: write 0 to 7")

    @property
    def own(self) -> tuple[Tier, ...]:
        """The tiers that every instance has for itself."""
        return tuple(tier for tier in self.tiers if tier.kind != REMOTE)

    @property
    def pool(self) -> Tier | None:
        """The remote pool, where there is one."""
        return self.tiers[-1] if self.tiers and self.tiers[-1].kind == REMOTE else None
