"""Checked-in digests of results: the same bytes from every build, engine, compiler and flag.

A digest is over named columns as little-endian 64-bit integers. One that changes means that the
behaviour has changed: find out why before writing down the new one, which the failure prints.
`python bench/digest.py` holds other compilers and flags to the same digests.
"""

import csv
import hashlib
from pathlib import Path

import numpy as np
import pytest

from emulate.discipline import Discipline
from emulate.packet import PacketEmulator
from emulate.transport import Transport
from topo.fabric import Switch
from topo.family.registry import build
from topo.route import equal_cost

G = 10**9
MS = 10**9
FLOWS = (
    "finish_ps",
    "sender_done_ps",
    "marked",
    "resent_bytes",
    "timeouts",
    "lost_packets",
    "cnps",
)
PORTS = ("tx_bytes", "pauses", "paused_ps", "marked", "drops", "max_queue_bytes")

DIGESTS = {
    "first look": "e12822b688d97c23",
    "permutation": "28b6265116d9d0cf",
    "incast": "40a5db76743b8a31",
}


def digest(telemetry):
    """16 hexadecimal digits."""
    whole = hashlib.sha256()
    for table, names in ((telemetry.flows, FLOWS), (telemetry.ports, PORTS)):
        for name in names:
            whole.update(name.encode())
            whole.update(np.ascontiguousarray(table[name], "<i8").tobytes())
    return whole.hexdigest()[:16]


def first_look(lab, engine):
    """The hand-offs of the first cell of scenarios/first-look.yaml on an oversubscribed fabric."""
    model = Switch(32, 100 * G, 32 * 2**20)
    fabric = build(
        "leaf_spine",
        {
            "hosts": 64,
            "nic_bps": 100 * G,
            "switch": model,
            "cable_m": 10.0,
            "oversubscription": 2.0,
        },
    )
    with (Path(__file__).parent / "first_look.csv").open() as file:
        rows = [{name: int(value) for name, value in row.items()} for row in csv.DictReader(file)]
    table = lab.flows(*((r["source"], r["destination"], r["bytes"], r["release_ps"]) for r in rows))
    table["descriptors"] = -(-table["bytes"] // 2**18)
    return run(lab, fabric, table, Discipline(alpha=1 / 8), Transport(), engine)


def permutation(lab, engine):
    """A fat tree whose small switches stop each other all the time."""
    fabric = tree(400_000)
    hosts = lab.hosts(fabric)
    table = lab.flows(*((h, hosts[(5 * i + 3) % 16], 1_500_000, 0) for i, h in enumerate(hosts)))
    free = Transport(control="none", ack_every=1)
    return run(lab, fabric, table, Discipline(ecn="off", headroom=40_000), free, engine)


def incast(lab, engine):
    """Sixteen flows in two classes into one host: lost frames, NAKs and timeouts."""
    fabric = tree(1_000_000)
    *sources, sink = lab.hosts(fabric)
    table = lab.flows(*((h, sink, 1_000_000 + 7 * h, 1_000 * h) for h in sources))
    table["priority"] = [3 if i % 2 else 0 for i in range(len(sources))]
    rules = Discipline(ecn="dctcp", headroom="hpcc", alpha=1 / 32, egress_alpha=1 / 8)
    return run(lab, fabric, table, rules, Transport(rto_ps=1 * MS, mtu=1024), engine)


def tree(buffer):
    model = Switch(4, 100 * G, buffer)
    return build("fat_tree", {"k": 4, "nic_bps": 100 * G, "switch": model, "cable_m": 20.0})


def run(lab, fabric, table, discipline, transport, engine):
    emulator = PacketEmulator(
        fabric, equal_cost(fabric), discipline, transport, seed=7, engine=engine
    )
    emulator.submit(table)
    lab.finish(emulator, until=10**12)
    return emulator.telemetry()


CASES = {"first look": first_look, "permutation": permutation, "incast": incast}


@pytest.mark.parametrize("engine", ["core", "reference"])
@pytest.mark.parametrize("name", CASES)
def test_the_results_are_the_ones_written_down(lab, name, engine):
    telemetry = CASES[name](lab, engine)
    assert (telemetry.flows["finish_ps"] > 0).all()
    assert digest(telemetry) == DIGESTS[name]


def test_the_cases_pause_mark_lose_and_repeat(lab):
    # Digests of runs in which nothing happens would show nothing.
    assert permutation(lab, "core").totals["pause_frames"] > 400
    assert first_look(lab, "core").ports["marked"].sum() > 1_000
    lost = incast(lab, "core")
    totals = lost.totals
    assert min(totals["drops_lossless"], totals["drops_buffer"], totals["naks"]) > 100
    assert lost.flows["timeouts"].sum() > 100
