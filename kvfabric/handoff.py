"""The scenario's hand-off: as the traffic room takes it, and as a report tells it."""

from kvfabric.quantity import TokenBlock
from kvfabric.scenario import HandoffPart
from topo.unit import show_duration, show_rate, show_size
from traffic.handoff import DEFAULT_BLOCK_BYTES, Handoff


def handoff_of(part: HandoffPart) -> Handoff:
    """How the KV cache moves; what cannot be is a `HandoffError`."""
    tokens = isinstance(part.block, TokenBlock)
    return Handoff(
        block_bytes=DEFAULT_BLOCK_BYTES if tokens else int(part.block),
        when=part.when,
        direction=part.direction,
        block_tokens=int(part.block) if tokens else 0,
        merged=float(part.merged),
        layout=part.layout,
        staging=part.staging,
        copy_bps=0 if part.copy is None else int(part.copy),
        layers_per_chunk=part.layers_per_chunk,
    )


def handoff_told(part: HandoffPart) -> str:
    """Every setting of the hand-off in one line."""
    when = "after prefill"
    if part.when == "layer_wise":
        each = "a layer" if part.layers_per_chunk == 1 else f"{part.layers_per_chunk} layers"
        when = f"layer by layer, {each} a chunk"
    if isinstance(part.block, TokenBlock):
        block = f"{int(part.block)} tokens"
        if part.merged:
            block += f" ({part.merged:.3g} of the borders merged)"
    else:
        block = show_size(part.block)
    told = f"{part.direction} {when}, blocks of {block}, "
    told += f"{show_duration(part.per_descriptor)} a descriptor"
    if part.layout != "nhd":
        told += f", layout {part.layout}"
    if part.copy is not None:
        told += f", staged on the GPU at {show_rate(part.copy)} at both ends"
    return told
