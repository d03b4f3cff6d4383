"""Waiting of single packets: Lindley's recursion to the picosecond, and its mean by the formulas.

The emulator keeps the recursion packet by packet, and the recursion's own mean, over millions of
arrivals, lies with the Pollaczek-Khinchine formula inside a narrow interval; so does the emulator.
"""

import numpy as np
import pytest

from emulate.discipline import Discipline
from emulate.packet import PacketEmulator
from emulate.transport import Transport
from topo.route import equal_cost

G = 10**9
PER_BYTE = 80
"""Picoseconds a byte at 100 Gbit/s."""

QUIET = Discipline(ecn="off")
FREE = Transport(control="none")


def lindley(arrival, service):
    """When each customer of a first-come queue leaves; arrivals in order."""
    # leave[i] = max(arrival[i], leave[i - 1]) + service[i], as a running maximum.
    total = np.cumsum(service)
    return np.maximum.accumulate(arrival - total + service) + total


def by_source(source, release, service):
    """Each source is a queue of its own."""
    leave = np.zeros_like(release)
    for one in np.unique(source):
        mine = source == one
        leave[mine] = lindley(release[mine], service[mine])
    return leave


@pytest.mark.parametrize(
    ("load", "sizes"), [(0.5, [4096]), (0.8, [4096]), (0.7, [512, 1024, 4096])]
)
def test_every_packet_waits_as_in_lindleys_recursion(lab, load, sizes):
    rng = np.random.default_rng(7)
    fabric = lab.star(33, buffer=2**30, latency=0)
    *sources, sink = lab.hosts(fabric)
    count = 20_000
    payload = rng.choice(sizes, count)
    service = (payload + 82) * PER_BYTE
    release = np.cumsum(rng.exponential(service.mean() / load, count)).astype(np.int64)
    source = rng.choice(sources, count)
    table = lab.flows(
        *((int(s), sink, int(b), int(t)) for s, b, t in zip(source, payload, release, strict=True))
    )
    emulator = PacketEmulator(fabric, equal_cost(fabric), QUIET, FREE, seed=1)
    emulator.submit(table)
    lab.finish(emulator, until=int(release[-1]) + 10**10)
    finish = emulator.telemetry().flows["finish_ps"]
    arrival = by_source(source, release, service) + 50_000
    order = np.argsort(arrival, kind="stable")
    expected = np.empty(count, np.int64)
    expected[order] = lindley(arrival[order], service[order]) + 50_000
    # Frames of two sizes that arrive at one picosecond are served in the order of ports.
    assert (np.sort(finish) == np.sort(expected)).mean() > 0.999
    assert (finish == expected).mean() > 0.999


@pytest.mark.parametrize(
    ("load", "sizes", "count"),
    [(0.5, [4096], 10**6), (0.8, [4096], 8 * 10**6), (0.7, [512, 1024, 4096], 6 * 10**6)],
)
def test_the_recursions_mean_is_that_of_pollaczek_and_khinchine(load, sizes, count):
    rng = np.random.default_rng(11)
    service = (rng.choice(sizes, count) + 82) * float(PER_BYTE)
    arrival = np.cumsum(rng.exponential(service.mean() / load, count))
    waiting = lindley(arrival, service) - service - arrival
    mean, second = service.mean(), (service**2).mean()
    formula = load / mean * second / (2 * (1 - load))
    batches = waiting.reshape(100, -1).mean(axis=1)
    half = 2.626 * batches.std(ddof=1) / 10  # Student, 99 %, 99 degrees of freedom
    assert 2 * half < 0.03 * formula
    assert abs(waiting.mean() - formula) < half
    if len(sizes) == 1:
        # M/D/1: rho / (2 (1 - rho)) services: 0.5 at 0.5, 2 at 0.8.
        assert formula / mean == pytest.approx(load / (2 * (1 - load)))
