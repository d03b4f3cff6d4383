"""The static deadlock check: rings have a cycle, up-down paths on a Clos have none."""

from itertools import pairwise

import networkx as nx
import pytest

from topo.deadlock import dependency_cycle, handoff_pairs, path_cycle
from topo.fabric import Fabric, Switch
from topo.family.registry import build
from topo.placement import place
from topo.route import equal_cost

GBPS = 10**9


def ring(size: int) -> Fabric:
    """Hosts h0.. on switches s0.., each switch cabled to the next."""
    fabric = Fabric("ring")
    for i in range(size):
        fabric.add_host(f"h{i}")
    for i in range(size):
        fabric.connect(i, fabric.add_switch(f"s{i}", tier=1, switch=Switch()), rate_bps=GBPS)
    for i in range(size):
        fabric.connect(size + i, size + (i + 1) % size, rate_bps=GBPS)
    return fabric


def clockwise(fabric: Fabric, size: int, start: int, hops: int) -> list[int]:
    """Ports from host ``start`` over that many links between switches to a host."""
    steps = [start, *(size + (start + i) % size for i in range(hops + 1)), (start + hops) % size]
    ports = fabric.ports
    return [
        next(p for p in range(ports.first[a], ports.first[a + 1]) if ports.peer[p] == b)
        for a, b in pairwise(steps)
    ]


def test_three_switches_in_a_ring_with_flows_of_two_hops_have_a_cycle():
    fabric = ring(3)
    cycle = path_cycle(fabric, [clockwise(fabric, 3, i, 2) for i in range(3)])
    assert cycle == ["s0:1>s1:1", "s1:2>s2:1", "s2:2>s0:2"]


def test_without_one_of_the_three_flows_the_ring_has_no_cycle():
    fabric = ring(3)
    assert path_cycle(fabric, [clockwise(fabric, 3, i, 2) for i in range(2)]) is None


def test_one_hop_flows_hold_one_buffer_and_make_no_cycle():
    fabric = ring(3)
    assert path_cycle(fabric, [clockwise(fabric, 3, i, 1) for i in range(3)]) is None
    pairs = [(a, b) for a in range(3) for b in range(3) if a != b]
    assert dependency_cycle(fabric, equal_cost(fabric), pairs) is None


def test_shortest_paths_round_a_ring_of_five_have_a_cycle():
    fabric = ring(5)
    pairs = [(i, (i + 2) % 5) for i in range(5)]
    cycle = dependency_cycle(fabric, equal_cost(fabric), pairs, acks=False)
    assert cycle is not None
    assert len(cycle) == 5


def test_the_way_back_of_acks_can_close_a_cycle():
    fabric = ring(5)
    pairs = [(0, 2), (1, 3), (2, 4), (0, 3), (1, 4)]
    routes = equal_cost(fabric)
    assert dependency_cycle(fabric, routes, pairs, acks=False) is None
    assert dependency_cycle(fabric, routes, pairs, acks=True) is not None


@pytest.mark.parametrize(
    ("family", "values"),
    [
        ("fat_tree", {"k": 4}),
        ("fat_tree", {"hosts": 50}),
        ("leaf_spine", {"hosts": 16, "leaves": 4}),
        ("full_mesh", {"hosts": 16, "leaves": 4}),
        ("bipartite", {"prefill": 8, "decode": 8, "leaves": 4}),
    ],
)
def test_up_down_and_one_hop_families_have_no_cycle(family, values):
    fabric = build(family, values)
    if family != "bipartite":
        half = len(fabric.hosts) // 2
        fabric = place(fabric, prefill=half, decode=half, by="interleaved")
    assert dependency_cycle(fabric, equal_cost(fabric), handoff_pairs(fabric)) is None


def test_a_path_that_bounces_down_and_up_closes_a_cycle_on_a_leaf_spine():
    fabric = build("leaf_spine", {"hosts": 3, "leaves": 3, "spines": 2, "trunk": 1})
    ports = fabric.ports

    def path(*names: str) -> list[int]:
        steps = [fabric.node(name).index for name in names]
        return [
            next(p for p in range(ports.first[a], ports.first[a + 1]) if ports.peer[p] == b)
            for a, b in pairwise(steps)
        ]

    up_down = path("h0", "leaf0", "spine0", "leaf1", "h1")
    bounced = [
        path("h0", "leaf0", "spine0", "leaf1", "spine1", "leaf2", "h2"),
        path("h2", "leaf2", "spine1", "leaf1", "spine0", "leaf0", "h0"),
        path("h1", "leaf1", "spine1", "leaf0", "spine0", "leaf2", "h2"),
        path("h2", "leaf2", "spine0", "leaf0", "spine1", "leaf1", "h1"),
        path("h1", "leaf1", "spine0", "leaf2", "spine1", "leaf0", "h0"),
        path("h0", "leaf0", "spine1", "leaf2", "spine0", "leaf1", "h1"),
    ]
    assert path_cycle(fabric, [up_down]) is None
    assert path_cycle(fabric, bounced) is not None


def test_a_circulant_bipartite_of_four_leaves_has_a_cycle():
    values = {"prefill": 8, "decode": 8, "leaves": 4, "degree": 2}
    fabric = build("bipartite", values)
    cycle = dependency_cycle(fabric, equal_cost(fabric), handoff_pairs(fabric))
    assert cycle is not None
    for held, wanted in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        assert held.split(">")[1].split(":")[0] == wanted.split(":")[0]


@pytest.mark.parametrize("degree", [2, 3, 4])
def test_the_check_agrees_with_every_path_written_out(degree):
    values = {"prefill": 4, "decode": 4, "leaves": 4, "degree": degree}
    fabric = build("bipartite", values)
    routes = equal_cost(fabric)
    pairs = handoff_pairs(fabric)
    paths = [p for a, b in pairs for s, d in ((a, b), (b, a)) for p in routes.paths(s, d)]
    graph: nx.DiGraph[int] = nx.DiGraph()
    for path in paths:
        graph.add_edges_from(pairwise(path[1:-1]))
    expected = not nx.is_directed_acyclic_graph(graph)
    assert (dependency_cycle(fabric, routes, pairs) is not None) == expected
    assert (path_cycle(fabric, paths) is not None) == expected


@pytest.mark.parametrize("family", ["bipartite", "torus", "dragonfly", "rail_only", "dual_tor"])
def test_without_pairs_every_hand_off_is_checked(family):
    values = {"hosts": 32, "prefill": 16, "decode": 16, "switch": Switch(ports=16)}
    if family == "bipartite":
        values |= {"leaves": 4, "degree": 2}
    fabric = build(family, values)
    if family != "bipartite":
        fabric = place(fabric, prefill=16, decode=16, by="separate")
    routes = equal_cost(fabric)
    for acks in (True, False):
        stated = dependency_cycle(fabric, routes, handoff_pairs(fabric), acks=acks)
        assert dependency_cycle(fabric, routes, acks=acks) == stated


def test_without_roles_all_hosts_talk():
    fabric = ring(5)
    assert dependency_cycle(fabric, equal_cost(fabric)) is not None
    assert dependency_cycle(ring(3), equal_cost(ring(3))) is None


def test_the_cycle_that_is_told_is_a_shortest_one_round_its_first_buffer():
    fabric = build("torus", {"shape": (5, 5), "p": 1})
    cycle = dependency_cycle(fabric, equal_cost(fabric))
    assert cycle is not None
    assert len(cycle) == 4
