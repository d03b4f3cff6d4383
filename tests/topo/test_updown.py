"""Up-down routing: the equal-cost routes of a whole Clos, and no bounce when links fail."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topo.deadlock import dependency_cycle
from topo.error import FabricError
from topo.fabric import Fabric, Kind, Switch
from topo.family.registry import build
from topo.route import equal_cost
from topo.updown import up_down

FACE = ("group", "first", "ports", "host_first", "host_ports", "hops", "owner", "peer")


def without(fabric: Fabric, lost: set[int]) -> Fabric:
    """The same nodes with some links left out."""
    other = Fabric(fabric.family)
    for n in fabric.nodes:
        if n.switch is None:
            other.add_host(n.name, rack=n.rack, role=n.role)
        else:
            other.add_switch(n.name, tier=n.tier, switch=n.switch)
    for link in fabric.links:
        if link.index not in lost:
            other.connect(link.a, link.b, rate_bps=link.rate_bps)
    return other


def all_pairs(fabric: Fabric) -> list[tuple[int, int]]:
    hosts = [h.index for h in fabric.hosts]
    return [(a, b) for a in hosts for b in hosts if a != b]


def tiers(fabric: Fabric, path: list[int]) -> list[int]:
    """The tiers of the nodes on a path."""
    nodes = [int(fabric.ports.node[path[0]]), *(int(fabric.ports.peer[p]) for p in path)]
    return [fabric.nodes[n].tier for n in nodes]


@pytest.mark.parametrize(
    ("family", "values"),
    [
        ("fat_tree", {"k": 4}),
        ("fat_tree", {"hosts": 50}),
        ("leaf_spine", {"hosts": 24, "leaves": 4}),
        ("three_tier", {"hosts": 96, "switch": Switch(ports=8)}),
        ("rail_optimised", {"hosts": 64, "switch": Switch(ports=16)}),
        ("dual_tor", {"hosts": 64, "switch": Switch(ports=16)}),
        ("multi_plane", {"hosts": 24, "attach": "every", "switch": Switch(ports=8)}),
        ("bipartite_middle", {"prefill": 16, "decode": 16, "switch": Switch(ports=16)}),
    ],
)
def test_on_a_whole_clos_up_down_is_equal_cost(family, values):
    fabric = build(family, values)
    one, two = equal_cost(fabric), up_down(fabric)
    for name in FACE:
        assert np.array_equal(getattr(one, name), getattr(two, name)), name


def test_a_failure_makes_equal_cost_bounce_and_up_down_give_up():
    """Leaf 0 keeps spine 0 only, leaf 1 spine 1 only: the way between them goes down and up."""
    whole = build("leaf_spine", {"hosts": 3, "leaves": 3, "spines": 2, "trunk": 1})
    ends = {("leaf0", "spine1"), ("leaf1", "spine0")}
    lost = {k.index for k in whole.links if (whole.nodes[k.a].name, whole.nodes[k.b].name) in ends}
    fabric = without(whole, lost)
    bounced, straight = equal_cost(fabric), up_down(fabric)
    (path,) = bounced.paths(0, 1)
    assert tiers(fabric, path) == [0, 1, 2, 1, 2, 1, 0]
    assert straight.distance(0, 1) == -1
    assert straight.paths(0, 1) == []
    assert straight.distance(0, 2) == straight.distance(1, 2) == 4


def test_bounces_close_a_cycle_that_up_down_never_has():
    whole = build("leaf_spine", {"hosts": 4, "leaves": 4, "spines": 4, "trunk": 1})
    kept = {(i, (i + step) % 4) for i in range(4) for step in (0, 1)}
    lost = {
        k.index
        for k in whole.links
        if whole.nodes[k.b].tier == 2
        and (int(whole.nodes[k.a].name[-1]), int(whole.nodes[k.b].name[-1])) not in kept
    }
    fabric = without(whole, lost)
    pairs = all_pairs(fabric)
    assert dependency_cycle(fabric, equal_cost(fabric), pairs) is not None
    assert dependency_cycle(fabric, up_down(fabric), pairs) is None


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(["fat_tree", "leaf_spine", "three_tier"]), st.data())
def test_whatever_fails_no_path_climbs_after_it_descended_and_no_buffers_wait_in_a_ring(
    family, data
):
    whole = build(family, {"hosts": 24, "switch": Switch(ports=8)})
    inner = [k.index for k in whole.links if whole.nodes[k.a].kind is Kind.SWITCH]
    lost = data.draw(st.sets(st.sampled_from(inner), max_size=len(inner) // 2))
    fabric = without(whole, lost)
    routes, shortest = up_down(fabric), equal_cost(fabric)
    pairs = all_pairs(fabric)
    for a, b in data.draw(st.lists(st.sampled_from(pairs), max_size=8)):
        found = routes.paths(a, b, limit=8)
        assert bool(found) == (routes.distance(a, b) > 0)
        for path in found:
            steps = [y - x for x, y in pairwise(tiers(fabric, path))]
            assert steps == sorted(steps, reverse=True)
            assert len(path) == routes.distance(a, b) >= shortest.distance(a, b)
    assert dependency_cycle(fabric, routes, pairs) is None


def test_a_way_down_is_taken_even_where_climbing_would_be_shorter():
    fabric = Fabric("tall")
    a, b = fabric.add_host("a"), fabric.add_host("b")
    one, two, three, four, five = (
        fabric.add_switch(f"s{tier}", tier=tier, switch=Switch()) for tier in range(1, 6)
    )
    for x, y in ((a, four), (four, three), (three, two), (two, one), (one, b), (four, five)):
        fabric.connect(x, y, rate_bps=1)
    fabric.connect(five, one, rate_bps=1)
    routes = up_down(fabric)
    assert [tiers(fabric, p) for p in routes.paths(a, b)] == [[0, 4, 3, 2, 1, 0]]
    assert routes.distance(a, b) == 5
    assert equal_cost(fabric).distance(a, b) == 4


def test_of_two_ways_up_the_one_with_the_shorter_way_down_is_taken():
    fabric = Fabric("skip")
    a, b = fabric.add_host("a"), fabric.add_host("b")
    leaf, far = (fabric.add_switch(n, tier=1, switch=Switch()) for n in ("leaf", "far"))
    spine = fabric.add_switch("spine", tier=2, switch=Switch())
    core = fabric.add_switch("core", tier=3, switch=Switch())
    for x, y in ((a, leaf), (b, far), (leaf, spine), (leaf, core), (core, spine), (spine, far)):
        fabric.connect(x, y, rate_bps=1)
    routes = up_down(fabric)
    assert [tiers(fabric, p) for p in routes.paths(a, b)] == [[0, 1, 2, 1, 0]]


@pytest.mark.parametrize("family", ["full_mesh", "torus", "bipartite"])
def test_links_within_a_tier_are_refused(family):
    fabric = build(family, {"hosts": 16, "prefill": 8, "decode": 8})
    with pytest.raises(FabricError, match="both of tier 1: up-down needs tiers"):
        up_down(fabric)
