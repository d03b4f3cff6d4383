"""Next-hop tables: the compact form says what the flat one says, and stays small."""

import time

import networkx as nx
import numpy as np
import pytest

from topo.capacity import distance_counts
from topo.fabric import Fabric, Kind, Switch
from topo.family.registry import FAMILIES, build
from topo.route import Routes, equal_cost
from topo.table import FlatTable, SharedTable


def routed(family: str) -> tuple[Fabric, Routes]:
    values = {"hosts": 16, "prefill": 8, "decode": 8, "switch": Switch(ports=16)}
    fabric = build(family, values)
    return fabric, equal_cost(fabric)


def kept(routes: Routes) -> SharedTable:
    assert isinstance(routes.table, SharedTable)
    return routes.table


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_and_reach_are_those_of_the_flat_form(family):
    fabric, routes = routed(family)
    for node in range(len(fabric.nodes)):
        for group in range(routes.groups):
            row = node * routes.groups + group
            flat = routes.ports[routes.first[row] : routes.first[row + 1]]
            assert routes.row(node, group).tolist() == flat.tolist()
    everyone = list(range(len(fabric.nodes)))
    assert np.array_equal(routes.reach(everyone[::-1]), routes.hops[::-1])


@pytest.mark.parametrize("family", FAMILIES)
def test_next_hops_are_the_neighbours_nearer_to_a_seat_without_crossing_hosts(family):
    fabric, routes = routed(family)
    switches = nx.Graph(fabric.graph)
    switches.remove_nodes_from([h.index for h in fabric.hosts])
    ports = fabric.ports
    for host in fabric.hosts[::5]:
        near = fabric.ports.peer[ports.first[host.index] : ports.first[host.index + 1]].tolist()
        seats = {n for n in near if fabric.nodes[n].kind is Kind.SWITCH}
        links = nx.multi_source_dijkstra_path_length(switches, seats) if seats else {}
        for node in range(len(fabric.nodes)):
            own = range(int(ports.first[node]), int(ports.first[node + 1]))
            onward = {p: links[int(ports.peer[p])] for p in own if int(ports.peer[p]) in links}
            least = min(onward.values(), default=-1)
            if node in links:
                least = -1 if links[node] == 0 else links[node] - 1
            expected = [p for p, n in onward.items() if n == least]
            found = routes.row(node, int(routes.group[host.index])).tolist()
            assert found == expected


def test_an_edge_switch_of_a_fat_tree_keeps_two_sets_however_many_destinations():
    routes = equal_cost(build("fat_tree", {"k": 8}))
    edge = build("fat_tree", {"k": 8}).node("edge0").index
    rows = {tuple(routes.row(edge, group).tolist()) for group in range(routes.groups)}
    assert sorted(map(len, rows)) == [0, 4]


def test_the_table_grows_with_switches_and_not_with_hosts():
    """Four times the hosts on the same switches: a few bytes a host more, and no row."""
    few, many = (
        build("leaf_spine", {"hosts": n, "leaves": 16, "spines": 8, "trunk": 1}) for n in (64, 256)
    )
    one, two = kept(equal_cost(few)).bytes, kept(equal_cost(many)).bytes
    assert two - one == (256 - 64) * 21
    assert one < 32 * len(few.switches) ** 2


@pytest.mark.slow
def test_a_fat_tree_of_65536_hosts_is_built_and_routed_within_a_minute():
    start = time.monotonic()
    fabric = build("fat_tree", {"k": 64})
    routes = equal_cost(fabric)
    assert time.monotonic() - start < 60
    switches, half = len(fabric.switches), 32
    assert (len(fabric.hosts), switches) == (65_536, 5_120)
    assert kept(routes).bytes < 4 * switches**2
    assert routes.count_paths(0, 65_535) == half**2
    hosts = len(fabric.hosts)
    assert distance_counts(fabric, routes) == {
        2: hosts * (half - 1),
        4: hosts * (half**2 - half),
        6: hosts * (hosts - half**2),
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_the_next_hops_of_a_node_at_once_are_those_of_its_rows(family):
    fabric, routes = routed(family)
    flat = FlatTable(routes.groups, routes.first, routes.ports, routes.hops)
    for node in range(len(fabric.nodes)):
        for table in (routes.table, flat):
            ports, used = table.chosen(node)
            for group in range(routes.groups):
                assert ports[used[:, group]].tolist() == routes.row(node, group).tolist()
