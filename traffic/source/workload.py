"""A synthetic workload: a profile of lengths, an arrival process, a count and a seed.

Three lengths are kept apart: text in words, tokens, and KV bytes. The table holds tokens; words
follow from them by a tokeniser ratio and are for reports only, KV bytes by the model.
"""

from typing import Final

from numpy import float64
from numpy.typing import NDArray

from traffic.error import RequestError
from traffic.request import RequestTable, request_table
from traffic.seed import generator
from traffic.source.arrival import arrivals
from traffic.source.modulation import Modulation
from traffic.source.profile import BASE, Lengths

TOKENS_PER_WORD: Final = 1.33
"""Tokens a word of English text: OpenAI's rule of thumb that a token is about 3/4 of a word."""


def synthesise(
    lengths: Lengths = BASE,
    *,
    count: int,
    rate_per_s: float,
    seed: int,
    process: str = "poisson",
    cv: float = 1.0,
    modulation: Modulation | None = None,
) -> RequestTable:
    """``count`` requests of a profile at a mean rate in requests/s; the same seed, the same table.

    Arrivals, inputs and outputs are independent streams of the seed: a change of the rate leaves
    the lengths as they are, and a change of the profile the arrivals. ``process``, ``cv`` and
    ``modulation`` are those of `traffic.source.arrival.arrivals`.

    >>> table = synthesise(count=3, rate_per_s=400, seed=1, process="deterministic")
    >>> table.arrival_ps.tolist()
    [2500000000, 5000000000, 7500000000]
    """
    if count < 1:
        raise RequestError(f"count {count}: a workload needs at least 1 request")
    random = generator(seed, "arrival")
    at = arrivals(process, rate_per_s, count, random, cv=cv, modulation=modulation)
    inputs, outputs = lengths.draw(count, seed)
    return request_table(arrival_ps=at, input_tokens=inputs, output_tokens=outputs)


def words(tokens: NDArray[float64], tokens_per_word: float = TOKENS_PER_WORD) -> NDArray[float64]:
    """The text length in words that so many tokens stand for."""
    if not 0.1 <= tokens_per_word <= 100:
        raise RequestError(f"tokens_per_word {tokens_per_word:g}: write 0.1 to 100, e.g. 1.33")
    return tokens / tokens_per_word
