"""Which rank sends what to which rank when tensor parallelism differs between the two sides.

With p prefill ranks, d decode ranks, H KV heads and a cache of S bytes:

| case | flows | bytes a flow | source |
|---|---|---|---|
| p = d | rank i to rank i | S / d | vLLM's NIXL connector |
| p < d | rank r reads from floor(r p / d): d / p flows leave a rank | S / d | vllm#18833 |
| p > d | rank r gathers from p / d ranks | S / p | sglang#6793 |
| d > H | copied heads: every rank still needs its head | S / H | vllm#19691 |
| MLA | every decode rank needs the whole latent from one rank | S | sglang#5681 |
| neither divides | rank r reads from all whose heads overlap its own | overlap | arithmetic |

Where several prefill ranks hold the same bytes (MLA, and p > H), one of the candidates is drawn by
(seed, request, rank): SGLang draws for MLA; to draw for copied heads as well is a choice made here.
No public connector pairs degrees of which neither divides the other; what would have to move is
computed all the same. With attention data parallelism the ranks are those of the two groups that
own the request (`traffic.instance.Pool`).
"""

from itertools import pairwise
from math import lcm
from typing import Final, NamedTuple

from traffic.draw import draw
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
    """Refuse degrees over whose ranks the heads do not divide, with a `ComputeError`."""
    model.check_tp(prefill_tp)
    model.check_tp(decode_tp)


def paired(prefill_tp: int, decode_tp: int) -> bool:
    """Whether one degree divides the other, as the connectors of vLLM and SGLang ask."""
    return prefill_tp % decode_tp == 0 or decode_tp % prefill_tp == 0


def rank_pairs(prefill_tp: int, decode_tp: int) -> list[tuple[int, int]]:
    """The (prefill, decode) ranks between which bytes may move, whatever the model.

    Those whose shares of the ranks overlap, p + d - gcd(p, d) of them.

    >>> rank_pairs(2, 4)
    [(0, 0), (0, 1), (1, 2), (1, 3)]
    >>> rank_pairs(2, 3)
    [(0, 0), (0, 1), (1, 1), (1, 2)]
    """
    found, i, j = [], 0, 0
    while i < prefill_tp and j < decode_tp:
        found.append((i, j))
        one, other = (i + 1) * decode_tp, (j + 1) * prefill_tp
        i += one <= other
        j += other <= one
    return found


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
    if not paired(prefill_tp, decode_tp):
        return _overlaps(model, kv_bytes, prefill_tp, decode_tp, seed, request)
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


def _overlaps(
    model: Model, kv_bytes: int, prefill_tp: int, decode_tp: int, seed: int, request: int
) -> list[Move]:
    """The moves between degrees of which neither divides the other, by destination."""
    pieces = lcm(model.shards(prefill_tp), model.shards(decode_tp))
    here, there = (_parts(model, kv_bytes, tp, pieces) for tp in (prefill_tp, decode_tp))
    sliced = model.shards(prefill_tp) != model.shards(decode_tp)
    holders: dict[tuple[int, int, int], list[int]] = {}
    for source, destination in rank_pairs(prefill_tp, decode_tp):
        (first, last), (start, end) = here[source], there[destination]
        part = (destination, max(first, start), min(last, end))
        if part[1] < part[2]:
            holders.setdefault(part, []).append(source)
    found: list[Move] = []
    for (destination, start, end), ranks in holders.items():
        key = (request << _RANK_BITS) | destination
        source = ranks[draw(seed, "hand-off source", key, len(ranks))]
        found.append(Move(source, destination, end - start, sliced))
    return sorted(found, key=lambda move: (move.destination, move.source))


def _parts(model: Model, kv_bytes: int, tp: int, pieces: int) -> list[tuple[int, int]]:
    """The bytes of the cache, from - to, that each of ``tp`` ranks holds.

    Both sides cut along the edges of the same ``pieces``, the remainder of the division going to
    the first: edges of their own would lie a byte apart where they should meet.
    """
    shards = model.shards(tp)
    each, rest = divmod(kv_bytes, pieces)
    edges = [place * each + min(place, rest) for place in range(0, pieces + 1, pieces // shards)]
    parts = list(pairwise(edges))
    return [parts[rank * shards // tp] for rank in range(tp)]
