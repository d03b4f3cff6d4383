"""What families have: published counts, closed forms against fabrics that are built."""

import time
from collections import Counter
from itertools import product

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topo.bom import bom
from topo.capacity import distance_counts, mu, oversubscription
from topo.error import FabricError
from topo.fabric import Fabric, Kind, Role, Switch
from topo.family.dragonfly import dragonfly_tally
from topo.family.dragonflyplus import dragonfly_plus_tally
from topo.family.dualtor import dual_tor_tally
from topo.family.galois import Field, prime_power
from topo.family.jellyfish import jellyfish_tally
from topo.family.lattice import hyperx_tally, torus_tally
from topo.family.plane import multi_plane_tally
from topo.family.registry import build
from topo.family.slimfly import degree, slim_fly_tally
from topo.family.switchless import host_mesh_tally
from topo.family.tally import Tally
from topo.placement import place

GBPS = 10**9
WIDE = Switch(ports=128)

counted = settings(deadline=None, max_examples=25)


def counts(fabric: Fabric) -> Tally:
    parts = bom(fabric)
    return Tally(
        len(fabric.hosts), sum(parts.switches.values()), parts.switch_cables, parts.host_cables
    )


def between_switches(fabric: Fabric) -> "nx.Graph[int]":
    """The switches and which of them are linked."""
    graph = nx.Graph(fabric.graph)
    graph.remove_nodes_from([h.index for h in fabric.hosts])
    return graph


def distances(graph: "nx.Graph[int]") -> Counter[int]:
    """Ordered pairs of different nodes by the links between them."""
    lengths = nx.all_pairs_shortest_path_length(graph)
    return Counter(n for _, found in lengths for n in found.values() if n)


def mean(found: Counter[int]) -> float:
    return sum(n * pairs for n, pairs in found.items()) / found.total()


@pytest.mark.parametrize(
    ("tally", "published"),
    [
        (multi_plane_tally(8, 64), Tally(16_384, 768, 16_384, 16_384)),
        (dragonfly_tally(16, 32, 16, 511), Tally(261_632, 16_352, 384_272, 261_632)),
        (slim_fly_tally(28, 21), Tally(32_928, 1_568, 32_928, 32_928)),
    ],
    ids=["multi-plane", "dragonfly", "slim fly"],
)
def test_closed_forms_give_the_counts_of_table_3_of_deepseek_v3(tally, published):
    assert tally == published


def test_fifteen_segments_of_hpn_have_15360_gpus_and_240_leaves():
    tally = dual_tor_tally(128, 8, 15, 60, 120)
    assert (tally.hosts, tally.switches - 120) == (15_360, 240)
    assert tally.host_cables == 2 * 15_360


def test_a_dragonfly_of_2_4_2_has_the_published_counts_and_diameter():
    fabric = build("dragonfly", {"p": 2, "a": 4, "h": 2})
    assert counts(fabric) == dragonfly_tally(2, 4, 2, 9) == Tally(72, 36, 54 + 36, 72)
    graph = between_switches(fabric)
    group = {s.index: s.rack // 4 for s in fabric.switches}
    wide = [(a, b) for a, b in graph.edges if group[a] != group[b]]
    assert len(wide) == 36
    assert len({frozenset((group[a], group[b])) for a, b in wide}) == 9 * 8 // 2
    assert nx.diameter(graph) == 3


@pytest.mark.parametrize("wiring", ["palmtree", "absolute"])
def test_both_wirings_of_a_dragonfly_link_every_two_groups_once(wiring):
    fabric = build("dragonfly", {"p": 1, "a": 4, "h": 2, "wiring": wiring})
    pairs = Counter(
        frozenset((fabric.nodes[k.a].rack // 4, fabric.nodes[k.b].rack // 4))
        for k in fabric.links
        if fabric.nodes[k.a].kind is Kind.SWITCH
    )
    assert all(pairs[frozenset(p)] == 1 for p in product(range(9), repeat=2) if p[0] != p[1])
    assert {d for _, d in between_switches(fabric).degree} == {3 + 2}


def test_palmtree_gives_the_first_router_the_nearest_groups_ahead():
    fabric = build("dragonfly", {"p": 1, "a": 4, "h": 2})
    graph = between_switches(fabric)
    first = fabric.node("group0router0").index
    assert {fabric.nodes[n].rack // 4 for n in graph[first]} == {0, 1, 2}
    absolute = build("dragonfly", {"p": 1, "a": 4, "h": 2, "wiring": "absolute"})
    third = absolute.node("group3router0").index
    near = between_switches(absolute)[third]
    assert {absolute.nodes[n].rack // 4 for n in near} == {3, 0, 1}


def test_fewer_groups_share_the_global_links_evenly():
    fabric = build("dragonfly", {"p": 2, "a": 4, "h": 2, "groups": 4})
    assert counts(fabric) == dragonfly_tally(2, 4, 2, 4)
    pairs = Counter(
        frozenset((fabric.nodes[k.a].rack // 4, fabric.nodes[k.b].rack // 4))
        for k in fabric.links
        if fabric.nodes[k.a].kind is Kind.SWITCH
    )
    assert {pairs[frozenset((i, j))] for i in range(4) for j in range(i)} <= {2, 3}


@counted
@given(st.integers(1, 3), st.integers(1, 5), st.integers(1, 3), st.data())
def test_a_dragonfly_has_the_counts_of_its_closed_form(p, a, h, data):
    groups = data.draw(st.integers(2, a * h + 1))
    tally = counts(build("dragonfly", {"p": p, "a": a, "h": h, "groups": groups}))
    if a * h % (groups - 1) == 0 or a * h % 2 == 0:
        assert tally == dragonfly_tally(p, a, h, groups)
    assert tally.switch_cables >= groups * (groups - 1) // 2


def test_a_dragonfly_plus_has_the_counts_of_its_closed_form():
    fabric = build("dragonfly_plus", {"leaves": 3, "spines": 3, "p": 3, "h": 3})
    assert counts(fabric) == dragonfly_plus_tally(3, 3, 3, 3, 10) == Tally(90, 60, 135, 90)
    few = build("dragonfly_plus", {"leaves": 2, "spines": 2, "p": 2, "h": 2, "groups": 3})
    assert counts(few) == dragonfly_plus_tally(2, 2, 2, 2, 3)
    assert max(distance_counts(few)) == 2 + 3
    assert max(distance_counts(fabric)) <= 2 + 5


def test_a_hyperx_of_4_by_4_has_48_links_and_a_mean_of_1_6_hops():
    fabric = build("hyperx", {"shape": (4, 4), "p": 2})
    assert counts(fabric) == hyperx_tally((4, 4), 2) == Tally(32, 16, 48, 32)
    found = distances(between_switches(fabric))
    assert max(found) == 2
    assert mean(found) == pytest.approx(1.6)


def test_a_torus_of_4_by_4_by_4_has_192_links_diameter_6_and_the_known_mean():
    fabric = build("torus", {"shape": (4, 4, 4), "p": 1})
    assert counts(fabric) == torus_tally((4, 4, 4), 1) == Tally(64, 64, 192, 64)
    found = distances(between_switches(fabric))
    assert max(found) == 6
    assert mean(found) == pytest.approx(3.0476, abs=5e-5)


@counted
@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.integers(1, 2))
def test_lattices_have_the_counts_and_the_diameter_of_their_closed_forms(sizes, p):
    shape = tuple(sizes)
    values = {"shape": shape, "p": p, "hosts": None}
    if p * len(shape) and torus_tally(shape, p).switches < 2:
        return
    box = build("hyperx", values)
    assert counts(box) == hyperx_tally(shape, p)
    assert nx.diameter(between_switches(box)) == sum(s > 1 for s in shape)
    ring = build("torus", values)
    if min(shape) > 2:
        assert counts(ring) == torus_tally(shape, p)
    assert nx.diameter(between_switches(ring)) == sum(s // 2 for s in shape)


@pytest.mark.parametrize(("shape", "links"), [((4, 4), 4 * 4), ((6, 3), 3 * 9), ((5, 2), 2 * 6)])
def test_half_of_a_hyperx_exchanges_the_links_of_its_cut(shape, links):
    """(prod S / Si) floor(Si^2 / 4) links between the halves of the first dimension."""
    fabric = build("hyperx", {"shape": shape, "p": 20, "switch": WIDE})
    line = shape[0] // 2
    side = {h.index: (h.rack // shape[1]) < line for h in fabric.hosts}
    roles = {n: Role.PREFILL if near else Role.DECODE for n, near in side.items()}
    assert mu(fabric.with_roles(roles)) == links * 400 * GBPS


@pytest.mark.parametrize("q", [3, 4, 5, 7, 8, 9, 11, 13])
def test_a_slim_fly_has_its_counts_and_any_two_switches_are_two_hops_apart(q):
    fabric = build("slim_fly", {"q": q, "p": 1})
    assert counts(fabric) == slim_fly_tally(q, 1)
    graph = between_switches(fabric)
    assert {d for _, d in graph.degree} == {degree(q)}
    assert nx.diameter(graph) == 2


def test_the_slim_fly_of_5_is_the_hoffman_singleton_graph():
    """50 switches of degree 7 and girth 5: the Moore bound, met by one graph only."""
    graph = between_switches(build("slim_fly", {"q": 5}))
    assert nx.girth(graph) == 5
    assert (len(graph), graph.number_of_edges()) == (50, 175)


@pytest.mark.parametrize("q", [2, 3, 4, 5, 8, 9, 16, 25, 27, 32])
def test_a_finite_field_obeys_its_axioms(q):
    field = Field(q)
    assert sorted(field.powers) == list(range(1, q))
    some = range(0, q, max(1, q // 6))
    for a, b, c in product(some, repeat=3):
        assert field.subtract(field.add(a, b), b) == a
        left = field.multiply(a, field.add(b, c))
        assert left == field.add(field.multiply(a, b), field.multiply(a, c))
        assert field.multiply(field.multiply(a, b), c) == field.multiply(a, field.multiply(b, c))


def test_prime_powers_are_told_from_other_numbers():
    found = [q for q in range(33) if prime_power(q)]
    assert found == [2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27, 29, 31, 32]


@counted
@given(st.integers(4, 20), st.integers(2, 6), st.integers(0, 99))
def test_a_jellyfish_is_a_connected_regular_simple_graph(switches, links, seed):
    links = min(links, switches - 1)
    links -= switches * links % 2
    if links < 2:
        return
    values = {"hosts": 2 * switches, "leaves": switches, "degree": links, "seed": seed}
    fabric = build("jellyfish", values)
    graph = between_switches(fabric)
    assert counts(fabric) == jellyfish_tally(switches, 2, links)
    assert graph.number_of_edges() == switches * links // 2
    assert {d for _, d in graph.degree} == {links}
    assert nx.is_connected(graph)


def test_a_seed_names_one_random_graph():
    values = {"hosts": 60, "leaves": 20, "degree": 5}
    one, two, other = (build("jellyfish", {**values, "seed": s}) for s in (7, 7, 8))
    assert one.links == two.links
    assert one.links != other.links


def test_a_random_graph_is_shorter_than_the_ring_that_it_starts_from():
    fabric = build("jellyfish", {"hosts": 64, "leaves": 64, "degree": 4})
    ring = nx.circulant_graph(64, [1, 2])
    assert mean(distances(between_switches(fabric))) < mean(distances(ring)) / 2


@pytest.mark.parametrize(
    ("hosts", "leaves", "spines"), [(512, 16, 8), (1024, 32, 16), (2048, 64, 32)]
)
def test_a_rail_optimised_fabric_has_the_counts_of_the_superpod(hosts, leaves, spines):
    fabric = build("rail_optimised", {"hosts": hosts, "gpus_per_server": 8})
    assert bom(fabric).switches == {1: leaves, 2: spines}
    assert bom(fabric).switch_cables == hosts
    assert oversubscription(fabric) == 1


@pytest.mark.parametrize(
    ("hosts", "leaf", "spine", "core"), [(4096, 128, 128, 64), (8192, 256, 256, 128)]
)
def test_three_tiers_grow_by_the_superpod_rule(hosts, leaf, spine, core):
    fabric = build("three_tier", {"hosts": hosts})
    assert bom(fabric).switches == {1: leaf, 2: spine, 3: core}
    assert bom(fabric).switch_cables == 2 * hosts
    assert (leaf, spine, core) == (hosts // 32, hosts // 32, hosts // 64)


def test_a_whole_three_tier_fabric_is_the_k_ary_fat_tree():
    switch = Switch(ports=8)
    assert counts(build("three_tier", {"hosts": 128, "switch": switch})) == counts(
        build("fat_tree", {"k": 8, "switch": switch})
    )


def test_three_tiers_never_limit_without_oversubscription():
    fabric = build("three_tier", {"hosts": 96, "switch": Switch(ports=8)})
    placed = place(fabric, prefill=48, decode=48, by="separate")
    assert mu(placed) == 48 * 400 * GBPS


def test_the_largest_multi_plane_fabric_of_small_switches_has_its_counts():
    switch = Switch(ports=8)
    fabric = build("multi_plane", {"hosts": 4 * 32, "planes": 4, "switch": switch})
    assert counts(fabric) == multi_plane_tally(4, 8)


def test_a_mesh_of_hosts_has_a_cable_a_pair():
    fabric = build("host_mesh", {"hosts": 9})
    assert counts(fabric) == host_mesh_tally(9)
    assert distance_counts(fabric) == {1: 72}


def test_a_segment_of_hpn_has_16_leaves_of_its_published_oversubscription():
    values = {
        "hosts": 1024,
        "breakout": 2,
        "switch": Switch(ports=128),
        "oversubscription": 128 / 120,
    }
    fabric = build("dual_tor", {**values, "units": 1})
    assert bom(fabric).switches[1] == 16
    assert oversubscription(fabric) == pytest.approx(128 / 120)
    assert bom(fabric).host_cables == 2048


@pytest.mark.parametrize(
    ("family", "values"),
    [
        ("torus", {"shape": (1_000, 1_000, 1_000)}),
        ("hyperx", {"shape": (3_000, 3_000)}),
        ("dragonfly", {"a": 30_000, "p": 1, "h": 30_000, "groups": 60_000}),
        ("dragonfly_plus", {"leaves": 9_000, "spines": 9_000, "p": 1, "h": 900, "groups": 90}),
        ("slim_fly", {"q": 8_191, "p": 1}),
        ("jellyfish", {"hosts": 60_000, "leaves": 60_000, "degree": 600}),
        ("full_mesh", {"hosts": 60_000, "leaves": 60_000}),
    ],
)
def test_what_no_memory_would_hold_is_refused_before_it_is_built(family, values):
    begun = time.monotonic()
    with pytest.raises(FabricError, match=r"more than the [0-9,]+ that are built"):
        build(family, {**values, "switch": Switch(ports=65_536)})
    assert time.monotonic() - begun < 2
