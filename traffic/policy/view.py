"""What the router knows at the moment of a choice: the request, and its picture of the pools.

Instances are numbered from 0 in each pool; arrays are by instance. Whoever serves keeps the arrays
up to date in place, so that a choice copies nothing. A policy reads them and changes none.

What stands in the `View` itself is exact and immediate: real routers see it some milliseconds
late. What other parts add may be absent (``None``): a run without prefix caches has no
`PrefixView`, one whose policy does not ask for the network has no `NetworkView`.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Final, NamedTuple, Protocol, get_origin

import numpy as np
from numpy.typing import NDArray

RECENT: Final = 256
"""How many of the latest hand-offs a view remembers."""


class Request(NamedTuple):
    """What the router knows of a request.

    kv_bytes: the KV cache of its prompt.
    blocks: the hashes of its prompt's prefix blocks, the root first, each of ``block_tokens``
        tokens; none where the requests carry no hashes.
    decode: its decode instance where that is chosen first, else -1.
    """

    request: int
    input_tokens: int
    output_tokens: int
    kv_bytes: int
    session: int = -1
    tenant: int = 0
    priority: int = 0
    blocks: Sequence[int] = ()
    block_tokens: int = 0
    decode: int = -1


class PrefixView(Protocol):
    """Who holds which prefix blocks. A call costs the blocks plus the instances."""

    def matched(self, blocks: Sequence[int]) -> NDArray[np.int64]:
        """By prefill instance: how many of the first blocks it holds, in any tier of its own."""
        ...

    def matched_decode(self, blocks: Sequence[int]) -> NDArray[np.int64]:
        """By decode instance: how many of the first blocks it holds."""
        ...

    def best(self, blocks: Sequence[int]) -> int:
        """How many of the first blocks the remote pool holds."""
        ...


class NetworkView(Protocol):
    """The fabric between the instances, as it was at ``at_ps``.

    Each answer is prefill x decode: the whole, or the row of a prefill and the column of a decode
    instance where one is given. A pair is spread over its equal-cost paths, ports of one hop
    counting by the share of the traffic that they would get. A pair without a path is at
    utilisation 1, paused 1, and at a rate of 0.
    """

    @property
    def at_ps(self) -> int:
        """When the picture was taken."""
        ...

    def queued_ps(self, prefill: int | None = None, decode: int | None = None) -> NDArray[np.int64]:
        """The time that the bytes queued on the way need, all hops together."""
        ...

    def utilisation(
        self, prefill: int | None = None, decode: int | None = None
    ) -> NDArray[np.float64]:
        """The share of time that the busiest hop was sending, 0 to 1."""
        ...

    def paused(self, prefill: int | None = None, decode: int | None = None) -> NDArray[np.float64]:
        """The share of ports that stand paused at the hop with most of them, 0 to 1."""
        ...

    def rate_bps(self, prefill: int | None = None, decode: int | None = None) -> NDArray[np.int64]:
        """The rate of the slowest hop, the ports that a single flow may take counting once."""
        ...


class TimeView(Protocol):
    """How long the instances of a service take, as their router would predict it; picoseconds."""

    def prefill_ps(self, tokens: int, cached: int = 0) -> int:
        """One prompt alone, of which the first ``cached`` tokens need not be computed."""
        ...

    def step_ps(self, batch: int, tokens: int) -> int:
        """One decode step of ``batch`` sequences that hold ``tokens`` together."""
        ...


@dataclass(slots=True)
class View:
    """The router's picture of the pools at ``now_ps``.

    prefill_requests, prefill_tokens: prompts that wait for prefill or are in it.
    decode_requests, decode_bytes: requests from the choice of their decode instance to their last
        token, and the KV memory they need there.
    hops: prefill x decode, links crossed, -1 where there is no path.
    decode_capacity_bytes: KV memory of a decode instance.
    prefill_running: of the prompts, those that are being computed.
    prefill_free_ps: when the last of the prompts would be done, as predicted; see
        `prefill_wait_ps`.
    decode_tokens: the prompts of ``decode_requests`` together.
    decode_running: of the requests, those in the batch; the others wait for memory, their cache or
        a step.
    prefill_healthy, decode_healthy: whom the router may choose.
    handoff_ps: the latest hand-offs, the newest last: from the end of the prefill to the cache in
        its place.
    nic_share: the part of a prompt's cache that crosses the NIC with most of it when it is handed
        over: less than 1 where several ranks share it, more where one sends copies.
    prefix, network, time: what caches, fabric and instances add, where the run has it.
    """

    prefill_requests: NDArray[np.int64]
    prefill_tokens: NDArray[np.int64]
    decode_requests: NDArray[np.int64]
    decode_bytes: NDArray[np.int64]
    hops: NDArray[np.int32]
    decode_capacity_bytes: int
    prefill_running: NDArray[np.int64]
    prefill_free_ps: NDArray[np.int64]
    decode_tokens: NDArray[np.int64]
    decode_running: NDArray[np.int64]
    prefill_healthy: NDArray[np.bool_]
    decode_healthy: NDArray[np.bool_]
    now_ps: int = 0
    handoff_ps: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT))
    nic_share: float = 1.0
    prefix: PrefixView | None = None
    network: NetworkView | None = None
    time: TimeView | None = None

    @classmethod
    def idle(cls, hops: NDArray[np.int32], decode_capacity_bytes: int = 0) -> "View":
        """The view of healthy pools without load."""
        prefill, decode = hops.shape
        return cls(
            np.zeros(prefill, np.int64),
            np.zeros(prefill, np.int64),
            np.zeros(decode, np.int64),
            np.zeros(decode, np.int64),
            hops,
            decode_capacity_bytes,
            np.zeros(prefill, np.int64),
            np.zeros(prefill, np.int64),
            np.zeros(decode, np.int64),
            np.zeros(decode, np.int64),
            np.ones(prefill, np.bool_),
            np.ones(decode, np.bool_),
        )

    @property
    def prefill_wait_ps(self) -> NDArray[np.int64]:
        """By prefill instance: how long a prompt that came now would wait, as predicted."""
        return np.maximum(self.prefill_free_ps - self.now_ps, 0)


def read_only(view: View) -> View:
    """A view of the same arrays that refuses to have them written."""
    made = replace(view)
    for name in _ARRAYS:
        array = getattr(view, name).view()
        array.flags.writeable = False
        setattr(made, name, array)
    return made


_ARRAYS: Final = tuple(each.name for each in fields(View) if get_origin(each.type) is np.ndarray)
