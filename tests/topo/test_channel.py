"""Pinned paths on direct networks, and virtual channels that leave no cycle of waits."""

from itertools import pairwise, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topo.channel import (
    by_dateline,
    by_group,
    by_hop,
    channels_used,
    dimension_order,
    dragonfly_groups,
)
from topo.deadlock import channel_cycle, path_cycle
from topo.detour import valiant_paths
from topo.error import FabricError
from topo.fabric import Fabric, Kind
from topo.family.registry import build
from topo.route import equal_cost


def is_path(fabric: Fabric, path: list[int], source: int, destination: int) -> bool:
    ports = fabric.ports
    joined = (ports.peer[path[:-1]] == ports.node[path[1:]]).all()
    inner = [int(n) for n in ports.peer[path[:-1]]]
    through = all(fabric.nodes[n].kind is Kind.SWITCH for n in inner)
    return (
        joined
        and through
        and (ports.node[path[0]], ports.peer[path[-1]])
        == (
            source,
            destination,
        )
    )


def every_pair(fabric: Fabric) -> list[tuple[int, int]]:
    return list(permutations([h.index for h in fabric.hosts], 2))


@pytest.mark.parametrize(
    ("family", "values"),
    [
        ("full_mesh", {"hosts": 12, "leaves": 6}),
        ("dragonfly", {"p": 1, "a": 4, "h": 1}),
        ("hyperx", {"shape": (3, 3), "p": 1}),
        ("torus", {"shape": (3, 3, 3), "p": 1}),
        ("slim_fly", {"q": 3, "p": 1}),
        ("jellyfish", {"hosts": 20, "leaves": 20, "degree": 4}),
    ],
)
def test_channels_by_hop_leave_no_cycle_for_minimal_and_valiant_paths(family, values):
    fabric = build(family, values)
    routes = equal_cost(fabric)
    paths: list[list[int]] = []
    for a, b in every_pair(fabric):
        paths += routes.paths(a, b, 4)
        paths += valiant_paths(routes, a, b, count=2, seed=5)
    assert path_cycle(fabric, paths) is not None
    numbered = [by_hop(fabric, path) for path in paths]
    assert channel_cycle(fabric, numbered) is None
    longest = max(len(path) for path in paths)
    assert channels_used(numbered) == longest - 1


def test_a_detour_of_a_full_mesh_crosses_one_other_switch():
    fabric = build("full_mesh", {"hosts": 12, "leaves": 6})
    routes = equal_cost(fabric)
    found = valiant_paths(routes, 0, 11, count=99)
    assert len(found) == 4
    middles = {int(fabric.ports.peer[path[1]]) for path in found}
    assert {len(path) for path in found} == {4}
    assert len(middles) == 4


def test_detours_are_drawn_by_their_seed():
    fabric = build("torus", {"shape": (4, 4), "p": 1})
    routes = equal_cost(fabric)
    one, two, other = (valiant_paths(routes, 0, 9, count=3, seed=s) for s in (1, 1, 2))
    assert one == two != other


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(["full_mesh", "dragonfly", "hyperx", "torus", "slim_fly", "dragonfly_plus"]),
    st.data(),
    st.integers(0, 2**40),
)
def test_every_detour_is_a_path_of_two_shortest_legs(family, data, seed):
    fabric = build(family, {"hosts": 24})
    routes = equal_cost(fabric)
    hosts = [h.index for h in fabric.hosts]
    a, b = data.draw(st.permutations(hosts))[:2]
    for path in valiant_paths(routes, a, b, count=4, seed=seed):
        assert is_path(fabric, path, a, b)
        nodes = [int(n) for n in fabric.ports.peer[path[:-1]]]
        reach_out, reach_in = routes.reach([a])[0], routes.reach([b])[0]
        assert any(
            i + 1 == reach_out[routes.group[h]] and len(path) - 1 - i == reach_in[routes.group[h]]
            for i, n in enumerate(nodes)
            for h in hosts
            if len(routes.row(n, int(routes.group[h]))) == 0
            and routes.reach([n])[0][routes.group[h]] == 0
        )


def test_without_a_leaf_between_the_path_is_a_minimal_one():
    fabric = build("full_mesh", {"hosts": 4, "leaves": 2})
    routes = equal_cost(fabric)
    assert len(valiant_paths(routes, 0, 3)[0]) == 3
    assert valiant_paths(routes, 0, 0) == [[]]


def test_detours_without_a_path_or_a_count_are_refused():
    fabric = build("bipartite", {"prefill": 4, "decode": 4, "groups": 2})
    routes = equal_cost(fabric)
    with pytest.raises(FabricError, match="no path from host 0 to host 7"):
        valiant_paths(routes, 0, 7)
    with pytest.raises(FabricError, match="valiant paths 0"):
        valiant_paths(routes, 0, 4, count=0)


def test_paths_over_one_global_link_need_two_local_channels_and_one_global():
    """Paths of fewest links may cross other groups too, over two or three global links."""
    fabric = build("dragonfly", {"p": 1, "a": 4, "h": 2})
    routes, group = equal_cost(fabric), dragonfly_groups(fabric)
    ends = fabric.ports
    used: dict[tuple[bool, bool], set[int]] = {}
    numbered = []
    for a, b in every_pair(fabric):
        for path in routes.paths(a, b):
            numbered.append(by_group(fabric, path, group))
            local = {
                port: group[int(ends.node[port])] == group[int(ends.peer[port])]
                for port in path[1:-1]
            }
            third = list(local.values()).count(False) > 1
            for port, channel in numbered[-1][1:-1]:
                used.setdefault((third, local[port]), set()).add(channel)
    assert channel_cycle(fabric, numbered) is None
    assert path_cycle(fabric, [[port for port, _ in path] for path in numbered]) is not None
    assert used[False, True] == {0, 2}
    assert used[False, False] == {0}
    assert used[True, False] == {0, 1, 2}


def test_valiant_paths_of_a_dragonfly_have_no_cycle_by_group():
    fabric = build("dragonfly", {"p": 1, "a": 4, "h": 1})
    routes, group = equal_cost(fabric), dragonfly_groups(fabric)
    paths = [p for a, b in every_pair(fabric) for p in valiant_paths(routes, a, b, count=4)]
    paths += [p for a, b in every_pair(fabric) for p in routes.paths(a, b)]
    assert channel_cycle(fabric, [by_group(fabric, path, group) for path in paths]) is None


def test_one_channel_for_all_is_the_check_without_channels():
    fabric = build("torus", {"shape": (5, 1), "p": 1})
    paths = [dimension_order(fabric, (5, 1), a, b) for a, b in every_pair(fabric)]
    cycle = channel_cycle(fabric, [[(port, 0) for port in path] for path in paths])
    assert cycle is not None
    assert cycle[0].endswith(" vc0")
    assert [step.removesuffix(" vc0") for step in cycle] == path_cycle(fabric, paths)


@pytest.mark.parametrize("shape", [(5,), (4, 4), (3, 4, 5), (2, 6)])
def test_a_dateline_breaks_the_rings_of_a_torus_with_two_channels(shape):
    fabric = build("torus", {"shape": shape, "p": 1})
    routes = equal_cost(fabric)
    paths = [dimension_order(fabric, shape, a, b) for a, b in every_pair(fabric)]
    for path, (a, b) in zip(paths, every_pair(fabric), strict=True):
        assert is_path(fabric, path, a, b)
        assert len(path) == routes.distance(a, b)
    numbered = [by_dateline(fabric, path, shape) for path in paths]
    assert channels_used(numbered) == 2
    assert channel_cycle(fabric, numbered) is None
    assert path_cycle(fabric, paths) is not None


def test_dimension_order_is_for_a_torus_of_that_shape():
    mesh = build("full_mesh", {"hosts": 8})
    with pytest.raises(FabricError, match="needs hosts of a torus"):
        dimension_order(mesh, (2, 2), 0, 3)
    ring = build("torus", {"shape": (5, 2), "p": 1})
    with pytest.raises(FabricError, match="node 'at0': not in fabric"):
        dimension_order(ring, (10,), 0, 5)


def test_a_third_local_link_in_a_group_is_refused():
    fabric = build("dragonfly", {"p": 1, "a": 4, "h": 1})
    group = dragonfly_groups(fabric)
    ports, first = fabric.ports, fabric.node("group0router0").index

    def local(a: int, b: int) -> int:
        span = range(int(ports.first[a]), int(ports.first[a + 1]))
        return next(p for p in span if ports.peer[p] == b)

    steps = [first, first + 1, first + 2, first + 3]
    path = [local(a, b) for a, b in pairwise(steps)]
    with pytest.raises(FabricError, match="a third local link"):
        by_group(fabric, path, group)
