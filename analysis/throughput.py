"""What went through: requests, tokens, words and bytes a second.

Counted are the requests that arrived after the warm-up and finished, over the time from the first
of their arrivals to the last of their ends, as serving benchmarks do (`vllm bench serve` tells its
token throughput so). That time includes the end of a run, in which nothing arrives, so that a short
run shows less than it could sustain; `analysis.service` has the rate offered, and goodput.

Text is told in words: tokens over the tokens that the scenario's tokeniser makes of a word. Bytes
are the payload of the hand-offs that arrived.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from math import nan

import numpy as np

from analysis.breakdown import Breakdown
from analysis.budget import after_warmup
from analysis.record import FINISHED, Cell
from analysis.service import served_ps
from analysis.summary import Sample
from analysis.wording import NONE
from topo.unit import PS_PER_S, show_rate


@dataclass(frozen=True, slots=True)
class Throughput:
    """Finished requests a second, their prompt and output tokens, the same as words (NaN where the
    results do not tell the tokeniser), and the KV bytes of their hand-offs."""

    requests: float
    prompt_tokens: float
    output_tokens: float
    prompt_words: float
    output_words: float
    kv_bytes: float


def throughput(cell: Cell) -> Throughput:
    """The throughput of a cell; all NaN where nothing finished or no time passed."""
    table = after_warmup(cell)
    done = (table["status"] == FINISHED) & (table["finish_ps"] >= 0)
    span = served_ps(cell)
    if not span:
        return Throughput(nan, nan, nan, nan, nan, nan)
    prompts, outputs = (
        int(table[name][done].sum()) * PS_PER_S / span for name in ("input_tokens", "output_tokens")
    )
    per_word = cell.manifest.totals.get("tokens_per_1000_words", 0) / 1000 or nan
    mine = np.isin(cell.flows["handoff"].astype(np.int64), table["request"][done])
    mine &= cell.flows["finish_ps"].astype(np.int64) >= 0
    moved = int(cell.flows["bytes"].astype(np.int64)[mine].sum())
    return Throughput(
        int(done.sum()) * PS_PER_S / span,
        prompts,
        outputs,
        prompts / per_word,
        outputs / per_word,
        moved * PS_PER_S / span,
    )


def throughputs(samples: Sequence[Sample]) -> Breakdown:
    """The throughput of every alternative that ran, means over its seeds."""
    rows = []
    for sample in samples:
        if sample.impossible is not None or not sample.cells:
            continue
        each = np.array([astuple(throughput(cell)) for cell in sample.cells])
        known = each[~np.isnan(each[:, 0])]
        if len(known):
            *counts, moved = known.mean(axis=0).tolist()
            shown = (_plain(value) for value in counts)
            rows.append((sample.fabric, sample.policy, *shown, show_rate(8 * moved)))
    return Breakdown(
        "Throughput",
        "A second, of the requests that finished, from the first arrival after the warm-up to the "
        "last end; means over the seeds. A short run shows less than it could sustain, since it "
        "ends with nothing arriving. Words are tokens over the scenario's tokens per word; KV is "
        "the payload of the hand-offs that arrived.",
        (
            *("fabric", "policy", "requests/s", "prompt tokens/s", "output tokens/s"),
            *("prompt words/s", "output words/s", "KV handed over"),
        ),
        tuple(rows),
    )


def _plain(value: float) -> str:
    if np.isnan(value):
        return NONE
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
