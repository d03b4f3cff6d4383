"""Open-loop replay: the same flows at the same times through another emulator.

The two cheap estimates of a hand-off are made this way: what was released in one run is released
again, and nothing that completes has any effect.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from topo.unit import PS_PER_S
from traffic.emulator import Emulator

_STALL_PS: Final = 1000 * PS_PER_S


def replay(
    flows: NDArray[np.void], emulator: Emulator, *, until_ps: int | None = None
) -> NDArray[np.int64]:
    """The finish of every `FLOW` row in picoseconds, -1 for one that did not finish.

    Ends when all have finished, at ``until_ps``, or 1000 s after the last release or completion.
    The emulator must be fresh.
    """
    finish = np.full(len(flows), -1, np.int64)
    if not len(flows):
        return finish
    row = {flow: i for i, flow in enumerate(flows["flow"].tolist())}
    emulator.submit(flows)
    last, left = int(flows["release_ps"].max()), len(flows)
    while left:
        horizon = last + _STALL_PS
        step = emulator.advance(horizon if until_ps is None else min(horizon, until_ps))
        if not step.completions.size:
            break
        for flow, _, at in step.completions.tolist():
            finish[row[flow]] = at
            left -= 1
        last = max(last, step.now_ps)
    return finish
