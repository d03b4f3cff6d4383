"""Bill of materials: what has to be bought, and a first cost figure.

The cost is a model, not a quotation: $83.0k for a switch of 64 ports of 400 Gbit/s, in proportion
to ports x rate for other models, with every port that a switch has, cabled or not, and $0.504k for
a link between switches with its optics. Both numbers solve the cost column of DeepSeek-V3 (ISCA
2025, table 3) for its two- and three-tier fat trees of such switches, 9 M$ and 491 M$. Host cables
and NICs are left out: they are the same in every fabric with the same number of hosts.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from topo.fabric import Fabric, Kind
from topo.unit import show_rate

SWITCH_USD: Final = 83_000
"""One switch of 64 ports of 400 Gbit/s."""

LINK_USD: Final = 504
"""One link between switches."""

REFERENCE_BPS: Final = 64 * 400_000_000_000
"""Ports x rate of the switch that `SWITCH_USD` is the price of."""

TIER_NAMES: Final = {1: "leaf", 2: "spine", 3: "core"}


@dataclass(frozen=True, slots=True)
class Bom:
    """What a fabric is made of.

    switches: number by tier (1 leaf, 2 spine, 3 core). models: number by ports and rate of each,
    the ports of the switch asked for but in fat trees, which are built of smaller ones.
    switch_cables, host_cables: cables between switches, and to hosts. cable_m: metres of all
    cables. What lies inside a server (switches of tier 0 and their links to its hosts) comes with
    the server and is not counted.
    """

    switches: dict[int, int]
    models: dict[tuple[int, int], int]
    switch_cables: int
    host_cables: int
    cable_m: float

    @property
    def cost_usd(self) -> int:
        """The model cost of switches and links between them, in US dollars."""
        bps = sum(count * ports * rate for (ports, rate), count in self.models.items())
        return round(SWITCH_USD * bps / REFERENCE_BPS) + LINK_USD * self.switch_cables

    @property
    def ports(self) -> list[int]:
        """The numbers of ports that a switch has, the smallest first."""
        return sorted({ports for ports, _ in self.models})

    @property
    def models_told(self) -> str:
        """The switches by ports and rate, as ``40 of 8 x 100 Gbps``."""
        told = [f"{n} of {ports} x {show_rate(rate)}" for (ports, rate), n in self.models.items()]
        return ", ".join(told) or "none"

    def usd_per_gbps(self, mu_bps: int) -> float:
        """Model cost over what the fabric can carry from prefill to decode; infinite for none."""
        return self.cost_usd / (mu_bps / 1e9) if mu_bps else float("inf")


def bom(fabric: Fabric) -> Bom:
    """Count a fabric's switches and cables.

    >>> from topo.family.registry import build
    >>> parts = bom(build("fat_tree", {"k": 4}))
    >>> sum(parts.switches.values()), parts.switch_cables, parts.host_cables
    (20, 32, 16)
    >>> parts.models_told
    '20 of 4 x 400 Gbps'
    """
    tiers: Counter[int] = Counter()
    models: Counter[tuple[int, int]] = Counter()
    outside = {node.index for node in fabric.switches if node.tier > 0}
    for node in fabric.switches:
        if node.index not in outside:
            continue
        tiers[node.tier] += 1
        if node.switch is not None:
            models[node.switch.ports, node.switch.rate_bps] += 1
    inner = outer = 0
    for link in fabric.links:
        ends = (link.a in outside) + (link.b in outside)
        direct = fabric.nodes[link.a].kind is fabric.nodes[link.b].kind is Kind.HOST
        inner += ends == 2
        outer += ends == 1 or direct
    return Bom(
        switches=dict(sorted(tiers.items())),
        models=dict(sorted(models.items())),
        switch_cables=inner,
        host_cables=outer,
        cable_m=sum(link.length_m for link in fabric.links),
    )
