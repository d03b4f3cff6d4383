"""Slim Fly: the McKay-Miller-Siran graphs, of diameter 2 and close to the Moore bound.

For a prime power q = 4 w + d, d in (-1, 0, 1): 2 q^2 switches with k' = (3 q - d) / 2 neighbours
each, so q^2 k' cables, any two switches at most 2 hops apart; p = ceil(k' / 2) hosts a switch load
it in balance (Besta, Hoefler, SC 2014). With x a primitive element of GF(q) and sets X, X' of its
powers, switch (0, x, y) is linked to (0, x, y') where y - y' is in X, (1, m, c) to (1, m, c') where
c - c' is in X', and (0, x, y) to (1, m, c) where y = m x + c. The sets are those of Hafner,
"Geometric realisation of the graphs of McKay-Miller-Siran", JCT B 2004. The counts of q = 28,
p = 21 (no prime power, hence not buildable) are in DeepSeek-V3, ISCA 2025, table 3: 32,928 hosts,
1,568 switches.
"""

from topo.error import FabricError
from topo.fabric import Fabric
from topo.family.direct import built, refused
from topo.family.galois import Field, prime_power
from topo.family.parameter import Count, Parameters
from topo.family.tally import Tally, refuse_huge


class SlimFly(Parameters, frozen=True, kw_only=True):
    """Parameters of a Slim Fly.

    q: a prime power of the form 4 w - 1, 4 w or 4 w + 1, the smallest that fits when None.
    p: most hosts a switch, ceil(k' t / 2) when None. trunk: t parallel links to each neighbour;
    when None the fewest that fit the smallest q, 1 when q is given without hosts.
    """

    q: Count | None = None
    p: Count | None = None
    trunk: Count | None = None


def degree(q: int) -> int:
    """k', the links of a switch to others.

    >>> degree(5), degree(28)
    (7, 42)
    """
    return (3 * q - _remainder(q)) // 2


def slim_fly_tally(q: int, p: int) -> Tally:
    """The closed form; q need not be a prime power here.

    >>> slim_fly_tally(28, 21)
    Tally(hosts=32928, switches=1568, switch_cables=32928, host_cables=32928)
    """
    hosts = 2 * q * q * p
    return Tally(hosts, 2 * q * q, q * q * degree(q), hosts)


def slim_fly(spec: SlimFly) -> Fabric:
    """Build a Slim Fly; hosts spread evenly over all switches."""
    q, p, trunk = _size(spec)
    refuse_huge("slim_fly", slim_fly_tally(q, p), trunk)
    hosts = spec.total or 2 * q * q * p
    names = [f"left{x}-{y}" for x in range(q) for y in range(q)]
    names += [f"right{m}-{c}" for m in range(q) for c in range(q)]
    return built("slim_fly", spec, hosts, names, [(a, b, trunk) for a, b in _edges(q)])


def _remainder(q: int) -> int:
    """d in (-1, 0, 1) where q = 4 w + d."""
    return (q + 1) % 4 - 1


def _edges(q: int) -> list[tuple[int, int]]:
    field = Field(q)
    one, two = _differences(field)
    edges: list[tuple[int, int]] = []
    for side, allowed in ((0, one), (q * q, two)):
        edges += [
            (side + x * q + y, side + x * q + z)
            for x in range(q)
            for y in range(q)
            for z in range(y + 1, q)
            if field.subtract(y, z) in allowed
        ]
    edges += [
        (x * q + field.add(field.multiply(m, x), c), q * q + m * q + c)
        for x in range(q)
        for m in range(q)
        for c in range(q)
    ]
    return edges


def _differences(field: Field) -> tuple[set[int], set[int]]:
    """X and X': even and odd powers, swapped from half way on where q = 4 w - 1."""
    q, powers = field.q, [*field.powers, *field.powers]
    w = (q + 1) // 4
    if _remainder(q) < 0:
        low, high = range(0, 2 * w - 1, 2), range(2 * w - 1, 4 * w - 2, 2)
        one = {powers[i] for i in (*low, *high)}
        two = {powers[i + 1] for i in (*low, *high)}
        return one, two
    one = {powers[i] for i in range(0, q - 1, 2)}
    two = {powers[i] for i in range(1, q if q % 2 == 0 else q - 1, 2)}
    return one, two


def _size(spec: SlimFly) -> tuple[int, int, int]:
    """q, the hosts of a switch, the links to a neighbour."""
    hosts, radix = spec.total, spec.switch.ports
    if hosts is None and spec.q is None:
        raise FabricError("slim_fly: neither hosts nor q is given; write hosts: 150 or q: 5")
    if spec.q is not None and (spec.q < 3 or spec.q % 4 == 2 or prime_power(spec.q) is None):
        near = next(c for c in range(spec.q + 1, 4 * spec.q + 8) if c % 4 != 2 and prime_power(c))
        raise FabricError(
            f"slim_fly: q {spec.q}: must be a prime power of the form 4 w - 1, 4 w or 4 w + 1; "
            f"write q: {near}"
        )
    for q in range(3, radix) if spec.q is None else [spec.q]:
        if q % 4 == 2 or prime_power(q) is None:
            continue
        most = max(1, radix // degree(q)) if spec.trunk is None and hosts is not None else 1
        for trunk in range(1, most + 1) if spec.trunk is None else [spec.trunk]:
            links = degree(q) * trunk
            p = spec.p or -(-links // 2)
            here = p if hosts is None else -(-hosts // (2 * q * q))
            if here <= p and here + links <= radix:
                return q, p, trunk
    raise refused("slim_fly", spec, hosts, {n: getattr(spec, n) for n in ("q", "p", "trunk")})
