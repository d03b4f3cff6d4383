"""Virtual channels: rules that number the buffers of a path so that no cycle of waits remains.

Each rule turns a path, a list of ports from host to host, into (port, virtual channel) pairs. A
rule is free of deadlock when the channels that any path takes one after the other always rise in
one order of all channels (Dally and Seitz, IEEE Transactions on Computers 1987); `channels_used`
says how many it takes and `topo.deadlock.channel_cycle` checks a set of paths.

`by_hop`: the channel is the number of links between switches crossed before, on any fabric and any
paths (Guenther, IEEE Transactions on Communications 1981). One channel a hop of the longest path.
`by_group`: on a dragonfly, two channels on local and one on global links for every group visited:
the global link leaving the i-th group has channel i, its first local link 2 i, its second 2 i + 1.
Order: local 0, local 1, global 0, local 2, ... One local link a group leaves the odd ones unused:
two local channels and one global carry paths over one global link (Kim, Dally, Scott, Abts, ISCA
2008). Paths of fewest links may cross other groups, and then take more.
On a HyperX dimension order needs one channel alone: no two links of a path lie in one dimension.
`by_dateline`: on a torus with paths in dimension order (`dimension_order`): channel 0, from the
link that closes the ring (between the last place and the first) on 1, in each dimension anew.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from topo.error import FabricError
from topo.fabric import Fabric, Kind
from topo.family.lattice import coordinate

Channels = list[tuple[int, int]]


def by_hop(fabric: Fabric, path: Sequence[int]) -> Channels:
    """Number the channels of a path by the links between switches before each."""
    found: Channels = []
    hop = 0
    for port in path:
        found.append((port, hop))
        hop += _inner(fabric, port)
    return found


def by_group(fabric: Fabric, path: Sequence[int], group: Mapping[int, int]) -> Channels:
    """Number the channels of a path through a dragonfly; ``group`` has the group of each switch.

    Errors: three local links in a row, which no minimal or Valiant path has.
    """
    found: Channels = []
    visited = local = 0
    for port in path:
        near, far = int(fabric.ports.node[port]), int(fabric.ports.peer[port])
        if not _inner(fabric, port):
            found.append((port, 0))
        elif group[near] == group[far]:
            if local == 2:
                raise FabricError(
                    f"path over {fabric.port_name(port)}: a third local link in one group; "
                    "by_group numbers two, write by_hop"
                )
            found.append((port, 2 * visited + local))
            local += 1
        else:
            found.append((port, visited))
            visited, local = visited + 1, 0
    return found


def dragonfly_groups(fabric: Fabric) -> dict[int, int]:
    """The group of each switch of a dragonfly, read off the names of its routers.

    Errors: a switch that is not named as a router of a group.
    """
    group: dict[int, int] = {}
    if not fabric.switches:
        raise FabricError(f"fabric {fabric.name!r}: no switches, and so no groups of routers")
    for node in fabric.switches:
        found = re.fullmatch(r"group(\d{1,9})router\d{1,9}", node.name, re.ASCII)
        if found is None:
            raise FabricError(
                f"switch {node.name!r}: not named as a router of a dragonfly, group0router0 and "
                "on; write another routing"
            )
        group[node.index] = int(found[1])
    return group


def dimension_order(
    fabric: Fabric, shape: tuple[int, ...], source: int, destination: int
) -> list[int]:
    """The path between two hosts of a torus or HyperX that settles one coordinate after the other.

    On a torus the shorter way round each ring, the rising one where both are equal; on a HyperX one
    link a coordinate, which needs no second channel. The first of parallel links. Errors: a fabric
    that is neither of that shape.
    """
    here, there = _place(fabric, shape, source), _place(fabric, shape, destination)
    if source == destination:
        return []
    names = [_name(here)]
    for axis, size in enumerate(shape):
        ahead = (there[axis] - here[axis]) % size
        step = 1 if 2 * ahead <= size else -1
        steps = min(ahead, size - ahead)
        if fabric.family == "hyperx":
            step, steps = ahead, min(ahead, 1)
        for _ in range(steps):
            here = (*here[:axis], (here[axis] + step) % size, *here[axis + 1 :])
            names.append(_name(here))
    nodes = [source, *(fabric.node(name).index for name in names), destination]
    return [_port(fabric, a, b) for a, b in pairwise(nodes)]


def by_dateline(fabric: Fabric, path: Sequence[int], shape: tuple[int, ...]) -> Channels:
    """Number the channels of a torus path in dimension order: two a link."""
    found: Channels = []
    channel, current = 0, -1
    for port in path:
        if not _inner(fabric, port):
            found.append((port, 0))
            continue
        near = coordinate(fabric.nodes[int(fabric.ports.node[port])].rack, shape)
        far = coordinate(fabric.nodes[int(fabric.ports.peer[port])].rack, shape)
        axis = next(i for i in range(len(shape)) if near[i] != far[i])
        if axis != current:
            channel, current = 0, axis
        if abs(near[axis] - far[axis]) > 1:
            channel = 1
        found.append((port, channel))
    return found


def channels_used(paths: Iterable[Channels]) -> int:
    """How many virtual channels a set of paths takes."""
    return 1 + max((channel for path in paths for _, channel in path), default=0)


def _inner(fabric: Fabric, port: int) -> bool:
    near, far = fabric.ports.node[port], fabric.ports.peer[port]
    return fabric.nodes[int(near)].kind is fabric.nodes[int(far)].kind is Kind.SWITCH


def _place(fabric: Fabric, shape: tuple[int, ...], host: int) -> tuple[int, ...]:
    if fabric.family not in ("torus", "hyperx") or fabric.nodes[host].kind is not Kind.HOST:
        raise FabricError(
            f"dimension order from node {host} of a {fabric.family}: needs hosts of a torus "
            "or hyperx; write equal-cost routing"
        )
    return coordinate(fabric.nodes[host].rack, shape)


def _name(place: tuple[int, ...]) -> str:
    return "at" + "-".join(map(str, place))


def _port(fabric: Fabric, a: int, b: int) -> int:
    ports = fabric.ports
    for port in range(int(ports.first[a]), int(ports.first[a + 1])):
        if int(ports.peer[port]) == b:
            return port
    raise FabricError(
        f"fabric {fabric.name!r}: no link from {fabric.nodes[a].name!r} to "
        f"{fabric.nodes[b].name!r}; give the shape that it was built with"
    )
