"""The busy time of ports, read while flows are under way, is that of the telemetry."""

import numpy as np
import pytest

from emulate.fluid import FluidEmulator
from emulate.packet import PacketEmulator
from topo.route import equal_cost

US = 10**6


@pytest.mark.parametrize("engine", ["core", "reference", "fluid"])
def test_busy_time_grows_to_that_of_the_telemetry_and_never_beyond_the_clock(lab, engine):
    fabric = lab.leaf_spine(2, 2, 2)
    routes = equal_cost(fabric)
    emulator = (
        FluidEmulator(fabric, routes, seed=1)
        if engine == "fluid"
        else PacketEmulator(fabric, routes, seed=1, engine=engine)
    )
    a, b, c, d = lab.hosts(fabric)
    emulator.submit(lab.flows((a, c, 10**6, 0), (b, c, 10**6, 20 * US), (a, d, 3 * 10**5, 0)))
    before = emulator.busy_ps()
    assert not before.any()
    for tick in range(1, 60):
        while len(emulator.advance(tick * 5 * US).completions):
            pass
        busy = emulator.busy_ps()
        assert (busy >= before).all()
        # A frame that is being sent counts whole where the engine counts it at its start.
        assert (busy - before <= 5 * US + 400_000).all()
        assert busy.tolist() == emulator.telemetry().ports["busy_ps"].tolist()
        before = busy
    assert np.count_nonzero(before) > 4
    # 10^6 bytes of payload and their overhead at 100 Gbit/s, twice, into host c.
    assert before.max() >= 2 * 80 * US


def test_the_ports_of_a_large_fabric_are_told_alike_by_both_engines(lab):
    # 800 ports: their rows take more memory than an allocator leaves as it was.
    fabric = lab.leaf_spine(16, 16, 9)
    hosts = lab.hosts(fabric)
    rows = [(a, b, 20_000, 0) for a, b in zip(hosts[::2], reversed(hosts[1::2]), strict=True)]
    tables = []
    for engine in ("core", "reference"):
        emulator = PacketEmulator(fabric, equal_cost(fabric), seed=1, engine=engine)
        emulator.submit(lab.flows(*rows))
        while len(emulator.advance(10**9).completions):
            pass
        tables.append({n: c.tolist() for n, c in emulator.telemetry().ports.items()})
    assert tables[0] == tables[1]
    assert sum(tables[0]["tx_packets"]) > len(rows)
