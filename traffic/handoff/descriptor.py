"""Descriptors: how many work requests carry a hand-off, and what they leave of the bandwidth.

An engine keeps the cache in *regions*, each contiguous in itself: K and V of every layer, or one
latent a layer for MLA. A region is cut into blocks of tokens, and every block takes one descriptor
(regions x blocks: vllm-project/vllm#17990, #20189) unless neighbouring blocks happen to be
contiguous on both sides, in which case engines merge them (SGLang's group_concurrent_contiguous).
Where the two sides cut the heads differently, only the bytes of one token in one region lie
together (sgl-project/sglang#19890: some 30,000 requests for one prompt).

Bandwidth against block size, for an issue cost c a descriptor and a wire of B bytes/s:

    overlapped    b / max(c, b / B)    while one is on the wire the next is issued
    serial        b / (c + b / B)      every descriptor costs its issue and its wire time

The packet engine overlaps. Reports of UCCL follow the serial law; the two differ most, by a factor
of 2, where b / B = c.
"""

from fractions import Fraction
from math import floor

from topo.unit import PS_PER_S, show_duration, show_size
from traffic.error import HandoffError
from traffic.handoff.layer import Layers
from traffic.model import Attention, Model


def regions(model: Model) -> int:
    """Contiguous regions a layer: 2 for K and V, 1 for the latent of MLA."""
    return 1 if model.attention is Attention.MLA else 2


def runs(tokens: int, block_tokens: int, merged: float = 0.0) -> int:
    """Descriptors of one region: its blocks, less the borders that are contiguous on both sides.

    ``merged`` is the share of borders between neighbouring blocks at which both sides go on in
    memory, rounded down to whole borders: 0 gives every block, 1 a single descriptor.

    >>> runs(550, 16), runs(550, 16, merged=0.5), runs(550, 16, merged=1)
    (35, 18, 1)
    """
    if tokens < 1 or block_tokens < 1:
        raise HandoffError(f"{tokens} tokens in blocks of {block_tokens}: write at least 1 of each")
    blocks = -(-tokens // block_tokens)
    if not merged:
        return blocks
    return blocks - floor(Fraction(merged).limit_denominator(10**6) * (blocks - 1))


def block_descriptors(
    model: Model, layers: Layers, tokens: int, block_tokens: int, merged: float = 0.0
) -> int:
    """Descriptors from one rank to one rank that moves whole blocks, or head slices of them.

    A sliding-window layer moves the blocks of min(tokens, window) tokens.

    >>> from traffic.handoff.layer import all_layers
    >>> from traffic.model import model
    >>> llama = model("Llama-3.1-8B")
    >>> block_descriptors(llama, all_layers(llama), 1000, 64)  # 32 layers x 2 x 16 blocks
    1024
    """
    found = layers.full * runs(tokens, block_tokens, merged)
    if layers.sliding:
        found += layers.sliding * runs(min(tokens, model.window_tokens), block_tokens, merged)
    return regions(model) * found


def row_descriptors(model: Model, layers: Layers, tokens: int) -> int:
    """Descriptors where each token of each region is a row of its own."""
    return block_descriptors(model, layers, tokens, 1)


def effective_bandwidth(
    block_bytes: float, issue_ps: float, bytes_per_s: float, *, overlapped: bool = True
) -> float:
    """Bytes/s of a long transfer in descriptors of ``block_bytes``.

    ``issue_ps`` is the cost of one descriptor, ``bytes_per_s`` what the wire gives to large ones.

    >>> effective_bandwidth(4096, 1_000_000, 12.5e9) / 1e9  # 1 us: bound by the issue
    4.096
    """
    if block_bytes <= 0 or issue_ps < 0 or bytes_per_s <= 0:
        raise HandoffError(
            f"{show_size(block_bytes)} a descriptor, {show_duration(issue_ps)}, "
            f"{show_size(bytes_per_s)}/s: write a size and a rate above 0, a time of 0 or more"
        )
    wire_ps = block_bytes / bytes_per_s * PS_PER_S
    each_ps = max(issue_ps, wire_ps) if overlapped else issue_ps + wire_ps
    return block_bytes / each_ps * PS_PER_S


def fit(
    small: tuple[float, float], large: tuple[float, float], *, overlapped: bool
) -> tuple[float, float]:
    """(issue in ps, bytes/s) of the law through two measured (block bytes, bytes/s).

    Overlapped, the small block must be bound by its issue and the large one by the wire.
    """
    (one, slow), (other, fast) = small, large
    if not 0 < one < other or not 0 < slow < fast:
        raise HandoffError(
            f"points {small} and {large}: give a small and a larger block, the larger one faster"
        )
    if overlapped:
        return one / slow * PS_PER_S, fast
    per_byte = (other / fast - one / slow) / (other - one)
    if per_byte <= 0 or one * per_byte > one / slow:
        raise HandoffError(
            f"points {small} and {large}: no issue cost and wire rate give both; give other points"
        )
    return (one / slow - one * per_byte) * PS_PER_S, 1 / per_byte
