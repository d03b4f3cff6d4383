"""What a token costs: GPU hours and the fabric's share of them, over tokens within objectives.

The tokens are output tokens of counted requests that met the objectives (`analysis.service`), for
an hour at the load of the run; prompts are paid with them. So the cost holds at that load: where
everything meets its objectives, it is the load that decides how many tokens share an hour's price.

The interval is that of tokens for a dollar, one value a seed with Student's t over the seeds,
turned over. A seed without any token within the objectives counts there as 0; as a cost it would be
infinite.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, isnan, nan

import numpy as np

from analysis.breakdown import Breakdown
from analysis.goodput import HOUR_S, MILLION
from analysis.interval import Estimate, mean_interval
from analysis.price import PriceFact
from analysis.record import Cell, StudyManifest
from analysis.service import tokens_per_s
from analysis.summary import Sample
from analysis.wording import NONE, ONE_SEED, between, money


@dataclass(frozen=True, slots=True, eq=False)
class Bill:
    """An alternative with its prices, and ``tokens`` an hour within the objectives, by seed."""

    sample: Sample
    price: PriceFact
    tokens: dict[int, float]

    @property
    def tokens_per_s(self) -> float:
        """Tokens within the objectives a second, mean over the seeds."""
        return float(np.mean(list(self.tokens.values()))) / HOUR_S

    @property
    def usd(self) -> Estimate:
        """US dollars a million tokens, with its 95 % interval over the seeds."""
        hour = self.price.usd_per_hour
        return cost_of(mean_interval([many / hour for many in self.tokens.values()]))


def cost_of(per_usd: Estimate) -> Estimate:
    """Tokens for a dollar as dollars a million tokens; without a bound where they may be none.

    >>> cost_of(Estimate(2e6, 1e6, 4e6))
    Estimate(value=0.5, low=0.25, high=1.0)
    """

    def turned(tokens: float) -> float:
        return MILLION / tokens if tokens > 0 else inf

    return Estimate(turned(per_usd.value), turned(per_usd.high), turned(per_usd.low))


def token_cost(cell: Cell, study: StudyManifest) -> float:
    """US dollars a million output tokens within the objectives, of one seed.

    Infinite where no token was within them; NaN without prices, objectives or two arrivals.
    """
    tokens, price = HOUR_S * tokens_per_s(cell, study), cell.manifest.price
    if price is None or isnan(tokens):
        return nan
    return MILLION * price.usd_per_hour / tokens if tokens else inf


def bill(sample: Sample, study: StudyManifest) -> Bill | None:
    """The bill of an alternative; None without prices, or a seed whose tokens can be counted."""
    if sample.impossible is not None or not sample.cells:
        return None
    price = sample.cells[0].manifest.price
    tokens = {
        cell.manifest.seed: HOUR_S * many
        for cell in sample.cells
        if isfinite(many := tokens_per_s(cell, study))
    }
    return Bill(sample, price, tokens) if price is not None and tokens else None


def bills(samples: Sequence[Sample], study: StudyManifest) -> list[Bill]:
    """The bills of all alternatives that have one."""
    found = (bill(sample, study) for sample in samples)
    return [each for each in found if each is not None]


def token_costs(samples: Sequence[Sample], study: StudyManifest) -> Breakdown:
    """What an hour and a million tokens cost; no rows without prices."""
    rows = []
    for each in bills(samples, study):
        price = each.price
        tokens = each.tokens_per_s
        rows.append(
            (
                *(each.sample.fabric, each.sample.policy, price.mode.replace("_", "-")),
                f"{tokens:,.0f}" if tokens >= 100 else f"{tokens:.3g}",
                money(price.gpu_usd_per_hour),
                money(price.fabric_usd_per_hour) if price.crosses else "$0, not used",
                usd_told(each.usd, len(each.tokens)),
            )
        )
    return Breakdown(
        "Token cost",
        "Output tokens of requests within the objectives, per second of arrivals, mean over the "
        "seeds; what the GPUs cost for an hour, and the fabric, paid off over its hours of use, "
        "where serving sends something over it; both together for a million of these tokens, "
        "with the 95 % interval (none of one seed), at the load of this run. Prices are the "
        "scenario's (`cost`).",
        (
            *("fabric", "policy", "serving", "tokens/s within objectives", "GPUs an hour"),
            *("fabric an hour", "$ a million tokens (95 %)"),
        ),
        tuple(rows),
    )


def short(told: Breakdown) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Its columns and rows for a terminal, without the way of serving, which labels tell."""
    return (*told.columns[:2], *told.columns[3:]), [(*row[:2], *row[3:]) for row in told.rows]


def usd_told(found: Estimate, seeds: int) -> str:
    """A cost with its interval over so many seeds."""
    if isnan(found.value):
        return NONE
    if found.value == inf:
        return "no token within the objectives"
    if found.low == found.high:
        return money(found.value)
    if (found.low, found.high) == (0.0, inf):
        return f"{money(found.value)} ({'unbounded' if seeds > 1 else ONE_SEED})"
    return f"{money(found.value)} ({between(money(found.low), money(found.high), found)})"
