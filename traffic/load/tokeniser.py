"""What a change of tokeniser does to the load: the same words, other tokens, other KV bytes.

A tokeniser is known here by one number, its tokens a word. The text of every request is held fixed;
input and output tokens are scaled by the ratio of the two numbers and rounded. A real tokeniser
differs from text to text; this moves the mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from traffic.error import RequestError
from traffic.load.summary import Summary, summary
from traffic.model import Model
from traffic.request import RequestTable
from traffic.source.workload import words


@dataclass(frozen=True, slots=True)
class Retold:
    """The requests under one tokeniser; ``words_in`` and ``words_out`` are the fixed means."""

    tokens_per_word: float
    words_in: float
    words_out: float
    summary: Summary


def retold(
    table: RequestTable, model: Model, ratios: Sequence[float], *, recorded: float
) -> list[Retold]:
    """The load of the same words at each ratio of tokens a word.

    ``recorded`` is the ratio that the table's tokens were counted with. Inputs keep at least 1
    token, outputs of 0 stay 0 and others keep at least 1.
    """
    if not ratios:
        raise RequestError("tokens_per_word: none given; write e.g. 1.33 and 1.5")
    means = np.array([float(table.input_tokens.mean()), float(table.output_tokens.mean())])
    spoken = words(means, recorded)
    found: list[Retold] = []
    for ratio in ratios:
        words(means, ratio)  # refuses an impossible ratio
        factor = ratio / recorded
        inputs = np.maximum(np.rint(table.input_tokens * factor), 1)
        outputs = np.rint(table.output_tokens * factor)
        outputs = np.where(table.output_tokens > 0, np.maximum(outputs, 1), 0)
        if max(inputs.max(), outputs.max()) > 2**31 - 1:
            raise RequestError(f"tokens_per_word {ratio:g}: makes requests beyond 2^31 tokens")
        told = replace(
            table,
            input_tokens=inputs.astype(np.int32),
            output_tokens=outputs.astype(np.int32),
            prefix=None,
        )
        found.append(Retold(ratio, float(spoken[0]), float(spoken[1]), summary(told, model)))
    return found
