"""Conditional disaggregation: which prompts the decode instance computes itself.

A prompt of which little is left to compute, after what the decode instance holds of it, may cost
less there than its hand-off; nothing then crosses the fabric, and the decode batch computes it in
chunks between its steps. The rules, their names and their defaults are those of ai-dynamo/dynamo
(docs "Conditional Disaggregation"; lib/kv-router, IslBoundingPolicy, PrefillLoadPolicy and
IslOrLoadPolicy).
"""

from dataclasses import dataclass
from typing import Final

from traffic.policy.choice import PolicyError, Request
from traffic.policy.view import View

WHENS: Final = ("isl_bounding", "prefill_load", "isl_or_load")


@dataclass(frozen=True, slots=True)
class Local:
    """When a prompt is computed on its decode instance.

    when: ``isl_bounding``, few tokens are left to compute: fewer than ``tokens``, and a smaller
        share of the prompt than ``ratio``; ``prefill_load``, the prefill instance is busy: more
        than ``prefill_busy`` steps of ``chunk_tokens`` wait or run there; ``isl_or_load``, either.
    decode_busy: never where the decode instance's KV memory would be promised beyond this share;
        None for no such limit.
    """

    when: str = "isl_bounding"
    tokens: int = 2048
    ratio: float = 0.7
    prefill_busy: float | None = None
    decode_busy: float | None = None

    def __post_init__(self) -> None:
        if self.when not in WHENS:
            raise PolicyError(
                f"local.when {self.when[:40]!r}: not known; write {', '.join(WHENS[:2])} "
                f"or {WHENS[2]}"
            )
        if self.tokens < 1 or not 0 < self.ratio <= 1:
            raise PolicyError(
                f"local of {self.tokens} tokens and ratio {self.ratio}: no prompt could be that "
                "small; write e.g. {tokens: 2048, ratio: 0.7}, a ratio of 1 at most"
            )
        if (self.prefill_busy is None) != (self.when == "isl_bounding"):
            raise PolicyError(
                f"local.when {self.when} {'without' if self.prefill_busy is None else 'with'} "
                "prefill_busy: it is what the two load rules compare with, in steps of "
                "serving.chunk; write e.g. {when: isl_or_load, prefill_busy: 4}"
            )
        for name, share in (("prefill_busy", self.prefill_busy), ("decode_busy", self.decode_busy)):
            if share is not None and not 0 <= share < float("inf"):
                raise PolicyError(f"local.{name} {share}: write 0 or more, e.g. 0.9")

    def holds(
        self, request: Request, pair: tuple[int, int], view: View, need: int, chunk_tokens: int
    ) -> bool:
        """Whether a prompt stays on the decode instance of the ``pair`` that its policy chose.

        ``need`` is the KV memory of its whole sequence.
        """
        prefill, decode = pair
        if self.decode_busy is not None:
            promised = int(view.decode_bytes[decode]) + need
            if promised > self.decode_busy * view.decode_capacity_bytes:
                return False
        if self.when != "prefill_load" and self._short(request, decode, view):
            return True
        busy = self.prefill_busy
        return busy is not None and int(view.prefill_tokens[prefill]) > busy * chunk_tokens

    def _short(self, request: Request, decode: int, view: View) -> bool:
        tokens = request.input_tokens
        left = tokens - held_tokens(request, decode, view)
        return left < self.tokens and left < self.ratio * tokens


def held_tokens(request: Request, decode: int, view: View) -> int:
    """Tokens of a prompt that the decode instance holds; its last token is always computed."""
    if view.prefix is None or not request.blocks:
        return 0
    held = int(view.prefix.matched_decode(request.blocks)[decode]) * request.block_tokens
    return min(held, request.input_tokens - 1)
