"""Policies that give every instance a cost, and take the healthy one of the least.

A subclass tells the cost of each prefill and each decode instance; the rest is here: who may be
chosen, ties, and the matrix of costs from which both can be chosen at once. Decode is only taken
among the instances that a path joins to the chosen prefill instance; where decode is chosen first
it is the other way round.
"""

# ruff: noqa: ARG002 -- what a subclass may look at

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from traffic.policy.choice import NoSettings, Request, Sight, Tie, View, islands

Cost = NDArray[np.int64] | NDArray[np.float64]
"""A cost by instance; less is better."""

Mask = NDArray[np.bool_]
"""Instances that may be chosen."""


class Costed(ABC):
    """The least cost of the instances that are healthy and joined by a path; ties are drawn.

    Raises `PolicyError` where an instance has no path to any other.
    """

    settings: ClassVar[type[Struct]] = NoSettings
    sees: ClassVar[frozenset[Sight]] = frozenset({"load", "topology"})

    def __init__(self, hops: NDArray[np.int32], seed: int) -> None:
        islands(hops)
        self._joined = np.asarray(hops >= 0, np.bool_)
        self._whole = bool(self._joined.all())
        self._prefill = Tie(seed, "prefill")
        self._decode = Tie(seed, "decode")

    @abstractmethod
    def prefill_cost(self, request: Request, view: View) -> Cost:
        """By prefill instance; ``request.decode`` where decode was chosen first."""

    @abstractmethod
    def decode_cost(self, request: Request, prefill: int, view: View) -> Cost:
        """By decode instance; ``prefill`` is -1 where decode is chosen first."""

    def prefill_usable(self, request: Request, view: View) -> Mask:
        """The prefill instances that may be chosen."""
        if self._whole or request.decode < 0:
            return view.prefill_healthy
        return view.prefill_healthy & self._joined[:, request.decode]

    def decode_usable(self, request: Request, prefill: int, view: View) -> Mask:
        """The decode instances that may be chosen."""
        if self._whole or prefill < 0:
            return view.decode_healthy
        return np.asarray(view.decode_healthy & self._joined[prefill], np.bool_)

    def prefill(self, request: Request, view: View) -> int:
        """The prefill instance of the least cost."""
        usable = self.prefill_usable(request, view)
        return self._prefill.least(self.prefill_cost(request, view), request.request, usable)

    def decode(self, request: Request, prefill: int, view: View) -> int:
        """The decode instance of the least cost."""
        usable = self.decode_usable(request, prefill, view)
        return self._decode.least(self.decode_cost(request, prefill, view), request.request, usable)

    def pairs(self, hops: NDArray[np.int32]) -> NDArray[np.bool_]:
        """The pairs that a path joins."""
        return hops >= 0
