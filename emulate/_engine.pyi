import enum
from collections.abc import Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray

DATA_OVERHEAD: int = 82

ACK_WIRE: int = 86

CNP_WIRE: int = 98

PAUSE_WIRE: int = 84

STORED_LESS: int = 20

CREDIT_BLOCK: int = 64

CREDIT_WIRE: int = 8

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

class FaultSetting:
    pass

class FaultKind(enum.IntEnum):
    down = 0

    degraded = 1

    lossy = 2

    storm = 3

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
    cut_through: bool,
    watch_detect_ps: int,
    watch_restore_ps: int,
    deadlock_ps: int,
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
    cut_grid: bool = False,
    retimed: bool = True,
) -> DcqcnSetting: ...
def transport_setting(
    *,
    mtu: int,
    ack_every: int,
    window: int,
    timeout_ps: int,
    issue_ps: int,
    send_queue: int,
    one_issuer: bool,
    drain_bps: int,
    receive_bytes: int,
    ack_message: bool,
    cnp_interval_ps: int,
    credit_bytes: int,
    cnp_priority: int,
    ack_priority: int,
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
def fault_settings(
    *,
    kind: Annotated[
        NDArray[numpy.uint8], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
    port: Annotated[
        NDArray[numpy.uint32], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
    from_ps: Annotated[
        NDArray[numpy.int64], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
    until_ps: Annotated[
        NDArray[numpy.int64], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
    value: Annotated[
        NDArray[numpy.int64], {"shape": (None,), "order": "C", "device": "cpu", "writable": False}
    ],
) -> list[FaultSetting]: ...

class Nic:
    def __init__(self, priorities: Sequence[int]) -> None: ...
    def allow(self, pair: int, when_ps: int, now_ps: int) -> None: ...
    def defer(self, pair: int, when_ps: int, now_ps: int) -> None: ...
    def ready(self, of: int, now_ps: int) -> int: ...
    def take(self, priority: int) -> int: ...
    def sent(self, priority: int, when_ps: int, now_ps: int) -> None: ...
    def next(self) -> int: ...

class Dcqcn:
    def __init__(self, line_bps: int) -> None: ...
    def advance(self, setting: DcqcnSetting, now_ps: int) -> None: ...
    def cnp(self, setting: DcqcnSetting, now_ps: int) -> None: ...
    def sent(self, setting: DcqcnSetting, now_ps: int, wire_bytes: int) -> None: ...
    @property
    def rate_bps(self) -> int: ...
    @property
    def target_bps(self) -> int: ...
    @property
    def alpha_q20(self) -> int: ...

class Watchdog:
    def __init__(self, detect_ps: int, restore_ps: int) -> None: ...

    class Verdict(enum.Enum):
        none = 0

        drop = 1

        restore = 2

    def stopped(self, now_ps: int) -> None: ...
    def watch(self, now_ps: int, stuck: bool) -> None: ...
    def expire(self, now_ps: int) -> Watchdog.Verdict: ...
    @property
    def dropping(self) -> bool: ...
    @property
    def next_ps(self) -> int: ...

class CreditSender:
    def __init__(self, blocks: int) -> None: ...
    def may(self, now_ps: int, frame: int) -> bool: ...
    def take(self, frame: int) -> None: ...
    def give(self, now_ps: int, blocks: int) -> None: ...
    def spent(self, now_ps: int) -> int: ...
    @property
    def blocks(self) -> int: ...
    @property
    def stalled(self) -> bool: ...
    @property
    def stalls(self) -> int: ...

class SharedBuffer:
    def __init__(
        self,
        *,
        total: int,
        reserve: int,
        xon_offset: int,
        alpha_q16: int,
        egress_q16: int,
        lossless: int,
        headroom: Sequence[int],
    ) -> None: ...
    def admit(self, port: int, priority: int, egress: int, frame: int) -> bool: ...
    def admit_surely(self, port: int, priority: int, egress: int, frame: int) -> bool: ...
    def release(self, port: int, priority: int, egress: int, frame: int) -> None: ...
    def over(self, port: int, priority: int) -> bool: ...
    def under(self, port: int, priority: int) -> bool: ...
    def surely_full(self, port: int, priority: int, frame: int) -> bool: ...
    def perhaps_under(self, port: int, priority: int) -> bool: ...
    def holder(self, port: int, priority: int) -> int: ...
    def occupied(self, port: int, priority: int) -> int: ...
    def headroom_used(self, port: int, priority: int) -> int: ...
    def queued(self, egress: int, priority: int) -> int: ...
    @property
    def threshold(self) -> int: ...
    @property
    def pool(self) -> int: ...
    @property
    def used(self) -> int: ...

class Marker:
    def __init__(self, kmin: int, kmax: int, pmax_q32: int) -> None: ...
    def mark(self, queue: int, hash: int) -> bool: ...

class PauseSender:
    def __init__(self, pause_ps: int) -> None: ...
    def stop(self, now_ps: int) -> bool: ...
    def resume(self) -> bool: ...
    def expire(self, now_ps: int) -> bool: ...
    @property
    def stopped(self) -> bool: ...
    @property
    def next_ps(self) -> int: ...

class PauseReceiver:
    def __init__(self) -> None: ...
    def stop(self, now_ps: int, pause_ps: int) -> None: ...
    def resume(self, now_ps: int) -> bool: ...
    def expire(self, now_ps: int) -> bool: ...
    def spent(self, now_ps: int) -> int: ...
    def longest(self, now_ps: int) -> int: ...
    @property
    def times(self) -> int: ...
    @property
    def paused(self) -> bool: ...
    @property
    def until_ps(self) -> int: ...

class PauseLog:
    def __init__(self, ports: int, most: int) -> None: ...
    def begin(self, port: int, priority: int, cause: int, now_ps: int) -> None: ...
    def end(self, port: int, priority: int, now_ps: int) -> None: ...
    def spans(self) -> list[list[int]]: ...
    @property
    def count(self) -> int: ...

class Scheduler:
    def __init__(self, strict: int, weight: Sequence[int]) -> None: ...
    def pick(self, eligible: int, head_bytes: Sequence[int]) -> int: ...
    def emptied(self, priority: int) -> None: ...

class GoBackNSender:
    def __init__(self, packets: int) -> None: ...
    def take(self, now_ps: int, timeout_ps: int) -> bool: ...
    def acknowledge(self, expected: int, now_ps: int, timeout_ps: int) -> None: ...
    def reject(self, expected: int, now_ps: int, timeout_ps: int) -> bool: ...
    def expire(self, now_ps: int, timeout_ps: int) -> bool: ...
    @property
    def next(self) -> int: ...
    @property
    def acked(self) -> int: ...
    @property
    def done(self) -> bool: ...
    @property
    def asks(self) -> bool: ...
    @property
    def attempt(self) -> int: ...
    @property
    def deadline_ps(self) -> int: ...

class Verdict(enum.Enum):
    accepted = 0

    duplicate = 1

    gap = 2

    gap_again = 3

class GoBackNReceiver:
    def __init__(self) -> None: ...
    def receive(self, sequence: int) -> Verdict: ...
    @property
    def expected(self) -> int: ...

def mark_draw(*, seed: int, flow: int, sequence: int, attempt: int, port: int) -> int: ...

class Reference:
    def __init__(
        self,
        *,
        fabric: FabricSetting,
        routes: RouteSetting,
        discipline: DisciplineSetting,
        transport: TransportSetting,
        faults: Sequence[FaultSetting],
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
    def path(self, flow: int) -> list[int]: ...
    def observe(self) -> dict[str, NDArray[numpy.generic]]: ...
    def flow_table(self) -> dict[str, NDArray[numpy.int64]]: ...
    def hop_table(self) -> dict[str, NDArray[numpy.int64]]: ...
    def pause_table(self) -> dict[str, NDArray[numpy.int64]]: ...
    def stop_table(self) -> dict[str, NDArray[numpy.int64]]: ...
    def innocence_table(self) -> dict[str, NDArray[numpy.int64]]: ...
    def occupancy_table(self) -> dict[str, NDArray[numpy.int64]]: ...
    def series_table(self) -> dict[str, NDArray[numpy.int64]]: ...
    def port_table(self) -> dict[str, NDArray[numpy.int64]]: ...
    def deadlocks(self) -> list[tuple[int, int, list[int]]]: ...
    def totals(self) -> dict[str, int]: ...

class Core:
    def __init__(
        self,
        *,
        fabric: FabricSetting,
        routes: RouteSetting,
        discipline: DisciplineSetting,
        transport: TransportSetting,
        faults: Sequence[FaultSetting],
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
    def path(self, flow: int) -> list[int]: ...
    def observe(self) -> dict[str, NDArray[numpy.generic]]: ...
    def flow_table(self) -> dict[str, NDArray[numpy.int64]]: ...
    def hop_table(self) -> dict[str, NDArray[numpy.int64]]: ...
    def pause_table(self) -> dict[str, NDArray[numpy.int64]]: ...
    def stop_table(self) -> dict[str, NDArray[numpy.int64]]: ...
    def innocence_table(self) -> dict[str, NDArray[numpy.int64]]: ...
    def occupancy_table(self) -> dict[str, NDArray[numpy.int64]]: ...
    def series_table(self) -> dict[str, NDArray[numpy.int64]]: ...
    def port_table(self) -> dict[str, NDArray[numpy.int64]]: ...
    def deadlocks(self) -> list[tuple[int, int, list[int]]]: ...
    def totals(self) -> dict[str, int]: ...
    def use_threads(self, threads: int) -> None: ...
    def effort(self) -> dict[str, int]: ...

def ideal_ps(
    *,
    bytes: int,
    descriptors: int,
    mtu: int,
    issue_ps: int,
    rates_bps: Sequence[int],
    delays_ps: Sequence[int],
    recurrence: bool,
    cut_through: bool = False,
) -> int: ...
