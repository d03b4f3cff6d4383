from collections.abc import Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray

import emulate._engine
from emulate._engine import dcqcn_setting as dcqcn_setting
from emulate._engine import discipline_setting as discipline_setting
from emulate._engine import fabric_setting as fabric_setting
from emulate._engine import fault_settings as fault_settings
from emulate._engine import route_setting as route_setting
from emulate._engine import transport_setting as transport_setting

class Plane:
    def __init__(
        self,
        *,
        fabric: emulate._engine.FabricSetting,
        routes: emulate._engine.RouteSetting,
        discipline: emulate._engine.DisciplineSetting,
        transport: emulate._engine.TransportSetting,
        faults: Sequence[emulate._engine.FaultSetting],
        seed: int,
        tick_ps: int,
        owned: Annotated[
            NDArray[numpy.uint8],
            {"shape": (None,), "order": "C", "device": "cpu", "writable": False},
        ],
        address: Annotated[
            NDArray[numpy.uint32],
            {"shape": (None,), "order": "C", "device": "cpu", "writable": False},
        ],
        mac: Annotated[
            NDArray[numpy.uint64],
            {"shape": (None,), "order": "C", "device": "cpu", "writable": False},
        ],
        frame_bytes: int = 9600,
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
    def inject(self, port: int, frame: bytes) -> None: ...
    def path(self, flow: int) -> list[int]: ...
    def source_port(self, flow: int) -> int: ...
    @property
    def now_ps(self) -> int: ...
    @property
    def next_ps(self) -> int: ...
    @property
    def unfinished(self) -> int: ...
    def observe(self) -> dict[str, NDArray[numpy.generic]]: ...
    def flow_table(self) -> dict[str, NDArray[numpy.int64]]: ...
    def port_table(self) -> dict[str, NDArray[numpy.int64]]: ...
    def pause_table(self) -> dict[str, NDArray[numpy.int64]]: ...
    def stop_table(self) -> dict[str, NDArray[numpy.int64]]: ...
    def occupancy_table(self) -> dict[str, NDArray[numpy.int64]]: ...
    def series_table(self) -> dict[str, NDArray[numpy.int64]]: ...
    def totals(self) -> dict[str, int]: ...

class Switch:
    def __init__(
        self,
        *,
        fabric: emulate._engine.FabricSetting,
        routes: emulate._engine.RouteSetting,
        discipline: emulate._engine.DisciplineSetting,
        transport: emulate._engine.TransportSetting,
        faults: Sequence[emulate._engine.FaultSetting] = [],
        ports: Sequence[tuple[int, str, str, str]],
        hosts: Sequence[tuple[int, str, str]],
        seed: int,
        dilation: int,
        tick_ps: int,
        mtu_bytes: int,
        state: str = "",
    ) -> None: ...
    def run(self, start_ns: int, channel: int) -> None: ...
    def tables(self) -> dict[str, dict[str, NDArray[numpy.generic]]]: ...
    def counters(self) -> dict[str, int]: ...

class Agent:
    def __init__(
        self,
        *,
        fabric: emulate._engine.FabricSetting,
        routes: emulate._engine.RouteSetting,
        discipline: emulate._engine.DisciplineSetting,
        transport: emulate._engine.TransportSetting,
        faults: Sequence[emulate._engine.FaultSetting] = [],
        ports: Sequence[tuple[int, str, str, str]],
        hosts: Sequence[tuple[int, str, str]],
        seed: int,
        dilation: int,
        tick_ps: int,
        mtu_bytes: int,
        state: str = "",
    ) -> None: ...
    def run(self, start_ns: int, channel: int) -> None: ...
    def tables(self) -> dict[str, dict[str, NDArray[numpy.generic]]]: ...
    def counters(self) -> dict[str, int]: ...

def roce_frame(
    *,
    source_mac: int,
    destination_mac: int,
    source_ip: int,
    destination_ip: int,
    source_port: int,
    kind: str,
    priority: int,
    flow: int,
    sequence: int,
    attempt: int = 0,
    payload: int = 0,
    first: bool = False,
    last: bool = False,
    asks: bool = False,
    offset: int = 0,
    message: int = 0,
    messages: int = 0,
) -> bytes: ...
def pause_frame(*, source_mac: int, told: int, quanta: Sequence[int]) -> bytes: ...
def headers(frame: bytes) -> dict[str, object]: ...
def intact(frame: bytes) -> bool: ...
def congested(frame: bytes) -> bytes: ...
def send_frames(
    *, socket: int, frames: bytes, length: NDArray[numpy.int64], at_ns: NDArray[numpy.int64]
) -> NDArray[numpy.int64]: ...
