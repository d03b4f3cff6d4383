"""The drivers of real frames, under the simulated clock: the same instants as the packet engine.

Every frame is bytes; what a node knows of it, it has read from them. So the decisions of buffers,
pauses, marks, schedulers, DCQCN and go-back-N are replayed through the other build of the drivers.
"""

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from emulate.discipline import Discipline, Watchdog
from emulate.fault import Fault
from emulate.packet import PacketEmulator
from emulate.transport import Transport
from topo.route import equal_cost

MS = 10**9
SAME_FLOW = (
    "flow", "finish_ps", "sender_done_ps", "ideal_ps", "hops", "packets", "marked", "resent_bytes",
    "timeouts", "cnps", "rate_bps",
)  # fmt: skip
SAME_PORT = (
    "tx_bytes", "tx_packets", "busy_ps", "paused_ps", "pauses", "marked", "drops",
    "max_queue_bytes", "blocked_ps",
)  # fmt: skip
SAME_TOTAL = (
    "packet_hops", "drops_buffer", "drops_lossless", "drops_fault", "drops_watchdog", "bytes_sent",
    "bytes_delivered", "bytes_discarded", "bytes_dropped", "pause_frames", "stops", "acks", "naks",
    "cnps",
)  # fmt: skip


def compare(lab, live, fabric, flows, discipline, transport, *, until=10**12, faults=(), seed=1):
    """Run both; returns the packet engine's telemetry."""
    routes = equal_cost(fabric)
    emulator = PacketEmulator(
        fabric, routes, discipline, transport, seed=seed, faults=faults, engine="reference"
    )
    emulator.submit(flows)
    finished = lab.finish(emulator, until)
    plane = live.plane(fabric, routes, discipline, transport, seed=seed, faults=faults)
    columns = {name: flows[name].copy() for name in flows.dtype.names if name != "write"}
    assert plane.submit(**columns) == -1
    found = {}
    while True:
        now, done = plane.advance(until)
        if not len(done):
            break
        found.update(dict.fromkeys(done.tolist(), now))
    assert found == finished
    for row in range(len(flows)):
        assert plane.path(row) == emulator.path(row)
    expected = emulator.telemetry()
    table = plane.flow_table()
    for name in SAME_FLOW:
        assert table[name].tolist() == expected.flows[name].tolist(), name
    ports = plane.port_table()
    for name in SAME_PORT:
        assert ports[name].tolist() == expected.ports[name].tolist(), name
    totals = plane.totals()
    assert {name: totals[name] for name in SAME_TOTAL} == {
        name: expected.totals[name] for name in SAME_TOTAL
    }
    assert totals["unrouted"] == totals["damaged"] == totals["unknown"] == totals["foreign"] == 0
    for name, values in plane.stop_table().items():
        assert values.tolist() == expected.stops[name].tolist(), name
    for name, values in plane.pause_table().items():
        assert values.tolist() == expected.pauses[name].tolist(), name
    return expected


def test_a_lone_flow_takes_the_same_time(lab, live):
    fabric = lab.chain([400 * 10**9, 100 * 10**9, 200 * 10**9], [50_000, 500_000, 5_000])
    flows = lab.flows((0, 3, 1_000_003, 7))
    told = compare(lab, live, fabric, flows, Discipline(), Transport())
    assert told.flows["finish_ps"][0] - 7 == told.flows["ideal_ps"][0]


def test_an_incast_is_paused_and_marked_alike(lab, live):
    fabric = lab.star(5, buffer=2 * 2**20)
    *sources, sink = lab.hosts(fabric)
    flows = lab.flows(*((s, sink, 2_000_000, i * 1000) for i, s in enumerate(sources)))
    told = compare(lab, live, fabric, flows, Discipline(alpha=1 / 8, ecn="dctcp"), Transport())
    assert told.totals["pause_frames"] > 0
    assert told.flows["marked"].sum() > 0
    assert told.totals["drops_lossless"] == 0


def test_losses_are_sent_again_alike(lab, live):
    fabric = lab.star(5, buffer=2**20)
    *sources, sink = lab.hosts(fabric)
    flows = lab.flows(*((s, sink, 1_500_000, 0) for s in sources))
    transport = Transport(control="none", rto_ps=50 * MS)
    told = compare(lab, live, fabric, flows, Discipline(pfc=False, ecn="off"), transport)
    assert told.totals["drops_buffer"] > 0
    assert told.flows["resent_bytes"].sum() > 0


def test_storms_faults_and_the_watchdog_strike_alike(lab, live):
    fabric = lab.star(4)
    hosts = lab.hosts(fabric)
    faults = [
        Fault("storm", link=1, from_ps=10**7, until_ps=3 * 10**9, direction="forward"),
        Fault("lossy", link=0, from_ps=0, share=0.01, direction="forward"),
        Fault("down", link=2, from_ps=10**8, until_ps=2 * 10**8),
    ]
    flows = lab.flows(
        (hosts[0], hosts[3], 3_000_000, 0), (hosts[2], hosts[1], 3_000_000, 0),
        (hosts[3], hosts[2], 3_000_000, 5 * 10**7),
    )  # fmt: skip
    discipline = Discipline(watchdog=Watchdog(detect_ps=10**8, restore_ps=10**8))
    transport = Transport(control="none", rto_ps=MS)
    told = compare(lab, live, fabric, flows, discipline, transport, faults=faults)
    assert told.totals["drops_fault"] > 0
    assert told.totals["drops_watchdog"] > 0


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_small_run_is_the_same(lab, live, data):
    crowded = data.draw(st.booleans(), label="one switch of little memory, one receiver")
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    fabric = lab.star(5, buffer=700_000) if crowded else lab.leaf_spine(2, 3, 2)
    hosts = lab.hosts(fabric)
    count = int(rng.integers(1, 11))
    rows = []
    for _ in range(count):
        source, destination = rng.choice(hosts, 2, replace=False).tolist()
        if crowded and source != hosts[-1]:
            destination = hosts[-1]
        size = int(rng.choice([1, 15, 16, 4097, 100_001, 300_000, 700_000]))
        rows.append((source, destination, size, int(rng.integers(0, 10)) * 10**6))
    flows = lab.flows(*rows)
    flows["descriptors"] = np.minimum(flows["bytes"], rng.choice([1, 3, 16]))
    flows["priority"] = rng.choice([0, 3, 3, 3, 4, 6], count)
    flows["path"] = rng.integers(-1, 6, count)
    flows["entropy"] = rng.integers(0, 2**32, count)
    discipline = Discipline(
        alpha=data.draw(st.sampled_from([1 / 8, 1.0])),
        marking=data.draw(st.sampled_from(["enqueue", "dequeue"])),
        ecn=data.draw(st.sampled_from(["off", "hpcc", "dctcp"])),
        lossless=data.draw(st.sampled_from([(3,), (3, 4)])),
        pfc=data.draw(st.booleans()),
    )
    transport = Transport(
        control=data.draw(st.sampled_from(["none", "dcqcn"])),
        preset=data.draw(st.sampled_from(["connectx", "hpcc"])),
        issue_ps=data.draw(st.sampled_from([0, 1_000_000])),
        issuers=data.draw(st.sampled_from([0, 1])),
        window=data.draw(st.sampled_from([0, 64])),
        rto_ps=5 * MS,
    )
    told = compare(
        lab, live, fabric, flows, discipline, transport, seed=data.draw(st.integers(0, 99))
    )
    for what in ("pause_frames", "drops_buffer", "naks", "cnps"):
        event(f"{what}: {told.totals[what] > 0}")


def test_what_real_frames_cannot_do_is_refused(lab, live):
    fabric = lab.star(2)
    with pytest.raises(ValueError, match="no cut-through"):
        live.plane(fabric, equal_cost(fabric), Discipline(cut_through=True), Transport(), seed=1)
    plane = live.plane(fabric, equal_cost(fabric), Discipline(), Transport(mtu=256), seed=1)
    flows = lab.flows((1, 2, 2**33, 0))
    columns = {name: flows[name].copy() for name in flows.dtype.names if name != "write"}
    with pytest.raises(ValueError, match="24 bits"):
        plane.submit(**columns)
