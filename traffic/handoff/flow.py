"""One hand-off as flows: the KV cache of a prompt, from a prefill to a decode instance.

Which rank sends what to which rank is `traffic.handoff.reshard`'s; how many descriptors (work
requests) carry it, `traffic.handoff.descriptor`'s; which layers move together,
`traffic.handoff.layer`'s. Here a `Handoff` says how a deployment does it, and `flows` writes the
rows. Sizes are payload bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from topo.unit import rate_text, show_size, size_text
from traffic.draw import mix
from traffic.emulator import FLOW
from traffic.error import HandoffError
from traffic.handoff.descriptor import block_descriptors, row_descriptors
from traffic.handoff.layer import Layers, all_layers
from traffic.handoff.orchestration import NONE, Orchestration
from traffic.handoff.reshard import Move, moves
from traffic.model import Model

DEFAULT_BLOCK_BYTES: Final = 256 * 2**10
"""Bytes that one descriptor carries.

A choice inside a wide range of reports: 128 KB is the smallest transfer that Mooncake measures
(FAST'25, section 5.4.1), 94 kB is the mean of vllm-project/vllm#50913 (167 MB in 1,785
descriptors), 5.7 to 11.3 MB those of ai-dynamo/nixl#1401.
"""

DEFAULT_PRIORITY: Final = 3
"""The class of the data: priorities 3 and 4 are lossless in SONiC's default qos_config.j2."""

_CHOICES: Final = {
    "when": ("after_prefill", "layer_wise"),
    "direction": ("push", "pull"),
    "layout": ("nhd", "hnd"),
    "staging": ("none", "gpu", "host"),
}


@dataclass(frozen=True, slots=True)
class Handoff:
    """How the KV cache moves.

    block_bytes: bytes a descriptor, at least 1. block_tokens: tokens of one block of the engine's
        paged cache; when above 0 it decides the descriptors, and ``block_bytes`` does not.
    when: ``after_prefill``, all bytes are released together; ``layer_wise``, as layers finish,
        ``layers_per_chunk`` at a time.
    direction: ``push``, the prefill side writes; ``pull``, the decode side asks and reads.
    priority: 0..7, the class of its flows on the network. classes: that class for requests of
        priority 0, 1, .. 7, in place of ``priority``; empty or eight of them.
    merged: share of the borders between blocks that are contiguous on both sides, see
        `traffic.handoff.descriptor.runs`; of blocks in tokens only.
    layout: order inside a block, ``nhd`` (token before head) or ``hnd`` (head before token). Where
        the two sides cut the heads differently a slice is contiguous for one token in ``nhd``, and
        for a whole block in ``hnd``.
    staging: ``gpu`` gathers what a rank sends into one buffer a layer and scatters it on the other
        side, each at ``copy_bps`` (bits of cache a second, both reading and writing counted in).
        ``host`` does so through the memory of the server, whose ``copy_bps`` all its GPUs share.
    cache_bytes: prefix blocks that each decode instance keeps of earlier prompts, beside the memory
        of running sequences; they do not move again (`traffic.cache.block`).
    orchestration: what the transfer waits for beside its bytes.
    """

    block_bytes: int = DEFAULT_BLOCK_BYTES
    when: str = "after_prefill"
    direction: str = "push"
    priority: int = DEFAULT_PRIORITY
    classes: tuple[int, ...] = ()
    block_tokens: int = 0
    merged: float = 0.0
    layout: str = "nhd"
    staging: str = "none"
    copy_bps: int = 0
    layers_per_chunk: int = 1
    cache_bytes: int = 0
    orchestration: Orchestration = NONE

    def __post_init__(self) -> None:
        if self.block_bytes < 1:
            raise HandoffError(
                f"handoff.block {size_text(self.block_bytes)}: must be at least 1B; write e.g. "
                "256KiB"
            )
        for key, known in _CHOICES.items():
            value: str = getattr(self, key)
            if value not in known:
                raise HandoffError(
                    f"handoff.{key} {value[:40]!r}: not modelled; write {' or '.join(known)}"
                )
        if not 0 <= self.priority <= 7:
            raise HandoffError(f"handoff.priority {self.priority}: write 0 to 7")
        if len(self.classes) not in (0, 8) or not all(0 <= c <= 7 for c in self.classes):
            raise HandoffError(
                f"handoff.classes {list(self.classes)}: write eight classes of 0 to 7, those of "
                "requests of priority 0, 1, .. 7, e.g. [3, 3, 3, 3, 3, 4, 4, 4]"
            )
        if self.block_tokens < 0:
            raise HandoffError(f"handoff.block {self.block_tokens} tokens: write e.g. 16 tokens")
        if not 0 <= self.merged <= 1:
            raise HandoffError(f"handoff.merged {self.merged}: not a share; write e.g. 50%")
        if self.merged and not self.block_tokens:
            raise HandoffError(
                "handoff.merged: only blocks of tokens merge; write handoff.block in tokens, "
                "e.g. 16 tokens"
            )
        if self.staged != (self.copy_bps > 0):
            raise HandoffError(
                f"handoff.staging {self.staging} with a copy rate of "
                f"{rate_text(self.copy_bps)}: staging gpu or host copies, and needs a rate; write "
                "e.g. staging: gpu, copy: 4Tbps"
            )
        if self.cache_bytes < 0:
            raise HandoffError(f"handoff.cache {size_text(self.cache_bytes)}: write 0B or more")
        if self.layers_per_chunk < 1:
            raise HandoffError(f"handoff.layers_per_chunk {self.layers_per_chunk}: write 1 or more")
        if self.layer_wise and self.pull:
            raise HandoffError(
                "handoff.direction pull with handoff.when layer_wise: the decode side reads when "
                "the prefill has ended; write direction push or when after_prefill"
            )

    @property
    def layer_wise(self) -> bool:
        """Whether layers are released as they finish."""
        return self.when == "layer_wise"

    @property
    def pull(self) -> bool:
        """Whether the decode side reads."""
        return self.direction == "pull"

    @property
    def staged(self) -> bool:
        """Whether the cache is gathered before it is sent, and scattered after."""
        return self.staging != "none"

    def descriptors(self, model: Model, move: Move, layers: Layers, tokens: int) -> int:
        """Work requests that carry one move of these layers of a prompt of ``tokens``."""
        whole_blocks = self.staged or not move.sliced or self.layout == "hnd"
        if tokens < 1 and (self.block_tokens or not whole_blocks):
            raise HandoffError(f"hand-off of {tokens} tokens: must be at least 1")
        if not whole_blocks:
            return row_descriptors(model, layers, tokens)
        if not self.block_tokens:
            return -(-move.bytes // self.block_bytes)
        if self.staged:
            return layers.total
        return block_descriptors(model, layers, tokens, self.block_tokens, self.merged)


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
    tokens: int = 0,
    layers: Layers | None = None,
) -> NDArray[np.void]:
    """The `FLOW` rows of one hand-off, one a `traffic.handoff.reshard.Move`, numbered from
    ``first_flow``.

    ``kv_bytes`` is what moves: `Model.kv_bytes`, or those of ``layers`` where not all move
    together; ``tokens`` of the prompt are needed where they decide the descriptors. ``source`` and
    ``destination`` are the host of each rank. The rows carry ``kv_bytes`` exactly unless decode
    ranks hold copies. Entropy is a hash of (seed, request, rank of the side that has more), so
    that it depends on no order and is the same for every chunk of layers.
    """
    p, d = len(source), len(destination)
    if kv_bytes < 1:
        raise HandoffError(f"hand-off {handoff_id}: {size_text(kv_bytes)}; must be at least 1B")
    layers = layers or all_layers(model)
    rows: list[tuple[int, ...]] = []
    counted: dict[int, int] = {}  # moves of one cache differ in nothing but their bytes
    for move in moves(model, kv_bytes, p, d, seed=seed, request=request):
        sender, receiver = source[move.source], destination[move.destination]
        if sender == receiver:
            raise HandoffError(
                f"hand-off {handoff_id}: host {sender} would send {show_size(move.bytes)} to "
                "itself; give prefill and decode different hosts"
            )
        if move.bytes not in counted:
            counted[move.bytes] = handoff.descriptors(model, move, layers, tokens)
        rows.append(
            (
                first_flow + len(rows),
                handoff_id,
                sender,
                receiver,
                move.bytes,
                counted[move.bytes],
                entropy(seed, request, move.source if p > d else move.destination),
                -1,
                not handoff.pull,
                handoff.priority,
                release_ps,
            )
        )
    return np.array(rows, dtype=FLOW)


def entropy(seed: int, request: int, rank: int) -> int:
    """32 bits that spread queue pairs over paths: `traffic.draw.mix` of the three."""
    return mix(mix(mix(seed) ^ request) ^ rank) >> 32
