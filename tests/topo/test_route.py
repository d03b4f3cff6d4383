"""Routes: all shortest paths in links, never through a host, in a stable order."""

import numpy as np
import pytest

from topo.error import FabricError
from topo.fabric import Fabric, Switch
from topo.family.registry import build
from topo.route import Routes, equal_cost

GBPS = 10**9


def fat_tree(k: int) -> tuple[Fabric, Routes]:
    fabric = build("fat_tree", {"k": k})
    return fabric, equal_cost(fabric)


@pytest.mark.parametrize("k", [4, 8])
def test_a_fat_tree_has_a_path_a_core_between_pods_and_a_path_an_aggregation_within(k):
    _, routes = fat_tree(k)
    half = k // 2
    same_edge, same_pod, other_pod = half - 1, half, half * half
    assert routes.count_paths(0, other_pod) == half**2
    assert routes.count_paths(0, same_pod) == half
    assert routes.count_paths(0, same_edge) == 1
    assert [routes.distance(0, h) for h in (0, same_edge, same_pod, other_pod)] == [0, 2, 4, 6]


def test_paths_are_chains_of_ports_from_host_to_host():
    fabric, routes = fat_tree(4)
    ports = fabric.ports
    paths = routes.paths(0, 15)
    assert len(paths) == routes.count_paths(0, 15) == len({tuple(p) for p in paths})
    for path in paths:
        assert ports.node[path[0]] == 0
        assert ports.peer[path[-1]] == 15
        assert (ports.peer[path[:-1]] == ports.node[path[1:]]).all()
    assert paths == sorted(paths)


def test_a_limit_cuts_the_list_of_paths():
    _, routes = fat_tree(4)
    assert routes.paths(0, 15, limit=3) == routes.paths(0, 15)[:3]
    with pytest.raises(FabricError, match="path limit 0"):
        routes.paths(0, 15, limit=0)


def test_parallel_links_are_paths_of_their_own():
    fabric = build("leaf_spine", {"hosts": 4, "leaves": 2, "spines": 2, "trunk": 3})
    assert equal_cost(fabric).count_paths(0, 3) == 2 * 3 * 3


def test_a_leaf_sends_to_its_own_host_on_its_cable_and_to_others_on_all_uplinks():
    fabric, routes = fat_tree(4)
    leaf = fabric.node("edge0").index
    down = routes.next_hops(leaf, 0)
    assert fabric.ports.peer[down].tolist() == [0]
    up = routes.next_hops(leaf, 15)
    assert {fabric.nodes[n].tier for n in fabric.ports.peer[up].tolist()} == {2}
    assert len(up) == 2


def test_hosts_of_one_leaf_share_a_destination_group():
    fabric, routes = fat_tree(4)
    assert routes.groups == 8
    assert routes.group[:16].tolist() == [i // 2 for i in range(16)]
    assert (routes.group[16:] == -1).all()
    assert len(routes.first) == len(fabric.nodes) * routes.groups + 1


def test_a_host_on_two_leaves_is_reached_by_both_and_carries_nobody_else():
    fabric = Fabric("dual")
    a, dual, b = (fabric.add_host(n) for n in ("a", "dual", "b"))
    left, right = (fabric.add_switch(n, tier=1, switch=Switch()) for n in ("left", "right"))
    for host, leaf in ((a, left), (dual, left), (dual, right), (b, right)):
        fabric.connect(host, leaf, rate_bps=GBPS)
    routes = equal_cost(fabric)
    assert routes.distance(a, dual) == routes.distance(b, dual) == 2
    assert routes.distance(a, b) == -1
    assert routes.paths(a, b) == []
    assert routes.count_paths(a, b) == 0


def test_a_short_cut_through_a_host_is_not_taken():
    fabric = Fabric("short cut")
    a, dual, b = (fabric.add_host(n) for n in ("a", "dual", "b"))
    left, right, spine = (
        fabric.add_switch(n, tier=1, switch=Switch()) for n in ("left", "right", "spine")
    )
    for x, y in ((a, left), (left, dual), (dual, right), (left, spine), (spine, right), (right, b)):
        fabric.connect(x, y, rate_bps=GBPS)
    routes = equal_cost(fabric)
    (path,) = routes.paths(a, b)
    assert fabric.ports.peer[path].tolist() == [left, spine, right, b]


def test_hosts_joined_by_a_cable_need_no_switch():
    fabric = Fabric("direct")
    a, b = fabric.add_host("a"), fabric.add_host("b")
    fabric.connect(a, b, rate_bps=GBPS)
    routes = equal_cost(fabric)
    assert routes.distance(a, b) == 1
    assert routes.paths(a, b) == [[0]]


def test_the_matrix_of_distances_agrees_with_one_at_a_time():
    fabric = build("bipartite", {"prefill": 6, "decode": 6, "leaves": 3, "degree": 2})
    routes = equal_cost(fabric)
    hosts = list(range(12))
    matrix = routes.distances(hosts, hosts)
    assert matrix.tolist() == [[routes.distance(a, b) for b in hosts] for a in hosts]
    assert (matrix == matrix.T).all()


def test_groups_of_a_bipartite_fabric_have_no_path_between_them():
    fabric = build("bipartite", {"prefill": 8, "decode": 8, "groups": 2})
    routes = equal_cost(fabric)
    matrix = routes.distances(list(range(8)), list(range(8, 16)))
    assert (matrix[:4, :4] == 3).all()
    assert (matrix[4:, 4:] == 3).all()
    assert (matrix[:4, 4:] == -1).all()


def test_a_switch_is_no_destination():
    _, routes = fat_tree(4)
    with pytest.raises(FabricError, match="not a host"):
        routes.distance(0, 16)
    with pytest.raises(FabricError, match="not a host"):
        routes.next_hops(0, 99)


def test_two_routings_of_one_fabric_are_the_same_bytes():
    (_, one), (_, two) = fat_tree(4), fat_tree(4)
    for name in ("group", "first", "ports", "host_first", "host_ports", "hops"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
