"""Same rack first: decode behind the switch of the prefill instance, as long as it has room."""

from typing import ClassVar, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from traffic.policy.choice import Request, Sight, View
from traffic.policy.cost import Cost, Costed

_FARTHER: Final = 1 << 40
_FULL: Final = 1 << 50


class RackSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """``rack_links``: the most links between two instances of one rack; 2 is behind one switch."""

    rack_links: int = 2


class SameRack(Costed):
    """The least loaded decode instance of the rack that has room for the prompt's cache, else the
    least loaded with room anywhere, else the least loaded.

    Load is requests from their choice to their last token; room is KV memory that no such request
    needs. Prefill is the least loaded, or by the same order where decode is chosen first (room
    plays no part there). Ties are drawn, see `Tie`.
    """

    name: ClassVar[str] = "same_rack"
    settings: ClassVar[type[Struct]] = RackSettings
    sees: ClassVar[frozenset[Sight]] = frozenset({"load", "topology"})
    source: ClassVar[str] = "cklxx/kvcache-sim, README.md, DecodeRouter"

    def __init__(self, settings: RackSettings, hops: NDArray[np.int32], seed: int) -> None:
        super().__init__(hops, seed)
        self._far = np.where(hops > settings.rack_links, float(_FARTHER), 0.0)

    def prefill_cost(self, request: Request, view: View) -> Cost:
        """Prompts that wait or run; those outside the rack of ``decode`` come last."""
        if request.decode < 0:
            return view.prefill_requests
        return view.prefill_requests + self._far[:, request.decode]

    def decode_cost(self, request: Request, prefill: int, view: View) -> Cost:
        """Requests; those outside the rack come after, those without room last."""
        cost = view.decode_requests
        if prefill >= 0:
            cost = cost + self._far[prefill]
        if view.decode_capacity_bytes:
            full = view.decode_bytes + request.kv_bytes > view.decode_capacity_bytes
            cost = cost + full * _FULL
        return cost

    def scores(self, request: Request, view: View) -> NDArray[np.float64]:
        """Both loads, pairs of one rack first."""
        cost = self._far + self.prefill_cost(request, view)[:, None]
        return np.asarray(cost + self.decode_cost(request, -1, view), np.float64)
