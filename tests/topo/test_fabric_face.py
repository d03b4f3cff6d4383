"""The fabric's typed face: invariants refused by name, ports that agree with the cables."""

import numpy as np
import pytest

from topo.check import check
from topo.error import FabricError
from topo.fabric import Fabric, Kind, Role, Switch

GBPS = 10**9


def dumbbell(ports: int = 4) -> Fabric:
    """h0 h1 - s0 = s1 - h2, two parallel cables between the switches."""
    fabric = Fabric("dumbbell")
    h0, h1, h2 = (fabric.add_host(f"h{i}", rack=i // 2) for i in range(3))
    s0, s1 = (fabric.add_switch(f"s{i}", tier=1, switch=Switch(ports)) for i in range(2))
    for a, b in ((h0, s0), (h1, s0), (s0, s1), (s0, s1), (h2, s1)):
        fabric.connect(a, b, rate_bps=100 * GBPS, length_m=2)
    return fabric


def test_each_port_and_its_reverse_are_the_two_ends_of_one_cable():
    fabric = dumbbell()
    ports = fabric.ports
    every = np.arange(2 * len(fabric.links))
    assert (ports.reverse[ports.reverse] == every).all()
    assert (ports.link[ports.reverse] == ports.link).all()
    for p in every.tolist():
        link = fabric.links[ports.link[p]]
        assert {link.a, link.b} == {ports.node[p], ports.peer[p]}


def test_a_nodes_ports_are_contiguous_in_the_order_of_cabling():
    fabric = dumbbell()
    first = fabric.ports.first
    s0 = fabric.node("s0").index
    assert fabric.ports.link[first[s0] : first[s0 + 1]].tolist() == [0, 1, 2, 3]
    assert fabric.port_name(int(first[s0]) + 2) == "s0:2>s1:0"


def test_the_delay_of_a_cable_is_its_length():
    assert dumbbell().links[0].delay_ps == 10_100


def test_a_cable_added_later_shows_in_the_ports():
    fabric = dumbbell(ports=5)
    before = len(fabric.ports.node)
    fabric.connect(3, 4, rate_bps=GBPS)
    assert len(fabric.ports.node) == before + 2


def test_roles_are_given_on_a_copy():
    fabric = dumbbell()
    placed = fabric.with_roles({0: Role.PREFILL})
    assert placed.hosts_with(Role.PREFILL) == [0]
    assert fabric.hosts_with(Role.PREFILL) == []
    assert [n.kind for n in placed.nodes] == [Kind.HOST] * 3 + [Kind.SWITCH] * 2


def test_the_networkx_view_keeps_parallel_cables():
    graph = dumbbell().graph
    assert graph.number_of_edges(3, 4) == 2
    assert graph.nodes[3]["kind"] == "switch"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda f: f.add_host("h0"), "the name is taken"),
        (lambda f: f.connect(0, 0, rate_bps=GBPS), "two different nodes"),
        (lambda f: f.connect(0, 4, rate_bps=0), "link rate 0bps: must be above 0"),
        (lambda f: f.connect(0, 4, rate_bps=GBPS, length_m=-1), "length -1m: must not"),
        (lambda f: f.connect(0, 4, rate_bps=GBPS, delay_ps=-1), "link delay -1ps, length 0m: must"),
        (lambda f: f.connect(0, 3, rate_bps=GBPS), "all 4 ports are in use"),
        (lambda f: f.node("h9"), "not in fabric"),
    ],
)
def test_a_broken_invariant_is_refused_by_name(wrong, told):
    with pytest.raises(FabricError, match=told):
        wrong(dumbbell())


def test_a_whole_fabric_passes_the_check():
    check(dumbbell())


def test_a_host_without_a_cable_is_refused():
    fabric = dumbbell()
    fabric.add_host("lonely")
    with pytest.raises(FabricError, match="host 'lonely' has no link"):
        check(fabric)


def test_a_fabric_without_hosts_is_refused():
    with pytest.raises(FabricError, match="no hosts"):
        check(Fabric("empty"))


def two_islands(family: str, near: Role, far: Role) -> Fabric:
    fabric = Fabric(family)
    for i, role in enumerate((near, far, Role.PREFILL, Role.DECODE)):
        fabric.add_host(f"h{i}", role=role)
    for i in range(2):
        leaf = fabric.add_switch(f"s{i}", tier=1, switch=Switch())
        fabric.connect(2 * i, leaf, rate_bps=GBPS)
        fabric.connect(2 * i + 1, leaf, rate_bps=GBPS)
    return fabric


def test_an_unconnected_fabric_is_refused_and_the_pair_is_named():
    with pytest.raises(FabricError, match=r"in pieces: no path from host 'h0' to host 'h2'"):
        check(two_islands("leaf_spine", Role.PREFILL, Role.DECODE))


def test_islands_of_a_bipartite_fabric_pass_when_each_has_both_roles():
    check(two_islands("bipartite", Role.PREFILL, Role.DECODE))


def test_an_island_of_prefill_alone_is_refused():
    with pytest.raises(FabricError, match=r"'h0' \(prefill\) has no path to a decode host"):
        check(two_islands("bipartite", Role.PREFILL, Role.PREFILL))


def test_hosts_do_not_join_islands():
    fabric = two_islands("leaf_spine", Role.NONE, Role.NONE)
    fabric.connect(0, 5, rate_bps=GBPS)
    with pytest.raises(FabricError, match=r"no path from host 'h1' to host 'h2'"):
        check(fabric)
