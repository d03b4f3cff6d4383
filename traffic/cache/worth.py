"""Whether moving a prefix block pays: the four questions of cost-aware eviction.

1. How likely is the block used again? After n uses, n / (n + 1): the rule of succession (Laplace,
   1774) for n - 1 reuses in n - 1 trials.
2. Is the memory short? Blocks leave a tier only when it is full; those used least often, with
   ageing, go first (`traffic.cache.shelf.Frequent`), and a newcomer that ranks below all goes at
   once.
3. What does the move cost? The block goes to a tier if

       chance x (time to compute it - time to load it from there) > time to write it there

4. Does the objective admit it? Loading its whole prefix from that tier takes no longer than the
   TTFT objective, if there is one: a block that can never be loaded in time is not kept.

A hit is likewise loaded only as far as that ends the prompt sooner than computing it. Equally good
to wait for: time that a write takes of a link, and time that a load takes of a request; a choice
made here. Times are picoseconds; those of the pool are estimates over an idle fabric.
"""

from traffic.cache.tier import Tier
from traffic.compute.step import StepTime


class Worth:
    """Answers for blocks of ``block_tokens`` tokens and ``block_bytes`` bytes."""

    def __init__(
        self, time: StepTime, block_tokens: int, block_bytes: int, ttft_ps: int = 0
    ) -> None:
        self._time = time
        self._tokens = block_tokens
        self._bytes = block_bytes
        self._ttft = ttft_ps
        self._whole: list[int] = [0]  # time to compute so many first blocks

    def compute_ps(self, depth: int) -> int:
        """What the block with ``depth`` blocks before it adds to the time of a prompt."""
        whole = self._whole
        while len(whole) <= depth + 1:
            whole.append(self._time.prefill_ps(len(whole) * self._tokens))
        return whole[depth + 1] - whole[depth]

    def admits(self, tier: Tier, depth: int, reach: int, uses: int) -> bool:
        """Whether the block may go to a tier, after ``uses`` uses, at least 1.

        ``depth`` blocks come before it in its prompts, ``reach`` before the last of the longest: it
        is worth as much as what hangs on it, so that no tail is kept whose root is not.
        """
        move = tier.ps(self._bytes)
        if self._ttft and (depth + 1) * move > self._ttft:
            return False
        return uses * (self.compute_ps(reach) - move) > (uses + 1) * move
