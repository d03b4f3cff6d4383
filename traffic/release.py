"""What has been released to the fabric, and which hand-offs are still under way.

A hand-off is handed to the emulator as soon as its release times are known: all layers at one
time, or one chunk of layers after the other. It is ready when its last byte has arrived and, where
the cache is staged, has been scattered. The copies of a hand-off take as long as the rank with the
most bytes needs; chunks before the last are scattered while later ones are on the wire.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from traffic.emulator import FLOW, Emulator
from traffic.handoff import flows
from traffic.instance import Deployment
from traffic.layer import Layers

MOMENTS: Final = (
    "admitted_ps",
    "dispatched_ps",
    "handoff_release_ps",
    "arrived_ps",
    "scattered_ps",
)
"""The moments of a hand-off, in order, each -1 where not reached: decode memory is reserved; the
first chunk may be sent; its first flow is released; the last byte has arrived; the cache lies in
its place."""


class Releases:
    """Submits hand-offs to one emulator and tells when they are ready; numbers the flows.

    ``count`` is the number of requests, whose numbers the hand-offs carry.
    """

    def __init__(
        self, deployment: Deployment, emulator: Emulator, *, count: int, seed: int
    ) -> None:
        self._deployment = deployment
        self._handoff = deployment.handoff
        self._model = deployment.prefill.model
        self._dtype = deployment.prefill.kv_dtype
        self._emulator = emulator
        self._seed = seed
        self._rows: list[bytes] = []
        self._flows = 0
        self._missing: dict[int, int] = {}
        self._scatter_ps: dict[int, int] = {}
        self._moment = {name: array("q", [-1]) * count for name in MOMENTS}

    @property
    def under_way(self) -> bool:
        """Whether some hand-off has not arrived."""
        return bool(self._missing)

    @property
    def moments(self) -> dict[str, NDArray[np.int64]]:
        """`MOMENTS` by request; some may lie beyond the present time."""
        return {name: np.array(column, np.int64) for name, column in self._moment.items()}

    def send(
        self,
        request: int,
        tokens: int,
        pair: tuple[int, int],
        chunks: Sequence[tuple[int, Layers]],
        now_ps: int,
    ) -> None:
        """Release chunks of layers from instance to instance of ``pair``, (prefill, decode).

        Each chunk leaves not before its time in picoseconds; ``now_ps`` is when decode memory was
        reserved.
        """
        moment = self._moment
        moment["admitted_ps"][request] = now_ps
        moment["dispatched_ps"][request] = chunks[0][0]
        submitted: list[NDArray[np.void]] = []
        gathered = 0
        for at_ps, layers in chunks:
            rows = flows(
                self._handoff,
                self._model,
                kv_bytes=layers.kv_bytes(self._model, tokens, self._dtype),
                source=self._deployment.prefill.instances[pair[0]],
                destination=self._deployment.decode.instances[pair[1]],
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
        moment["handoff_release_ps"][request] = int(table["release_ps"][0])

    def ready(self, completions: NDArray[np.void]) -> Iterator[tuple[int, int]]:
        """The hand-offs that `COMPLETION` rows complete: (request, when its cache is ready)."""
        for _, request, finish in completions.tolist():
            left = self._missing[request] - 1
            if left:
                self._missing[request] = left
                continue
            del self._missing[request]
            scattered = finish + self._scatter_ps.pop(request, 0)
            self._moment["arrived_ps"][request] = finish
            self._moment["scattered_ps"][request] = scattered
            yield request, scattered

    def table(self) -> NDArray[np.void]:
        """All submitted `FLOW` rows, in flow order."""
        return np.frombuffer(b"".join(self._rows), FLOW)


def _most(rows: NDArray[np.void], side: str) -> int:
    """The bytes of the host of that side with the most of them."""
    _, host = np.unique(rows[side], return_inverse=True)
    total = np.zeros(len(rows), np.int64)
    np.add.at(total, host, rows["bytes"])
    return int(total.max())
