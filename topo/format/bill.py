"""The bill of materials as CSV: what to count when buying, a line an article.

Switches by tier and model, one NIC port for each cable that ends at a host or a NIC, cables by
rate, length and medium. What lies inside a server comes with it and is left out, as are optics,
spares and prices (see `topo.price`); the last line is the model cost of `topo.bom`.
"""

from collections import Counter
from typing import Final

from topo.bom import TIER_NAMES, bom
from topo.fabric import Fabric
from topo.floor import is_inside
from topo.format.cablemap import medium
from topo.format.written import Written, table
from topo.unit import rate_text

COLUMNS: Final = ("item", "article", "count", "rate_gbps", "length_m", "remark")


def write(fabric: Fabric) -> Written:
    """A fabric's articles and their numbers."""
    switches = Counter((n.tier, n.switch) for n in fabric.switches if n.switch and n.tier > 0)
    outside = [link for link in fabric.links if not is_inside(fabric, link.a, link.b)]
    nics: Counter[int] = Counter()
    for link in outside:
        for end in (link.a, link.b):
            nics[link.rate_bps] += fabric.nodes[end].tier == 0
    cables = Counter((link.rate_bps, link.length_m) for link in outside)
    rows: list[tuple[object, ...]] = [COLUMNS]
    for (tier, model), count in sorted(
        switches.items(), key=lambda item: (item[0][0], item[0][1].ports, item[0][1].rate_bps)
    ):
        article = f"{model.ports} x {rate_text(model.rate_bps)}"
        name = TIER_NAMES.get(tier, f"tier {tier}")
        rows.append(("switch", article, count, f"{model.rate_bps / 1e9:g}", "", name))
    rows += [
        ("NIC port", rate_text(rate), count, f"{rate / 1e9:g}", "", "of hosts")
        for rate, count in sorted(nics.items())
        if count
    ]
    rows += [
        ("cable", medium(length) or "any", count, f"{rate / 1e9:g}", f"{length:g}", "")
        for (rate, length), count in sorted(cables.items())
    ]
    rows.append(
        ("model cost", "USD", bom(fabric).cost_usd, "", "", "switches and links between them")
    )
    notes = [
        "Optics, breakouts, spares and prices are not in the file; the cost is a model, not a "
        "quotation.",
        "The medium is a rule of thumb by length; confirm it with the switch vendor's list.",
    ]
    return Written({"": table(rows)}, notes)
