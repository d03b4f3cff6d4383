"""Capacity: mu against closed forms, distances against published means, cost against a table."""

import math

import networkx as nx
import pytest

from topo.bom import Bom, bom
from topo.capacity import (
    diameter,
    distance_counts,
    mean_distance,
    mu,
    oversubscription,
    relative_mu,
)
from topo.error import FabricError
from topo.fabric import Fabric, Role, Switch
from topo.family.registry import FAMILIES, build
from topo.placement import place
from topo.summary import describe

GBPS = 10**9


def split_leaf_spine(lp: int, ld: int, each: int, spines: int, nic: int, up: int) -> Fabric:
    """Prefill on the first ``lp`` leaves and decode on the last ``ld``, rates in Gbit/s."""
    fabric = build(
        "leaf_spine",
        {
            "hosts": (lp + ld) * each,
            "leaves": lp + ld,
            "spines": spines,
            "trunk": 1,
            "nic_bps": nic * GBPS,
            "switch": Switch(rate_bps=up * GBPS),
        },
    )
    return place(fabric, prefill=lp * each, decode=ld * each, by="separate")


@pytest.mark.parametrize(
    ("lp", "ld", "each", "spines", "nic", "up", "gbps"),
    [(2, 2, 8, 4, 1, 1, 8), (3, 1, 8, 4, 1, 2, 8), (1, 2, 6, 3, 2, 3, 9), (2, 2, 2, 4, 1, 1, 4)],
)
def test_mu_of_a_leaf_spine_is_its_narrowest_stage(lp, ld, each, spines, nic, up, gbps):
    stages = (lp * each * nic, lp * spines * up, ld * spines * up, ld * each * nic)
    assert min(stages) == gbps
    assert mu(split_leaf_spine(lp, ld, each, spines, nic, up)) == gbps * GBPS


@pytest.mark.parametrize("by", ["separate", "rack", "interleaved"])
@pytest.mark.parametrize("k", [4, 8])
def test_a_whole_fat_tree_never_limits(k, by):
    half = k**3 // 8
    fabric = place(build("fat_tree", {"k": k}), prefill=half, decode=half, by=by)
    assert mu(fabric) == half * 400 * GBPS
    assert relative_mu(fabric) == 1


@pytest.mark.parametrize(("trunk", "gbps"), [(1, 4 * 400), (2, 8 * 400), (5, 16 * 400)])
def test_mu_of_a_bipartite_is_its_trunks_or_its_nics(trunk, gbps):
    values = {"prefill": 16, "decode": 16, "leaves": 2, "trunk": trunk}
    assert mu(build("bipartite", values)) == gbps * GBPS


def test_two_switches_of_a_mesh_exchange_their_trunk_and_the_way_round():
    fabric = build("full_mesh", {"hosts": 24, "leaves": 3, "trunk": 1})
    roles = dict.fromkeys(range(8), Role.PREFILL) | dict.fromkeys(range(8, 16), Role.DECODE)
    assert mu(fabric.with_roles(roles)) == 2 * 400 * GBPS


def test_pools_under_one_leaf_do_not_need_its_uplinks():
    fabric = build("leaf_spine", {"hosts": 16, "leaves": 2, "oversubscription": 8})
    apart = place(fabric, prefill=8, decode=8, by="separate")
    mixed = place(fabric, prefill=8, decode=8, by="interleaved")
    assert mu(apart) == 400 * GBPS
    assert relative_mu(mixed) == 1


def test_rates_without_a_common_divisor_are_exact():
    fabric = Fabric("odd")
    a, b = fabric.add_host("a", role=Role.PREFILL), fabric.add_host("b", role=Role.DECODE)
    s = fabric.add_switch("s", tier=1, switch=Switch())
    fabric.connect(a, s, rate_bps=400 * GBPS)
    fabric.connect(b, s, rate_bps=399_999_999_989)
    assert mu(fabric) == 399_999_999_989


def test_a_host_of_both_roles_sends_and_receives_but_does_not_forward():
    fabric = Fabric("chain")
    hosts = [fabric.add_host(f"h{i}", role=Role.BOTH) for i in range(3)]
    left, right = (fabric.add_switch(n, tier=1, switch=Switch()) for n in ("left", "right"))
    for host, leaf in ((0, left), (1, left), (1, right), (2, right)):
        fabric.connect(hosts[host], leaf, rate_bps=GBPS)
    one_way = fabric.with_roles({0: Role.PREFILL, 1: Role.NONE, 2: Role.DECODE})
    assert mu(one_way) == 0
    assert mu(fabric.with_roles({0: Role.PREFILL, 1: Role.DECODE, 2: Role.NONE})) == GBPS


def test_mu_without_roles_is_refused():
    with pytest.raises(FabricError, match="no prefill host"):
        mu(build("leaf_spine", {"hosts": 4}))


@pytest.mark.parametrize(("k", "mean"), [(4, 5.4667), (8, 5.7165)])
def test_a_fat_tree_has_the_published_mean_distance(k, mean):
    fabric = build("fat_tree", {"k": k})
    half, hosts = k // 2, k**3 // 4
    exact = (2 * (half - 1) + 4 * (half**2 - half) + 6 * (hosts - half**2)) / (hosts - 1)
    assert mean_distance(fabric) == pytest.approx(exact, rel=1e-12)
    assert mean_distance(fabric) == pytest.approx(mean, abs=5e-5)
    assert diameter(fabric) == 6


def test_distances_are_those_of_networkx():
    fabric = build("bipartite", {"prefill": 10, "decode": 7, "leaves": 3, "degree": 2})
    lengths = dict(nx.all_pairs_shortest_path_length(fabric.graph))
    hosts = [h.index for h in fabric.hosts]
    counts: dict[int, int] = {}
    for a in hosts:
        for b in hosts:
            if a != b:
                counts[lengths[a][b]] = counts.get(lengths[a][b], 0) + 1
    assert distance_counts(fabric) == dict(sorted(counts.items()))


def test_pairs_without_a_path_are_counted_apart_and_left_out_of_the_mean():
    fabric = build("bipartite", {"prefill": 4, "decode": 4, "groups": 2})
    assert distance_counts(fabric) == {-1: 32, 2: 8, 3: 16}
    assert mean_distance(fabric) == pytest.approx(64 / 24)


def test_hosts_on_a_cable_of_their_own_are_one_link_apart():
    fabric = build("leaf_spine", {"hosts": 4, "leaves": 2})
    fabric.connect(0, 3, rate_bps=GBPS)
    assert distance_counts(fabric) == {1: 2, 2: 4, 4: 6}


def test_oversubscription_is_that_of_the_worst_leaf():
    assert oversubscription(build("leaf_spine", {"hosts": 64, "oversubscription": 2})) == 2
    assert oversubscription(build("fat_tree", {"k": 4})) == 1
    assert oversubscription(build("rail_only", {"hosts": 1024, "oversubscription": 2})) == 2
    assert oversubscription(build("rail_only", {"hosts": 64})) == 1
    lone = Fabric("lone")
    lone.connect(lone.add_host("h"), lone.add_switch("s", tier=1, switch=Switch()), rate_bps=1)
    assert oversubscription(lone) == 1
    lone.add_switch("t", tier=1, switch=Switch())
    assert math.isinf(oversubscription(lone))
    lone.connect(lone.add_host("i"), 2, rate_bps=1)
    assert math.isinf(oversubscription(lone))


def test_the_cost_model_reproduces_the_published_two_tier_cost():
    assert bom(build("leaf_spine", {"hosts": 2048})).cost_usd == pytest.approx(9e6, rel=0.02)


def test_the_cost_model_reproduces_the_published_three_tier_cost():
    k = 64
    models = {(k, 400 * GBPS): 5 * k * k // 4}
    counted = Bom({1: 2048, 2: 2048, 3: 1024}, models, k**3 // 2, 0, 0.0)
    assert counted.cost_usd == pytest.approx(491e6, rel=0.02)


def test_a_switch_of_half_the_ports_costs_half():
    whole = bom(build("leaf_spine", {"hosts": 4, "leaves": 2}))
    half = bom(build("leaf_spine", {"hosts": 4, "leaves": 2, "switch": Switch(ports=32)}))
    assert whole.cost_usd - half.cost_usd == 4 * 41_500


@pytest.mark.parametrize("family", FAMILIES)
def test_a_switch_is_counted_with_the_ports_asked_for_and_in_a_fat_tree_with_k(family):
    own = {"torus": {"shape": (4, 4)}, "hyperx": {"shape": (4, 4)}}.get(family, {})
    sized = {"prefill": 16, "decode": 16, "gpus_per_server": 4, "switch": Switch(ports=32), **own}
    parts = bom(build(family, sized))
    ports = {"fat_tree": [6], "host_mesh": [], "bipartite_direct": []}.get(family, [32])
    assert parts.ports == ports
    assert sum(parts.models.values()) == sum(parts.switches.values())
    assert describe(build(family, sized))["switch models"] == parts.models_told


def test_dollars_per_gigabit_divide_the_cost_by_mu():
    parts = Bom({1: 1}, {(64, 400 * GBPS): 1}, 0, 2, 0.0)
    assert parts.usd_per_gbps(830 * GBPS) == 100
    assert math.isinf(parts.usd_per_gbps(0))


def test_a_description_says_what_an_architect_asks_first():
    fabric = place(build("fat_tree", {"k": 4}), prefill=8, decode=8)
    rows = describe(fabric)
    assert rows["hosts"] == "16 (8 prefill, 8 decode)"
    assert rows["switches"] == "20 (8 leaf, 8 spine, 4 core)"
    assert rows["oversubscription"] == "1:1"
    assert rows["mean path"] == "5.4667 links"
    assert rows["mu, prefill to decode"].startswith("3.2 Tbps (100.0%")
    assert rows["buffer-dependency cycle"].startswith("none")


def test_a_description_without_roles_leaves_out_what_needs_them():
    rows = describe(build("fat_tree", {"k": 4}))
    assert rows["hosts"] == "16"
    assert "mu, prefill to decode" not in rows
