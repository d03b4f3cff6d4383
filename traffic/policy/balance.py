"""Policies that balance load and are blind to the network: random, round_robin, least_loaded.

Prefill and decode are chosen apart from each other, as SGLang's gateway does, over the healthy
instances. Load is the number of requests in flight at the instance. Sources: sgl-model-gateway
src/policies/random.rs and round_robin.rs; vidur lor_global_scheduler.py and splitwise-sim
scheduler.py (KVJSQ) for least_loaded.
"""

# ruff: noqa: ARG002 -- blind policies take the protocol's arguments and ignore most of them

from typing import ClassVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from traffic.draw import draw
from traffic.policy.choice import NOBODY, NoSettings, Request, Sight, Tie, View


class Blind:
    """What these policies share: any pair may be chosen, whatever the fabric is."""

    settings: ClassVar[type[Struct]] = NoSettings
    sees: ClassVar[frozenset[Sight]] = frozenset()

    def pairs(self, hops: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Every pair."""
        return np.ones(hops.shape, np.bool_)


class Random(Blind):
    """Uniform over the healthy instances, drawn by (seed, request)."""

    name: ClassVar[str] = "random"
    source: ClassVar[str] = "sgl-project/sglang, sgl-model-gateway/src/policies/random.rs"

    def __init__(self, settings: NoSettings, hops: NDArray[np.int32], seed: int) -> None:
        self._seed = seed

    def prefill(self, request: Request, view: View) -> int:
        """Uniform over prefill instances."""
        return self._drawn("policy prefill", request, view.prefill_healthy)

    def decode(self, request: Request, prefill: int, view: View) -> int:
        """Uniform over decode instances."""
        return self._drawn("policy decode", request, view.decode_healthy)

    def _drawn(self, purpose: str, request: Request, healthy: NDArray[np.bool_]) -> int:
        if healthy.all():
            return draw(self._seed, purpose, request.request, healthy.size)
        found = healthy.nonzero()[0]
        if not found.size:
            return NOBODY
        return int(found[draw(self._seed, purpose, request.request, found.size)])


class RoundRobin(Blind):
    """A counter modulo the number of healthy instances, one for each pool, from instance 0."""

    name: ClassVar[str] = "round_robin"
    source: ClassVar[str] = "sgl-project/sglang, sgl-model-gateway/src/policies/round_robin.rs"

    def __init__(self, settings: NoSettings, hops: NDArray[np.int32], seed: int) -> None:
        self._prefill = self._decode = 0

    def prefill(self, request: Request, view: View) -> int:
        """The next prefill instance in turn."""
        chosen = _turn(view.prefill_healthy, self._prefill)
        self._prefill += 1
        return chosen

    def decode(self, request: Request, prefill: int, view: View) -> int:
        """The next decode instance in turn, in the order in which they are asked for."""
        chosen = _turn(view.decode_healthy, self._decode)
        self._decode += 1
        return chosen


def _turn(healthy: NDArray[np.bool_], turn: int) -> int:
    found = healthy.nonzero()[0]
    return int(found[turn % found.size]) if found.size else NOBODY


class LeastLoaded(Blind):
    """The fewest requests in flight, in each pool apart; ties are drawn, see `Tie`."""

    name: ClassVar[str] = "least_loaded"
    sees: ClassVar[frozenset[Sight]] = frozenset({"load"})
    source: ClassVar[str] = "microsoft/vidur, lor_global_scheduler.py"

    def __init__(self, settings: NoSettings, hops: NDArray[np.int32], seed: int) -> None:
        self._prefill = Tie(seed, "prefill")
        self._decode = Tie(seed, "decode")

    def prefill(self, request: Request, view: View) -> int:
        """The prefill instance with the fewest prompts waiting or running."""
        return self._prefill.least(view.prefill_requests, request.request, view.prefill_healthy)

    def decode(self, request: Request, prefill: int, view: View) -> int:
        """The decode instance with the fewest requests from their choice to their last token."""
        return self._decode.least(view.decode_requests, request.request, view.decode_healthy)
