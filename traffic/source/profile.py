"""Profiles: input and output lengths together, drawn from distributions or from recorded rows.

Margins and dependence are set apart: lengths are drawn independently, and outputs are then put in
the order that gives the wanted rank correlation (Iman and Conover, Communications in Statistics
B 11(3), 1982), so that no margin changes by it.
"""

from dataclasses import dataclass
from math import isfinite, pi, sin, sqrt
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from traffic.error import RequestError
from traffic.request import RequestTable
from traffic.seed import generator
from traffic.source.length import Length, Normal

Tokens = NDArray[np.int32]


class Lengths(Protocol):
    """Where pairs of input and output lengths come from."""

    @property
    def name(self) -> str:
        """What to call it."""
        ...

    @property
    def source(self) -> str:
        """Where its numbers come from."""
        ...

    def draw(self, count: int, seed: int, whose: str = "") -> tuple[Tokens, Tokens]:
        """``count`` inputs and outputs of a seed; ``whose`` gives a tenant streams of its own."""
        ...


@dataclass(frozen=True, slots=True)
class Profile:
    """Input and output lengths by distribution, and where they come from.

    ``correlation`` is Spearman's, of ranks, from -1 to 1; 0 leaves the draws as they are. Ties of
    whole tokens make the reached value a little smaller.
    """

    name: str
    input: Length
    output: Length
    source: str
    correlation: float = 0.0

    def __post_init__(self) -> None:
        if not (isfinite(self.correlation) and -1 <= self.correlation <= 1):
            raise RequestError(f"correlation {self.correlation:g}: write -1 to 1, e.g. 0.5")

    def draw(self, count: int, seed: int, whose: str = "") -> tuple[Tokens, Tokens]:
        """``count`` inputs and outputs, each from a stream of its own."""
        inputs = self.input.draw(count, generator(seed, "input length" + whose))
        outputs = self.output.draw(count, generator(seed, "output length" + whose))
        if self.correlation:
            random = generator(seed, "length correlation" + whose)
            outputs = _ordered(inputs, outputs, self.correlation, random)
        return inputs, outputs


def _ordered(
    inputs: Tokens, outputs: Tokens, correlation: float, random: np.random.Generator
) -> Tokens:
    """The outputs in an order whose ranks are those of a normal pair.

    Normals of correlation 2 sin(pi c / 6) have Spearman's correlation c (Kruskal, JASA 53, 1958).
    """
    of_normals = 2 * sin(pi * correlation / 6)
    one = random.standard_normal(len(inputs))
    other = of_normals * one + sqrt(max(0.0, 1 - of_normals**2)) * random.standard_normal(
        len(inputs)
    )
    rank = np.empty(len(inputs), np.int64)
    rank[np.argsort(other, kind="stable")] = np.arange(len(inputs))
    ordered = np.empty_like(outputs)
    ordered[np.argsort(inputs, kind="stable")] = np.sort(outputs)[
        rank[np.argsort(one, kind="stable")]
    ]
    return ordered


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Lengths of recorded requests, drawn row by row with replacement.

    A row keeps its input and output together, and so whatever dependence they have.
    """

    name: str
    table: RequestTable
    source: str

    def draw(self, count: int, seed: int, whose: str = "") -> tuple[Tokens, Tokens]:
        """``count`` rows of the table."""
        rows = generator(seed, "length row" + whose).integers(len(self.table), size=count)
        return self.table.input_tokens[rows], self.table.output_tokens[rows]


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

_SHORT: Final = Normal(128, 32)
_LONG: Final = Normal(2048, 512)
_CORNERS: Final = (
    "means of 128 and 2048 tokens as in the four runs of TensorRT-LLM's performance page "
    "(NVIDIA/TensorRT-LLM release 0.5.0, docs/source/performance.md), where they are fixed; "
    "a deviation of a quarter is a choice"
)

PROFILES: Final = {
    made.name: made
    for made in (
        BASE,
        Profile("short_short", _SHORT, _SHORT, _CORNERS),
        Profile("short_long", _SHORT, _LONG, _CORNERS),
        Profile("long_short", _LONG, _SHORT, _CORNERS),
        Profile("long_long", _LONG, _LONG, _CORNERS),
    )
}
"""Every profile by name; the last four are input_output, short 128 and long 2048 tokens."""


def profile(name: str) -> Profile:
    """The profile of that name."""
    try:
        return PROFILES[name]
    except KeyError:
        known = ", ".join(PROFILES)
        raise RequestError(f"profile {name[:40]!r}: not known; write one of {known}") from None
