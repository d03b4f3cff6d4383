"""Engines and threads by choice: what a core takes, what it did, and what is refused."""

import numpy as np
import pytest

from emulate.packet import PacketEmulator
from topo.error import KvfabricError
from topo.fabric import Fabric
from topo.route import equal_cost

US = 10**6


def test_a_fabric_of_one_host_only_lets_time_pass(lab):
    fabric = Fabric("lone")
    fabric.add_host("h")
    for engine in ("reference", "core"):
        emulator = PacketEmulator(fabric, equal_cost(fabric), seed=1, engine=engine)
        assert emulator.advance(5 * US).now_ps == 5 * US
        assert emulator.telemetry().totals["events"] == 0


@pytest.mark.slow
def test_a_million_flows_of_one_packet_at_one_instant(lab):
    fabric = lab.star(5)
    hosts = np.array(lab.hosts(fabric))
    table = np.repeat(lab.flows((0, 0, 64, 0)), 10**6)
    number = np.arange(10**6)
    table["flow"] = table["handoff"] = table["entropy"] = number
    table["source"] = hosts[number % 4]
    table["destination"] = hosts[number % 4 + 1]
    emulator = PacketEmulator(fabric, equal_cost(fabric), seed=1, engine="core")
    emulator.submit(table)
    step = emulator.advance(10**13)
    assert len(step.completions) >= 1
    emulator.advance(step.now_ps + 10 * US)
    assert emulator.telemetry().totals["bytes_delivered"] > 0


def test_effort_tells_what_the_core_did(lab):
    fabric = lab.star(3)
    emulator = PacketEmulator(fabric, equal_cost(fabric), seed=1, engine="core", threads=2)
    a, b, _ = lab.hosts(fabric)
    emulator.submit(lab.flows((a, b, 100_000, 0)))
    lab.finish(emulator)
    effort = emulator.effort()
    # The shortest frame (83 bytes at 80 ps) on a cable of 50 ns.
    assert effort["lookahead_ps"] == 50_000 + 83 * 80
    assert effort["threads"] == 2
    assert effort["spans"] > 0
    assert effort["visits"] > 0
    assert effort["flow_bytes"] < 1024
    slow = PacketEmulator(fabric, equal_cost(fabric), seed=1, engine="reference")
    assert slow.effort() == {"threads": 1}


@pytest.mark.parametrize("threads", [0, -1, 65])
def test_a_number_of_threads_that_cannot_be_is_refused(lab, threads):
    fabric = lab.star(3)
    with pytest.raises(KvfabricError, match="write 1 to 64"):
        PacketEmulator(fabric, equal_cost(fabric), seed=1, threads=threads)
    with pytest.raises(KvfabricError, match="write engine core"):
        PacketEmulator(fabric, equal_cost(fabric), seed=1, engine="reference", threads=2)


def test_an_unknown_engine_is_refused(lab):
    fabric = lab.star(3)
    with pytest.raises(KvfabricError, match="write auto, core or reference"):
        PacketEmulator(fabric, equal_cost(fabric), seed=1, engine="quick")
