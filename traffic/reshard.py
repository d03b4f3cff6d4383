"""Which rank sends what to which rank when tensor parallelism differs between the two sides.

With p prefill ranks, d decode ranks, H KV heads and a cache of S bytes:

| case | flows | bytes a flow | source |
|---|---|---|---|
| p = d | rank i to rank i | S / d | vLLM's NIXL connector |
| p < d | rank r reads from floor(r p / d): d / p flows leave a rank | S / d | vllm#18833 |
| p > d | rank r gathers from p / d ranks | S / p | sglang#6793 |
| d > H | copied heads: every rank still needs its head | S / H | vllm#19691 |
| MLA | every decode rank needs the whole latent from one rank | S | sglang#5681 |

Where several prefill ranks hold the same bytes (MLA, and p > H), one of the candidates is drawn by
(seed, request, rank): SGLang draws for MLA; to draw for copied heads as well is a choice made here.
"""

from typing import Final, NamedTuple

from traffic.draw import draw
from traffic.error import HandoffError
from traffic.model import Model

_RANK_BITS: Final = 16


class Move(NamedTuple):
    """Bytes from one rank to another.

    ``sliced``: the two sides cut the heads differently, so that the bytes of one token in one
    layer lie together on both sides, and those of two tokens need not.
    """

    source: int
    destination: int
    bytes: int
    sliced: bool


def check_pair(model: Model, prefill_tp: int, decode_tp: int) -> None:
    """Refuse a pair of degrees between which a hand-off cannot be made, before a run.

    Raises `ComputeError` for heads that do not divide over a side, `HandoffError` for two degrees
    of which neither divides the other.
    """
    model.check_tp(prefill_tp)
    model.check_tp(decode_tp)
    if prefill_tp % decode_tp and decode_tp % prefill_tp:
        raise HandoffError(
            f"prefill tp {prefill_tp} to decode tp {decode_tp}: neither divides the other, and the "
            "connectors of vLLM and SGLang pair no such ranks; write a multiple or the same tp"
        )


def rank_pairs(prefill_tp: int, decode_tp: int) -> list[tuple[int, int]]:
    """The (prefill, decode) ranks between which bytes may move, whatever the model.

    >>> rank_pairs(2, 4)
    [(0, 0), (0, 1), (1, 2), (1, 3)]
    """
    most = max(prefill_tp, decode_tp)
    return [(i * prefill_tp // most, i * decode_tp // most) for i in range(most)]


def moves(
    model: Model,
    kv_bytes: int,
    prefill_tp: int,
    decode_tp: int,
    *,
    seed: int = 0,
    request: int = 0,
) -> list[Move]:
    """The moves of one cache, in rank order; a rank whose share is empty has none.

    Every decode rank gets the bytes it holds, once. The remainders of the division go to the first
    parts, as in `Model.rank_bytes`. ``seed`` and ``request`` choose among ranks that hold copies.

    >>> from traffic.model import model
    >>> [(m.source, m.destination, m.bytes) for m in moves(model("Llama-3.1-8B"), 10, 4, 2)]
    [(0, 0, 3), (1, 0, 3), (2, 1, 2), (3, 1, 2)]
    """
    check_pair(model, prefill_tp, decode_tp)
    sliced = model.shards(prefill_tp) != model.shards(decode_tp)
    if prefill_tp <= decode_tp:
        fan_out = decode_tp // prefill_tp
        held = model.rank_bytes(kv_bytes, decode_tp)
        return [Move(r // fan_out, r, size, sliced) for r, size in enumerate(held) if size]
    fan_in = prefill_tp // decode_tp
    held = model.rank_bytes(kv_bytes, prefill_tp)
    alike = min(prefill_tp // model.shards(prefill_tp), fan_in)
    found: list[Move] = []
    for first in range(0, prefill_tp, alike):
        source = first
        if alike > 1:
            key = (request << _RANK_BITS) | first
            source += draw(seed, "hand-off source", key, alike)
        if held[source]:
            found.append(Move(source, first // fan_in, held[source], sliced))
    return found
