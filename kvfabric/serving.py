"""The ``serving`` of a scenario: how instances serve, as the traffic room takes it and as told."""

from typing import Literal

from kvfabric.part import Part, Small
from kvfabric.quantity import Rate
from topo.unit import show_rate
from traffic.error import ServingError
from traffic.serving.mode import DEFAULT_CHUNK_TOKENS, Serving


class ServingPart(Part, frozen=True):
    """How instances serve: see docs/serving-model.md.

    ``multi_node`` is colocated serving on instances of ``span`` GPUs each, whatever `instance`
    says, whose steps wait for the collectives between their servers.
    """

    mode: Literal["disaggregated", "colocated", "multi_node"] = "disaggregated"
    span: Small | None = None
    chunk: Small = DEFAULT_CHUNK_TOKENS
    reserve: Literal["whole", "prompt"] = "whole"
    preemption: Literal["recompute", "swap"] = "recompute"
    swap: Rate | None = None
    order: Literal["arrival", "priority"] = "arrival"


def rules_of(part: ServingPart) -> Serving:
    """The rules of the instances; what cannot be is a `ServingError`."""
    if (part.mode == "multi_node") != (part.span is not None):
        raise ServingError(
            f"serving.mode {part.mode} {'without' if part.span is None else 'with'} a span: only "
            "multi_node has one, and needs it; write e.g. {mode: multi_node, span: 16}"
        )
    return Serving(
        mode="disaggregated" if part.mode == "disaggregated" else "colocated",
        chunk_tokens=part.chunk,
        reserve=part.reserve,
        preemption=part.preemption,
        swap_bps=0 if part.swap is None else int(part.swap),
        order=part.order,
    )


def serving_told(part: ServingPart) -> str:
    """Every rule in one line."""
    told = part.mode.replace("_", "-")
    if part.span is not None:
        told += f", instances of {part.span} GPUs"
    if part.mode != "disaggregated":
        told += f", at most {part.chunk} tokens a step"
    if part.reserve == "whole":
        told += ", KV memory reserved for whole sequences"
    else:
        told += f", KV memory grows, {part.preemption} when it is full"
    if part.swap is not None:
        told += f" at {show_rate(part.swap)}"
    return told + f", lines by {part.order}"


def left_out(part: ServingPart) -> list[str]:
    """What the chosen way of serving leaves out, in sentences."""
    if part.mode == "disaggregated":
        told = ["Prefill takes one prompt at a time; decode batches continuously."]
    else:
        told = ["Prompts are chunked into the steps of the batch that decodes; no cache moves."]
    if part.reserve == "prompt":
        told.append(
            "Memory is counted in tokens, not in blocks, and no watermark keeps some of it free."
        )
    if part.order == "arrival":
        told.append("Priorities are recorded; no line acts on them (`serving.order`).")
    return told
