"""Throughput: theta against closed forms, against mu, and the bracket against the programme."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topo.throughput as throughput_module
from topo.capacity import mu
from topo.error import FabricError
from topo.fabric import Fabric, Role, Switch
from topo.family.registry import build
from topo.placement import place
from topo.skeleton import skeleton
from topo.throughput import DEMANDS, hot, longest, theta, throughput, uniform

GBPS = 10**9


def placed(family: str, half: int, *, by: str = "separate", **values: object) -> Fabric:
    hosts = {"hosts": 2 * half, "prefill": half, "decode": half}
    return place(build(family, {**hosts, **values}), prefill=half, decode=half, by=by)


@pytest.mark.parametrize("demand", DEMANDS)
@pytest.mark.parametrize(("family", "half"), [("fat_tree", 64), ("leaf_spine", 128)])
def test_a_clos_that_does_not_block_carries_every_demand(family, half, demand):
    fabric = placed(family, half, by="rack")
    assert throughput(fabric, (demand,))[demand].low == pytest.approx(1)


@pytest.mark.parametrize("ratio", [2, 4, 8])
def test_an_oversubscribed_leaf_spine_carries_one_part_in_r(ratio):
    fabric = placed("leaf_spine", 32, leaves=4, spines=16 // ratio, trunk=1, oversubscription=ratio)
    found = throughput(fabric, ("uniform", "longest"))
    assert found["uniform"].low == pytest.approx(1 / ratio)
    assert found["longest"].low == pytest.approx(1 / ratio)


def test_pools_under_one_leaf_need_no_uplink():
    # Of 8 NICs' worth a leaf sends half to itself: 2 uplinks carry half of the 4 that are left.
    fabric = placed(
        "leaf_spine", 16, by="interleaved", leaves=2, spines=2, trunk=1, oversubscription=8
    )
    assert throughput(fabric, ("uniform",))["uniform"].low == pytest.approx(0.5)


def mesh(leaves: int, each: int, trunk: int) -> Fabric:
    """Prefill on one half of the leaves of a full mesh, decode on the other."""
    values = {"leaves": leaves, "trunk": trunk, "oversubscription": 100}
    return placed("full_mesh", leaves * each // 2, **values)


def test_the_longest_matching_of_a_mesh_is_a_permutation_of_leaves():
    # Each leaf sends 8 to one other over 1 direct link, and over 2 ways through other leaves.
    fabric = mesh(4, 8, 1)
    graph = skeleton(fabric)
    assert sorted((longest(fabric, graph) > 1e-9).sum(axis=1)) == [1, 1]
    assert throughput(fabric, ("uniform",))["uniform"].low == pytest.approx(0.25)
    assert throughput(fabric, ("longest",))["longest"].low == pytest.approx(0.25)


def test_a_ring_carries_half_of_a_matching_of_opposite_switches():
    fabric = Fabric("ring")
    ring = [fabric.add_switch(f"s{i}", tier=1, switch=Switch()) for i in range(4)]
    for i, switch in enumerate(ring):
        fabric.connect(switch, ring[(i + 1) % 4], rate_bps=GBPS)
        role = (Role.PREFILL, Role.NONE, Role.DECODE, Role.NONE)[i]
        fabric.connect(fabric.add_host(f"h{i}", rack=i, role=role), switch, rate_bps=4 * GBPS)
    assert throughput(fabric, ("longest",))["longest"].low == pytest.approx(0.5)


def test_a_hot_leaf_takes_half_of_the_bytes_and_no_nic_is_overfull():
    fabric = placed("leaf_spine", 32, leaves=8, spines=8, trunk=1)
    graph = skeleton(fabric)
    demand = hot(fabric, graph)
    taken = demand.sum(axis=0)
    assert taken.max() / taken.sum() == pytest.approx(0.5 + 0.5 / 4)
    assert (taken <= graph.supply[graph.senders :] * (1 + 1e-9)).all()
    assert (demand.sum(axis=1) <= graph.supply[: graph.senders] * (1 + 1e-9)).all()


def test_the_smaller_pool_is_full_in_a_uniform_demand():
    fabric = place(build("leaf_spine", {"hosts": 12}), prefill=4, decode=8)
    graph = skeleton(fabric)
    assert uniform(graph).sum() == pytest.approx(graph.supply[: graph.senders].sum())


def test_a_pair_without_a_path_carries_nothing_together():
    fabric = placed("bipartite", 16, groups=2, leaves=2, oversubscription=8)
    for most in (0, 40_000):
        graph = skeleton(fabric)
        assert theta(graph, uniform(graph), most_variables=most).high == pytest.approx(0)


@st.composite
def jelly(draw: st.DrawFn) -> Fabric:
    fabric = Fabric("jelly")
    count = draw(st.integers(3, 7))
    switches = [fabric.add_switch(f"s{i}", tier=1, switch=Switch()) for i in range(count)]
    for i, switch in enumerate(switches):
        role = Role.PREFILL if i % 2 else Role.DECODE
        for j in range(draw(st.integers(1, 3))):
            host = fabric.add_host(f"h{i}-{j}", rack=i, role=role)
            fabric.connect(host, switch, rate_bps=2 * GBPS)
        fabric.connect(switch, switches[(i + 1) % count], rate_bps=GBPS)
    for _ in range(draw(st.integers(0, 5))):
        a, b = draw(st.lists(st.integers(0, count - 1), min_size=2, max_size=2, unique=True))
        fabric.connect(switches[a], switches[b], rate_bps=draw(st.sampled_from([1, 2])) * GBPS)
    return fabric


@settings(max_examples=5, deadline=None)
@given(jelly())
def test_theta_never_exceeds_mu_and_the_bracket_holds_it(fabric):
    graph = skeleton(fabric)
    for demand in (uniform(graph), hot(fabric, graph), longest(fabric, graph)):
        exact = theta(graph, demand)
        assert exact.low * demand.sum() * graph.unit_bps <= mu(fabric) * (1 + 1e-6)
        around = theta(graph, demand, most_variables=0)
        assert around.low <= exact.low * (1 + 1e-6)
        assert around.high >= exact.low * (1 - 1e-6)
        assert around.low >= 0.6 * exact.low


@settings(max_examples=20, deadline=None)
@given(jelly(), st.data())
def test_theta_does_not_grow_when_a_trunk_is_thinned(fabric, data):
    less = Fabric("jelly")
    for n in fabric.nodes:
        if n.switch is None:
            less.add_host(n.name, rack=n.rack, role=n.role)
        else:
            less.add_switch(n.name, tier=1, switch=n.switch)
    inner = [link for link in fabric.links if fabric.nodes[link.a].switch]
    inner = [link for link in inner if fabric.nodes[link.b].switch]
    lost = data.draw(st.sampled_from(inner))
    for link in fabric.links:
        if link is not lost:
            less.connect(link.a, link.b, rate_bps=link.rate_bps)
    before = throughput(fabric, ("uniform",))["uniform"].low
    assert throughput(less, ("uniform",))["uniform"].low <= before * (1 + 1e-6)


def test_an_unknown_demand_is_refused():
    with pytest.raises(FabricError, match="demand 'worst': unknown; write one of uniform"):
        throughput(placed("leaf_spine", 4), ("worst",))


@pytest.mark.parametrize("family", ["leaf_spine", "torus", "slim_fly", "bipartite", "jellyfish"])
@pytest.mark.parametrize("demand", throughput_module.DEMANDS)
def test_a_value_proved_without_the_programme_is_that_of_the_programme(family, demand, monkeypatch):
    fabric = placed(family, 16, by="rack", switch=Switch(ports=16))
    proved = throughput(fabric, (demand,))[demand]
    monkeypatch.setattr(throughput_module, "PROOF_ROUNDS", 0)
    solved = throughput(fabric, (demand,))[demand]
    assert proved.high == pytest.approx(solved.high, abs=1e-6)
    assert proved.low == pytest.approx(proved.high, abs=1e-6)
