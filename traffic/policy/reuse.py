"""How much of a prompt each instance holds already, for the policies that look at prefix caches.

Without a `PrefixView` in the run, or without block hashes on the request, nobody holds anything,
and these policies fall back on load alone.
"""

import numpy as np
from numpy.typing import NDArray

from traffic.policy.choice import Request, View


def prefill_blocks(request: Request, view: View) -> NDArray[np.int64]:
    """First blocks of the prompt held, by prefill instance."""
    if view.prefix is None or not request.blocks:
        return np.zeros(len(view.prefill_requests), np.int64)
    return view.prefix.matched(request.blocks)


def decode_blocks(request: Request, view: View) -> NDArray[np.int64]:
    """First blocks of the prompt held, by decode instance."""
    if view.prefix is None or not request.blocks:
        return np.zeros(len(view.decode_requests), np.int64)
    return view.prefix.matched_decode(request.blocks)


def pool_blocks(request: Request, view: View) -> int:
    """First blocks of the prompt that the remote pool holds."""
    if view.prefix is None or not request.blocks:
        return 0
    return view.prefix.best(request.blocks)


def missing_tokens(request: Request, held: NDArray[np.int64]) -> NDArray[np.int64]:
    """Tokens of the prompt that are to be computed or moved where so many blocks are held."""
    return np.maximum(request.input_tokens - held * request.block_tokens, 0)
