"""Where the time of the GPUs goes: at work, or lost, and to what.

The time of every instance, from the first arrival to the last finish, or to the end of a run that
was stopped before it (warm-up included: GPUs are paid for from the start), is cut into parts that
add up to it exactly. A prefill instance works while a prompt runs on it, loads while one that has
its turn waits for blocks of a prefix cache, and is idle otherwise. A part of its work is lost as
well: prompts computed again that an instance of the service had computed before, which a prefix
cache missed (`traffic.cache.tally`). A decode instance works while at least one sequence
decodes. Where none does, the first of these that holds names the cause:

- network: a hand-off to it has been released and has not arrived;
- memory: a request whose prefill has ended waits for its release (KV memory, control delay);
- start: a cache is ready and waits for a step, a slot or the router;
- idle: nothing is bound for it.

A batch that could be larger is not counted as lost: the tables do not say how large it could be.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from analysis.record import Cell
from topo.unit import PS_PER_S

Times = NDArray[np.int64]
Floats = NDArray[np.float64]

CAUSES = ("network", "memory", "start", "idle")


@dataclass(frozen=True, slots=True)
class GpuTime:
    """GPU-seconds of both pools; ``decode_lost`` has one value for each of `CAUSES`.

    ``prefill_again`` is the part of ``prefill_work`` that computed again what was known once.
    """

    prefill: float
    prefill_work: float
    decode: float
    decode_work: float
    decode_lost: tuple[float, ...]
    prefill_load: float = 0.0
    prefill_again: float = 0.0

    @property
    def lost_to_misses(self) -> float:
        """The share of prefill GPU time that computed again what was known once."""
        return self.prefill_again / self.prefill if self.prefill else np.nan

    @property
    def lost_to_network(self) -> float:
        """The share of decode GPU time in which hand-offs under way were all there was."""
        return self.decode_lost[0] / self.decode if self.decode else np.nan

    @property
    def work(self) -> float:
        """The share of all GPU time at work."""
        whole = self.prefill + self.decode
        return (self.prefill_work + self.decode_work) / whole if whole else np.nan


def gpu_time(cell: Cell) -> GpuTime | None:
    """The GPU time of a cell; None without requests or without facts on the fabric.

    Each instance weighs as many GPUs as it has (``totals`` of the manifest count the instances, and
    tell their sizes where these differ; where they do not, an instance is one GPU). Loads and what
    was computed again are known of all instances together, and weigh as the mean one does.
    """
    facts = cell.manifest.facts
    table = {name: column.astype(np.int64) for name, column in cell.requests.items()}
    if facts is None or not table or not len(table["request"]):
        return None
    first = int(table["arrival_ps"].min())
    ended = table["finish_ps"] >= 0
    last = max(int(table["finish_ps"].max()), first)
    if not ended.all():
        last = max(last, _stopped_ps(cell, first))
    window = last - first

    def moment(name: str) -> Times:
        """Not reached is as late as the end of the window."""
        return np.where(table[name] < 0, last, np.minimum(table[name], last))

    end, ready, start = moment("prefill_end_ps"), moment("kv_ready_ps"), moment("decode_start_ps")
    elsewhere = table["prefill"] >= 0  # else the decode instance computes the prompt as well
    start = np.where(elsewhere, start, moment("prefill_start_ps"))
    release = np.maximum(moment("handoff_release_ps"), end)
    release = np.where(table["handoff_release_ps"] < 0, ready, release)
    finish = moment("finish_ps")
    bound = (table["decode"] >= 0) & ~(ended & (table["decode_start_ps"] < 0))
    stages = [(start, finish), (release, ready), (end, release), (ready, start)]
    totals = cell.manifest.totals
    gpus = _gpus(totals, "prefill", facts.prefill), _gpus(totals, "decode", facts.decode)
    covered: list[float] = []
    for count in range(1, len(stages) + 1):
        begins = np.concatenate([stage[0][bound] for stage in stages[:count]])
        ends = np.concatenate([stage[1][bound] for stage in stages[:count]])
        where = np.tile(table["decode"][bound], count)
        covered.append(_weighed(where, begins, ends, gpus[1]))
    ran = elsewhere & (table["prefill_start_ps"] >= 0)
    worked = _weighed(table["prefill"][ran], table["prefill_start_ps"][ran], end[ran], gpus[0])
    each = facts.prefill / len(gpus[0]) / PS_PER_S
    loaded = min(totals.get("cache.idle_ps", 0) * each, worked)
    prefill, decode = (placed * window / PS_PER_S for placed in (facts.prefill, facts.decode))
    return GpuTime(
        prefill,
        worked - loaded,
        decode,
        covered[0],
        (*np.diff(covered).tolist(), decode - covered[-1]),
        loaded,
        totals.get("cache.again_ps", 0) * each,
    )


def _gpus(totals: Mapping[str, int], side: str, placed: int) -> Floats:
    """The GPUs of every instance of a side, which together are those of its pool."""
    counts, sizes = [totals.get(f"{side}_instances", placed)], [1]
    if f"{side}_gpus.0" in totals:
        runs = range(sum(name.startswith(f"{side}_gpus.") for name in totals))
        counts = [totals[f"{side}_instances.{run}"] for run in runs]
        sizes = [totals[f"{side}_gpus.{run}"] for run in runs]
    each = np.repeat(np.array(sizes, np.float64), counts)
    return np.asarray(each * (placed / each.sum()), np.float64)


def _weighed(where: Times, begin: Times, end: Times, gpus: Floats) -> float:
    """GPU-seconds that the intervals cover."""
    places, covered = _covered(where, begin, end)
    return float(gpus[places] @ covered) / PS_PER_S


def _stopped_ps(cell: Cell, first: int) -> int:
    """The end of the run, to which memory is counted; of the network's work in results without."""
    window = cell.manifest.totals.get("hbm.window_ps")
    return cell.manifest.duration_ps if window is None else first + window


def union_ps(where: Times, begin: Times, end: Times) -> int:
    """The time that the intervals [begin, end) cover, each place by itself, added up.

    >>> union_ps(np.array([0, 0, 1]), np.array([0, 5, 0]), np.array([10, 12, 3]))
    15
    """
    return int(_covered(where, begin, end)[1].sum())


def _covered(where: Times, begin: Times, end: Times) -> tuple[Times, Times]:
    """The places that have intervals, and the time that these cover."""
    order = np.lexsort((begin, where))
    where, begin, end = where[order], begin[order], np.maximum(end, begin)[order]
    places, starts = np.unique(where, return_index=True)
    found = np.zeros(len(places), np.int64)
    for place, (first, after) in enumerate(pairwise([*starts.tolist(), len(where)])):
        low, high = begin[first:after], end[first:after]
        before = np.r_[low[0], np.maximum.accumulate(high)[:-1]]
        found[place] = np.maximum(high - np.maximum(low, before), 0).sum()
    return places, found
