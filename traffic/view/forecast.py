"""What a router predicts of the times of two pools: the `TimeView` of a service.

The times are those that the run itself takes, so a prediction errs only in what is not known yet:
who comes next. Instances of a pool are taken to be equal, and messages between their servers are
left out.
"""

from typing import Final

from traffic.cache.lookup import prompt_ps
from traffic.instance import Pool

_MOST_KEPT: Final = 1 << 16


class Forecast:
    """Predicted times of one prefill and one decode pool, in picoseconds."""

    def __init__(self, prefill: Pool, decode: Pool) -> None:
        self._prompt = prefill.step_time
        self._decode = decode
        self._step = decode.step_time
        self._kept: dict[tuple[int, int], int] = {}

    def prefill_ps(self, tokens: int, cached: int = 0) -> int:
        """One prompt alone; the last of its tokens is always computed."""
        asked = (tokens, cached)
        found = self._kept.get(asked)
        if found is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            found = self._kept[asked] = prompt_ps(self._prompt, tokens, min(cached, tokens - 1))
        return found

    def step_ps(self, batch: int, tokens: int) -> int:
        """One decode step of ``batch`` sequences of equal length, ``tokens`` together."""
        read = batch * self._decode.kv_bytes(tokens // batch)
        return self._step.steps_ps(batch, tokens, read, 1)
