"""What a flow's lone time is made of: its headers, and its descriptors.

Lone is on an idle fabric (`emulate.ideal`). Beside the way through the switches it consists of the
payload at the NIC's rate, of the headers of its frames, and of what its descriptors add: the time
to issue them, and frames that are not full because each descriptor ends with one of its own.
"""

import numpy as np
from numpy.typing import NDArray

from analysis.observed import LONE
from emulate import _engine
from emulate.ideal import FRAME_OVERHEAD
from emulate.transport import Transport
from topo.unit import PS_PER_S
from traffic.emulator import Table


def lone(
    flows: NDArray[np.void], hops: NDArray[np.int64], nic_bps: int, transport: Transport
) -> Table:
    """The table of `analysis.observed.LONE`, one row a submitted `FLOW` row.

    What descriptors add is the difference of two ideals over as many ``hops``, all at the NIC's
    rate, without delay, which would cancel out, and stored and forwarded.
    """
    size, pieces = (flows[name].astype(np.int64) for name in ("bytes", "descriptors"))
    wire = size + FRAME_OVERHEAD * -(-size // transport.mtu)
    several = (pieces > 1) | (transport.issue_ps > 0)
    added = np.zeros(len(flows), np.int64)
    kinds, which = np.unique(
        np.column_stack([size, pieces, np.maximum(hops, 1)])[several], axis=0, return_inverse=True
    )
    cost = [_added(s, d, h, nic_bps, transport) for s, d, h in kinds.tolist()]
    added[several] = np.array(cost, np.int64)[which.reshape(-1)] if cost else 0
    columns = (
        flows["flow"].astype(np.int64),
        -(-(wire - size) * 8 * (PS_PER_S // 10**6) // (nic_bps // 10**6)),
        added,
    )
    return dict(zip(LONE, columns, strict=True))


def _added(size: int, pieces: int, hops: int, nic_bps: int, transport: Transport) -> int:
    def ideal(descriptors: int, issue_ps: int) -> int:
        return _engine.ideal_ps(
            bytes=size,
            descriptors=descriptors,
            mtu=transport.mtu,
            issue_ps=issue_ps,
            rates_bps=[nic_bps] * hops,
            delays_ps=[0] * hops,
            recurrence=False,
        )

    return ideal(pieces, transport.issue_ps) - ideal(1, 0)
