"""The Mininet emulator keeps the protocol under the real clock, whatever moves the frames.

Its processes are stand-ins here, which need neither root nor frames: every flow takes 5 us.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from emulate.discipline import Discipline
from emulate.fault import Fault
from emulate.mininet.emulator import MininetEmulator
from emulate.mininet.error import EmulationError
from emulate.mininet.network import Network
from emulate.mininet.plan import NodePlan, Plan, PortPlan
from emulate.mininet.record import Record
from emulate.mininet.setup import Setup, refuse_frames
from emulate.mininet.table import _PORT
from emulate.packet import FlowError
from emulate.transport import Transport
from topo.error import KvfabricError
from topo.fabric import Fabric
from topo.route import equal_cost
from topo.unit import PS_PER_MS, PS_PER_US
from traffic.emulator import FLOW
from traffic.replay import replay

STAND_IN = Path(__file__).with_name("mininet_process.py")
DILATION = 10_000
TAKES_PS = 5 * PS_PER_US


def _fabric() -> Fabric:
    from topo.family.clos import LeafSpine, leaf_spine

    return leaf_spine(LeafSpine(hosts=4, leaves=2, spines=2))


def _setup() -> Setup:
    fabric = _fabric()
    return Setup(fabric, equal_cost(fabric), Discipline(), Transport(), 1)


Make = Callable[..., MininetEmulator]


@pytest.fixture(name="make")
def _make(tmp_path: Path) -> Iterator[Make]:
    made: list[MininetEmulator] = []

    def make(how: str = "well", **given: float) -> MininetEmulator:
        setup = _setup()
        fabric = setup.fabric
        (tmp_path / "columns.json").write_text(json.dumps(_PORT))
        record = Record(tmp_path.name, 1, 1, "a test", base=str(tmp_path.parent))
        nodes = [NodePlan(n.index, n.name, n.kind.value, 1) for n in fabric.nodes]
        ports = [PortPlan(p, int(n), "", "") for p, n in enumerate(fabric.ports.node)]
        network = Network(fabric, record, None, nodes, ports, False)  # type: ignore[arg-type]

        def command(process: str, plan: Plan) -> list[str]:
            return [sys.executable, str(STAND_IN), process, str(plan.path), how]

        given = {"dilation": DILATION, **given}
        made.append(MininetEmulator(setup, network, command=command, **given))
        return made[-1]

    yield make
    for emulator in made:
        emulator.__exit__(None, None, None)


def _flows(*releases_us: int, path: int = -1) -> np.ndarray:
    hosts = [n.index for n in _fabric().hosts]
    rows = [
        (i, 40 + i, hosts[0], hosts[3], 10_000, 1, i, path, True, 3, us * PS_PER_US)
        for i, us in enumerate(releases_us)
    ]
    return np.array(rows, FLOW)


def test_flows_finish_and_the_clock_is_the_real_one(make: Make) -> None:
    emulator = make()
    began = time.monotonic()
    finish = replay(_flows(10, 30), emulator)
    took = time.monotonic() - began
    assert finish.tolist() == [15 * PS_PER_US, 35 * PS_PER_US]
    # The clock begins after 0.2 s. The first flow ends at 15 us (0.15 s), the second at 35; of the
    # gap between them at most what lies between 17 us, when all is quiet, and 20, when the second
    # is handed over, is skipped.
    assert took >= 0.2 + 0.35 - 0.03
    assert took < 5


def test_time_in_which_nothing_moves_is_skipped(make: Make) -> None:
    emulator = make()
    began = time.monotonic()
    # Two seconds of the fabric at a dilation of 10,000 would be five hours and a half.
    finish = replay(_flows(10, 2_000_000), emulator)
    assert time.monotonic() - began < 5
    assert finish.tolist() == [15 * PS_PER_US, 2_000_005 * PS_PER_US]
    told = emulator.telemetry().flows
    assert told["sender_done_ps"].tolist() == [15 * PS_PER_US + 1, 2_000_005 * PS_PER_US + 1]


def test_a_run_that_takes_far_too_long_ends_itself(make: Make) -> None:
    emulator = make(dilation=100_000, most_s=0.1)  # a flow takes half a second of real time
    began = time.monotonic()
    assert replay(_flows(1), emulator).tolist() == [-1]
    assert time.monotonic() - began < 5
    found = emulator.judged([])
    assert found.standing == "invalid"
    assert "took far longer than it must" in found.text()
    assert emulator.interrupted_ps is None


def test_a_run_that_is_stopped_comes_to_its_end(make: Make) -> None:
    emulator = make()
    emulator.submit(_flows(10, 300_000))
    assert len(emulator.advance(20 * PS_PER_US).completions) == 1
    emulator.stop()
    emulator.submit(_flows(10, 300_000, 400_000)[2:])
    assert len(emulator.advance(10**15).completions) == 0
    assert emulator.stopped_ps is not None
    assert emulator.interrupted_ps == emulator.stopped_ps
    assert emulator.telemetry().flows["finish_ps"].tolist() == [15 * PS_PER_US, -1, -1]


def test_advance_returns_at_a_completion_and_else_at_its_end(make: Make) -> None:
    emulator = make()
    emulator.submit(_flows(10))
    assert len(emulator.advance(12 * PS_PER_US).completions) == 0
    assert emulator.now_ps == 12 * PS_PER_US
    step = emulator.advance(50 * PS_PER_US)
    assert (step.now_ps, step.completions.tolist()) == (
        15 * PS_PER_US,
        [(0, 40, 15 * PS_PER_US)],
    )
    with pytest.raises(KvfabricError, match="time never goes back"):
        emulator.advance(14 * PS_PER_US)


def test_the_tables_join_what_both_processes_counted(make: Make) -> None:
    emulator = make()
    replay(_flows(10, 20), emulator)
    told = emulator.telemetry()
    assert told.flows["finish_ps"].tolist() == [15 * PS_PER_US, 25 * PS_PER_US]
    assert told.flows["sender_done_ps"].tolist() == [15 * PS_PER_US + 1, 25 * PS_PER_US + 1]
    assert told.flows["marked"].tolist() == [3, 3]
    assert told.flows["hops"].tolist() == [4, 4]
    assert (told.flows["ideal_ps"] > 0).all()
    assert told.ports["tx_bytes"].tolist() == [11, *[0] * (len(told.ports["port"]) - 2), 11]
    assert told.totals["bytes_sent"] == 14
    assert told.totals["dilation"] == DILATION
    with pytest.raises(EmulationError, match="the run is over"):
        emulator.submit(_flows(99))


def test_a_good_run_is_valid(make: Make) -> None:
    emulator = make()
    replay(_flows(10), emulator)
    found = emulator.judged([])
    bad = [c for c in found.checks if c.standing != "valid" and c.what != "steal"]
    assert bad == []


def test_stops_come_by_time_and_one_without_an_end_stays_so(make: Make) -> None:
    emulator = make()
    replay(_flows(10), emulator)
    stops = {name: column.tolist() for name, column in emulator.telemetry().stops.items()}
    assert stops["port"] == [6, 7]
    assert (stops["from_ps"], stops["until_ps"]) == ([4, 5], [9, -1])
    assert stops["cause_port"] == [8, 8]


def test_a_completion_that_is_told_late_makes_the_run_invalid(make: Make) -> None:
    emulator = make("slow", window_ps=2 * PS_PER_US)  # 20 ms, and the news takes 50 ms
    replay(_flows(10), emulator)
    found = emulator.judged([])
    assert found.standing == "invalid"
    assert "1 completion(s) came too late" in found.text()


def test_a_flow_that_never_ends_is_reported_unfinished(make: Make) -> None:
    emulator = make()
    finish = replay(_flows(10, 90), emulator, until_ps=20 * PS_PER_US)
    assert finish.tolist() == [15 * PS_PER_US, -1]
    assert emulator.telemetry().flows["finish_ps"].tolist() == [15 * PS_PER_US, -1]


@pytest.mark.parametrize(
    ("how", "message"),
    [("silent", "ended early: no interface kv-none"), ("dies", "ended early: killed by the test")],
)
def test_a_process_that_ends_is_told_with_its_last_words(
    make: Make, how: str, message: str
) -> None:
    with pytest.raises(EmulationError, match=message) as caught:
        replay(_flows(10, 20), make(how))
    assert "\n" not in str(caught.value)


def test_flows_are_refused_as_the_packet_emulator_refuses_them(make: Make) -> None:
    bad = _flows(1)
    bad["bytes"] = 0
    with pytest.raises(FlowError, match="bytes 0B must be at least 1B"):
        make().submit(bad)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dilation": 0}, "dilation 0: write a whole number"),
        ({"dilation": 10}, r"control delay 20 us at dilation 10: .* too short"),
    ],
)
def test_a_clock_that_no_loop_can_follow_is_refused(
    make: Make, given: dict[str, int], message: str
) -> None:
    with pytest.raises(EmulationError, match=message):
        make(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"transport": Transport(kind="infiniband", control="none")}, "credits have no frames"),
        ({"transport": Transport(drain_bps=10**9)}, "hosts of real frames take data as it comes"),
        ({"discipline": Discipline(cut_through=True)}, "a socket hands over whole frames"),
        ({"faults": (Fault("down", 0, 0, PS_PER_MS),)}, "faults: real frames do not know faults"),
    ],
)
def test_what_real_frames_cannot_do_is_refused(given: dict[str, object], message: str) -> None:
    known = {f: getattr(_setup(), f) for f in ("fabric", "routes", "discipline", "transport")}
    with pytest.raises(EmulationError, match=message) as caught:
        refuse_frames(Setup(**{**known, "seed": 1, **given}))  # type: ignore[arg-type]
    assert "use emulator packet" in str(caught.value)


def test_the_plan_is_there_for_the_processes(make: Make, tmp_path: Path) -> None:
    make()
    plan = msgspec.json.decode((tmp_path / "plan.json").read_bytes(), type=Plan)
    assert plan.dilation == DILATION
    assert len(plan.ports) == len(_fabric().ports.node)
