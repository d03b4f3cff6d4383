"""What service and network make of their GPUs and links, as tables of the report.

Each has one row an alternative: objectives and goodput with intervals, GPU time by cause, and what
moved between the pools; then, for the alternatives whose links are drawn, the ports that were
busiest and most paused, since a picture cannot be read aloud.
"""

from collections.abc import Callable, Mapping, Sequence
from math import isnan
from typing import Final

import numpy as np

from analysis.breakdown import Breakdown
from analysis.fairness import fairness, path_stability
from analysis.handoff import window_ps
from analysis.idle import GpuTime, gpu_time
from analysis.interval import Estimate
from analysis.measure import MEASURES, Unit
from analysis.movement import Movement, distances, movement
from analysis.record import StudyManifest
from analysis.summary import Sample
from analysis.wording import NONE, name, percent, times
from topo.unit import show_size

_PORTS = 5
_CACHED: Final = {
    "prefill_load": (
        "prefill: loads",
        "Loads are those of prefix caches that a prompt waited for at its turn. ",
    ),
    "prefill_again": (
        "of it: again",
        "Again, a part of prefill at work: what some instance had computed before, and no prefix "
        "cache had at hand. ",
    ),
}
"""Columns of prefill instances that have prefix caches, and what they say."""


def service(samples: Sequence[Sample], study: StudyManifest) -> Breakdown:
    """Attainment, goodput and density of every alternative that ran."""
    rows = []
    for sample in _ran(samples):
        found = [MEASURES[each] for each in ("attainment", "goodput", "density")]
        if study.ttft_ps is None and study.tpot_ps is None:
            continue
        told = [_estimate(each.estimate(sample, study), _plain(each.unit)) for each in found]
        rows.append((sample.fabric, sample.policy, *told))
    return Breakdown(
        "Objectives, goodput and density",
        "Requests within the objectives for TTFT and TPOT, as a share and per second of arrivals; "
        "their output tokens over the GPUs of both pools and the time from the first arrival to "
        "the last end, as under Throughput. Rejected and unfinished requests count as missed. In "
        "brackets 95 % intervals.",
        ("fabric", "policy", "attainment", "requests/s", "output tokens per GPU-second"),
        tuple(rows),
    )


def gpus(samples: Sequence[Sample]) -> Breakdown:
    """GPU time at work and lost, by cause, of every alternative that ran."""
    held = [
        (sample, [each for cell in sample.cells if (each := gpu_time(cell)) is not None])
        for sample in _ran(samples)
    ]
    every = [each for _, found in held for each in found]
    more = [column for column in _CACHED if any(getattr(each, column) for each in every)]
    rows = [
        (sample.fabric, sample.policy, *_shares(found, more)) for sample, found in held if found
    ]
    return Breakdown(
        "GPU time",
        "Shares of each pool's GPU time from the first arrival to the last finish. "
        + "".join(_CACHED[column][1] for column in more)
        + "A decode "
        "instance is at work while any sequence decodes; else its time is lost to the first that "
        "holds: a hand-off under way to it (network), a request waiting for memory, a ready cache "
        "waiting for a step or slot, or nothing bound for it.",
        (
            *("fabric", "policy", "prefill at work", *(_CACHED[column][0] for column in more)),
            *("decode at work", "decode: network"),
            *("decode: memory", "decode: start", "decode: nothing to do"),
        ),
        tuple(rows),
    )


def moved(samples: Sequence[Sample]) -> dict[tuple[str, str], Movement]:
    """The movement of every alternative that moved something, by its fabric and policy."""
    found = {}
    for fabric in dict.fromkeys(sample.fabric for sample in samples):
        ran = [sample for sample in _ran(samples) if sample.fabric == fabric]
        links = distances([cell for sample in ran for cell in sample.cells])
        for sample in ran:
            each = movement(sample.cells, links)
            if each.transfers:
                found[fabric, sample.policy] = each
    return found


def movements(
    samples: Sequence[Sample], by_alternative: Mapping[tuple[str, str], Movement]
) -> Breakdown:
    """Pairs, drift, byte-hops, fairness and path stability of the alternatives that `moved`."""
    rows = []
    for sample in samples:
        found = by_alternative.get((sample.fabric, sample.policy))
        if found is None:
            continue
        fair = [fairness(cell) for cell in sample.cells]
        steady = path_stability(sample.cells)
        worst = f"{times(steady[0].ratio)} ({name(steady[0].q)}/P50)" if steady else NONE
        rows.append(
            (
                *(sample.fabric, sample.policy),
                f"{found.pairs:,} of {found.matrix.size:,}",
                percent(found.drift),
                f"{found.flows_per_request:.3g}",
                f"{found.links_per_byte:.2f}",
                _size(found.hops_per_request),
                percent(found.again),
                _size(found.hops_per_token),
                _mean([each.index for each in fair]),
                _mean([each.least_over_most for each in fair]),
                _mean([each.maxmin for each in fair]),
                worst,
            )
        )
    return Breakdown(
        "Movement and fairness",
        "Pairs of prefill and decode instances that a hand-off used; drift, the share of bytes "
        "that went further than the nearest decode instance; bytes times links crossed. Jain's "
        "index of what flows got of their demand, 1 when all got the same share, with the least "
        "share over the most, and the index of max-min sharing; the pair of hosts "
        "with the least steady slowdown, of those with at least 100 flows.",
        (
            *("fabric", "policy", "pairs used", "drift", "flows a hand-off", "links a byte"),
            *("byte-hops a hand-off", "of them sent again", "byte-hops an output token"),
            *("fairness", "least share over most", "max-min's fairness", "least steady pair"),
        ),
        tuple(rows),
    )


def ports(samples: Sequence[Sample]) -> Breakdown:
    """The switch and host ports that were busiest and most paused, means over the seeds."""
    rows = []
    for sample in _ran(samples):
        names, busy, paused = _by_port(sample)
        for title, values in (("busiest", busy), ("most paused", paused)):
            order = np.argsort(-values, kind="stable")[:_PORTS]
            shown = [f"{names[at]} {percent(float(values[at]))}" for at in order if values[at] > 0]
            if shown:
                rows.append((sample.fabric, sample.policy, title, ", ".join(shown)))
    return Breakdown(
        "Ports by name",
        "Of the alternatives drawn above, the ports that sent, and that stood paused, for the "
        "largest share of time; means over seeds.",
        ("fabric", "policy", "ports", "largest first"),
        tuple(rows),
    )


def _ran(samples: Sequence[Sample]) -> list[Sample]:
    return [sample for sample in samples if sample.cells and sample.impossible is None]


def _by_port(sample: Sample) -> tuple[list[str], np.ndarray, np.ndarray]:
    first = sample.cells[0].ports
    alike = [cell for cell in sample.cells if len(cell.ports["port"]) == len(first["port"])]
    busy, paused = (
        np.mean(
            [cell.ports[column].astype(np.float64) / max(1, window_ps(cell)) for cell in alike],
            axis=0,
        )
        for column in ("busy_ps", "paused_ps")
    )
    return [str(each) for each in first["name"]], busy, paused


def _shares(found: Sequence[GpuTime], more: Sequence[str]) -> list[str]:
    prefill, decode = (sum(getattr(each, pool) for each in found) for pool in ("prefill", "decode"))
    work = sum(each.prefill_work for each in found), sum(each.decode_work for each in found)
    lost = np.sum([each.decode_lost for each in found], axis=0).tolist()
    told = [work[0] / prefill if prefill else np.nan]
    for column in more:
        whole = sum(getattr(each, column) for each in found)
        told.append(whole / prefill if prefill else np.nan)
    told += [part / decode if decode else np.nan for part in (work[1], *lost)]
    return [percent(share) for share in told]


def _plain(unit: Unit) -> Callable[[float], str]:
    """How a number is written where its column has the unit."""
    if unit is Unit.SHARE:
        return unit.show
    return lambda value: f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _estimate(found: Estimate | None, show: Callable[[float], str]) -> str:
    if found is None or isnan(found.value):
        return NONE
    if found.low == found.high or not np.isfinite([found.low, found.high]).all():
        return show(found.value)
    return f"{show(found.value)} ({show(found.low)} to {show(found.high)})"


def _size(count: float) -> str:
    return NONE if isnan(count) else show_size(count)


def _mean(values: Sequence[float]) -> str:
    known = [value for value in values if not isnan(value)]
    return f"{np.mean(known):.3f}" if known else NONE
