"""The fluid and the packet emulator agree where they should: paths, lone flows, long shares."""

import numpy as np
import pytest
from numpy.typing import NDArray

from emulate.discipline import Discipline
from emulate.fluid import FluidEmulator
from emulate.packet import PacketEmulator
from emulate.transport import Transport
from topo.fabric import Fabric, Switch
from topo.route import equal_cost
from traffic.emulator import FLOW, Emulator
from traffic.replay import replay

G = 10**9
MODEL = Switch(ports=16, rate_bps=100 * G, latency_ps=600_000)


def two_tiers() -> Fabric:
    """Four leaves of two hosts, four spines."""
    fabric = Fabric("two tiers")
    spines = [fabric.add_switch(f"spine{s}", tier=2, switch=MODEL) for s in range(4)]
    for leaf in range(4):
        node = fabric.add_switch(f"leaf{leaf}", tier=1, switch=MODEL)
        for spine in spines:
            fabric.connect(node, spine, rate_bps=100 * G, length_m=10)
        for h in range(2):
            fabric.connect(fabric.add_host(f"h{leaf}.{h}"), node, rate_bps=100 * G, length_m=2)
    return fabric


def both(fabric: Fabric, seed: int, control: str = "dcqcn") -> tuple[FluidEmulator, PacketEmulator]:
    routes = equal_cost(fabric)
    transport = Transport(control="none") if control == "none" else Transport()
    return (
        FluidEmulator(fabric, routes, seed=seed, mtu=transport.mtu),
        PacketEmulator(fabric, routes, Discipline(), transport, seed=seed),
    )


def lone_flows(fabric: Fabric, count: int) -> NDArray[np.void]:
    """Flows between random hosts, a millisecond apart."""
    rng = np.random.default_rng(4)
    table = np.zeros(count, FLOW)
    nodes = [n.index for n in fabric.hosts]
    for flow in range(count):
        source, destination = rng.choice(nodes, 2, replace=False)
        size, entropy = int(rng.integers(1, 200_000)), int(rng.integers(0, 2**32))
        release = flow * 10**9
        table[flow] = (flow, flow, source, destination, size, 1, entropy, -1, True, 3, release)
    return table


def test_descriptors_cut_a_lone_flow_alike_in_both() -> None:
    fabric = two_tiers()
    table = lone_flows(fabric, 20)
    table["descriptors"] = np.minimum(table["bytes"], np.arange(1, 21))
    fluid, packet = both(fabric, 3)
    assert replay(table, fluid).tolist() == replay(table, packet).tolist()
    one, other = fluid.telemetry().flows, packet.telemetry().flows
    assert one["ideal_ps"].tolist() == other["ideal_ps"].tolist()
    assert one["packets"].tolist() == other["packets"].tolist()


@pytest.mark.parametrize("seed", [0, 7])
def test_both_choose_the_same_path_and_give_a_lone_flow_the_same_finish(seed: int) -> None:
    fabric = two_tiers()
    table = lone_flows(fabric, 60)
    table["path"][40:] = np.arange(20)
    fluid, packet = both(fabric, seed)
    assert replay(table, fluid).tolist() == replay(table, packet).tolist()
    assert [fluid.path(f) for f in range(60)] == [packet.path(f) for f in range(60)]
    ideal = fluid.telemetry().flows["ideal_ps"]
    assert ideal.tolist() == packet.telemetry().flows["ideal_ps"].tolist()


def test_an_incast_without_congestion_control_ends_within_a_percent_of_the_fluid() -> None:
    fabric = two_tiers()
    *sources, sink = [n.index for n in fabric.hosts]
    table = np.zeros(len(sources), FLOW)
    for flow, source in enumerate(sources):
        table[flow] = (flow, flow, source, sink, 10**6, 1, flow, -1, True, 3, 0)

    def last(emulator: Emulator) -> int:
        return int(replay(table, emulator).max())

    fluid, packet = both(fabric, 0, control="none")
    assert last(packet) == pytest.approx(last(fluid), rel=0.01)
