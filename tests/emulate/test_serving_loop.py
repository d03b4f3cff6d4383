"""The serving loop closed over real emulators: repeatable, and open-loop replay agrees with it."""

import numpy as np
import pytest
from numpy.typing import NDArray

from emulate.fluid import FluidEmulator
from emulate.packet import PacketEmulator
from topo.fabric import Fabric, Role, Switch
from topo.route import Routes, equal_cost
from traffic.compute.gpu import gpu
from traffic.emulator import Emulator
from traffic.instance import Deployment, Pool, instances, links
from traffic.model import model
from traffic.policy.registry import policy
from traffic.replay import replay
from traffic.request import RequestTable, request_table
from traffic.serving.run import Outcome, serve

G = 10**9
LLAMA = model("Llama-3.1-8B")
H100 = gpu("H100-SXM")


def narrow() -> Fabric:
    """Two leaves of four hosts and one spine: prefill hosts even, decode hosts odd."""
    switch = Switch(ports=8, rate_bps=100 * G)
    fabric = Fabric("narrow")
    spine = fabric.add_switch("spine", tier=2, switch=switch)
    for leaf in range(2):
        node = fabric.add_switch(f"leaf{leaf}", tier=1, switch=switch, rack=leaf)
        fabric.connect(node, spine, rate_bps=100 * G, length_m=10)
        for h in range(4):
            role = Role.DECODE if h % 2 else Role.PREFILL
            host = fabric.add_host(f"h{leaf}.{h}", rack=leaf, role=role)
            fabric.connect(host, node, rate_bps=100 * G, length_m=2)
    return fabric


FABRIC = narrow()
ROUTES = equal_cost(FABRIC)


def emulator(kind: str) -> Emulator:
    if kind == "fluid":
        return FluidEmulator(FABRIC, ROUTES, seed=1)
    return PacketEmulator(FABRIC, ROUTES, seed=1)


def pools(tp: int) -> Deployment:
    prefill, decode = (instances(FABRIC, role, tp) for role in (Role.PREFILL, Role.DECODE))
    return Deployment(Pool(prefill, LLAMA, H100, tp=tp), Pool(decode, LLAMA, H100, tp=tp))


def requests(count: int) -> RequestTable:
    rng = np.random.default_rng(8)
    return request_table(
        arrival_ps=np.cumsum(rng.exponential(2 * 10**9, count)).astype(np.int64),
        input_tokens=rng.integers(1, 300, count),
        output_tokens=rng.integers(1, 20, count),
    )


def served(kind: str, tp: int, name: str = "least_loaded") -> Outcome:
    deployment = pools(tp)
    hops = distances(ROUTES, deployment)
    chosen = policy(name, hops, seed=1)
    return serve(requests(40), deployment, chosen, emulator(kind), hops=hops, seed=1)


def distances(routes: Routes, deployment: Deployment) -> NDArray[np.int32]:
    return links(routes, deployment.prefill.instances, deployment.decode.instances)


@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize("kind", ["fluid", "packet"])
def test_a_run_repeats_itself_and_its_flows_replayed_open_loop_finish_alike(
    kind: str, tp: int
) -> None:
    outcome, again = served(kind, tp), served(kind, tp)
    table = outcome.requests
    for name in table:
        assert table[name].tobytes() == again.requests[name].tobytes(), name
    assert (table["status"] == 0).all()
    assert len(outcome.flows) == 40 * tp
    finish = replay(outcome.flows, emulator(kind))
    ready = np.zeros(40, np.int64)
    np.maximum.at(ready, outcome.flows["handoff"], finish)
    assert ready.tolist() == table["kv_ready_ps"].tolist()
    moved = np.bincount(outcome.flows["handoff"], outcome.flows["bytes"])
    assert moved.tolist() == table["kv_bytes"].tolist()


def test_topology_aware_keeps_more_handoffs_inside_a_rack_than_a_blind_policy() -> None:
    hops = distances(ROUTES, pools(1))

    def inside(name: str) -> int:
        table = served("fluid", 1, name).requests
        pairs = zip(table["prefill"].tolist(), table["decode"].tolist(), strict=True)
        return sum(int(hops[p, d]) == 2 for p, d in pairs)

    assert inside("topology_aware") > inside("random")


def test_the_distance_of_two_instances_is_that_of_their_farthest_ranks() -> None:
    hosts = {n.name: n.index for n in FABRIC.hosts}
    left = (hosts["h0.0"], hosts["h0.2"])
    near, mixed = (hosts["h0.1"], hosts["h0.3"]), (hosts["h1.1"], hosts["h0.3"])
    assert links(ROUTES, (left,), (near, mixed)).tolist() == [[2, 4]]


def test_instances_with_a_rank_that_has_no_path_have_no_distance() -> None:
    fabric = narrow()
    lonely = fabric.add_host("lonely", role=Role.DECODE)
    other = fabric.add_switch("other", tier=1, switch=Switch())
    fabric.connect(lonely, other, rate_bps=G)
    hosts = {n.name: n.index for n in fabric.hosts}
    left, right = (hosts["h0.0"], hosts["h0.2"]), (hosts["h0.1"], lonely)
    assert links(equal_cost(fabric), (left,), (right,)).tolist() == [[-1]]
