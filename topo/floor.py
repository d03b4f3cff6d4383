"""A simple floor plan: where racks stand, and so how long each cable is.

Servers fill racks in the order of their numbers; a host without a server counts as one of eight in
a row. A switch with hosts stands on top of the rack of its middle host; the others share network
racks after the last server rack. Racks stand in rows. A cable runs along the row, across to the
other row, and up and down at both ends, with slack for dressing. All of these are assumptions
that `Floor` states and that a site replaces with its own.
"""

import math
from dataclasses import dataclass

from topo.error import FabricError
from topo.fabric import Fabric, Kind


@dataclass(frozen=True, slots=True)
class Floor:
    """Lengths in metres. inside_m: a cable within a rack. rise_m: from a rack to the tray."""

    servers_per_rack: int = 4
    hosts_per_server: int = 8
    switches_per_rack: int = 16
    racks_per_row: int = 16
    rack_m: float = 0.6
    row_m: float = 3.0
    rise_m: float = 2.0
    inside_m: float = 2.0
    slack: float = 1.1

    def __post_init__(self) -> None:
        counts = ("servers_per_rack", "hosts_per_server", "switches_per_rack", "racks_per_row")
        for name in counts:
            if getattr(self, name) < 1:
                raise FabricError(f"floor {name} {getattr(self, name)}: must be at least 1")
        for name in ("rack_m", "row_m", "rise_m", "inside_m", "slack"):
            value = getattr(self, name)
            if not (math.isfinite(value) and 0 <= value <= 1_000):
                raise FabricError(f"floor {name} {value}: must be at least 0 and at most 1000")

    def length_m(self, one: int, other: int) -> float:
        """Metres of a cable between two racks, by their numbers."""
        if one == other:
            return self.inside_m
        row, place = divmod(one, self.racks_per_row)
        far_row, far_place = divmod(other, self.racks_per_row)
        along, across = abs(place - far_place) * self.rack_m, abs(row - far_row) * self.row_m
        return (along + across + 2 * self.rise_m) * self.slack


def racks(fabric: Fabric, floor: Floor | None = None) -> dict[int, int]:
    """The rack number of each node."""
    floor = Floor() if floor is None else floor
    rack: dict[int, int] = {}
    for number, host in enumerate(fabric.hosts):
        server = number // floor.hosts_per_server if host.server < 0 else host.server
        rack[host.index] = server // floor.servers_per_rack
    near: dict[int, list[int]] = {}
    inner = {n.index for n in fabric.switches if n.tier == 0}
    for _ in range(2):  # what lies inside a server first, then the leaves above it
        for link in fabric.links:
            for a, b in ((link.a, link.b), (link.b, link.a)):
                if (
                    b in rack
                    and a not in rack
                    and (fabric.nodes[b].kind is Kind.HOST or b in inner)
                ):
                    near.setdefault(a, []).append(rack[b])
        for node, seats in near.items():
            rack.setdefault(node, sorted(seats)[len(seats) // 2])
        near = {}
    first = max(rack.values(), default=-1) + 1
    apart = [n.index for n in fabric.nodes if n.index not in rack]
    for number, node in enumerate(apart):
        rack[node] = first + number // floor.switches_per_rack
    return rack


def lengths(fabric: Fabric, floor: Floor | None = None) -> list[float]:
    """Metres of each link by its index, 0 inside a server."""
    floor = Floor() if floor is None else floor
    rack = racks(fabric, floor)
    return [
        0.0 if is_inside(fabric, link.a, link.b) else floor.length_m(rack[link.a], rack[link.b])
        for link in fabric.links
    ]


def is_inside(fabric: Fabric, a: int, b: int) -> bool:
    """Does a link stay in its server? It joins two of: switches of tier 0, and hosts on them."""
    ends = (fabric.nodes[a], fabric.nodes[b])
    return all(n.tier == 0 for n in ends) and any(n.kind is Kind.SWITCH for n in ends)
