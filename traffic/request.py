"""The requests of a run as one table of equal-length columns.

Row order is arrival order and the row number is the request's id. Arrivals are integer
picoseconds since the start of the run, lengths are tokens. An output of 0 tokens ends with its
prefill; one of 1 token takes a single decode step. Prefix blocks, where a trace has them, are
stored as one flat list with offsets (CSR), because requests have from one to hundreds.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from traffic.emulator import Table
from traffic.error import RequestError

NO_SESSION: Final = -1
"""The session of a request that belongs to none."""

PRIORITIES: Final = 8
"""Priorities are 0..7, as the eight 802.1p classes of a fabric."""


_COLUMNS: Final = (
    *("arrival_ps", "input_tokens", "output_tokens"),
    *("session", "tenant", "priority"),
)


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """The prefix blocks of every request.

    Request r owns blocks[first[r] : first[r + 1]]; equal numbers mean equal content *and* equal
    content before it, so that a shared head of the list is a shared prefix. Each block stands for
    ``block_tokens`` tokens; the last block of a request may be partial.
    """

    first: NDArray[np.int64]
    blocks: NDArray[np.int64]
    block_tokens: int

    def of(self, request: int) -> NDArray[np.int64]:
        """The blocks of one request, first token first."""
        return self.blocks[self.first[request] : self.first[request + 1]]


@dataclass(frozen=True, slots=True, eq=False)
class RequestTable:
    """Requests in arrival order; build one with `request_table`.

    Invariants, each refused with a `RequestError` that names the row: columns have equal length,
    arrivals are not negative and never decrease, inputs have at least 1 token, outputs at least 0,
    priorities are 0..7, and prefix offsets span the block list. Columns are read-only. ``model``
    numbers the served model of each request, None where there is one.
    """

    arrival_ps: NDArray[np.int64]
    input_tokens: NDArray[np.int32]
    output_tokens: NDArray[np.int32]
    session: NDArray[np.int64]
    tenant: NDArray[np.int32]
    priority: NDArray[np.uint8]
    prefix: Prefix | None = None
    model: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        count = len(self.arrival_ps)
        for name in _COLUMNS[1:]:
            found = len(getattr(self, name))
            if found != count:
                raise RequestError(
                    f"requests: column {name} has {found} rows, arrival_ps has {count}; "
                    "give every column one value a request"
                )
        _refuse(self.arrival_ps, self.arrival_ps < 0, "arrival_ps", "write 0 or later")
        back = np.zeros(count, np.bool_)
        np.less(self.arrival_ps[1:], self.arrival_ps[:-1], out=back[1:])
        _refuse(self.arrival_ps, back, "arrival_ps", "is before the row above it; sort by arrival")
        _refuse(self.input_tokens, self.input_tokens < 1, "input_tokens", "write at least 1")
        _refuse(self.output_tokens, self.output_tokens < 0, "output_tokens", "write at least 0")
        _refuse(self.priority, self.priority >= PRIORITIES, "priority", "write 0 to 7")
        if self.prefix is not None:
            _check_prefix(self.prefix, count)
        if self.model is not None and len(self.model) != count:
            raise RequestError(
                f"requests: column model has {len(self.model)} rows, arrival_ps has {count}; "
                "give every request one"
            )
        for name in _COLUMNS:
            getattr(self, name).setflags(write=False)

    def __len__(self) -> int:
        return len(self.arrival_ps)

    @property
    def request(self) -> NDArray[np.int64]:
        """The ids: 0, 1, 2, ..."""
        return np.arange(len(self), dtype=np.int64)

    @property
    def span_ps(self) -> int:
        """From the first arrival to the last, picoseconds; 0 when there are fewer than two."""
        return int(self.arrival_ps[-1] - self.arrival_ps[0]) if len(self) else 0

    def columns(self) -> Table:
        """The scalar columns by name, ready for a Parquet file; prefix blocks are not among them.

        ``request arrival_ps input_tokens output_tokens session tenant priority``.
        """
        return {"request": self.request, **{name: getattr(self, name) for name in _COLUMNS}}

    def between(self, first: int, after: int, arrival_ps: NDArray[np.int64]) -> "RequestTable":
        """Rows ``first`` to ``after`` - 1 with arrivals that never decrease; other columns are
        views, so that a part of a large table costs nothing."""
        prefix = self.prefix
        if prefix is not None:
            offsets = prefix.first[first : after + 1]
            low, high = int(offsets[0]), int(offsets[-1])
            prefix = Prefix(offsets - low, prefix.blocks[low:high], prefix.block_tokens)
        return RequestTable(
            arrival_ps=arrival_ps,
            input_tokens=self.input_tokens[first:after],
            output_tokens=self.output_tokens[first:after],
            session=self.session[first:after],
            tenant=self.tenant[first:after],
            priority=self.priority[first:after],
            prefix=prefix,
            model=None if self.model is None else self.model[first:after],
        )

    def take(self, rows: NDArray[np.int64], arrival_ps: NDArray[np.int64]) -> "RequestTable":
        """The given rows with new arrivals, stably sorted by them and numbered again from 0."""
        order = np.argsort(arrival_ps, kind="stable")
        rows = rows[order]
        prefix = None
        if self.prefix is not None:
            counts = np.diff(self.prefix.first)[rows]
            first = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))
            inside = np.arange(first[-1]) - np.repeat(first[:-1], counts)
            blocks = self.prefix.blocks[np.repeat(self.prefix.first[rows], counts) + inside]
            prefix = Prefix(first, blocks, self.prefix.block_tokens)
        return RequestTable(
            arrival_ps=arrival_ps[order],
            input_tokens=self.input_tokens[rows],
            output_tokens=self.output_tokens[rows],
            session=self.session[rows],
            tenant=self.tenant[rows],
            priority=self.priority[rows],
            prefix=prefix,
            model=None if self.model is None else self.model[rows],
        )


def request_table(
    *,
    arrival_ps: ArrayLike,
    input_tokens: ArrayLike,
    output_tokens: ArrayLike,
    session: ArrayLike | None = None,
    tenant: ArrayLike | None = None,
    priority: ArrayLike | None = None,
    prefix: Prefix | None = None,
) -> RequestTable:
    """A checked table from any whole-number sequences of equal length.

    Left out: session -1 (none), tenant 0, priority 0. Values that are not whole numbers or do not
    fit their column are refused with a `RequestError`.

    >>> table = request_table(arrival_ps=[0, 5], input_tokens=[550, 9], output_tokens=[150, 0])
    >>> len(table), table.request.tolist(), table.span_ps
    (2, [0, 1], 5)
    """
    arrival = _whole("arrival_ps", arrival_ps, np.int64)
    count = len(arrival)
    return RequestTable(
        arrival_ps=arrival.astype(np.int64),
        input_tokens=_whole("input_tokens", input_tokens, np.int32).astype(np.int32),
        output_tokens=_whole("output_tokens", output_tokens, np.int32).astype(np.int32),
        session=_or("session", session, np.int64, count, NO_SESSION).astype(np.int64),
        tenant=_or("tenant", tenant, np.int32, count, 0).astype(np.int32),
        priority=_or("priority", priority, np.uint8, count, 0).astype(np.uint8),
        prefix=prefix,
    )


def _or(
    name: str, values: ArrayLike | None, kind: type[np.integer], count: int, default: int
) -> NDArray[np.int64]:
    return np.full(count, default, np.int64) if values is None else _whole(name, values, kind)


def _whole(name: str, values: ArrayLike, kind: type[np.integer]) -> NDArray[np.int64]:
    given = np.asarray(values)
    if given.ndim != 1:
        raise RequestError(f"requests: column {name} has {given.ndim} dimensions; give a flat list")
    if given.size and given.dtype.kind not in "iu":
        exact = given.dtype.kind == "f" and bool(np.all(given == np.floor(given)))
        if not exact or not bool(np.all(np.isfinite(given))):
            raise RequestError(f"requests: column {name} is not whole numbers; round it first")
    limit = np.iinfo(kind)
    _refuse(given, (given < limit.min) | (given > limit.max), name, f"must fit {limit.dtype}")
    return given.astype(np.int64)


def _refuse(values: NDArray[np.generic], bad: NDArray[np.bool_], name: str, remedy: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise RequestError(f"requests: row {row}: {name} {values[row]}: {remedy}")


def _check_prefix(prefix: Prefix, count: int) -> None:
    first = prefix.first
    if len(first) != count + 1 or first[0] != 0 or int(first[-1]) != len(prefix.blocks):
        raise RequestError(
            f"requests: prefix offsets do not span {count} requests and {len(prefix.blocks)} "
            "blocks; give one offset a request and one more, from 0 to the number of blocks"
        )
    if bool(np.any(np.diff(first) < 0)):
        raise RequestError("requests: prefix offsets decrease; give them in request order")
    if prefix.block_tokens < 1:
        raise RequestError(
            f"requests: prefix block of {prefix.block_tokens} tokens; write at least 1, e.g. 512"
        )
