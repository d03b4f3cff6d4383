"""The numbers of a study as CSV: one row an alternative, units in the column names; or one row a
measure, with its interval.

Cells that a spreadsheet would take for a formula are quoted with a leading apostrophe, since
labels come from strangers' files (OWASP, CSV Injection).
"""

import csv
import io
from collections.abc import Iterable, Sequence
from math import isfinite, isnan, nan
from typing import Final

from analysis.choice import cost
from analysis.economics import Bill
from analysis.interval import Estimate
from analysis.measure import MEASURES
from analysis.record import StudyManifest
from analysis.summary import Gap, Sample, Summary
from topo.unit import PS_PER_MS

_COLUMNS: Final = (
    "fabric",
    "policy",
    "verdict",
    "reason",
    "hand_offs",
    "seeds",
    "effective_share_of_n",
    "quantile",
    "handoff_p50_ms",
    "handoff_tail_ms",
    "handoff_tail_low_ms",
    "handoff_tail_high_ms",
    "over_budget_share",
    "over_budget_low",
    "over_budget_high",
    "not_finished",
    "prefill_not_ended",
    "rejected",
    "failed",
    "no_hand_off_needed",
    "slowdown_p50",
    "slowdown_tail",
    "transfer_tail_ms",
    "bandwidth_tail_ms",
    "packet_over_bandwidth",
    "packet_over_bandwidth_median",
    "packet_over_bandwidth_max",
    "maxmin_tail_ms",
    "packet_over_maxmin",
    "packet_over_maxmin_median",
    "packet_over_maxmin_max",
    "marked_share",
    "resent_share",
    "timeouts",
    "drops",
    "drops_lossless",
    "switch_pause_fraction_max",
    "switch_pause_fraction_mean",
    "host_pause_fraction_max",
    "innocent_pause_share",
    "switch_utilisation_max",
    "ttft_p50_ms",
    "ttft_tail_ms",
    "tpot_p50_ms",
    "mean_queueing_ms",
    "mean_prefill_ms",
    "mean_handoff_ms",
    "mean_decode_ms",
    "cost_usd",
    "mu_gbps",
    "switches",
    "switch_cables",
    "host_cables",
    "oversubscription",
    "tokens_per_s_within_objectives",
    "gpu_usd_per_hour",
    "fabric_usd_per_hour",
    "usd_per_million_tokens",
    "usd_per_million_tokens_low",
    "usd_per_million_tokens_high",
)


def summary_rows(
    rows: Sequence[Summary], paid: Sequence[Bill] = ()
) -> tuple[Sequence[str], list[list[object]]]:
    """The summaries, with the bills of those that have one, as columns and rows; NaN or None is a
    number that is not there."""
    held = {(each.sample.fabric, each.sample.policy): each for each in paid}
    return _COLUMNS, [[*_row(row), *_paid(held.get((row.fabric, row.policy)))] for row in rows]


def measure_rows(
    samples: Sequence[Sample], study: StudyManifest
) -> tuple[Sequence[str], list[list[object]]]:
    """Every measure of every alternative that ran: value, low and high end of its 95 % interval,
    in base units (ps, shares, counts); those without a number are left out."""
    rows: list[list[object]] = []
    for sample in samples:
        for each in MEASURES.values():
            found = each.estimate(sample, study)
            if found is not None and not isnan(found.value):
                told = (found.value, found.low, found.high)
                rows.append([sample.fabric, sample.policy, each.name, each.unit.value, *told])
    return ("fabric", "policy", "measure", "unit", "value", "low", "high"), rows


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as CSV text."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_shown(value) for value in row] for row in rows)
    return sink.getvalue()


def _shown(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.9g}" if isfinite(value) else "" if value != value else str(value)
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return "" if value is None else value


def _row(row: Summary) -> list[object]:
    facts = row.facts
    return [
        row.fabric,
        row.policy,
        row.verdict,
        row.reason,
        row.n,
        row.seeds,
        row.worth,
        row.q,
        row.median / PS_PER_MS,
        *_estimate(row.tail, PS_PER_MS),
        *_estimate(row.over, 1),
        row.not_finished,
        row.not_due,
        row.rejected,
        row.failed,
        row.local,
        row.slowdown_median,
        row.slowdown_tail,
        row.transfer_tail / PS_PER_MS,
        *_gap(row.bandwidth),
        *_gap(row.maxmin),
        row.marked,
        row.resent,
        row.timeouts,
        row.drops,
        row.lossless,
        row.pause_max,
        row.pause_mean,
        row.host_pause,
        row.innocent_pause,
        row.utilisation_max,
        row.ttft_median / PS_PER_MS,
        row.ttft_tail / PS_PER_MS,
        row.tpot_median / PS_PER_MS,
        *([part / PS_PER_MS for part in row.parts] or [nan] * 4),
        cost(row),
        facts.mu_bps / 1e9 if facts else None,
        facts.switches if facts else None,
        facts.switch_cables if facts else None,
        facts.host_cables if facts else None,
        facts.oversubscription if facts else None,
    ]


def _paid(bill: Bill | None) -> list[float]:
    if bill is None:
        return [nan] * 6
    price = bill.price
    hour = price.gpu_usd_per_hour, price.fabric_usd_per_hour
    return [bill.tokens_per_s, *hour, *_estimate(bill.usd, 1)]


def _estimate(value: Estimate | None, unit: float) -> list[float]:
    return [value.value / unit, value.low / unit, value.high / unit] if value else [nan] * 3


def _gap(gap: Gap | None) -> list[float]:
    if gap is None:
        return [nan] * 4
    return [gap.tail_ps / PS_PER_MS, gap.ratio, gap.median_ratio, gap.most_ratio]
