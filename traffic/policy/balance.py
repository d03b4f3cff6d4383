"""Policies that balance load and are blind to the network: random, round_robin, least_loaded.

Prefill and decode are chosen apart from each other, as SGLang's gateway does. Load is the number
of requests in flight at the instance. Sources: sgl-model-gateway src/policies/random.rs and
round_robin.rs; vidur lor_global_scheduler.py and splitwise-sim scheduler.py (KVJSQ) for
least_loaded.
"""

# ruff: noqa: ARG002 -- blind policies take the protocol's arguments and ignore most of them

from typing import ClassVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from traffic.draw import draw
from traffic.policy.choice import NoSettings, Request, Tie, View


class Blind:
    """What these policies share: any pair may be chosen, whatever the fabric is."""

    sees_network: ClassVar[bool] = False
    settings: ClassVar[type[Struct]] = NoSettings

    def pairs(self, hops: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Every pair."""
        return np.ones(hops.shape, np.bool_)


class Random(Blind):
    """Uniform over all instances, drawn by (seed, request)."""

    name: ClassVar[str] = "random"

    def __init__(self, settings: NoSettings, hops: NDArray[np.int32], seed: int) -> None:
        self._prefills, self._decodes = hops.shape
        self._seed = seed

    def prefill(self, request: Request, view: View) -> int:
        """Uniform over prefill instances."""
        return draw(self._seed, "policy prefill", request.request, self._prefills)

    def decode(self, request: Request, prefill: int, view: View) -> int:
        """Uniform over decode instances."""
        return draw(self._seed, "policy decode", request.request, self._decodes)


class RoundRobin(Blind):
    """A counter modulo the number of instances, one for each pool, from instance 0."""

    name: ClassVar[str] = "round_robin"

    def __init__(self, settings: NoSettings, hops: NDArray[np.int32], seed: int) -> None:
        self._prefills, self._decodes = hops.shape
        self._prefill = self._decode = -1

    def prefill(self, request: Request, view: View) -> int:
        """The next prefill instance in turn."""
        self._prefill = (self._prefill + 1) % self._prefills
        return self._prefill

    def decode(self, request: Request, prefill: int, view: View) -> int:
        """The next decode instance in turn, in the order in which prefills end."""
        self._decode = (self._decode + 1) % self._decodes
        return self._decode


class LeastLoaded(Blind):
    """The fewest requests in flight, in each pool apart; ties are drawn, see `Tie`."""

    name: ClassVar[str] = "least_loaded"

    def __init__(self, settings: NoSettings, hops: NDArray[np.int32], seed: int) -> None:
        self._prefill = Tie(seed, "prefill")
        self._decode = Tie(seed, "decode")

    def prefill(self, request: Request, view: View) -> int:
        """The prefill instance with the fewest prompts waiting or running."""
        return self._prefill.least(view.prefill_requests, request.request)

    def decode(self, request: Request, prefill: int, view: View) -> int:
        """The decode instance with the fewest requests from their choice to their last token."""
        return self._decode.least(view.decode_requests, request.request)
