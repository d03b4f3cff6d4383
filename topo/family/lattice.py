"""Lattices: HyperX and torus, switches at the points of an n-dimensional box.

*HyperX* S1 x .. x Sn links a switch to all that differ in one coordinate: prod S (sum (Si - 1)) / 2
links, n hops at most, T + sum (Si - 1) ports with T hosts; a cut across dimension i has
(prod S / Si) floor(Si^2 / 4) links (Ahn, Binkert, Davis, McLaren, Schreiber, SC 2009). 4 x 4: 48
links, mean 1.6 hops. *Torus* links it to the next and the previous in every dimension, round the
edge: n prod S links where all Si >= 3 (a dimension of 2 has one link a pair, of 1 none), sum
floor(Si / 2) hops at most, 2 prod S / S_max links of bisection for an even S_max (Dally, Towles,
Principles and Practices of Interconnection Networks, 2004). 4 x 4 x 4: 192 links, diameter 6, mean
3.0476. Switches are numbered with the last coordinate running fastest.
"""

import re
from collections.abc import Iterator
from itertools import product
from math import prod

from topo.error import FabricError
from topo.fabric import Fabric
from topo.family.direct import Edge, built, refused, wanted
from topo.family.parameter import Count, Parameters, Shape
from topo.family.tally import Tally, refuse_huge


class HyperX(Parameters, frozen=True, kw_only=True):
    """Parameters of a HyperX.

    shape: switches in each dimension; p: hosts a switch; trunk: parallel links a pair. Without a
    shape, the square or cube with the fewest switches whose bisection carries half of the NICs
    over the oversubscription: p <= S t / 2 at equal rates. With one, trunk is 1 when None.
    """

    shape: Shape | None = None
    p: Count | None = None
    trunk: Count | None = None


class Torus(Parameters, frozen=True, kw_only=True):
    """Parameters of a torus.

    shape: switches in each dimension; p: hosts a switch; trunk: parallel links to each neighbour.
    Without a shape, three dimensions as equal as possible with the fewest switches that uniform
    traffic does not overload beyond the oversubscription: p <= 8 t / S at equal rates for the
    longest dimension S, 2 t for S = 2 (Dally and Towles, section 3.3). With one, trunk is 1 when
    None.
    """

    shape: Shape | None = None
    p: Count | None = None
    trunk: Count | None = None


def hyperx_tally(shape: tuple[int, ...], p: int) -> Tally:
    """The closed form.

    >>> hyperx_tally((4, 4), 4)
    Tally(hosts=64, switches=16, switch_cables=48, host_cables=64)
    """
    count = prod(shape)
    return Tally(p * count, count, count * sum(s - 1 for s in shape) // 2, p * count)


def torus_tally(shape: tuple[int, ...], p: int) -> Tally:
    """The closed form for dimensions of 3 and more.

    >>> torus_tally((4, 4, 4), 1)
    Tally(hosts=64, switches=64, switch_cables=192, host_cables=64)
    """
    count = prod(shape)
    return Tally(p * count, count, len(shape) * count, p * count)


def hyperx(spec: HyperX) -> Fabric:
    """Build a HyperX; hosts spread evenly over all switches."""
    shape, trunk = (spec.shape, spec.trunk or 1) if spec.shape else _square(spec)
    refuse_huge("hyperx", hyperx_tally(shape, spec.p or 1), trunk)
    edges = [(a, b, trunk) for a, b in _lines(shape)]
    return _lattice("hyperx", spec, shape, spec.p, edges)


def torus(spec: Torus) -> Fabric:
    """Build a torus; hosts spread evenly over all switches."""
    shape, trunk = (spec.shape, spec.trunk or 1) if spec.shape else _cube(spec)
    refuse_huge("torus", torus_tally(shape, spec.p or 1), trunk)
    edges = [(a, b, trunk) for a, b in _rings(shape)]
    return _lattice("torus", spec, shape, spec.p, edges)


def coordinate(number: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The place of a switch.

    >>> coordinate(5, (2, 4))
    (1, 1)
    """
    place: list[int] = []
    for size in reversed(shape):
        number, own = divmod(number, size)
        place.append(own)
    return tuple(reversed(place))


def shape_of(fabric: Fabric) -> tuple[int, ...]:
    """The switches in each dimension of a HyperX or torus, read off its switches' names.

    Errors: a `FabricError` for a fabric whose switches are not named as those of a box.

    >>> from topo.family.registry import build
    >>> shape_of(build("torus", {"shape": (4, 3), "p": 1}))
    (4, 3)
    """
    places = [_place(node.name) for node in fabric.switches]
    if places and len({len(place) for place in places}) == 1:
        shape = tuple(max(place[axis] for place in places) + 1 for axis in range(len(places[0])))
        if shape and len(set(places)) == prod(shape) == len(places):
            return shape
    raise FabricError(
        f"fabric {fabric.name!r}: its switches are not named as the points of a box, at0-0 and on; "
        "write another routing"
    )


def _place(name: str) -> tuple[int, ...]:
    found = re.fullmatch(r"at(\d{1,6}(?:-\d{1,6})*)", name, re.ASCII)
    return tuple(map(int, found[1].split("-"))) if found else ()


def _lattice(
    family: str, spec: Parameters, shape: tuple[int, ...], p: int | None, edges: list[Edge]
) -> Fabric:
    count = prod(shape)
    hosts = spec.total if spec.total is not None or p is None else p * count
    if hosts is None:
        hosts = wanted(family, spec)
    if p is not None and hosts > p * count:
        told = "x".join(map(str, shape))
        raise refused(family, spec, hosts, {"shape": told, "p": p})
    places = product(*(range(size) for size in shape))
    names = ["at" + "-".join(map(str, place)) for place in places]
    return built(family, spec, hosts, names, edges)


def _steps(shape: tuple[int, ...]) -> list[int]:
    """How far apart in number two neighbours are in each dimension."""
    return [prod(shape[i + 1 :]) for i in range(len(shape))]


def _lines(shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    for number in range(prod(shape)):
        place = coordinate(number, shape)
        for step, size, own in zip(_steps(shape), shape, place, strict=True):
            yield from ((number, number + (far - own) * step) for far in range(own + 1, size))


def _rings(shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    for number in range(prod(shape)):
        place = coordinate(number, shape)
        for step, size, own in zip(_steps(shape), shape, place, strict=True):
            if own + 1 < size:
                yield number, number + step
            elif size > 2:
                yield number - own * step, number


def _square(spec: HyperX) -> tuple[tuple[int, ...], int]:
    """The square or cube with the fewest switches, then cables, and its trunk."""
    hosts, radix = wanted("hyperx", spec), spec.switch.ports
    speed = spec.allowed * spec.switch.rate_bps / spec.nic_bps
    found: list[tuple[int, int, tuple[int, ...], int]] = []
    for dimensions in (2, 3):
        for trunk in range(1, radix) if spec.trunk is None else [spec.trunk]:
            for size in range(2, radix):
                links, count = dimensions * (size - 1) * trunk, size**dimensions
                each = -(-hosts // count)
                if links >= radix:
                    break
                most = min(radix - links, int(speed * size * trunk / 2), spec.p or radix)
                if each <= most:
                    found.append((count, links, (size,) * dimensions, trunk))
                    break
    if not found:
        raise refused("hyperx", spec, hosts, {"p": spec.p, "trunk": spec.trunk})
    return min(found)[2:]


def _cube(spec: Torus) -> tuple[tuple[int, ...], int]:
    """The box, nearest to a cube, with the fewest switches, then links, and its trunk."""
    hosts, radix = wanted("torus", spec), spec.switch.ports
    speed = spec.allowed * spec.switch.rate_bps / spec.nic_bps
    found: list[tuple[int, int, tuple[int, ...], int]] = []
    for trunk in range(1, radix // 2 + 1) if spec.trunk is None else [spec.trunk]:
        for p in range(min(radix - 1, spec.p or radix), 0, -1):
            shape = _box(-(-hosts // p))
            links = trunk * sum(1 if s == 2 else 2 for s in shape)
            each = -(-hosts // prod(shape))
            load = each * (shape[0] / 8 if shape[0] > 2 else 1 / 2)
            if each + links <= radix and load <= speed * trunk:
                found.append((prod(shape), links, shape, trunk))
                break
    if not found:
        raise refused("torus", spec, hosts, {"p": spec.p, "trunk": spec.trunk})
    return min(found)[2:]


def _box(switches: int) -> tuple[int, ...]:
    """The three-dimensional box nearest to a cube with at least that many places, and 8."""
    sizes = [2, 2, 2]
    while prod(sizes) < switches:
        sizes[sizes.index(min(sizes))] += 1
    return tuple(sorted(sizes, reverse=True))
