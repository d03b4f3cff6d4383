"""A fabric in two dozen lines: what it has, what it can carry, what it costs by the model.

Every row carries its unit; values that need roles are left out while no roles are placed.
"""

from collections import Counter
from typing import Final

from topo.bom import TIER_NAMES, bom
from topo.capacity import (
    diameter,
    distance_counts,
    mean_distance,
    mu,
    oversubscription,
    relative_mu,
)
from topo.carry import Tell, carried
from topo.deadlock import dependency_cycle
from topo.fabric import Fabric, Role
from topo.price import Prices, quote
from topo.route import Routes, equal_cost
from topo.unit import show_rate, show_ratio

_LABEL: Final = {
    "link lost": "mu left, worst link lost",
    "switch lost": "mu left, worst switch lost",
    "plane lost": "mu left, worst plane lost",
    "disjoint paths": "fewest disjoint paths of leaves",
    "bisection": "bisection, at most (misleads)",
}


def describe(
    fabric: Fabric,
    routes: Routes | None = None,
    *,
    prices: Prices | None = None,
    tell: Tell | None = None,
) -> dict[str, str]:
    """What a network architect asks first, as label -> text, in reading order.

    ``routes`` saves routing the fabric once more; ``tell`` hears what is computed. The deadlock row
    is the static check of `topo.deadlock` over all prefill and decode pairs, ACKs included.
    """
    say = tell or (lambda _: None)
    say("routes")
    routes = equal_cost(fabric) if routes is None else routes
    parts = bom(fabric)
    roles = Counter(str(host.role) for host in fabric.hosts if host.role is not Role.NONE)
    placed = ", ".join(f"{count} {role}" for role, count in sorted(roles.items(), reverse=True))
    tiers = ", ".join(
        f"{count} {TIER_NAMES.get(tier, f'tier {tier}')}" for tier, count in parts.switches.items()
    )
    rows = {
        "fabric": fabric.name,
        "hosts": f"{len(fabric.hosts)} ({placed})" if placed else str(len(fabric.hosts)),
        "switches": f"{sum(parts.switches.values())} ({tiers})" if tiers else "none",
        "switch models": parts.models_told,
        "cables between switches": str(parts.switch_cables),
        "host cables": str(parts.host_cables),
        "oversubscription": show_ratio(oversubscription(fabric)),
        "longest path": f"{diameter(fabric, routes)} links",
        "mean path": f"{mean_distance(fabric, routes):.4f} links",
        "host pairs without a path": str(distance_counts(fabric, routes).get(-1, 0)),
        "model cost": f"{parts.cost_usd:,} USD (switches with all ports, links between them)",
    }
    say("bill")
    bill = quote(fabric, prices)
    rows["rack units"] = f"{bill.rack_units.text()} of switches"
    rows["power"] = f"{bill.watt.text(1e3)} kW"
    rows["bill"] = f"{bill.usd.text(1e3)} k$, NICs and host cables included (--bill shows it)"
    if fabric.hosts_with(Role.PREFILL, Role.BOTH) and fabric.hosts_with(Role.DECODE, Role.BOTH):
        say("mu")
        flow = mu(fabric)
        rows["mu, prefill to decode"] = (
            f"{show_rate(flow)} ({relative_mu(fabric, flow):.1%} of the smaller pool's NICs)"
        )
        rows["model cost per Gbps of mu"] = f"{parts.usd_per_gbps(flow):,.1f} USD"
        cells = carried(fabric, routes, say)
        rows |= {_LABEL.get(name, name): cell for name, cell in cells.items()}
        say("deadlock")
        cycle = dependency_cycle(fabric, routes)
        rows["buffer-dependency cycle"] = (
            "none: PFC cannot deadlock" if cycle is None else " -> ".join([*cycle, cycle[0]])
        )
    return rows
