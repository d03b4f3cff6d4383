"""Real TCP across the kernel's own queues, in the VM: `make vm-test`.

One star of four hosts at 400 Gbps, 100,000 times slower. Queues are those that ``tc -s`` tells,
looked at while the flows run.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from emulate.discipline import Discipline
from emulate.marking import Threshold
from emulate.mininet.counter import Counters
from emulate.mininet.kernel import KernelEmulator
from emulate.mininet.namespace import inside
from emulate.mininet.network import network
from emulate.mininet.plane import Plane, kernel_plane, queue_limit
from emulate.mininet.program import call
from emulate.mininet.requirement import may_use_kernel
from emulate.mininet.setup import Setup
from emulate.mininet.support import may_network
from emulate.mininet.train import train
from emulate.transport import Transport
from topo.fabric import Fabric, Switch
from topo.route import equal_cost
from topo.unit import PS_PER_MS, PS_PER_US
from traffic.emulator import FLOW, Telemetry
from traffic.replay import replay

_MISSING = may_network() or may_use_kernel("dctcp")

pytestmark = [
    pytest.mark.vm,
    pytest.mark.root,
    pytest.mark.skipif(_MISSING is not None, reason=f"not in the VM: {_MISSING}"),
]

DILATION = 100_000
THRESHOLD = 2**16
SIZE = 1_500_000
RELEASE = 20 * PS_PER_US
SENDERS = 3

Row = tuple[int, ...]


@pytest.fixture(name="plane", scope="module")
def _plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    fabric = Fabric("star")
    middle = fabric.add_switch("s", tier=1, switch=Switch(8, buffer_bytes=2**19))
    for i in range(SENDERS + 1):
        fabric.connect(fabric.add_host(f"h{i}"), middle, rate_bps=400 * 10**9, delay_ps=50_000)
    discipline = Discipline(pfc=False, ecn=Threshold(THRESHOLD, THRESHOLD, 1.0))
    setup = Setup(fabric, equal_cost(fabric), discipline, Transport(), 1)
    with network(fabric, what="a test", base=tmp_path_factory.mktemp("run")) as made:
        yield kernel_plane(made, setup, dilation=DILATION)


@dataclass(frozen=True)
class Seen:
    """What a run gave: durations in ps, and the bytes that waited before the receiver's link."""

    took: np.ndarray
    queue: np.ndarray
    told: Telemetry
    port: int


def bottleneck(plane: Plane) -> int:
    hosts = [node.index for node in plane.network.fabric.hosts]
    return int(plane.setup.routes.next_hops(plane.network.fabric.switches[0].index, hosts[-1])[0])


def flow(plane: Plane, number: int, source: int, size: int, priority: int, release: int) -> Row:
    hosts = [node.index for node in plane.network.fabric.hosts]
    ends = (hosts[source], hosts[-1])
    return (number, number, *ends, size, 1, number, -1, True, priority, release)


def run(plane: Plane, control: str, *more: Row) -> Seen:
    """All senders at once, and more flows; the queue from a third of the time to the first end."""
    rows = [flow(plane, i, i, SIZE, 3, RELEASE) for i in range(SENDERS)]
    flows = np.array([*rows, *more], FLOW)
    port = bottleneck(plane)
    with KernelEmulator(plane, control, tick_ns=30_000_000, window_ps=PS_PER_MS) as live:
        finish = replay(flows, live, until_ps=PS_PER_MS)
        told = live.telemetry()
    first = int(finish[:SENDERS].min())
    queue = [b for at, p, b in live.samples if p == port and (RELEASE + first) / 3 < at < first]
    return Seen(finish - flows["release_ps"], np.array(queue), told, port)


def counted(seen: Seen, name: str) -> int:
    return int(np.asarray(seen.told.ports[name])[seen.port])


@pytest.fixture(name="dctcp", scope="module")
def _dctcp(plane: Plane) -> Seen:
    return run(plane, "dctcp")


@pytest.fixture(name="cubic", scope="module")
def _cubic(plane: Plane) -> Seen:
    """Beside the senders, two short flows into the full queue, one of them in the strict class."""
    late = RELEASE + 60 * PS_PER_US
    short = [flow(plane, SENDERS + i, 2, 20_000, p, late) for i, p in enumerate((3, 6))]
    return run(plane, "cubic", *short)


def test_a_train_of_frames_keeps_the_ideal_time_and_the_rate(plane: Plane) -> None:
    found = train(plane)
    for _ in range(2):
        if any(one.off > 0.05 for one in found.controls()):
            found = train(plane)
    assert [one.off < 0.05 for one in found.controls()] == [True, True], found


def test_dctcp_keeps_the_queue_near_the_threshold(dctcp: Seen) -> None:
    assert len(dctcp.queue) > 50
    assert 0.3 * THRESHOLD < np.median(dctcp.queue) < 1.5 * THRESHOLD
    assert np.quantile(dctcp.queue, 0.95) < 2 * THRESHOLD
    assert counted(dctcp, "marked") > 0
    assert counted(dctcp, "drops") == 0


def test_cubic_fills_the_buffer(plane: Plane, cubic: Seen) -> None:
    limit = queue_limit(plane.network.fabric, 0, plane.setup.discipline)
    assert cubic.queue.max() > 0.9 * limit
    assert np.median(cubic.queue) > 2 * THRESHOLD
    assert counted(cubic, "drops") > 0
    assert counted(cubic, "marked") == 0


def test_flows_of_one_kind_get_equal_shares(dctcp: Seen) -> None:
    rates = SIZE / dctcp.took[:SENDERS]
    assert rates.sum() ** 2 / (SENDERS * (rates**2).sum()) > 0.9
    # All of it at the link's rate, with 90 bytes of headers and framing a segment of 4,084.
    whole = SENDERS * SIZE * (4174 / 4084) * 20
    assert 1.0 < dctcp.took.max() / whole < 1.25


def test_the_strict_class_passes_a_full_queue(cubic: Seen) -> None:
    waiting, strict = cubic.took[SENDERS:]
    assert 0 < strict < waiting / 1.5


def test_counters_over_netlink_are_those_of_tc(plane: Plane, dctcp: Seen) -> None:
    assert counted(dctcp, "tx_packets") > SENDERS * SIZE / 4084
    counters = Counters(plane)
    by_port = counters.now()
    counters.close()
    with inside(plane.network.namespace(0)):
        told = json.loads(call("tc", "-s", "-json", "qdisc", "show"))
    roots = {one["dev"]: one for one in told if one["kind"] == "tbf"}
    assert len(roots) == SENDERS + 1
    for port in plane.network.ports:
        if port.node == 0:
            one = roots[port.interface]
            ours = by_port[port.port]
            assert (ours.bytes, ours.packets) == (one["bytes"], one["packets"])
            assert (ours.drops, ours.backlog_bytes) == (one["drops"], one["backlog"])
