"""What tests of batches share: step times that can be added up by hand."""

from collections.abc import Sequence

import pytest

from traffic.compute.step import StepTime


class Plain:
    """Step times in whole numbers that add up however steps are grouped."""

    def prefill_ps(self, tokens: int) -> int:
        return 50 + 7 * tokens

    def steps_ps(self, batch: int, context: int, read: int, steps: int) -> int:
        return steps * (100 + batch) + steps * context + batch * (steps * (steps - 1) // 2)

    def mixed_ps(
        self, batch: int, context: int, read: int, chunks: Sequence[tuple[int, int]]
    ) -> int:
        return 100 + batch + context + sum(7 * more + done for done, more in chunks)


@pytest.fixture(scope="session")
def times() -> StepTime:
    """50 and 7 a token for a prompt; 100, 1 a sequence and 1 a token of context for a step."""
    return Plain()
