"""llm-d's endpoint picker: filters, then a weighted sum of scores in 0..1, then a picker.

Scores are those of llm-d/llm-d-router, pkg/epp/framework/plugins/scheduling/scorer: queuedepth,
kvcacheutilization, prefix, activerequest, tokenload and topologyaffinity. llm-d chooses decode
first and then prefill, with the decode instance as the peer of the topology score; write
``order: decode_first`` for that. In the other order the prefill instance is the peer.
"""

from typing import ClassVar, Final, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from traffic.draw import draw
from traffic.policy.choice import NOBODY, PolicyError, Request, Sight, Tie, View, islands
from traffic.policy.reuse import decode_blocks, prefill_blocks

LEVELS: Final = {"host": 1.0, "rack": 0.2, "zone": 0.05}
"""topology-affinity-scorer, scorer/topologyaffinity/README.md. Its region (another data centre,
0.02) has no place in a fabric of one."""

QUEUE_TOKENS: Final = 4 * 1024 * 1024
"""queueThresholdTokens of token-load-scorer: 128 requests of 32 Ki tokens."""

_UNIT: Final = 1 << 53

Score = NDArray[np.float64]


class LlmdSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Weights of the scores, and the parameters of the plugins with their defaults.

    queue, kv, prefix: 2, 2 and 3, the weights of llm-d's default configuration.
    active, token, topology: 0, that is, left out of it.
    picker: ``max``, ``random`` (any candidate), ``weighted`` (drawn in proportion to the score).
    min_affinity: a filter: candidates at this level or nearer to the peer; all where none is.
    idle_threshold, max_busy_score: of active-request-scorer.
    queue_threshold_tokens: of token-load-scorer.
    host_links, rack_links: the most links between two instances on one host, in one rack; 2 is
        behind one switch. What is farther, and has a path, is in the zone.
    """

    queue: float = 2.0
    kv: float = 2.0
    prefix: float = 3.0
    active: float = 0.0
    token: float = 0.0
    topology: float = 0.0
    picker: Literal["max", "random", "weighted"] = "max"
    min_affinity: Literal["none", "host", "rack", "zone"] = "none"
    idle_threshold: int = 0
    max_busy_score: float = 1.0
    queue_threshold_tokens: int = QUEUE_TOKENS
    host_links: int = 0
    rack_links: int = 2


class Llmd:
    """The candidate of the highest weighted score, or one drawn; ties are drawn, see `Tie`.

    Candidates are the healthy instances with a path to the peer. The kv score of prefill instances
    is 1: their memory is not modelled. Without caches the prefix score is 0, without a peer the
    topology score is.
    """

    name: ClassVar[str] = "llm_d"
    settings: ClassVar[type[Struct]] = LlmdSettings
    sees: ClassVar[frozenset[Sight]] = frozenset({"load", "cache", "topology"})
    source: ClassVar[str] = "llm-d/llm-d-router, pkg/epp/framework/plugins/scheduling"

    def __init__(self, settings: LlmdSettings, hops: NDArray[np.int32], seed: int) -> None:
        islands(hops)
        for name in ("queue", "kv", "prefix", "active", "token", "topology"):
            weight = getattr(settings, name)
            if not 0 <= weight < float("inf"):
                raise PolicyError(f"llm_d {name} {weight}: not a weight; write 0 or more, e.g. 2.0")
        if not 0 <= settings.max_busy_score <= 1:
            raise PolicyError(
                f"llm_d max_busy_score {settings.max_busy_score}: not a score; write 0 to 1"
            )
        if settings.queue_threshold_tokens < 1:
            raise PolicyError(
                f"llm_d queue_threshold_tokens {settings.queue_threshold_tokens}: below 1; write "
                f"tokens, e.g. {QUEUE_TOKENS}"
            )
        self._rules = settings
        self._affinity = np.select(
            [hops < 0, hops <= settings.host_links, hops <= settings.rack_links],
            [0.0, LEVELS["host"], LEVELS["rack"]],
            LEVELS["zone"],
        )
        self._least = LEVELS.get(settings.min_affinity, 0.0)
        self._seed = seed
        self._prefill = Tie(seed, "prefill")
        self._decode = Tie(seed, "decode")

    def prefill(self, request: Request, view: View) -> int:
        """The prefill instance by its scores."""
        affinity = None if request.decode < 0 else self._affinity[:, request.decode]
        found = self._candidates(view.prefill_healthy, affinity)
        if not found.size:
            return NOBODY
        active = view.prefill_requests[found]
        score = self._loads(active, view.prefill_running[found], view.prefill_tokens[found])
        score += self._rules.kv
        if self._rules.prefix and request.blocks and view.prefix is not None:
            held = prefill_blocks(request, view)[found]
            score += self._rules.prefix / len(request.blocks) * held
        if affinity is not None and self._rules.topology:
            score += self._rules.topology * affinity[found]
        return self._pick("prefill", self._prefill, found, score, request.request)

    def decode(self, request: Request, prefill: int, view: View) -> int:
        """The decode instance by its scores."""
        affinity = None if prefill < 0 else self._affinity[prefill]
        found = self._candidates(view.decode_healthy, affinity)
        if not found.size:
            return NOBODY
        active = view.decode_requests[found]
        score = self._loads(active, view.decode_running[found], view.decode_tokens[found])
        if self._rules.kv:
            used = view.decode_bytes[found] / max(view.decode_capacity_bytes, 1)
            score += self._rules.kv * (1 - np.minimum(used, 1))
        if self._rules.prefix and request.blocks and view.prefix is not None:
            held = decode_blocks(request, view)[found]
            score += self._rules.prefix / len(request.blocks) * held
        if affinity is not None and self._rules.topology:
            score += self._rules.topology * affinity[found]
        return self._pick("decode", self._decode, found, score, request.request)

    def _candidates(self, healthy: NDArray[np.bool_], affinity: Score | None) -> NDArray[np.int64]:
        """Healthy, joined by a path, and near enough where any is."""
        if affinity is None:
            return healthy.nonzero()[0]
        found = (healthy & (affinity > 0)).nonzero()[0]
        if self._least:
            near = found[affinity[found] >= self._least]
            return near if near.size else found
        return found

    def _loads(
        self, active: NDArray[np.int64], running: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> Score:
        """The weighted scores of queue, active requests and tokens."""
        rules = self._rules
        score = np.zeros(active.size)
        if rules.queue:
            score += rules.queue * queue_score(active - running)
        if rules.active:
            busy = active_score(active, rules.idle_threshold, rules.max_busy_score)
            score += rules.active * busy
        if rules.token:
            score += rules.token * (1 - np.minimum(tokens / rules.queue_threshold_tokens, 1))
        return score

    def _pick(
        self, side: str, tie: Tie, found: NDArray[np.int64], score: Score, request: int
    ) -> int:
        if self._rules.picker == "max":
            return tie.among(found[score == score.max()], request)
        chances = np.ones(found.size) if self._rules.picker == "random" else score
        total = chances.cumsum()
        if not total[-1]:
            total = np.arange(1.0, found.size + 1)
        drawn = draw(self._seed, f"policy picker {side}", request, _UNIT) / _UNIT
        return int(found[int(total.searchsorted(drawn * total[-1], side="right"))])

    def pairs(self, hops: NDArray[np.int32]) -> NDArray[np.bool_]:
        """The pairs that a path joins."""
        return hops >= 0


def queue_score(waiting: NDArray[np.int64]) -> Score:
    """(max - waiting) / (max - min); 1 where all are equal.

    >>> queue_score(np.array([4, 0, 1])).tolist()
    [0.0, 1.0, 0.75]
    """
    least, most = int(waiting.min()), int(waiting.max())
    if least == most:
        return np.ones(waiting.size)
    return np.asarray((most - waiting) / (most - least), np.float64)


def active_score(active: NDArray[np.int64], idle: int, busy: float) -> Score:
    """1 for at most ``idle`` requests in flight, else (max - active) / max x ``busy``.

    >>> active_score(np.array([0, 1, 4]), 0, 0.5).tolist()
    [1.0, 0.375, 0.0]
    """
    most = max(int(active.max()), 1)
    return np.where(active <= idle, 1.0, (most - active) / most * busy)
