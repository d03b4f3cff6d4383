"""What a fabric carries when something fails or traffic is uneven, as text with its coverage.

Losses and cuts are tried whole on small fabrics and sampled on large ones, where what is tried
falls with the number of links; a cell says how many of all were tried unless all were.
"""

from collections.abc import Callable
from typing import Final

from topo.cut import bisection, fewest_disjoint_paths
from topo.fabric import Fabric
from topo.loss import KINDS, Loss, worst_losses
from topo.route import Routes
from topo.throughput import DEMANDS, throughput
from topo.unit import show_rate

LOSSES: Final = 64
"""Losses tried of a kind, and pairs of leaves, at most."""

FEWEST: Final = 8
WORK: Final = 2_000_000
"""Links times losses; each loss is a maximum flow of its own."""

VARIABLES: Final = 20_000

Tell = Callable[[str], None]
"""Told what comes next, in a few words."""

LOST: Final = tuple(f"{kind} lost" for kind in KINDS if kind != "leaf")
EVEN: Final = (*(f"theta {demand}" for demand in DEMANDS), "disjoint paths", "bisection")


def carried(fabric: Fabric, routes: Routes, tell: Tell | None = None) -> dict[str, str]:
    """The cells of `LOST` and `EVEN`.

    lost: the share of mu left after the worst loss of a link, switch and plane, and which; theta of
    three demands; the fewest link-disjoint paths between two leaves; the least bisection found, an
    upper bound.

    Errors: no prefill or no decode host.
    """
    say = tell or _silent
    most = max(FEWEST, min(LOSSES, WORK // max(1, len(fabric.links))))
    found: dict[str, str] = {}
    for kind in KINDS:
        if kind != "leaf":
            say(f"mu after the loss of a {kind}")
            loss = worst_losses(fabric, kinds=(kind,), most=most).get(kind)
            found[f"{kind} lost"] = "-" if loss is None else told(loss)
    for demand in DEMANDS:
        say(f"theta of the {demand} demand")
        value = throughput(fabric, (demand,), routes=routes, most_variables=VARIABLES)
        found[f"theta {demand}"] = str(value[demand])
    say("cuts")
    paths = fewest_disjoint_paths(fabric, most=most)
    found["disjoint paths"] = (
        "-" if paths is None else f"{paths.paths}{_share(paths.tried, paths.total)}"
    )
    found["bisection"] = show_rate(bisection(fabric))
    return found


def told(loss: Loss) -> str:
    """A loss in one cell: ``93.8% leaf4``, and ``(64 of 1,088 tried)`` where not all were tried."""
    share = f"{loss.residual:.1%}"
    if share == "100.0%" and loss.residual < 1:
        share = f"{loss.residual:.4%}"
    return f"{share} {loss.what}{_share(loss.tried, loss.total)}"


def _share(tried: int, total: int) -> str:
    return "" if tried == total else f" ({tried:,} of {total:,} tried)"


def _silent(_: str) -> None:
    return
