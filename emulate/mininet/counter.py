"""What the queues of a kernel plane have counted, port by port."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emulate.mininet import qdisc
from emulate.mininet.backlog import Backlog, Counted
from emulate.mininet.namespace import inside
from emulate.mininet.plane import Plane


@dataclass(frozen=True, slots=True)
class Tally:
    """Packets by port of the fabric: marked by its RED, dropped by its queues.

    outside: packets lost in queues that stand for no memory of the fabric: those of hosts and of
    wires.
    """

    marked: NDArray[np.int64]
    drops: NDArray[np.int64]
    outside: int


class Counters:
    """The counters of a plane's ports; one netlink channel a namespace."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        network = plane.network
        self._channels: list[tuple[Backlog, dict[int, int]]] = []
        for node in network.nodes:
            channel = Backlog(network.namespace(node.index))
            own = {
                channel.index[port.interface]: port.port
                for port in network.ports
                if port.node == node.index
            }
            self._channels.append((channel, own))

    def now(self) -> dict[int, Counted]:
        """What every port's root has counted so far, by port."""
        return {
            own[interface]: counted
            for channel, own in self._channels
            for interface, counted in channel.read().items()
            if interface in own
        }

    def tally(self) -> Tally:
        """Marks and drops so far, as ``tc -s`` tells them."""
        network = self._plane.network
        marked, drops = (np.zeros(len(network.ports), np.int64) for _ in range(2))
        outside = 0
        by_name = {port.interface: port for port in network.ports}
        for node in network.nodes:
            with inside(node.namespace):
                told = qdisc.read("-statistics")
            for one in told:
                port = by_name.get(str(one["dev"]))
                lost = int(one.get("drops", 0))
                if port is not None and node.kind == "switch":
                    # Only at the leaves: their parents count the same drops once more.
                    if one["kind"] in ("red", "bfifo"):
                        marked[port.port] += int(one.get("marked", 0))
                        drops[port.port] += lost
                elif one["kind"] in ("bfifo", "netem"):
                    outside += lost
        return Tally(marked, drops, outside)

    def close(self) -> None:
        """Close the channels."""
        for channel, _ in self._channels:
            channel.close()
