"""One hand-off as flows: the KV cache of a prompt, from a prefill to a decode instance.

With equal tensor-parallel degrees rank i sends to rank i exactly what rank i holds: its shard of
the KV heads, a copied shard where there are more ranks than KV heads, or the whole latent for MLA
(the pairing of vLLM's NIXL connector; MLA: sgl-project/sglang#5681). Sizes are payload bytes.
The cache moves in blocks, one work request (descriptor) a block, as a write (push) after the
prefill has ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from topo.unit import show_size
from traffic.draw import mix
from traffic.emulator import FLOW
from traffic.error import HandoffError
from traffic.model import Model

DEFAULT_BLOCK_BYTES: Final = 256 * 2**10
"""Bytes that one descriptor carries.

A choice inside a wide range of reports: 128 KB is the smallest transfer that Mooncake measures
(FAST'25, section 5.4.1), 94 kB is the mean of vllm-project/vllm#50913 (167 MB in 1,785
descriptors), 5.7 to 11.3 MB those of ai-dynamo/nixl#1401.
"""

DEFAULT_PRIORITY: Final = 3
"""The class of the data: priorities 3 and 4 are lossless in SONiC's default qos_config.j2."""


@dataclass(frozen=True, slots=True)
class Handoff:
    """How the KV cache moves.

    ``block_bytes``: bytes a descriptor, at least 1. ``when``: ``after_prefill``, all bytes are
    released together. ``direction``: ``push``, the prefill side writes. ``priority``: 0..7.
    """

    block_bytes: int = DEFAULT_BLOCK_BYTES
    when: str = "after_prefill"
    direction: str = "push"
    priority: int = DEFAULT_PRIORITY

    def __post_init__(self) -> None:
        if self.block_bytes < 1:
            raise HandoffError(
                f"handoff.block {self.block_bytes} B: must be at least 1 byte; write e.g. 256KiB"
            )
        if self.when != "after_prefill":
            raise HandoffError(
                f"handoff.when {self.when[:40]!r}: not modelled; write after_prefill"
            )
        if self.direction != "push":
            raise HandoffError(
                f"handoff.direction {self.direction[:40]!r}: not modelled; write push"
            )
        if not 0 <= self.priority <= 7:
            raise HandoffError(f"handoff.priority {self.priority}: write 0 to 7")


def check_pair(model: Model, prefill_tp: int, decode_tp: int) -> None:
    """Refuse a pair of degrees between which a hand-off cannot be made, before a run."""
    if prefill_tp != decode_tp:
        raise HandoffError(
            f"prefill tp {prefill_tp} to decode tp {decode_tp}: unequal degrees are not modelled; "
            "write the same tp for both"
        )
    model.check_tp(prefill_tp)


def flows(
    handoff: Handoff,
    model: Model,
    *,
    kv_bytes: int,
    source: Sequence[int],
    destination: Sequence[int],
    request: int,
    handoff_id: int,
    first_flow: int,
    release_ps: int,
    seed: int,
) -> NDArray[np.void]:
    """The `FLOW` rows of one hand-off, one a rank, numbered from ``first_flow``.

    ``kv_bytes`` is `Model.kv_bytes` of what moves; ``source`` and ``destination`` are the host of
    each rank. The rows carry ``sum(model.rank_bytes(kv_bytes, tp))`` bytes: ``kv_bytes`` exactly
    unless ranks hold copies. A rank whose share is empty has no flow. Entropy is a hash of
    (seed, request, rank), so that it does not depend on the order of anything.
    """
    tp = len(source)
    if tp != len(destination):
        check_pair(model, tp, len(destination))
    if kv_bytes < 1:
        raise HandoffError(f"hand-off {handoff_id}: {kv_bytes} bytes; must be at least 1")
    block = handoff.block_bytes
    rows: list[tuple[int, ...]] = []
    flow = first_flow
    for rank, size in enumerate(model.rank_bytes(kv_bytes, tp)):
        if not size:
            continue
        if source[rank] == destination[rank]:
            raise HandoffError(
                f"hand-off {handoff_id}: host {source[rank]} would send {show_size(size)} to "
                "itself; give prefill and decode different hosts"
            )
        rows.append(
            (
                flow,
                handoff_id,
                source[rank],
                destination[rank],
                size,
                -(-size // block),
                entropy(seed, request, rank),
                -1,
                True,
                handoff.priority,
                release_ps,
            )
        )
        flow += 1
    return np.array(rows, dtype=FLOW)


def entropy(seed: int, request: int, rank: int) -> int:
    """32 bits that spread queue pairs over paths: `traffic.draw.mix` of the three."""
    return mix(mix(mix(seed) ^ request) ^ rank) >> 32
