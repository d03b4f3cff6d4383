"""Pinned paths for direct networks: Valiant's, by way of a random switch.

Where shortest paths are few (a mesh has one trunk a pair, a dragonfly one global link a pair of
groups), a flow sent over a switch drawn at random, and on from there, spreads any traffic evenly
at twice the length (Valiant, SIAM J. Computing 1982; for the dragonfly, Kim, Dally, Scott, Abts,
ISCA 2008). A path is a list of ports from host to host, as `topo.route.Routes.paths` gives them.
"""

from collections.abc import Iterator

from topo.error import FabricError
from topo.route import Routes
from topo.splitmix import splitmix

Path = list[int]


def valiant_paths(
    routes: Routes, source: int, destination: int, *, count: int = 8, seed: int = 0
) -> list[Path]:
    """At most ``count`` paths, each over another leaf, drawn by ``seed``; both legs are shortest.

    The leaves in between are switches with hosts, other than those of the two ends; fewer than
    ``count`` are used where there are fewer. Where there is none the path is a minimal one. Errors:
    ``count`` below 1, or no path between the hosts.
    """
    if count < 1:
        raise FabricError(f"valiant paths {count}: must be at least 1")
    if source == destination:
        return [[]]
    if routes.distance(source, destination) < 0:
        raise FabricError(f"no path from host {source} to host {destination}; connect them")
    random = splitmix(seed ^ (source << 32) ^ destination)
    here, there = int(routes.group[source]), int(routes.group[destination])
    reach = routes.reach([source])[0]
    middles = [g for g in range(routes.groups) if g not in (here, there) and reach[g] >= 0]
    found: list[Path] = []
    while middles and len(found) < count:
        middle = middles.pop(next(random) % len(middles))
        first, turn = _to_group(routes, source, middle, random)
        second = _to_host(routes, turn, destination, random)
        if second is not None:
            found.append(first + second)
    return found or [_to_host(routes, source, destination, random) or []]


def _to_group(routes: Routes, node: int, group: int, random: Iterator[int]) -> tuple[Path, int]:
    """A shortest path from a node to a switch of a group, and that switch."""
    path: Path = []
    while len(onward := routes.row(node, group)):
        path.append(int(onward[next(random) % len(onward)]))
        node = int(routes.peer[path[-1]])
    return path, node


def _to_host(routes: Routes, node: int, host: int, random: Iterator[int]) -> Path | None:
    """A shortest path from a node to a host, None when there is none."""
    path: Path = []
    while node != host:
        onward = routes.next_hops(node, host)
        if not len(onward):
            return None
        path.append(int(onward[next(random) % len(onward)]))
        node = int(routes.peer[path[-1]])
    return path
