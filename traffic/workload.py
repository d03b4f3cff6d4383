"""A synthetic workload: a profile of lengths, an arrival process, a count and a seed.

Three lengths are kept apart: text in words, tokens, and KV bytes. The table holds tokens; words
follow from them by a tokeniser ratio and are for reports only, KV bytes by the model.
"""

from dataclasses import dataclass
from typing import Final

from numpy import float64
from numpy.typing import NDArray

from traffic.arrival import arrivals
from traffic.error import RequestError
from traffic.length import Length, Normal
from traffic.request import RequestTable, request_table
from traffic.seed import generator

TOKENS_PER_WORD: Final = 1.33
"""Tokens a word of English text: OpenAI's rule of thumb that a token is about 3/4 of a word."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Input and output lengths, drawn independently of each other, and where they come from."""

    name: str
    input: Length
    output: Length
    source: str


BASE: Final = Profile(
    name="base",
    input=Normal(550, 150),
    output=Normal(150, 20),
    source=(
        "the shape of the llmperf runs (ray-project/llmperf README: input 550 +- 150, "
        "output 150 +- 10), with a wider output"
    ),
)
"""Input 550 +- 150 tokens, output 150 +- 20 tokens."""

PROFILES: Final = {BASE.name: BASE}
"""Every profile by name."""


def profile(name: str) -> Profile:
    """The profile of that name."""
    try:
        return PROFILES[name]
    except KeyError:
        known = ", ".join(PROFILES)
        raise RequestError(f"profile {name[:40]!r}: not known; write one of {known}") from None


def synthesise(
    lengths: Profile = BASE,
    *,
    count: int,
    rate_per_s: float,
    seed: int,
    process: str = "poisson",
    cv: float = 1.0,
) -> RequestTable:
    """``count`` requests of a profile at a mean rate in requests/s; the same seed, the same table.

    Arrivals, inputs and outputs are three independent streams of the seed: a change of the rate
    leaves the lengths as they are, and a change of the profile the arrivals.

    >>> table = synthesise(count=3, rate_per_s=400, seed=1, process="deterministic")
    >>> table.arrival_ps.tolist()
    [2500000000, 5000000000, 7500000000]
    """
    if count < 1:
        raise RequestError(f"count {count}: a workload needs at least 1 request")
    return request_table(
        arrival_ps=arrivals(process, rate_per_s, count, generator(seed, "arrival"), cv=cv),
        input_tokens=lengths.input.draw(count, generator(seed, "input length")),
        output_tokens=lengths.output.draw(count, generator(seed, "output length")),
    )


def words(tokens: NDArray[float64], tokens_per_word: float = TOKENS_PER_WORD) -> NDArray[float64]:
    """The text length in words that so many tokens stand for."""
    if not 0.1 <= tokens_per_word <= 100:
        raise RequestError(f"tokens_per_word {tokens_per_word:g}: write 0.1 to 100, e.g. 1.33")
    return tokens / tokens_per_word
