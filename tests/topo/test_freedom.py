"""Which routings are free of deadlock: known channel counts, and the graph of waits as judge."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topo.channel import by_hop, channels_used
from topo.deadlock import channel_cycle, dependency_cycle, path_cycle
from topo.detour import valiant_paths
from topo.error import FabricError
from topo.fabric import Fabric, Switch
from topo.family.lattice import shape_of
from topo.family.registry import build
from topo.freedom import ROUTINGS, Freedom, freedoms
from topo.placement import place
from topo.route import Routes, equal_cost
from topo.updown import spanning_order, up_down

SWITCH = Switch(ports=16)


def told(fabric: Fabric) -> dict[str, Freedom]:
    return {way.routing: way for way in freedoms(fabric)}


def every_path(fabric: Fabric, routes: Routes) -> list[list[int]]:
    hosts = [host.index for host in fabric.hosts]
    return [path for a, b in permutations(hosts, 2) for path in routes.paths(a, b)]


def test_a_torus_needs_two_channels_in_dimension_order():
    ways = told(build("torus", {"shape": (4, 4, 4), "p": 1}))
    assert not ways["shortest"].free
    assert not ways["dimension"].free
    assert (ways["dateline"].free, ways["dateline"].channels) == (True, 2)
    assert (ways["hop"].channels, ways["hop"].longest) == (6, 8)
    assert ways["valiant"].channels == 12
    assert ways["dimension"].mean == pytest.approx(2 + 3.0476, abs=1e-4)


def test_a_torus_of_three_a_side_closes_no_ring():
    ways = told(build("torus", {"shape": (3, 3), "p": 1}))
    assert ways["dimension"].free


def test_a_hyperx_in_dimension_order_needs_one_channel():
    ways = told(build("hyperx", {"shape": (4, 4), "p": 1}))
    assert not ways["shortest"].free
    assert (ways["dimension"].free, ways["dimension"].channels) == (True, 1)
    assert "dateline" not in ways


def test_a_dragonfly_needs_three_channels_over_one_global_link():
    ways = told(build("dragonfly", {"a": 3, "p": 1, "h": 1, "switch": SWITCH}))
    assert not ways["shortest"].free
    assert (ways["group"].free, ways["group"].channels) == (True, 3)
    assert (ways["hop"].free, ways["hop"].channels) == (True, 3)


@pytest.mark.parametrize("family", ["leaf_spine", "fat_tree", "three_tier", "dual_tor"])
def test_a_clos_is_free_on_one_channel_with_acks(family):
    values = {"hosts": 32, "switch": SWITCH}
    fabric = place(build(family, values), prefill=16, decode=16)
    ways = told(fabric)
    assert ways["shortest"].free
    assert ways["up-down"].free
    assert ways["up-down"].mean == ways["shortest"].mean
    assert "valiant" not in ways


@pytest.mark.parametrize(
    ("family", "values"),
    [
        ("torus", {"shape": (4, 4), "p": 1}),
        ("dragonfly", {"a": 3, "p": 1, "h": 1}),
        ("slim_fly", {"q": 3, "p": 1}),
        ("jellyfish", {"hosts": 20, "leaves": 10, "degree": 3}),
        ("rail_only", {"hosts": 16, "rails": 4, "switch": SWITCH}),
    ],
)
def test_up_down_from_a_root_joins_all_on_one_channel(family, values):
    fabric = build(family, values)
    routes = up_down(fabric, spanning_order(fabric))
    paths = every_path(fabric, routes)
    hosts = len(fabric.hosts)
    assert len({(fabric.ports.node[p[0]], fabric.ports.peer[p[-1]]) for p in paths}) == hosts * (
        hosts - 1
    )
    assert path_cycle(fabric, paths) is None
    assert dependency_cycle(fabric, routes) is None
    spanning = told(fabric)["spanning"]
    assert spanning.free
    assert spanning.mean >= told(fabric)["shortest"].mean


@given(st.integers(6, 16), st.integers(3, 4), st.integers(0, 1_000))
@settings(max_examples=20)
def test_up_down_from_a_root_is_free_on_any_random_graph(leaves, degree, seed):
    leaves += leaves * degree % 2
    values = {"hosts": leaves, "leaves": leaves, "degree": degree, "seed": seed}
    fabric = build("jellyfish", values)
    routes = up_down(fabric, spanning_order(fabric))
    assert dependency_cycle(fabric, routes) is None
    assert (routes.distances(list(range(leaves)), list(range(leaves))) >= 0).all()


@pytest.mark.parametrize("family", ["torus", "slim_fly"])
def test_the_channels_told_by_distance_are_those_that_paths_take(family):
    values = {"torus": {"shape": (3, 4), "p": 1}, "slim_fly": {"q": 3, "p": 1}}[family]
    fabric = build(family, values)
    routes = equal_cost(fabric)
    ways = told(fabric)
    minimal = [by_hop(fabric, path) for path in every_path(fabric, routes)]
    # The link to the host waits for nothing: it needs no channel of its own.
    assert channels_used(path[:-1] for path in minimal) == ways["hop"].channels
    assert channel_cycle(fabric, minimal) is None
    hosts = [host.index for host in fabric.hosts]
    drawn = [
        by_hop(fabric, path)
        for a, b in permutations(hosts, 2)
        for path in valiant_paths(routes, a, b, count=len(hosts))
    ]
    assert channels_used(path[:-1] for path in drawn) == ways["valiant"].channels
    assert channel_cycle(fabric, drawn) is None


def test_many_pairs_are_sampled_and_the_coverage_said():
    way = freedoms(build("torus", {"shape": (9, 9), "p": 1}), "dateline")[0]
    assert (way.tried, way.total) == (4_096, 81 * 80)
    assert way.verdict == "free in the sample"


def test_a_routing_that_does_not_suit_says_why():
    leaf_spine = build("leaf_spine", {"hosts": 16})
    for routing, reason in (
        ("dateline", "points of a box"),
        ("group", "router of a dragonfly"),
        ("valiant", "one tier"),
        ("nonsense", ", ".join(ROUTINGS)),
    ):
        with pytest.raises(FabricError, match=reason):
            freedoms(leaf_spine, routing)


def test_the_shape_of_a_box_is_read_off_its_names():
    assert shape_of(build("hyperx", {"shape": (2, 3, 4), "p": 1})) == (2, 3, 4)
    fabric = Fabric("torus")
    for name in ("at0-0", "at1-1"):
        fabric.add_switch(name, tier=1, switch=SWITCH)
    with pytest.raises(FabricError, match="points of a box"):
        shape_of(fabric)
