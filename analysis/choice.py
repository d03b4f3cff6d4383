"""Which design is chosen: the cheapest that meets the budget in all its cases, or the closest."""

from collections.abc import Mapping, Sequence
from math import isfinite, nan

from analysis.condition import Case, Condition, cases
from analysis.summary import Summary
from analysis.wording import listed, money


def cost(row: Summary) -> float:
    """Switches and the cables between them, US dollars; NaN when unknown."""
    return row.facts.cost_usd if row.facts is not None else nan


def price(row: Summary) -> str:
    """The cost and the ports of each switch in it, as ``$168 k, 8 ports``; empty when unknown."""
    if row.facts is None:
        return ""
    ports = row.facts.switch_ports
    return money(row.facts.cost_usd) + (f", {listed(list(map(str, ports)))} ports" if ports else "")


def smaller(row: Summary) -> list[int]:
    """The ports of switches that are smaller than the one the scenario names, the fewest first.

    Fat trees are built of k-port switches, at a price in proportion, whether such are sold or not.
    """
    if row.facts is None or row.facts.ports_asked is None:
        return []
    return [ports for ports in row.facts.switch_ports if ports < row.facts.ports_asked]


def sold(row: Summary) -> str:
    """The condition under which a cost that counts on smaller switches holds; empty without any."""
    ports = [str(ports) for ports in smaller(row)]
    return f" if switches of {listed(ports)} ports are sold at that price" if ports else ""


def choice(rows: Sequence[Summary], where: Mapping[str, Condition] | None = None) -> Summary | None:
    """The worst case of the cheapest design that passes in all of them; among equals of the one
    that lost the fewest requests, then of the one with the shortest tail."""
    best = min((case for case in cases(rows, where or {}) if case.passes), key=_rank, default=None)
    return best.worst if best is not None else None


def nearest(
    rows: Sequence[Summary], where: Mapping[str, Condition] | None = None
) -> Summary | None:
    """The worst case of the design that meets the budget most often, then misses it least."""
    ran = [case for case in cases(rows, where or {}) if case.worst.over is not None]
    best = min(ran, key=lambda one: (-one.met, _share(one.worst)), default=None)
    return best.worst if best is not None else None


def _share(row: Summary) -> float:
    return row.over.value if row.over is not None else 1.0


def _rank(case: Case) -> tuple[float, int, float]:
    price, row = cost(case.worst), case.worst
    tail = row.tail.value if row.tail is not None else row.median
    lost = sum(each.failed + each.rejected for each in case.rows)
    return (price if isfinite(price) else float("inf"), lost, tail)
