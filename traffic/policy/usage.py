"""How busy the ways between some pairs are on average, worked out once a picture."""

import numpy as np
from numpy.typing import NDArray

from traffic.policy.choice import NetworkView


class Usage:
    """The mean utilisation of the pairs that ``pairs`` (prefill x decode) marks; 0 of none."""

    def __init__(self, pairs: NDArray[np.bool_]) -> None:
        self._pairs = pairs
        self._known: tuple[NetworkView, int, float] | None = None

    def of(self, network: NetworkView) -> float:
        """Of the present picture."""
        known = self._known
        if known is None or known[0] is not network or known[1] != network.at_ps:
            busy = network.utilisation()[self._pairs]
            mean = float(busy.mean()) if busy.size else 0.0
            self._known = known = (network, network.at_ps, mean)
        return known[2]
