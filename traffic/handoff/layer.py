"""The KV cache layer by layer: what a chunk of layers holds, and when a prefill has made it.

A prefill computes its layers one after the other, and their caches are complete in that order.
Every layer is taken to need an equal share of the prefill. Layers that keep every token and
sliding-window layers are interleaved evenly (gpt-oss alternates them); layers without a KV cache
are spread evenly between the others.
"""

from typing import NamedTuple

from traffic.error import HandoffError
from traffic.model import Model


class Layers(NamedTuple):
    """So many layers that keep every token, and so many with a sliding window."""

    full: int
    sliding: int = 0

    @property
    def total(self) -> int:
        """Layers in all."""
        return self.full + self.sliding

    def kv_bytes(self, model: Model, tokens: int, dtype: str | None = None) -> int:
        """KV bytes of these layers for a context of ``tokens``; of all layers `Model.kv_bytes`."""
        held = self.full * tokens + self.sliding * min(tokens, model.window_tokens)
        return held * model.layer_token_bytes(dtype)


class Chunk(NamedTuple):
    """Layers that are released together, when ``done`` of all KV layers are computed."""

    layers: Layers
    done: int


def all_layers(model: Model) -> Layers:
    """The layers of the model that have a KV cache."""
    return Layers(model.full_layers, model.sliding_layers)


def chunks(model: Model, layers_per_chunk: int) -> tuple[Chunk, ...]:
    """The model's KV layers in order, ``layers_per_chunk`` at a time; the last may be smaller.

    Their bytes add up to those of the whole cache.

    >>> from traffic.model import model
    >>> [(c.layers.full, c.layers.sliding, c.done) for c in chunks(model("gpt-oss-120b"), 15)]
    [(7, 8, 15), (8, 7, 30), (3, 3, 36)]
    """
    if layers_per_chunk < 1:
        raise HandoffError(f"layers_per_chunk {layers_per_chunk}: write at least 1")
    whole = all_layers(model)
    found: list[Chunk] = []
    full = before = 0
    for start in range(0, whole.total, layers_per_chunk):
        done = min(start + layers_per_chunk, whole.total)
        full = done * whole.full // whole.total
        found.append(Chunk(Layers(full - before, done - start - (full - before)), done))
        before = full
    return tuple(found)
