"""The ``cost`` of a scenario: what an hour of the GPUs and the fabric cost whoever serves."""

from collections.abc import Sequence
from typing import Final

from analysis.price import PriceFact
from kvfabric.cache import pooled
from kvfabric.collective import awaited
from kvfabric.deployment import Placed
from kvfabric.scenario import CostPart, Scenario
from topo.error import KvfabricError

YEAR_HOURS: Final = 8760


class CostError(KvfabricError):
    """Prices that leave something without one."""


def price_of(scenario: Scenario, placed: Sequence[Placed], modelled_usd: float) -> PriceFact | None:
    """What the alternative is paid by; None without ``cost``.

    ``modelled_usd`` is the fabric's price where the scenario has no quote. Raises `CostError` for a
    GPU without a price.
    """
    part = scenario.cost
    if part is None:
        return None
    if not part.utilisation:
        raise CostError("utilisation 0%: a fabric that is never used is never paid off; write 60%")
    pools = [pool for one in placed for pool in (one.deployment.prefill, one.deployment.decode)]
    hour = sum(
        _hour(part, pool.gpu.name) * sum(len(ranks) for ranks in pool.instances) for pool in pools
    )
    return PriceFact(
        gpu_usd_per_hour=hour,
        fabric_usd=modelled_usd if part.fabric_usd is None else part.fabric_usd,
        life_hours=part.life_years * YEAR_HOURS * float(part.utilisation),
        crosses=_crosses(scenario),
        mode=scenario.serving.mode,
    )


def _hour(part: CostPart, gpu: str) -> float:
    prices = part.gpu_usd_per_hour
    if not isinstance(prices, dict):
        return prices
    if gpu not in prices:
        known = ", ".join(prices) or "nothing"
        raise CostError(f"gpu_usd_per_hour: prices {known} and not {gpu}; add `{gpu}: 2.5`, say")
    return prices[gpu]


def _crosses(scenario: Scenario) -> bool:
    """Whether serving sends anything over the fabric: hand-offs, collectives that steps wait for,
    or blocks of a prefix pool."""
    apart = scenario.serving.mode == "disaggregated"
    return apart or awaited(scenario) is not None or pooled(scenario.cache)


def prices_told(scenario: Scenario) -> str:
    """The prices in one line, for the report; empty without."""
    part = scenario.cost
    if part is None:
        return ""
    each = part.gpu_usd_per_hour
    gpus = (
        f"${each:g}"
        if not isinstance(each, dict)
        else ", ".join(f"{name} ${usd:g}" for name, usd in each.items())
    )
    fabric = "as modelled" if part.fabric_usd is None else f"${part.fabric_usd:,.0f}"
    return (
        f"GPU hour {gpus}; fabric {fabric}, paid off over {part.life_years:g} years, used "
        f"{100 * part.utilisation:g} % of the time, by serving that sends something over it"
    )
