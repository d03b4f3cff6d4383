"""Is a fabric whole? Every host cabled, and every pair that must talk has a path.

Hosts do not forward. Switches joined by links form an *island*; two hosts can talk when they sit
on one island or share a cable. Most families are one island. A bipartite fabric may have several,
as long as every prefill host reaches a decode host and the other way round; so may hosts that are
cabled to each other without any switch, whatever the file that told of them calls the family.
"""

from collections import defaultdict

from topo.error import FabricError
from topo.fabric import Fabric, Kind, Role

MAY_HAVE_ISLANDS = frozenset(
    {"bipartite", "bipartite_random", "bipartite_direct", "bipartite_middle"}
)
_PARTNER = {Role.PREFILL: Role.DECODE, Role.DECODE: Role.PREFILL}


def check(fabric: Fabric) -> None:
    """Refuse, with a `FabricError`, a fabric with no hosts, a host without a link, or in pieces."""
    hosts = fabric.hosts
    if not hosts:
        raise FabricError(f"fabric {fabric.name!r}: no hosts; write at least 2")
    member = _islands(fabric)
    for host in hosts:
        if not member[host.index]:
            raise FabricError(
                f"fabric {fabric.name!r}: host {host.name!r} has no link; connect it to a switch"
            )
    reach: dict[int, set[int]] = defaultdict(set)
    for host in hosts:
        for island in member[host.index]:
            reach[island].add(host.index)
    if any(len(reached) == len(hosts) for reached in reach.values()):
        return
    for host in hosts:
        reached = set().union(*(reach[island] for island in member[host.index]))
        if len(reached) == len(hosts):
            continue
        if fabric.family in MAY_HAVE_ISLANDS or not fabric.switches:
            partner = _PARTNER.get(host.role)
            others = reached - {host.index}
            if others and (partner is None or _serves(fabric, others, partner)):
                continue
            wanted = "another host" if partner is None else f"a {partner} host"
            raise FabricError(
                f"fabric {fabric.name!r}: host {host.name!r} ({host.role}) has no path to {wanted};"
                " link its leaf to the other side"
            )
        apart = next(h for h in hosts if h.index not in reached)
        raise FabricError(
            f"fabric {fabric.name!r} is in pieces: no path from host {host.name!r} to host "
            f"{apart.name!r}; link their switches"
        )


def _serves(fabric: Fabric, hosts: set[int], role: Role) -> bool:
    return any(fabric.nodes[host].role in (role, Role.BOTH) for host in hosts)


def _islands(fabric: Fabric) -> list[set[int]]:
    """The islands that each node is on; a cable between two hosts is an island of its own."""
    parent = list(range(len(fabric.nodes)))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    def is_host(node: int) -> bool:
        return fabric.nodes[node].kind is Kind.HOST

    for link in fabric.links:
        if not is_host(link.a) and not is_host(link.b):
            parent[root(link.a)] = root(link.b)
    member: list[set[int]] = [set() for _ in fabric.nodes]
    for node in fabric.switches:
        member[node.index].add(root(node.index))
    for link in fabric.links:
        for host, far in ((link.a, link.b), (link.b, link.a)):
            if is_host(host):
                island = len(parent) + link.index if is_host(far) else root(far)
                member[host].add(island)
    return member
