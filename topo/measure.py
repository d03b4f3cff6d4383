"""One fabric in three rows: what it takes to build, what it carries, what a loss leaves of that.

The rows that alternatives are compared by. Losses and pairs of leaves are sampled where they are
many, and theta may be a bracket; the cells say so.
"""

from typing import Final

from topo.bom import bom
from topo.capacity import diameter, mean_distance, mu, relative_mu
from topo.carry import EVEN, Tell, carried
from topo.fabric import Fabric
from topo.price import Prices, quote
from topo.route import equal_cost
from topo.unit import show_rate

BUILT: Final = (
    *("switches", "ports of each", "cables", "rack units", "kW"),
    *("cost k$", "bill k$", "$/Gbps of mu"),
)
_FAR: Final = ("longest", "mean", "mu", "of NICs")
REACHED: Final = (*_FAR, *EVEN)


def measure(
    fabric: Fabric, prices: Prices | None = None, tell: Tell | None = None
) -> dict[str, str]:
    """The cells of `BUILT`, `REACHED` and `topo.carry.LOST`.

    cost: the neutral model of switches and the links between them; bill and kW: the priced bill's
    ranges, NICs and host cables included; longest and mean: links of shortest paths between hosts.
    ``tell`` hears what is computed.

    Errors: no prefill or no decode host.
    """
    if tell is not None:
        tell("routes, bill and mu")
    parts = bom(fabric)
    routes = equal_cost(fabric)
    flow = mu(fabric)
    bill = quote(fabric, prices)
    cells = (
        f"{sum(parts.switches.values()):,}",
        ", ".join(map(str, parts.ports)) or "-",
        f"{parts.switch_cables + parts.host_cables:,}",
        bill.rack_units.text(),
        bill.watt.text(1e3),
        f"{parts.cost_usd / 1e3:,.0f}",
        bill.usd.text(1e3),
        f"{parts.usd_per_gbps(flow):,.1f}",
        str(diameter(fabric, routes)),
        f"{mean_distance(fabric, routes):.2f}",
        show_rate(flow),
        f"{relative_mu(fabric, flow):.1%}",
    )
    return dict(zip((*BUILT, *_FAR), cells, strict=True)) | carried(fabric, routes, tell)
