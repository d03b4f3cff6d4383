"""How long the steps of an instance take: what the serving loop asks, whatever answers.

A step serves the whole batch once. It holds one token of every sequence that decodes and, where
prompts are chunked into it, parts of prompts. The roofline answers here; `traffic.compute.measured`
from a table of measurements. Times are integer picoseconds.

In a mixed step the matrix products of both parts share one read of the weights (Agrawal et al.,
Sarathi-Serve, OSDI 2024): the larger of the arithmetic of all tokens and that read. The attention
of a chunk adds the causal arithmetic over what came before it, and one read of that cache.
"""

# ruff: noqa: ARG002 -- the roofline takes the protocol's arguments and needs no contexts

from collections.abc import Sequence
from typing import Protocol

from traffic.compute.roofline import (
    SHARE_SHIFT,
    DecodeCost,
    PrefillCost,
    prefill_flop,
    touched_share,
)

Chunk = tuple[int, int]
"""Tokens of a prompt that are done, and tokens that the step adds."""


class StepTime(Protocol):
    """What one instance takes; answers depend on the arguments alone and are above 0."""

    def prefill_ps(self, tokens: int) -> int:
        """One prompt of ``tokens``, at least 1, whole and alone."""
        ...

    def steps_ps(self, batch: int, context: int, read: int, steps: int) -> int:
        """``steps`` steps of ``batch`` sequences.

        They hold ``context`` tokens together at the first step, one more each at every further
        one, and read ``read`` bytes of KV cache in all these steps. Grows with ``steps``.
        """
        ...

    def mixed_ps(self, batch: int, context: int, read: int, chunks: Sequence[Chunk]) -> int:
        """One step of ``batch`` sequences, maybe none, and of at least one chunk of a prompt."""
        ...


class Roofline:
    """`StepTime` of the rooflines of `traffic.compute.roofline`.

    A whole prompt alone in a mixed step takes what its prefill takes, and a mixed step without
    chunks what a decode step takes.
    """

    def __init__(self, prefill: PrefillCost, decode: DecodeCost, kv_dtype: str | None) -> None:
        self._prefill = prefill
        self._decode = decode
        self._dtype = kv_dtype
        self._whole: dict[int, int] = {}
        self._base: dict[int, int] = {}

    def prefill_ps(self, tokens: int) -> int:
        """As `PrefillCost.ps`, kept."""
        found = self._whole.get(tokens)
        if found is None:
            found = self._whole[tokens] = self._prefill.ps(tokens)
        return found

    def steps_ps(self, batch: int, context: int, read: int, steps: int) -> int:
        """The matrix products of every step and one read of all the cache (`DecodeCost`)."""
        base = self._base.get(batch)
        if base is None:
            base = self._base[batch] = self._decode.base_ps(batch)
        return steps * base + self._decode.kv_ps(read)

    def mixed_ps(self, batch: int, context: int, read: int, chunks: Sequence[Chunk]) -> int:
        """One read of the weights for all tokens, or their arithmetic, and the caches read."""
        cost, model = self._prefill, self._prefill.model
        ps, flop = cost.ps_per_flop
        tokens, flops = batch, 0
        for done, more in chunks:
            tokens += more
            flops += prefill_flop(model, done + more) - prefill_flop(model, done)
            read += model.kv_bytes(done, self._dtype)
        arithmetic = self._decode.sequence_ps * batch + flops * ps // flop
        share = touched_share(model.experts, model.experts_per_token, tokens)
        weights = cost.dense_ps + (cost.expert_ps * share >> SHARE_SHIFT)
        return max(arithmetic, weights) + self._decode.kv_ps(read)
