"""From settings and a network to the plan of a run; what real frames cannot do is refused.

The settings are those of a packet emulator, the run's twin: it has checked them and knows paths and
ideal times.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from emulate.discipline import Discipline
from emulate.fault import Fault
from emulate.mininet.dilation import Calibration, calibration
from emulate.mininet.error import EmulationError
from emulate.mininet.guard import bridge_ps
from emulate.mininet.network import INTERFACE_MTU, Network
from emulate.mininet.plan import Plan, packed
from emulate.packet import OBSERVATION_TICK_PS, PacketEmulator
from emulate.setting import (
    dcqcn_columns,
    discipline_columns,
    fabric_columns,
    in_effect,
    port_headroom,
    route_columns,
    transport_columns,
)
from emulate.transport import Transport
from topo.fabric import Fabric
from topo.route import Routes
from topo.unit import show_rate


@dataclass(frozen=True)
class Setup:
    """What is emulated: a fabric, its routes, and what its switches and NICs run."""

    fabric: Fabric
    routes: Routes
    discipline: Discipline
    transport: Transport
    seed: int
    faults: Sequence[Fault] = ()
    headrooms: Mapping[int, int] = field(default_factory=dict)

    def twin(self) -> PacketEmulator:
        """A fresh packet emulator with these settings."""
        return PacketEmulator(
            self.fabric,
            self.routes,
            self.discipline,
            self.transport,
            seed=self.seed,
            faults=self.faults,
            headrooms=self.headrooms,
        )

    def calibration(self) -> Calibration:
        """The dilation that this machine needs, measured."""
        bridge = bridge_ps(self.fabric, self.discipline, self.headroom())
        return calibration(self.fabric, self.routes, self.transport.mtu, bridge)

    def headroom(self) -> NDArray[np.int64]:
        """Bytes of headroom, one entry a port."""
        found = port_headroom(self.fabric, self.discipline, self.transport)
        for port, size in self.headrooms.items():
            found[port] = size
        return found


def refuse_frames(setup: Setup) -> None:
    """Raise `EmulationError` for settings that real frames do not know."""
    if setup.transport.by_credits:
        raise EmulationError(
            "transport infiniband: credits have no frames on Ethernet; write kind: rocev2, or "
            "use emulator packet"
        )
    if setup.transport.drain_bps:
        raise EmulationError(
            f"drain {show_rate(setup.transport.drain_bps)}: hosts of real frames take data as "
            "it comes; leave it out, or use emulator packet"
        )
    if setup.discipline.cut_through:
        raise EmulationError(
            "cut_through: a socket hands over whole frames; write cut_through: false, or use "
            "emulator packet"
        )
    if setup.faults:
        raise EmulationError(
            "faults: real frames do not know faults of links and switches yet; leave them out, or "
            "use emulator packet"
        )


def plan_of(setup: Setup, network: Network, dilation: int) -> Plan:
    """The plan of a session on a network; refuses what `refuse_frames` does."""
    refuse_frames(setup)
    rules = in_effect(setup.discipline, setup.transport)
    switch, agent = cores()
    return Plan(
        prefix=network.record.prefix,
        folder=str(network.folder),
        dilation=dilation,
        seed=setup.seed,
        tick_ps=OBSERVATION_TICK_PS,
        mtu_bytes=INTERFACE_MTU,
        fabric=packed(fabric_columns(setup.fabric)),
        routes=packed(route_columns(setup.routes)),
        discipline=packed(discipline_columns(setup.fabric, rules, setup.headroom())),
        dcqcn=packed(dcqcn_columns(setup.transport)),
        transport=packed(transport_columns(setup.fabric, setup.transport)),
        nodes=network.nodes,
        ports=network.ports,
        switch_core=switch,
        agent_core=agent,
    )


def cores() -> tuple[int, int]:
    """The processors of the switch and of the agent process: two of those this process may use."""
    mine = sorted(os.sched_getaffinity(0))
    return (mine[-1], mine[0]) if len(mine) > 1 else (mine[0], mine[0])
