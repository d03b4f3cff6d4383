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
