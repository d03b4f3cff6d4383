"""The scenario's hand-off: as the traffic room takes it, and as a report tells it."""

from kvfabric.quantity import TokenBlock
from kvfabric.scenario import HandoffPart, OrchestrationPart
from topo.unit import show_duration, show_rate, show_size
from traffic.handoff.flow import DEFAULT_BLOCK_BYTES, Handoff
from traffic.handoff.orchestration import Orchestration


def handoff_of(part: HandoffPart) -> Handoff:
    """How the KV cache moves; what cannot be is a `HandoffError`."""
    tokens = isinstance(part.block, TokenBlock)
    around = part.orchestration
    return Handoff(
        block_bytes=DEFAULT_BLOCK_BYTES if tokens else int(part.block),
        when=part.when,
        direction=part.direction,
        classes=part.classes or (),
        block_tokens=int(part.block) if tokens else 0,
        merged=float(part.merged),
        layout=part.layout,
        staging=part.staging,
        copy_bps=0 if part.copy is None else int(part.copy),
        layers_per_chunk=part.layers_per_chunk,
        cache_bytes=int(part.cache or 0),
        orchestration=Orchestration(
            dispatch_ps=int(around.dispatch),
            routers=around.routers,
            handshake_ps=int(around.handshake),
            align=around.align,
            message_bytes=int(around.message or 0),
        ),
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
        where = "on the GPU" if part.staging == "gpu" else "through the server's memory"
        told += f", staged {where} at {show_rate(part.copy)} at both ends"
    if part.cache is not None:
        told += f", {show_size(part.cache)} of earlier prompts kept a decode instance"
    return told


def orchestration_told(part: OrchestrationPart) -> str:
    """What a hand-off waits for beside its bytes, in one line."""
    told: list[str] = []
    if part.dispatch:
        at_once = f", {part.routers} at a time" if part.routers else ""
        told.append(f"dispatch {show_duration(part.dispatch)}{at_once}")
    if part.handshake:
        told.append(f"handshake {show_duration(part.handshake)} once a pair of instances")
    if part.align:
        told.append("posted at a step boundary of the decode engine")
    if part.message is not None:
        told.append(f"control messages of {show_size(part.message)} over the fabric")
    return ", ".join(told) or "the control delay alone"
