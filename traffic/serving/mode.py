"""How instances serve: apart or together, in what order, and what they do when memory is short.

Disaggregated: one pool prefills, another decodes, and the KV cache crosses the fabric. Colocated:
every instance does both for its own requests, prompts being cut into chunks that share the steps
of the decoding batch (Agrawal et al., Sarathi-Serve, OSDI 2024), and no cache moves.
"""

from dataclasses import dataclass
from typing import Final

from topo.unit import rate_text
from traffic.error import ServingError

MODES: Final = ("disaggregated", "colocated")
RESERVES: Final = ("whole", "prompt")
PREEMPTIONS: Final = ("recompute", "swap")
ORDERS: Final = ("arrival", "priority")

DEFAULT_CHUNK_TOKENS: Final = 2048
"""Tokens of one step (vLLM's max_num_batched_tokens; docs/configuration/optimization.md of
v0.17.1 names 2048 as the small value that favours the latency between tokens)."""


@dataclass(frozen=True, slots=True)
class Serving:
    """The rules of the instances.

    mode: ``disaggregated`` or ``colocated``.
    chunk_tokens: tokens of one step where prompts are chunked: of every decoding sequence one,
        and of prompts what is left (in colocated mode, and where a prompt is computed again).
    reserve: KV memory that a sequence holds when it enters: of its ``whole`` input and output, so
        that it never runs out; or of its ``prompt``, growing token by token.
    preemption: what happens to the latest arrival (of the lowest priority, where priorities act)
        when a batch outgrows the memory: its cache is dropped and later computed again
        (``recompute``, vLLM's way in V1), or copied to the host and back (``swap``) at ``swap_bps``
        bits a second, while the batch waits.
    order: who goes first in every line: ``arrival``, first come first served, or ``priority``,
        the larger one, first come within it.
    """

    mode: str = "disaggregated"
    chunk_tokens: int = DEFAULT_CHUNK_TOKENS
    reserve: str = "whole"
    preemption: str = "recompute"
    swap_bps: int = 0
    order: str = "arrival"

    def __post_init__(self) -> None:
        for key, known in (
            ("mode", MODES),
            ("reserve", RESERVES),
            ("preemption", PREEMPTIONS),
            ("order", ORDERS),
        ):
            value: str = getattr(self, key)
            if value not in known:
                raise ServingError(
                    f"serving.{key} {value[:40]!r}: not modelled; write {' or '.join(known)}"
                )
        if self.chunk_tokens < 1:
            raise ServingError(f"serving.chunk {self.chunk_tokens}: write tokens, e.g. 2048")
        if (self.preemption == "swap") != (self.swap_bps > 0):
            raise ServingError(
                f"serving.preemption {self.preemption} with a swap rate of "
                f"{rate_text(self.swap_bps)}: only swap copies, and needs a rate; write e.g. "
                "preemption: swap, swap: 400Gbps"
            )
        if self.preemption == "swap" and self.reserve == "whole":
            raise ServingError(
                "serving.preemption swap with serving.reserve whole: memory for the whole sequence "
                "never runs out; write reserve: prompt"
            )

    @property
    def grows(self) -> bool:
        """Whether sequences grow into memory that nobody reserved for them."""
        return self.reserve == "prompt"

    def check_batch(self, max_batch: int) -> None:
        """Refuse a batch that leaves a step no token for prompts."""
        if max_batch >= self.chunk_tokens:
            raise ServingError(
                f"max_batch {max_batch}: one token each leaves nothing of serving.chunk "
                f"{self.chunk_tokens} for prompts; write a larger chunk or a smaller batch"
            )
