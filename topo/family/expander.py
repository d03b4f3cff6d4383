"""Bipartite expander: prefill leaves wired to decode leaves at random, each with equal degree.

As `topo.family.bipartite` with a ``degree`` d, but the pairs are a random biregular graph instead
of a ring: every set of prefill leaves has about as many different neighbours as it has links, so
that no few decode leaves are a bottleneck of some prefill leaves, and paths between leaves that are
not neighbours are short (Hoory, Linial, Wigderson, "Expander graphs and their applications",
Bulletin of the AMS 2006). N d t cables for N prefill leaves and trunks of t. The graph is drawn
from ``seed`` (see `topo.family.shuffle`).
"""

from topo.error import FabricError
from topo.fabric import Fabric
from topo.family.bipartite import Bipartite, circulant, wired
from topo.family.parameter import Seed
from topo.family.shuffle import shuffled


class BipartiteRandom(Bipartite, frozen=True, kw_only=True):
    """Parameters of a bipartite expander.

    As those of `topo.family.bipartite.Bipartite`; degree: 3, or all decode leaves when fewer, when
    None. seed: of the random graph.
    """

    seed: Seed = 1


def bipartite_random(spec: BipartiteRandom) -> Fabric:
    """Build a bipartite expander with the roles pinned to its two sides."""

    def pairs(near: int, far: int, degree: int, group: int) -> list[tuple[int, int]]:
        start = [(i, near + j) for i, j in circulant(near, far, degree)]
        if degree == far or near == 1:
            drawn = sorted(start)
        else:
            drawn = shuffled(start, near + far, (spec.seed << 20) + group, two_sided=True)
        return [(i, j - near) for i, j in drawn]

    if spec.degree == 1:
        raise FabricError(
            "bipartite_random: degree 1: pairs, not a graph in one piece; write degree: 3, or "
            "family: bipartite with groups"
        )
    return wired(spec, "bipartite_random", pairs, natural=3)
