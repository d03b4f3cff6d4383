"""How many tokens go in and come out: distributions of whole tokens, never below 1.

A value below 1 is drawn again rather than raised to 1, as llmperf does in
``sample_random_positive_int`` (ray-project/llmperf src/llmperf/utils.py), so that no spike stands
at the bound. Values are rounded to the nearest token, where llmperf rounds down. Means and spreads
are those of the distribution before this: a wide one ends up a little longer and narrower.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import erf, exp, isfinite, lgamma, log, sqrt
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from traffic.error import RequestError

MOST_TOKENS: Final = 100_000_000
"""Longest length that is drawn; beyond any model's context."""


class Length(Protocol):
    """A distribution of token counts."""

    def draw(self, count: int, random: np.random.Generator) -> NDArray[np.int32]:
        """``count`` lengths of at least 1 token."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    """Always ``tokens``; 0 is allowed here, for outputs that end with their prefill."""

    tokens: int

    def __post_init__(self) -> None:
        if not 0 <= self.tokens <= MOST_TOKENS:
            raise RequestError(
                f"length {self.tokens} tokens: write a whole number from 0 to {MOST_TOKENS}"
            )

    def draw(self, count: int, random: np.random.Generator) -> NDArray[np.int32]:  # noqa: ARG002
        """``count`` times the same length; the stream is not touched."""
        return np.full(count, self.tokens, np.int32)


@dataclass(frozen=True, slots=True)
class Normal:
    """Normal of the given mean and standard deviation in tokens, truncated at 1 by redrawing."""

    mean: float
    std: float

    def __post_init__(self) -> None:
        _check(self.mean, self.std)
        kept = 0.5 * (1 + erf((self.mean - 0.5) / (self.std * sqrt(2)))) if self.std else 1.0
        if kept < 0.5:
            raise RequestError(
                f"length {self.mean:g} +- {self.std:g} tokens: less than half lies above 0; "
                "write a lognormal length"
            )

    def draw(self, count: int, random: np.random.Generator) -> NDArray[np.int32]:
        """``count`` lengths."""
        return _redrawn(count, lambda n: random.normal(self.mean, self.std, n))


@dataclass(frozen=True, slots=True)
class Lognormal:
    """Lognormal of the given mean and standard deviation *of the lengths*, in tokens."""

    mean: float
    std: float

    def __post_init__(self) -> None:
        _check(self.mean, self.std)
        # The median of a lognormal is its mean / sqrt(1 + std^2 / mean^2).
        if self.mean / sqrt(1 + (self.std / self.mean) ** 2) < 0.5:
            raise RequestError(
                f"lognormal length {self.mean:g} +- {self.std:g} tokens: less than half lies "
                "above 0; write a smaller spread"
            )

    def draw(self, count: int, random: np.random.Generator) -> NDArray[np.int32]:
        """``count`` lengths; sigma^2 = ln(1 + std^2/mean^2), mu = ln(mean) - sigma^2/2."""
        variance = log(1 + (self.std / self.mean) ** 2)
        mu = log(self.mean) - variance / 2
        return _redrawn(count, lambda n: random.lognormal(mu, sqrt(variance), n))


@dataclass(frozen=True, slots=True)
class Gamma:
    """Gamma of the given mean and standard deviation in tokens; equal ones are an exponential."""

    mean: float
    std: float

    def __post_init__(self) -> None:
        _check(self.mean, self.std)
        if self.std < self.mean / 1000:
            raise RequestError(
                f"gamma length {self.mean:g} +- {self.std:g} tokens: hardly any spread; "
                "write a constant length"
            )
        if _gamma_below(0.5, self.mean, self.std) > 0.5:
            raise RequestError(
                f"gamma length {self.mean:g} +- {self.std:g} tokens: less than half lies above 0; "
                "write a smaller spread or a lognormal length"
            )

    def draw(self, count: int, random: np.random.Generator) -> NDArray[np.int32]:
        """``count`` lengths; shape (mean/std)^2, scale std^2/mean."""
        shape = (self.mean / self.std) ** 2
        return _redrawn(count, lambda n: random.gamma(shape, self.mean / shape, n))


def _gamma_below(value: float, mean: float, std: float) -> float:
    """The share of a gamma below a value: the series of the incomplete gamma function (DLMF 8.7.1).

    >>> round(_gamma_below(1, 1, 1), 6)  # an exponential: 1 - 1/e
    0.632121
    """
    shape = (mean / std) ** 2
    x = value * shape / mean
    term = exp(shape * log(x) - x - lgamma(shape + 1))
    total, n = term, 1
    while term > 1e-12 * total:
        term *= x / (shape + n)
        total, n = total + term, n + 1
    return total


def _check(mean: float, std: float) -> None:
    if not (isfinite(mean) and 1 <= mean <= MOST_TOKENS):
        raise RequestError(f"mean length {mean:g} tokens: write 1 to {MOST_TOKENS}")
    if not (isfinite(std) and 0 <= std <= MOST_TOKENS):
        raise RequestError(f"spread of lengths {std:g} tokens: write 0 to {MOST_TOKENS}")


def _redrawn(count: int, draw: Callable[[int], NDArray[np.float64]]) -> NDArray[np.int32]:
    values = np.rint(draw(count))
    while True:
        outside = np.flatnonzero((values < 1) | (values > MOST_TOKENS))
        if not len(outside):
            return values.astype(np.int32)
        values[outside] = np.rint(draw(len(outside)))
