"""The path of a flow: at every hop one of the equal-cost ports, chosen by a hash.

The hash takes the seed, the node (so that switches do not all choose alike, the polarisation that
per-switch salts prevent) and the flow's source, destination and entropy, as ECMP does with the
5-tuple of a RoCEv2 packet, whose UDP source port carries the queue pair's entropy. A pinned path
number p >= 0 is read as digits instead: at a hop with k choices take p mod k, go on with p div k.
"""

import numpy as np
from numpy.typing import NDArray

from topo.error import FabricError
from topo.fabric import Fabric
from topo.route import Routes
from traffic.draw import mix


class Pathfinder:
    """Finds the ports that a flow crosses; remembers the choices at every node."""

    def __init__(self, fabric: Fabric, routes: Routes, seed: int) -> None:
        self._fabric = fabric
        self._routes = routes
        self._seed = mix(seed)
        self._peer: list[int] = fabric.ports.peer.tolist()
        self._choices: dict[tuple[int, int], tuple[int, ...]] = {}

    def path(self, source: int, destination: int, entropy: int, pinned: int = -1) -> list[int]:
        """Port indices from source to destination. Raises `FabricError` when there is none."""
        key = mix(self._seed ^ (source << 32) ^ destination) ^ entropy
        ports: list[int] = []
        node = source
        while node != destination:
            choices = self._choices.get((node, destination))
            if choices is None:
                choices = self._look_up(node, destination)
            if not choices:
                names = self._fabric.nodes
                raise FabricError(
                    f"no path from {names[source].name!r} to {names[destination].name!r} in fabric "
                    f"{self._fabric.name!r}; connect them, or keep the policy from that pair"
                )
            if len(choices) == 1:
                port = choices[0]
            elif pinned >= 0:
                pinned, digit = divmod(pinned, len(choices))
                port = choices[digit]
            else:
                port = choices[mix(key + (node << 20)) % len(choices)]
            ports.append(port)
            node = self._peer[port]
        return ports

    def _look_up(self, node: int, destination: int) -> tuple[int, ...]:
        found: NDArray[np.int32] = self._routes.next_hops(node, destination)
        choices = tuple(int(port) for port in found)
        self._choices[node, destination] = choices
        return choices
