"""What moved between the pools: which pairs talk, how far the bytes travel, and for what.

The P->D matrix holds the payload bytes of every counted hand-off, prefill instances down, decode
instances across. Byte-hops are bytes times links crossed, the load that a transfer puts on the
fabric; bytes sent again count as a cause of their own. Warm-up is left out, as in `handoffs`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
from numpy.typing import NDArray

from analysis.budget import after_warmup
from analysis.record import FINISHED, Cell

Matrix = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Movement:
    """The movement of one alternative, over its seeds.

    ``matrix`` is bytes, prefill x decode instances; ``nearest`` marks the pairs that the fabric
    makes shortest for their prefill instance. Byte-hops are ``payload_hops`` and, for what was sent
    again, ``resent_hops``; ``tokens`` counts the output tokens of finished requests.
    """

    matrix: Matrix
    nearest: NDArray[np.bool_]
    requests: int
    transfers: int
    payload_hops: int
    resent_hops: int
    tokens: int

    @property
    def pairs(self) -> int:
        """Distinct pairs that a hand-off used."""
        return int(np.count_nonzero(self.matrix))

    @property
    def drift(self) -> float:
        """The share of bytes outside ``nearest``, the mapping that the fabric is built for.

        0 when every byte goes to one of the nearest decode instances; a policy that spreads
        evenly drifts by the share of pairs that are not. NaN when nothing moved.
        """
        whole = int(self.matrix.sum())
        return int(self.matrix[~self.nearest].sum()) / whole if whole else nan

    @property
    def hops_per_request(self) -> float:
        """Byte-hops a hand-off, bytes sent again included."""
        whole = self.payload_hops + self.resent_hops
        return whole / self.requests if self.requests else nan

    @property
    def flows_per_request(self) -> float:
        """Flows a hand-off."""
        return self.transfers / self.requests if self.requests else nan

    @property
    def links_per_byte(self) -> float:
        """Links that a payload byte crossed, mean."""
        whole = int(self.matrix.sum())
        return self.payload_hops / whole if whole else nan

    @property
    def again(self) -> float:
        """The share of byte-hops that were of bytes sent again."""
        whole = self.payload_hops + self.resent_hops
        return self.resent_hops / whole if whole else nan

    @property
    def hops_per_token(self) -> float:
        """Byte-hops a useful output token: one of a request that finished."""
        whole = self.payload_hops + self.resent_hops
        return whole / self.tokens if self.tokens else nan


def distances(cells: Sequence[Cell]) -> Matrix:
    """Links between prefill and decode instances as the flows of these cells crossed them.

    The fewest of any flow of the pair; -1 where no flow went. Give every cell of one fabric: what
    no policy used is not known, and counts as not nearest.
    """
    size = _size(cells)
    far = np.iinfo(np.int64).max
    links = np.full(size, far, np.int64)
    for cell in cells:
        place, kept = _pair_of_flow(cell)
        np.minimum.at(links, place, cell.flows["hops"].astype(np.int64)[kept])
    return np.where(links == far, -1, links)


def movement(cells: Sequence[Cell], links: Matrix) -> Movement:
    """What the hand-offs of one alternative moved; ``links`` are the `distances` of its fabric."""
    matrix = np.zeros(links.shape, np.int64)
    requests = transfers = payload = resent = tokens = 0
    for cell in cells:
        if not cell.requests:
            continue
        table = after_warmup(cell)
        place, kept = _pair_of_flow(cell, table["request"])
        size, again, hops = (
            cell.flows[name].astype(np.int64)[kept] for name in ("bytes", "resent_bytes", "hops")
        )
        np.add.at(matrix, place, size)
        transfers += len(size)
        payload += int((size * hops).sum())
        resent += int((again * hops).sum())
        requests += len(np.unique(cell.flows["handoff"].astype(np.int64)[kept]))
        tokens += int(table["output_tokens"][table["status"] == FINISHED].sum())
    far = np.iinfo(np.int64).max
    known = np.where(links < 0, far, links)
    least = known.min(axis=1, keepdims=True, initial=far)
    nearest = (known == least) & (known < far)
    return Movement(matrix, nearest, requests, transfers, payload, resent, tokens)


def _size(cells: Sequence[Cell]) -> tuple[int, int]:
    """Instances of both pools, as the manifests count them or else as requests met them."""
    most = [0, 0]
    for cell in cells:
        for side, name in enumerate(("prefill", "decode")):
            met = cell.requests.get(name)
            seen = int(met.astype(np.int64).max(initial=-1)) + 1 if met is not None else 0
            most[side] = max(most[side], cell.manifest.totals.get(f"{name}_instances", 0), seen)
    return most[0], most[1]


def _pair_of_flow(
    cell: Cell, counted: NDArray[np.int64] | None = None
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]:
    """The (prefill, decode) instances of the flows of counted requests, and which flows these are.

    A flow's hand-off carries the number of its request.
    """
    request, prefill, decode, served = (
        column.astype(np.int64)
        for column in (
            *(cell.requests.get(name, _NONE) for name in ("request", "prefill", "decode")),
            cell.flows.get("handoff", _NONE),
        )
    )
    order = np.argsort(request)
    place = np.searchsorted(request[order], served)
    inside = place < len(request)
    row = order[np.where(inside, place, 0)] if len(request) else np.zeros(len(served), np.int64)
    kept = inside & (request[row] == served) if len(request) else inside
    if counted is not None:
        kept = kept & np.isin(served, counted)
    if len(request):
        kept = kept & (prefill[row] >= 0) & (decode[row] >= 0)
    return (prefill[row[kept]], decode[row[kept]]), kept


_NONE: NDArray[np.int64] = np.empty(0, np.int64)
