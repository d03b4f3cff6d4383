"""Completion times to the picosecond as an independent simulator gives them.

The times are those of htsim (github.com/Broadcom/csg-htsim), which shares no code with this
engine; docs/peer-agreement.md says how it was run. Sixteen hosts of a k = 4 fat tree send 100
frames each and stop each other 65 times over; ACKs share the queues. Releases and cables differ by
odd picoseconds, so that no two frames meet by design and one wrong instant shows at once.
"""

import pytest

from emulate.discipline import Discipline
from emulate.packet import PacketEmulator
from emulate.path import Pathfinder
from emulate.transport import Transport
from topo.fabric import Fabric
from topo.route import equal_cost

G = 10**9
STORED = 4178 - 20
HEADROOM = 200_000
STOP, GO = 61_415, 49_132
"""A port's sender is stopped above the one, and may go on at the other."""

# Source, destination, lanes of the data and of its ACKs, release and sender's end (ps).
HTSIM = (
    (0, 12, 0, 0, 2_443_924, 88_723_248),
    (1, 6, 1, 2, 7_709_613, 85_326_242),
    (2, 9, 0, 2, 7_632_408, 108_184_987),
    (3, 15, 0, 2, 15_967_173, 103_140_579),
    (4, 0, 3, 2, 12_931_606, 76_023_868),
    (5, 7, 2, 2, 2_931_776, 74_812_306),
    (6, 4, 2, 0, 11_836_547, 78_369_547),
    (7, 3, 2, 0, 6_594_010, 102_400_652),
    (8, 1, 2, 0, 12_280_233, 111_646_716),
    (9, 2, 2, 2, 5_867_610, 110_706_770),
    (10, 11, 0, 0, 7_273_165, 38_487_706),
    (11, 5, 3, 2, 8_503_783, 73_125_036),
    (12, 13, 0, 0, 13_422_116, 39_221_068),
    (13, 14, 0, 2, 1_844_991, 48_366_059),
    (14, 8, 0, 0, 8_940_602, 83_359_173),
    (15, 10, 1, 0, 2_035_275, 74_827_750),
)


def fat_tree(lab):
    """k = 4; core ``2 * i + j`` belongs to aggregation switch ``j`` of every pod."""
    # So little of so large a memory is used that the dynamic threshold stands still.
    model = lab.switch(buffer=4 * HEADROOM + (STOP << 16), latency=0)
    fabric = Fabric("fat_tree")
    hosts = [fabric.add_host(f"h{i}") for i in range(16)]
    tiers = [
        [fabric.add_switch(f"t{tier}.{i}", tier=tier, switch=model) for i in range(count)]
        for tier, count in ((1, 8), (2, 8), (3, 4))
    ]
    edges, aggregations, cores = tiers

    def cable(tier, low, up, a, b):
        apart = ((tier * 65536 + low * 256 + up) * 2654435761 % 2**32 * 300_000) >> 32
        fabric.connect(a, b, rate_bps=100 * G, delay_ps=1_000_000 + apart)

    for h, host in enumerate(hosts):
        cable(0, h, 0, host, edges[h // 2])
    for e, edge in enumerate(edges):
        for a in (e // 2 * 2, e // 2 * 2 + 1):
            cable(1, e, a, edge, aggregations[a])
    for a, aggregation in enumerate(aggregations):
        for c in (a % 2, a % 2 + 2):
            cable(2, a, c, aggregation, cores[c])
    return fabric


@pytest.mark.parametrize("engine", ["core", "reference"])
def test_sixteen_flows_under_pause_end_at_the_picosecond_at_which_they_end_in_htsim(lab, engine):
    fabric = fat_tree(lab)
    routes = equal_cost(fabric)
    discipline = Discipline(
        ecn="off", alpha=2**-16, reserve_bytes=0, headroom=HEADROOM,
        xon_offset_bytes=STOP - GO, response_ps=0,
    )  # fmt: skip
    transport = Transport(control="none", ack_every=1)
    emulator = PacketEmulator(fabric, routes, discipline, transport, seed=1, engine=engine)
    table = lab.flows(*((s, d, 100 * 4096, at) for s, d, _, _, at, _ in HTSIM))
    finder = Pathfinder(fabric, routes, seed=1)

    def digits(lane):
        return lane // 2 + 2 * (lane % 2)

    for row, (source, destination, there, back, _, _) in zip(table, HTSIM, strict=True):
        row["path"] = digits(there)
        # Of ACKs the way is that of a hash: the first entropy that leads by the lane.
        way = finder.path(destination, source, 0, digits(back))
        row["entropy"] = next(e for e in range(1_000) if finder.path(destination, source, e) == way)
    emulator.submit(table)
    lab.finish(emulator)
    emulator.advance(emulator.now_ps + 50_000_000)
    telemetry = emulator.telemetry()
    spent = telemetry.flows["sender_done_ps"] - telemetry.flows["release_ps"]
    assert spent.tolist() == [end for *_, end in HTSIM]
    assert telemetry.totals["pause_frames"] == 130
