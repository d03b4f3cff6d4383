"""Very many flows at one instant: `python bench/crowd.py` has a million of them."""

import time

import numpy as np

from emulate.packet import PacketEmulator
from topo.route import equal_cost


def test_a_hundred_thousand_flows_at_one_instant_are_the_same_in_both_engines(lab):
    count = 100_000
    fabric = lab.star(5)
    table = lab.flows(
        *((1 + i % 5, 1 + (i + 1 + i // 5 % 4) % 5, 1 + i % 4096, 0) for i in range(count))
    )
    found = []
    began = time.process_time()
    for engine in ("core", "reference"):
        emulator = PacketEmulator(fabric, equal_cost(fabric), seed=1, engine=engine)
        emulator.submit(table)
        assert len(lab.finish(emulator)) == count
        found.append(emulator.telemetry())
    spent = time.process_time() - began
    assert spent < 20, "expected some 3 s"
    core, reference = found
    assert core.totals == reference.totals
    assert core.totals["bytes_delivered"] == table["bytes"].sum()
    for name in ("flows", "ports", "hops", "pauses", "stops", "innocence", "occupancy", "series"):
        ours, theirs = getattr(core, name), getattr(reference, name)
        assert ours.keys() == theirs.keys()
        assert all(np.array_equal(ours[column], theirs[column]) for column in ours), name
