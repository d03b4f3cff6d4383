"""What has been released to the fabric, and which hand-offs are still under way.

A hand-off is handed to the emulator as soon as its release times are known: all layers at one
time, or one chunk of layers after the other. It is ready when its last byte has arrived and, where
the cache is staged, has been scattered. The copies of a hand-off take as long as the rank with the
most bytes needs; chunks before the last are scattered while later ones are on the wire.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from traffic.emulator import FLOW, Emulator
from traffic.handoff import Handoff, flows
from traffic.layer import Layers
from traffic.model import Model


class Releases:
    """Submits hand-offs to one emulator and tells when they are ready; numbers the flows."""

    def __init__(
        self, handoff: Handoff, model: Model, kv_dtype: str | None, emulator: Emulator, seed: int
    ) -> None:
        self._handoff = handoff
        self._model = model
        self._dtype = kv_dtype
        self._emulator = emulator
        self._seed = seed
        self._rows: list[bytes] = []
        self._flows = 0
        self._missing: dict[int, int] = {}
        self._scatter_ps: dict[int, int] = {}

    @property
    def under_way(self) -> bool:
        """Whether some hand-off has not arrived."""
        return bool(self._missing)

    def send(
        self,
        request: int,
        tokens: int,
        source: Sequence[int],
        destination: Sequence[int],
        chunks: Sequence[tuple[int, Layers]],
    ) -> int:
        """Release chunks of layers, each not before its time in picoseconds.

        Returns when the first flow is released. ``source`` and ``destination`` are the host of
        each rank; the hand-off carries the request's number.
        """
        submitted: list[NDArray[np.void]] = []
        gathered = 0
        for at_ps, layers in chunks:
            rows = flows(
                self._handoff,
                self._model,
                kv_bytes=layers.kv_bytes(self._model, tokens, self._dtype),
                source=source,
                destination=destination,
                request=request,
                handoff_id=request,
                first_flow=self._flows,
                release_ps=at_ps,
                seed=self._seed,
                tokens=tokens,
                layers=layers,
            )
            if self._handoff.copy_bps:
                gathered = max(at_ps, gathered) + self._handoff.copy_ps(_most(rows, "source"))
                rows["release_ps"] = gathered
                self._scatter_ps[request] = self._handoff.copy_ps(_most(rows, "destination"))
            self._flows += len(rows)
            submitted.append(rows)
        table = np.concatenate(submitted) if len(submitted) > 1 else submitted[0]
        self._missing[request] = len(table)
        self._rows.append(table.tobytes())
        self._emulator.submit(table)
        return int(table["release_ps"][0])

    def ready(self, completions: NDArray[np.void]) -> Iterator[tuple[int, int]]:
        """The hand-offs that `COMPLETION` rows complete: (request, when its cache is ready)."""
        for _, request, finish in completions.tolist():
            left = self._missing[request] - 1
            if left:
                self._missing[request] = left
                continue
            del self._missing[request]
            yield request, finish + self._scatter_ps.pop(request, 0)

    def table(self) -> NDArray[np.void]:
        """All submitted `FLOW` rows, in flow order."""
        return np.frombuffer(b"".join(self._rows), FLOW)


def _most(rows: NDArray[np.void], side: str) -> int:
    """The bytes of the host of that side with the most of them."""
    _, host = np.unique(rows[side], return_inverse=True)
    total = np.zeros(len(rows), np.int64)
    np.add.at(total, host, rows["bytes"])
    return int(total.max())
