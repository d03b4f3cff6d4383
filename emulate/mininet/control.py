"""Two control experiments with known results, run on the network of every run.

A lone flow between hosts that are farthest apart must take its ideal time; two equal flows into one
host behind one switch must queue, and the later one must take as long as the packet engine says.
The first checks rates, delays and pacing, the second queueing.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from emulate.mininet.guard import Control
from emulate.packet import PacketEmulator
from topo.fabric import Fabric, Kind
from topo.route import Routes
from topo.unit import PS_PER_US
from traffic.emulator import FLOW
from traffic.replay import replay

PACKETS = 200
"""Of each control flow: long beside the flight of one packet, short beside any run."""

_FIRST_PS = 10 * PS_PER_US


@dataclass(frozen=True, slots=True)
class Controls:
    """The flows of the experiments, and what each must give."""

    flows: NDArray[np.void]
    lone_ps: int
    queued_ps: int
    end_ps: int
    """When all of them should be over."""

    def judged(self, finish_ps: NDArray[np.int64]) -> list[Control]:
        """The experiments with what they gave; ``finish_ps`` as `traffic.replay.replay` returns."""
        took = np.where(finish_ps < 0, -1, finish_ps - self.flows["release_ps"])
        found = [Control("the lone flow", int(took[0]), self.lone_ps)]
        if len(took) > 1:
            later = -1 if took[1:].min() < 0 else int(took[1:].max())
            found.append(Control("queueing at one switch", later, self.queued_ps))
        return found


def controls(fabric: Fabric, routes: Routes, twin: PacketEmulator) -> Controls:
    """The experiments for a fabric; ``twin`` is a fresh packet emulator with the same settings."""
    size = PACKETS * twin.transport.mtu
    rows = [_row(0, *farthest(fabric, routes), size, _FIRST_PS)]
    alone = twin_ideal(fabric, routes, twin, rows[0])
    together = _together(fabric)
    if together is not None:
        *senders, receiver = together
        release = _FIRST_PS + 2 * alone
        rows += [_row(1 + i, host, receiver, size, release) for i, host in enumerate(senders)]
    flows = np.array(rows, FLOW)
    finish = replay(flows, twin)
    later = int((finish[1:] - flows["release_ps"][1:]).max()) if len(flows) > 1 else 0
    return Controls(flows, alone, later, int(finish.max()))


def twin_ideal(
    fabric: Fabric, routes: Routes, twin: PacketEmulator, row: tuple[object, ...]
) -> int:
    """The ideal duration of one flow, by the engine of a packet emulator with these settings."""
    fresh = PacketEmulator(fabric, routes, twin.discipline, twin.transport, seed=0)
    fresh.submit(np.array([row], FLOW))
    return int(fresh.telemetry().flows["ideal_ps"][0])


def _row(
    flow: int, source: int, destination: int, size: int, release: int
) -> tuple[int | bool, ...]:
    return (flow, -1, source, destination, size, 1, flow + 1, -1, True, 3, release)


def farthest(fabric: Fabric, routes: Routes) -> tuple[int, int]:
    """Two hosts with most links between them, the first host being one of them."""
    hosts = [node.index for node in fabric.hosts]
    hops = routes.distances(hosts[:1], hosts)[0]
    return hosts[0], hosts[int(np.argmax(hops))]


def _together(fabric: Fabric) -> tuple[int, int, int] | None:
    """Three hosts with links to one switch, of equal rate, None where there are none."""
    ports = fabric.ports
    for switch in fabric.switches:
        own = range(int(ports.first[switch.index]), int(ports.first[switch.index + 1]))
        hosts = [p for p in own if fabric.nodes[int(ports.peer[p])].kind is Kind.HOST]
        for trio in combinations(hosts, 3):
            nodes = {int(ports.peer[p]) for p in trio}
            if len(nodes) == 3 and len({int(ports.rate_bps[p]) for p in trio}) == 1:
                a, b, c = (int(ports.peer[p]) for p in trio)
                return a, b, c
    return None
