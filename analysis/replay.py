"""Whether the seeds of an alternative replay one recorded list of requests.

Seeds draw arrivals and lengths anew, so that they are samples of a load. A recorded trace is the
same in all of them, but for arrivals inside its ticks: seeds then vary paths and the draws of
policies, and what they agree in may be no more than the record.
"""

from collections.abc import Sequence

import numpy as np

from analysis.record import Cell


def replays(cells: Sequence[Cell]) -> bool:
    """Whether two seeds serve the same lengths in the same order, where these vary at all."""
    if len(cells) < 2 or min(len(cell.requests.get("request", ())) for cell in cells) < 2:
        return False
    one, other = (
        [cell.requests[name].astype(np.int64) for name in ("input_tokens", "output_tokens")]
        for cell in cells[:2]
    )
    same = all(np.array_equal(mine, theirs) for mine, theirs in zip(one, other, strict=True))
    return same and any(bool((mine != mine[0]).any()) for mine in one)
