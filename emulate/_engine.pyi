from collections.abc import Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray

DATA_OVERHEAD: int = 82

ACK_WIRE: int = 86

CNP_WIRE: int = 98

PAUSE_WIRE: int = 84

STORED_LESS: int = 20

class FabricSetting:
    pass

class RouteSetting:
    pass

class DisciplineSetting:
    pass

class TransportSetting:
    pass

class DcqcnSetting:
    pass

def fabric_setting(
    *,
    first: Annotated[
        NDArray[numpy.int32], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
    node: Annotated[
        NDArray[numpy.int32], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
    reverse: Annotated[
        NDArray[numpy.int32], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
    rate_bps: Annotated[
        NDArray[numpy.int64], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
    delay_ps: Annotated[
        NDArray[numpy.int64], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
    is_switch: Annotated[
        NDArray[numpy.uint8], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
    buffer_bytes: Annotated[
        NDArray[numpy.int64], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
    latency_ps: Annotated[
        NDArray[numpy.int64], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
) -> FabricSetting: ...
def route_setting(
    *,
    groups: int,
    group: Annotated[
        NDArray[numpy.int32], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
    first: Annotated[
        NDArray[numpy.int32], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
    ports: Annotated[
        NDArray[numpy.int32], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
    host_first: Annotated[
        NDArray[numpy.int32], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
    host_ports: Annotated[
        NDArray[numpy.int32], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
) -> RouteSetting: ...
def discipline_setting(
    *,
    lossless: int,
    strict: int,
    mark_at_dequeue: bool,
    weight: Sequence[int],
    alpha_q16: int,
    egress_alpha_q16: int,
    reserve_bytes: int,
    xon_offset_bytes: int,
    headroom_bytes: Annotated[
        NDArray[numpy.int64], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
    kmin_bytes: Annotated[
        NDArray[numpy.int64], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
    kmax_bytes: Annotated[
        NDArray[numpy.int64], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
    pmax_q32: Annotated[
        NDArray[numpy.uint64], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
    response_ps: Annotated[
        NDArray[numpy.int64], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
) -> DisciplineSetting: ...
def dcqcn_setting(
    *,
    alpha_period_ps: int,
    cut_period_ps: int,
    increase_period_ps: int,
    increase_bytes: int,
    keep_q10: int,
    initial_q10: int,
    gd_shift: int,
    least_percent: int,
    recovery: int,
    clamp: bool,
    clamp_after_timer: bool,
    least_bps: int,
    additive_bps: int,
    hyper_bps: int,
) -> DcqcnSetting: ...
def transport_setting(
    *,
    mtu: int,
    ack_every: int,
    window: int,
    timeout_ps: int,
    issue_ps: int,
    cnp_interval_ps: int,
    cnp_priority: int,
    controlled: bool,
    dcqcn: DcqcnSetting,
    least_bps: Annotated[
        NDArray[numpy.int64], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
    additive_bps: Annotated[
        NDArray[numpy.int64], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
    hyper_bps: Annotated[
        NDArray[numpy.int64], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
) -> TransportSetting: ...

class Reference:
    def __init__(
        self,
        *,
        fabric: FabricSetting,
        routes: RouteSetting,
        discipline: DisciplineSetting,
        transport: TransportSetting,
        seed: int,
        tick_ps: int,
    ) -> None: ...
    def submit(
        self,
        *,
        flow: Annotated[
            NDArray[numpy.int64],
            {"shape": (None,), "order": "C", "device": "cpu", "writable": False},
        ],
        handoff: Annotated[
            NDArray[numpy.int64],
            {"shape": (None,), "order": "C", "device": "cpu", "writable": False},
        ],
        source: Annotated[
            NDArray[numpy.int32],
            {"shape": (None,), "order": "C", "device": "cpu", "writable": False},
        ],
        destination: Annotated[
            NDArray[numpy.int32],
            {"shape": (None,), "order": "C", "device": "cpu", "writable": False},
        ],
        bytes: Annotated[
            NDArray[numpy.int64],
            {"shape": (None,), "order": "C", "device": "cpu", "writable": False},
        ],
        descriptors: Annotated[
            NDArray[numpy.int64],
            {"shape": (None,), "order": "C", "device": "cpu", "writable": False},
        ],
        entropy: Annotated[
            NDArray[numpy.uint32],
            {"shape": (None,), "order": "C", "device": "cpu", "writable": False},
        ],
        path: Annotated[
            NDArray[numpy.int32],
            {"shape": (None,), "order": "C", "device": "cpu", "writable": False},
        ],
        priority: Annotated[
            NDArray[numpy.uint8],
            {"shape": (None,), "order": "C", "device": "cpu", "writable": False},
        ],
        release_ps: Annotated[
            NDArray[numpy.int64],
            {"shape": (None,), "order": "C", "device": "cpu", "writable": False},
        ],
    ) -> int: ...
    def advance(self, until_ps: int) -> tuple[int, NDArray[numpy.int64]]: ...
    def observe(self) -> dict[str, NDArray[numpy.generic]]: ...
    def flow_table(self) -> dict[str, NDArray[numpy.int64]]: ...
    def port_table(self) -> dict[str, NDArray[numpy.int64]]: ...
    def totals(self) -> dict[str, int]: ...

def ideal_ps(
    *,
    bytes: int,
    descriptors: int,
    mtu: int,
    issue_ps: int,
    rates_bps: Sequence[int],
    delays_ps: Sequence[int],
    recurrence: bool,
) -> int: ...
