"""Jellyfish: switches joined as a random regular graph.

n switches with p hosts and r links to others each: n p hosts, n r / 2 cables, p + r <= k. Random
regular graphs have close to the shortest paths that any graph of that degree can have (Singla,
Hong, Popa, Godfrey, NSDI 2012). The graph is drawn from ``seed`` (see `topo.family.shuffle`); where
n r would be odd, the chosen r is one more.
"""

from topo.error import FabricError
from topo.fabric import Fabric
from topo.family.direct import built, refused, wanted
from topo.family.parameter import Count, Parameters, Seed
from topo.family.shuffle import ring, shuffled
from topo.family.tally import Tally, refuse_huge


class Jellyfish(Parameters, frozen=True, kw_only=True):
    """Parameters of a Jellyfish.

    leaves: switches, the fewest that fit with links left out between some, when None. degree:
    links a switch to others, the fewest, at least 3, that keep the oversubscription when None.
    seed: of the random graph.
    """

    leaves: Count | None = None
    degree: Count | None = None
    seed: Seed = 1


def jellyfish_tally(switches: int, p: int, degree: int) -> Tally:
    """The closed form, where switches x degree is even.

    >>> jellyfish_tally(20, 3, 5)
    Tally(hosts=60, switches=20, switch_cables=50, host_cables=60)
    """
    return Tally(switches * p, switches, switches * degree // 2, switches * p)


def jellyfish(spec: Jellyfish) -> Fabric:
    """Build a Jellyfish."""
    hosts, switches, degree = _size(spec)
    refuse_huge("jellyfish", jellyfish_tally(switches, 1, degree))
    edges = shuffled(ring(switches, degree), switches, spec.seed)
    names = [f"leaf{i}" for i in range(switches)]
    return built("jellyfish", spec, hosts, names, [(a, b, 1) for a, b in edges])


def _size(spec: Jellyfish) -> tuple[int, int, int]:
    """Hosts, switches, links a switch."""
    hosts, radix = wanted("jellyfish", spec), spec.switch.ports
    if spec.degree is not None and spec.leaves is not None:
        if spec.degree >= spec.leaves:
            raise FabricError(
                f"jellyfish: degree {spec.degree}: {spec.leaves} switches have at most "
                f"{spec.leaves - 1} others; write degree: {spec.leaves - 1} or less"
            )
        if spec.degree * spec.leaves % 2:
            raise FabricError(
                f"jellyfish: degree {spec.degree} on {spec.leaves} switches: both are odd, and a "
                f"link has two ends; write degree: {spec.degree - 1} or leaves: {spec.leaves + 1}"
            )
    for switches in range(4, max(5, 2 * hosts)) if spec.leaves is None else [spec.leaves]:
        each = -(-hosts // switches)
        degree = spec.degree or max(3, spec.uplinks(each))
        if spec.leaves is None and spec.degree is None and degree > switches - 2:
            continue
        degree += 0 if spec.degree else switches * degree % 2
        if each + degree <= radix and degree < switches and switches * degree % 2 == 0:
            return hosts, switches, degree
    raise refused("jellyfish", spec, hosts, {"leaves": spec.leaves, "degree": spec.degree})
