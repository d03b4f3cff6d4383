"""What the users of a service get: objectives met, goodput, and tokens for the GPUs that it takes.

Counted is every request that arrived after the warm-up; one that was rejected, failed, or had not
finished when the run ended, met nothing. So dropping requests cannot improve these numbers, and
neither can delaying tokens, since both objectives have to be met (the objection to goodput of arXiv
2410.14257). Goodput is that of DistServe (OSDI 2024, section 2) at the load of the run: how it
moves with the load takes a sweep.
"""

from math import nan

import numpy as np
from numpy.typing import NDArray

from analysis.budget import after_warmup
from analysis.record import FINISHED, Cell, StudyManifest
from topo.unit import PS_PER_S


def attained(cell: Cell, study: StudyManifest) -> NDArray[np.bool_]:
    """Which counted requests finished within both objectives, one value a request.

    TTFT, first token - arrival (finish - arrival without output), is at most ``ttft_ps``; TPOT,
    (finish - first token) / (output tokens - 1) from 2 tokens on, at most ``tpot_ps``. An objective
    that the study does not have is met.
    """
    table = after_warmup(cell)
    first, finish, output = (
        table[name] for name in ("first_token_ps", "finish_ps", "output_tokens")
    )
    met: NDArray[np.bool_] = (table["status"] == FINISHED) & (finish >= 0)
    seen = np.where(first < 0, finish, first)
    if study.ttft_ps is not None:
        met &= seen - table["arrival_ps"] <= study.ttft_ps
    if study.tpot_ps is not None:
        met &= finish - seen <= study.tpot_ps * np.maximum(output - 1, 0)
    return met


def attainment(cell: Cell, study: StudyManifest) -> float:
    """The share of counted requests within both objectives; NaN without requests or objectives."""
    if study.ttft_ps is None and study.tpot_ps is None:
        return nan
    met = attained(cell, study)
    return float(met.mean()) if len(met) else nan


def offered_per_s(cell: Cell) -> float:
    """Counted requests per second of arrival: (n - 1) / (last arrival - first); NaN below 2."""
    arrival = after_warmup(cell)["arrival_ps"]
    span = int(arrival.max() - arrival.min()) if len(arrival) > 1 else 0
    return (len(arrival) - 1) / span * PS_PER_S if span else nan


def goodput_per_s(cell: Cell, study: StudyManifest) -> float:
    """Requests per second within both objectives: the offered rate x the attainment.

    The rate is that of arrivals, so that the tail of a run, in which nothing arrives and the last
    requests decode, does not thin it.
    """
    return offered_per_s(cell) * attainment(cell, study)


def tokens_per_s(cell: Cell, study: StudyManifest) -> float:
    """Output tokens of requests within objectives, per second of arrivals; NaN without objectives.

    The rate offered x the mean of their tokens over all counted requests.
    """
    output = after_warmup(cell)["output_tokens"]
    if (study.ttft_ps is None and study.tpot_ps is None) or not len(output):
        return nan
    return offered_per_s(cell) * float(output[attained(cell, study)].sum()) / len(output)


def served_ps(cell: Cell) -> int:
    """From the first counted arrival of what finished to the last end, ps; 0 where nothing did."""
    table = after_warmup(cell)
    done = (table["status"] == FINISHED) & (table["finish_ps"] >= 0)
    if not done.any():
        return 0
    return max(0, int(table["finish_ps"][done].max() - table["arrival_ps"][done].min()))


def density(cell: Cell, study: StudyManifest) -> float:
    """Effective compute density: output tokens of requests within objectives per GPU-second.

    Counted are the GPU-seconds of both pools in which requests were served (`served_ps`), as in
    `analysis.throughput`; a host of the fabric is a GPU with its NIC. NaN without objectives, facts
    on the fabric, or time.
    """
    facts, span = cell.manifest.facts, served_ps(cell)
    gpus = facts.prefill + facts.decode if facts is not None else 0
    if not gpus * span or (study.ttft_ps is None and study.tpot_ps is None):
        return nan
    tokens = int(after_warmup(cell)["output_tokens"][attained(cell, study)].sum())
    return tokens / gpus / span * PS_PER_S
