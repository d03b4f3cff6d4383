"""Placement: which hosts serve prefill, which decode and which storage.

``separate`` keeps the pools apart: the first hosts prefill, the next decode. ``rack`` gives whole
racks to a pool, the pools taking turns in proportion to their sizes, so that both spread over the
fabric; a rack is shared only where a pool ends inside it. ``interleaved`` mixes the pools inside
each rack, so that part of the hand-off stays under one leaf. ``rail`` gives whole rails to a pool,
the pools taking turns: the GPUs at one place of their servers. Storage takes the last hosts, by
rack except where ``separate`` goes by number. Hosts beyond the pools are idle. A fabric that pins
roles to places (bipartite) keeps them; the counts must then agree.
"""

from itertools import pairwise

from topo.error import FabricError
from topo.fabric import Fabric, Role

WAYS = ("separate", "rack", "interleaved", "rail")


def place(
    fabric: Fabric, *, prefill: int, decode: int, storage: int = 0, by: str = "rack"
) -> Fabric:
    """The fabric with ``prefill``, ``decode`` and ``storage`` hosts given their roles.

    Errors: an unknown way, a pool without hosts, fewer hosts than asked for, pinned roles with
    other counts, or ``rail`` on hosts without servers.

    >>> from topo.family.registry import build
    >>> fabric = place(build("leaf_spine", {"hosts": 4}), prefill=2, decode=2, by="interleaved")
    >>> [str(host.role) for host in fabric.hosts]
    ['prefill', 'decode', 'prefill', 'decode']
    """
    if by not in WAYS:
        raise FabricError(f"placement by {by!r}: unknown; write one of {', '.join(WAYS)}")
    for name, count in (("prefill", prefill), ("decode", decode)):
        if count < 1:
            raise FabricError(f"placement {name} {count}: a pool needs hosts; write 1 or more")
    if storage < 0:
        raise FabricError(f"placement storage {storage}: must not be negative; write 0 for none")
    pinned = fabric.hosts_with(Role.PREFILL, Role.DECODE, Role.BOTH)
    if pinned:
        _check_pinned(fabric, prefill, decode, storage)
        return fabric
    hosts = fabric.hosts_with(Role.NONE)
    wanted = prefill + decode + storage
    if wanted > len(hosts):
        kept = f" + {storage} storage" if storage else ""
        raise FabricError(
            f"placement {prefill} prefill + {decode} decode{kept}: fabric {fabric.name!r} has only "
            f"{len(hosts)} hosts; write hosts: {wanted} or smaller pools"
        )
    if by != "separate":
        hosts.sort(key=lambda h: (fabric.nodes[h].rack, h))
    kept_back = hosts[len(hosts) - storage :]
    hosts = hosts[: len(hosts) - storage]
    if by == "rack":
        order = _by_rack([fabric.nodes[h].rack for h in hosts], prefill, decode)
    elif by == "rail":
        rail = rails(fabric)
        hosts.sort(key=lambda h: (rail[h], h))
        order = _by_rack([rail[h] for h in hosts], prefill, decode)
    elif by == "interleaved":
        order = _alternating(prefill, decode)
    else:
        order = [Role.PREFILL] * prefill + [Role.DECODE] * decode
    roles = dict(zip(hosts, order, strict=False))
    return fabric.with_roles(roles | dict.fromkeys(kept_back, Role.STORAGE))


def rails(fabric: Fabric) -> dict[int, int]:
    """The rail of each host, its place among the hosts of its server; a `FabricError` without.

    >>> from topo.family.registry import build
    >>> list(rails(build("leaf_spine", {"hosts": 8, "gpus_per_server": 2})).values())
    [0, 1, 0, 1, 0, 1, 0, 1]
    """
    taken: dict[int, int] = {}
    found: dict[int, int] = {}
    for host in fabric.hosts:
        if host.server < 0:
            raise FabricError(
                f"placement by 'rail': host {host.name!r} is in no server, and rails are places in "
                "servers; write fabric: {gpus_per_server: 8}"
            )
        found[host.index] = taken.get(host.server, 0)
        taken[host.server] = found[host.index] + 1
    return found


def _check_pinned(fabric: Fabric, prefill: int, decode: int, storage: int) -> None:
    for name, role, asked in (
        ("prefill", Role.PREFILL, prefill),
        ("decode", Role.DECODE, decode),
        ("storage", Role.STORAGE, storage),
    ):
        found = len(fabric.hosts_with(role))
        if found != asked:
            raise FabricError(
                f"placement {name} {asked}: fabric {fabric.name!r} pins {found} hosts to "
                f"{name}; write {name}: {found} or build the fabric for {asked}"
            )


def _alternating(prefill: int, decode: int) -> list[Role]:
    """Roles spread evenly: any n in a row hold the pools in proportion, to within one."""
    total = prefill + decode
    taken = [-(-(i * prefill) // total) for i in range(total + 1)]
    return [Role.PREFILL if after > before else Role.DECODE for before, after in pairwise(taken)]


def _by_rack(racks: list[int], prefill: int, decode: int) -> list[Role]:
    """Roles of hosts sorted by rack: each rack goes to the pool with the larger share to come."""
    left = {Role.PREFILL: prefill, Role.DECODE: decode}
    whole = {Role.PREFILL: prefill, Role.DECODE: decode}
    order: list[Role] = []
    current, owner = None, Role.PREFILL
    for rack in racks:
        if rack != current:
            current = rack
            owner = max(left, key=lambda role: left[role] / whole[role])
        other = Role.DECODE if owner is Role.PREFILL else Role.PREFILL
        role = owner if left[owner] else other
        if not left[role]:
            break
        left[role] -= 1
        order.append(role)
    return order
