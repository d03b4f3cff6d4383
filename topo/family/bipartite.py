"""Bipartite: prefill leaves wired straight to decode leaves, with no spine.

The hand-off goes from prefill to decode only, so links among prefill leaves and among decode
leaves carry nothing of it; a bipartite fabric spends every cable between the two sides. Each of
g groups holds n prefill and m decode leaves. A prefill leaf is linked to all m decode leaves of
its group, or to ``degree`` d of them in a circulant: leaf i to d neighbours in a row from
position floor(i m / n), so that the decode leaves get n d / m links each, to within one. There is
no link between groups: a pair of hosts in two groups has no path, and a mapping policy must keep
to the groups. Below full degree, pairs that are not neighbours reach each other through other
leaves, down and up again; such a fabric can deadlock under PFC (see `topo.deadlock`).
"""

from collections.abc import Callable
from dataclasses import dataclass

from topo.error import FabricError
from topo.fabric import Fabric, Role
from topo.family.parameter import (
    Count,
    Parameters,
    Rate,
    add_hosts,
    evenly,
    join_hosts,
    join_switches,
)
from topo.unit import show_rate


class Bipartite(Parameters, frozen=True, kw_only=True):
    """Parameters of a bipartite fabric; ``prefill`` and ``decode`` hosts are required.

    leaves: leaves on each side, the fewest that fit when None. degree: decode leaves that a
    prefill leaf is linked to, all of its group when None. groups: islands, 1 when None. trunk:
    parallel links a pair, the fewest that keep the oversubscription when None. oversubscription:
    1 when None and trunk is left to choose. decode_nic_bps: NIC rate of the decode side,
    ``nic_bps`` when None.
    """

    leaves: Count | None = None
    degree: Count | None = None
    groups: Count | None = None
    trunk: Count | None = None
    decode_nic_bps: Rate | None = None


Pairs = Callable[[int, int, int, int], list[tuple[int, int]]]
"""Near leaves, far leaves, degree, group -> the pairs to link."""


@dataclass(frozen=True, slots=True)
class _Group:
    """One group: leaves a side, degree of a prefill leaf, links a pair."""

    prefill: int
    decode: int
    degree: int
    trunk: int


def bipartite(spec: Bipartite) -> Fabric:
    """Build a bipartite fabric with the roles pinned to its two sides."""
    return wired(spec, "bipartite", lambda near, far, degree, _: circulant(near, far, degree))


def sides(spec: Parameters, family: str) -> tuple[int, int]:
    """Hosts of the prefill and of the decode side, which must be all there are."""
    if spec.prefill is None or spec.decode is None:
        raise FabricError(
            f"{family}: the numbers of prefill and decode hosts are missing; "
            "write placement: {prefill: 32, decode: 32}"
        )
    if spec.hosts is not None and spec.hosts != spec.prefill + spec.decode:
        raise FabricError(
            f"{family}: hosts {spec.hosts}, yet {spec.prefill} prefill + {spec.decode} decode: "
            f"every host has its side here; write hosts: {spec.prefill + spec.decode}"
        )
    return spec.prefill, spec.decode


def decode_rate(spec: Parameters, decode_nic_bps: int | None, family: str) -> int:
    """NIC rate of the decode side, at most the switch port's."""
    rate = spec.nic_bps if decode_nic_bps is None else decode_nic_bps
    if rate > spec.switch.rate_bps:
        raise FabricError(
            f"{family}: decode_nic {show_rate(rate)}: faster than the switch port of "
            f"{show_rate(spec.switch.rate_bps)} that it plugs into; write a slower decode_nic"
        )
    return rate


def pinned(racks: list[list[int]], near: int) -> dict[int, Role]:
    """Roles of the hosts: prefill in the first ``near`` racks, decode in the others."""
    roles = {host: Role.PREFILL for rack in racks[:near] for host in rack}
    return roles | {host: Role.DECODE for rack in racks[near:] for host in rack}


def wired(spec: Bipartite, family: str, pairs: Pairs, natural: int | None = None) -> Fabric:
    """Build a bipartite fabric with the pairs of leaves that ``pairs`` names.

    ``natural`` is the degree where none is given: as many as the far side has when None.
    """
    prefill, decode = sides(spec, family)
    rate = decode_rate(spec, spec.decode_nic_bps, family)
    groups = spec.groups or 1
    shape = _shape(spec, family, prefill, decode, groups, rate, natural)
    near, far = shape.prefill * groups, shape.decode * groups
    fabric = Fabric(family)
    counts = [*evenly(prefill, near), *evenly(decode, far)]
    racks = add_hosts(fabric, counts, spec.gpus_per_server)
    names = [f"pleaf{i}" for i in range(near)] + [f"dleaf{i}" for i in range(far)]
    leaves = [
        fabric.add_switch(name, tier=1, switch=spec.switch, rack=rack)
        for rack, name in enumerate(names)
    ]
    for number, (rack, leaf) in enumerate(zip(racks, leaves, strict=True)):
        join_hosts(fabric, spec, rack, leaf, spec.nic_bps if number < near else rate)
    for group in range(groups):
        for i, j in pairs(shape.prefill, shape.decode, shape.degree, group):
            a = leaves[group * shape.prefill + i]
            b = leaves[near + group * shape.decode + j]
            join_switches(fabric, spec, a, b, shape.trunk)
    return fabric.with_roles(pinned(racks, near))


def circulant(near: int, far: int, degree: int) -> list[tuple[int, int]]:
    """Pairs (i, j) that link each of ``near`` leaves to ``degree`` of ``far`` leaves in a ring.

    >>> circulant(3, 3, 2)
    [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 0)]
    """
    return [(i, (i * far // near + step) % far) for i in range(near) for step in range(degree)]


def _shape(
    spec: Bipartite,
    family: str,
    prefill: int,
    decode: int,
    groups: int,
    rate: int,
    natural: int | None,
) -> _Group:
    """The smallest group, in leaves, that holds its share of the hosts."""
    if groups > min(prefill, decode):
        raise FabricError(
            f"{family}: groups {groups}: more than the {min(prefill, decode)} hosts of the "
            f"smaller side; write groups: {min(prefill, decode)} or fewer"
        )
    if spec.leaves is not None:
        if spec.leaves % groups:
            raise FabricError(
                f"{family}: leaves {spec.leaves} a side do not divide into {groups} groups; "
                f"write leaves: {groups * -(-spec.leaves // groups)}"
            )
        each = spec.leaves // groups
        sizes = [(each, each)]
    else:
        most = range(1, spec.switch.ports)
        sizes = sorted(
            ((n, m) for n in most for m in most), key=lambda s: (s[0] + s[1], abs(s[0] - s[1]), s)
        )
    for near, far in sizes:
        found = _fitted(spec, prefill, decode, groups, near, far, rate, natural)
        if found is not None:
            return found
    asked = spec.asked("leaves", "degree", "groups", "trunk", "oversubscription")
    raise FabricError(
        f"{family}: {prefill} prefill and {decode} decode hosts{asked} do not fit switches of "
        f"{spec.switch.ports} ports at oversubscription {spec.allowed:g}; write more ports a "
        "switch, a higher oversubscription, more groups, or a degree that the leaves allow"
    )


def _fitted(
    spec: Bipartite,
    prefill: int,
    decode: int,
    groups: int,
    near: int,
    far: int,
    rate: int,
    natural: int | None,
) -> _Group | None:
    """The group with that many leaves a side, or None when hosts or ports do not allow it."""
    degree = spec.degree or min(far, natural or far)
    if near * groups > prefill or far * groups > decode or degree > far or degree * near < far:
        return None
    here, there = -(-prefill // (near * groups)), -(-decode // (far * groups))
    fewest, most = degree * near // far, -(-degree * near // far)
    trunk = spec.trunk or max(
        -(-spec.uplinks(here) // degree), -(-spec.uplinks(there, rate) // fewest)
    )
    radix = spec.switch.ports
    if here + degree * trunk > radix or there + most * trunk > radix:
        return None
    given = spec.trunk is not None and spec.oversubscription is None
    worst = max(spec.ratio(here, degree * trunk), spec.ratio(there, fewest * trunk, rate))
    return _Group(near, far, degree, trunk) if given or worst <= spec.allowed else None
