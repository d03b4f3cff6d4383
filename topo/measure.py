"""One fabric in one row: what it takes to build, how far its hosts are apart, what it carries.

The row that alternatives are compared by. Losses beyond `LOSSES` of a kind are sampled, and theta
may be a bracket; the cells say so.
"""

from typing import Final

from topo.bom import bom
from topo.capacity import diameter, mean_distance, mu, relative_mu
from topo.fabric import Fabric
from topo.loss import Loss, worst, worst_losses
from topo.price import Prices, quote
from topo.route import equal_cost
from topo.throughput import throughput
from topo.unit import show_rate

LOSSES: Final = 64
VARIABLES: Final = 20_000

COLUMNS: Final = (
    "switches",
    "cables",
    "cost k$",
    "bill k$",
    "kW",
    "diameter",
    "mean",
    "mu",
    "of NICs",
    "worst N-1",
    "theta uniform",
    "theta longest",
    "$/Gbps",
)


def measure(fabric: Fabric, prices: Prices | None = None) -> dict[str, str]:
    """The cells of `COLUMNS`. cost: the neutral model; bill and kW: the priced bill's ranges,
    NICs and host cables included.

    Errors: no prefill or no decode host.
    """
    parts = bom(fabric)
    routes = equal_cost(fabric)
    flow = mu(fabric)
    bill = quote(fabric, prices)
    usd, watt = bill.usd, bill.watt
    found = throughput(fabric, ("uniform", "longest"), routes=routes, most_variables=VARIABLES)
    cells = (
        str(sum(parts.switches.values())),
        str(parts.switch_cables + parts.host_cables),
        f"{parts.cost_usd / 1e3:,.0f}",
        f"{usd.low / 1e3:,.0f}..{usd.high / 1e3:,.0f}",
        f"{watt.low / 1e3:.0f}..{watt.high / 1e3:.0f}",
        str(diameter(fabric, routes)),
        f"{mean_distance(fabric, routes):.2f}",
        show_rate(flow),
        f"{relative_mu(fabric):.1%}",
        _told(worst_losses(fabric, kinds=("link", "switch"), most=LOSSES)),
        str(found["uniform"]),
        str(found["longest"]),
        f"{parts.usd_per_gbps(flow):,.1f}",
    )
    return dict(zip(COLUMNS, cells, strict=True))


def _told(losses: dict[str, Loss]) -> str:
    loss = worst(losses)
    if loss is None:
        return "-"
    sampled = "" if all(each.whole for each in losses.values()) else "*"
    return f"{loss.residual:.1%}{sampled} {loss.what}"
