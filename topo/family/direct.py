"""Direct networks: what those without a switch above the leaf share.

Every switch has hosts and links to other switches of its own kind. The switches are given as
links between numbers 0 .. n - 1 with a count of parallel links; hosts spread evenly over them.
"""

from collections.abc import Iterable

from topo.error import FabricError
from topo.fabric import Fabric
from topo.family.parameter import Parameters, add_hosts, evenly, join_hosts, join_switches

Edge = tuple[int, int, int]
"""Two switches and the number of links between them."""


def built(
    family: str,
    spec: Parameters,
    hosts: int,
    names: list[str],
    edges: Iterable[Edge],
    *,
    seats: int | None = None,
) -> Fabric:
    """A fabric of switches with those names and links; the first ``seats`` of them take hosts.

    The rack of a host is the number of its switch. Errors: an oversubscription that was asked for
    and is not kept.
    """
    fabric = Fabric(family)
    taking = len(names) if seats is None else seats
    counts = evenly(hosts, taking)
    racks = add_hosts(fabric, counts, spec.gpus_per_server)
    wired = sorted(edges)
    width = [0] * len(names)
    for a, b, links in wired:
        width[a] += links
        width[b] += links
    _keep(family, spec, counts, width)
    first = len(fabric.nodes)
    for number, name in enumerate(names):
        own = number < taking
        fabric.add_switch(
            name, tier=1 if own else 2, switch=spec.switch, rack=number if own else -1
        )
    for rack, hosts_here in enumerate(racks):
        join_hosts(fabric, spec, hosts_here, first + rack)
    for a, b, links in wired:
        join_switches(fabric, spec, first + a, first + b, links)
    return fabric


def wanted(family: str, spec: Parameters) -> int:
    """The number of hosts, which a family that cannot choose it must be given."""
    if spec.total is None:
        raise FabricError(f"{family}: the number of hosts is missing; write hosts: 64")
    return spec.total


def refused(
    family: str, spec: Parameters, hosts: int | None, asked: dict[str, object]
) -> FabricError:
    """The refusal of what does not fit."""
    told = "".join(f", {name} {value}" for name, value in asked.items() if value is not None)
    over = "" if spec.oversubscription is None else f" at oversubscription {spec.allowed:g}"
    return FabricError(
        f"{family}: {hosts} hosts{told} do not fit switches of {spec.switch.ports} ports{over}; "
        "write fewer hosts, more ports a switch, or leave the shape to be chosen"
    )


def _keep(family: str, spec: Parameters, counts: list[int], width: list[int]) -> None:
    for number, (hosts, links) in enumerate(zip(counts, width, strict=False)):
        if hosts + links > spec.switch.ports:
            raise FabricError(
                f"{family}: switch {number} needs {hosts} + {links} ports and has "
                f"{spec.switch.ports}; write fewer hosts, or more ports a switch"
            )
        over = spec.oversubscription
        if over is not None and hosts and (not links or spec.ratio(hosts, links) > over):
            raise FabricError(
                f"{family}: {hosts} hosts over {links} links a switch exceed oversubscription "
                f"{over:g}; write a higher oversubscription, or fewer hosts a switch"
            )
