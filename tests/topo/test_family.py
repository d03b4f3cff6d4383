"""Families: published counts, sensible sizes of their own, and refusals that say what fits."""

from collections import Counter

import msgspec
import pytest

from topo.bom import bom
from topo.error import FabricError
from topo.fabric import Fabric, Kind, Role, Switch
from topo.family.bipartite import circulant
from topo.family.clos import LeafSpine, leaf_spine
from topo.family.registry import FAMILIES, build

PORTS_32 = Switch(ports=32)


def inner(fabric: Fabric) -> Counter[tuple[str, str]]:
    """Cables between switches, by the names of their ends."""
    nodes = fabric.nodes
    return Counter(
        (nodes[link.a].name, nodes[link.b].name)
        for link in fabric.links
        if nodes[link.a].kind is nodes[link.b].kind is Kind.SWITCH
    )


def hosts_a_leaf(fabric: Fabric) -> list[int]:
    return list(Counter(host.rack for host in fabric.hosts).values())


@pytest.mark.parametrize(
    ("k", "hosts", "switches", "cables"), [(2, 2, 5, 4), (4, 16, 20, 32), (8, 128, 80, 256)]
)
def test_a_whole_fat_tree_has_the_published_counts(k, hosts, switches, cables):
    parts = bom(build("fat_tree", {"k": k}))
    assert parts.host_cables == hosts
    assert sum(parts.switches.values()) == switches
    assert parts.switch_cables == cables


def test_as_many_hosts_as_a_k_ary_tree_holds_give_that_whole_tree():
    assert bom(build("fat_tree", {"hosts": 128})) == bom(build("fat_tree", {"k": 8}))


@pytest.mark.parametrize(
    ("hosts", "leaves", "spines"),
    [(2048, 64, 32), (512, 16, 8), (1024, 32, 16)],
    ids=["largest two-tier Clos of 64 ports", "512 hosts", "1,024 hosts"],
)
def test_a_non_blocking_leaf_spine_of_64_ports_has_the_published_counts(hosts, leaves, spines):
    parts = bom(build("leaf_spine", {"hosts": hosts}))
    assert parts.switches == {1: leaves, 2: spines}
    assert parts.switch_cables == hosts


def test_a_cut_fat_tree_keeps_as_many_cables_a_tier_as_hosts():
    """64 hosts of k = 8: N/(k/2) edges and aggregations, N/k cores, 2N cables."""
    parts = bom(build("fat_tree", {"hosts": 64}))
    assert parts.switches == {1: 16, 2: 16, 3: 8}
    assert parts.switch_cables == 128


def test_a_fat_tree_of_one_pod_has_no_core():
    parts = bom(build("fat_tree", {"hosts": 16, "k": 8}))
    assert parts.switches == {1: 4, 2: 4}
    assert parts.switch_cables == 16


def test_a_fat_tree_is_built_of_switches_with_k_ports():
    fabric = build("fat_tree", {"hosts": 64, "switch": PORTS_32})
    assert {s.switch.ports for s in fabric.switches if s.switch} == {8}
    over = build("fat_tree", {"k": 4, "oversubscription": 3, "switch": PORTS_32})
    assert bom(over).host_cables == 3 * 16
    assert Counter(s.switch.ports for s in over.switches if s.switch) == {8: 8, 4: 12}


def test_a_single_switch_has_every_host_two_links_from_every_other_and_refuses_one_too_many():
    fabric = build("single_switch", {"prefill": 3, "decode": 5, "switch": Switch(ports=8)})
    assert [len(fabric.hosts), len(fabric.switches), len(fabric.links)] == [8, 1, 8]
    with pytest.raises(FabricError, match="9 hosts do not fit a switch of 8 ports"):
        build("single_switch", {"hosts": 9, "switch": Switch(ports=8)})


def test_a_full_mesh_has_a_trunk_between_every_two_switches():
    fabric = build("full_mesh", {"hosts": 12, "leaves": 4, "trunk": 2})
    assert set(inner(fabric).values()) == {2}
    assert len(inner(fabric)) == 6
    assert hosts_a_leaf(fabric) == [3, 3, 3, 3]


def test_a_full_mesh_sized_by_itself_keeps_the_oversubscription():
    fabric = build("full_mesh", {"hosts": 64, "switch": PORTS_32})
    assert hosts_a_leaf(fabric) == [13, 13, 13, 13, 12]
    assert set(inner(fabric).values()) == {4}


def test_a_trunk_takes_no_more_ports_than_the_hosts_leave():
    fabric = build("full_mesh", {"hosts": 15, "leaves": 3, "switch": Switch(ports=8)})
    assert set(inner(fabric).values()) == {1}


def test_a_complete_bipartite_links_every_pair_of_sides_and_no_pair_within():
    fabric = build("bipartite", {"prefill": 12, "decode": 12, "leaves": 3})
    pairs = inner(fabric)
    assert len(pairs) == 9
    assert all(a.startswith("pleaf") and b.startswith("dleaf") for a, b in pairs)
    assert len(fabric.hosts_with(Role.PREFILL)) == len(fabric.hosts_with(Role.DECODE)) == 12


def test_a_bipartite_of_degree_two_is_a_circulant():
    fabric = build("bipartite", {"prefill": 8, "decode": 8, "leaves": 4, "degree": 2})
    assert sorted(inner(fabric)) == [
        (f"pleaf{i}", f"dleaf{j}")
        for i, j in [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 3), (3, 0), (3, 3)]
    ]


@pytest.mark.parametrize(("near", "far", "degree"), [(5, 5, 2), (3, 7, 3), (7, 3, 2), (4, 6, 3)])
def test_a_circulant_spreads_links_evenly_over_the_far_side(near, far, degree):
    pairs = circulant(near, far, degree)
    assert len(set(pairs)) == len(pairs) == near * degree
    counts = Counter(j for _, j in pairs)
    assert len(counts) == far
    assert max(counts.values()) - min(counts.values()) <= 1


def test_groups_of_a_bipartite_share_no_link():
    values = {"prefill": 32, "decode": 32, "leaves": 8, "groups": 4, "degree": 2}
    fabric = build("bipartite", values)
    for a, b in inner(fabric):
        assert int(a.removeprefix("pleaf")) // 2 == int(b.removeprefix("dleaf")) // 2
    assert len(inner(fabric)) == 4 * 2 * 2


def test_uplinks_of_a_bipartite_are_what_the_oversubscription_asks():
    values = {"prefill": 32, "decode": 32, "switch": PORTS_32, "oversubscription": 2}
    assert sum(inner(build("bipartite", values)).values()) == 16


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "single_switch"])
@pytest.mark.parametrize("ports", [32, 64])
@pytest.mark.parametrize("oversubscription", [None, 1, 2])
def test_every_family_sizes_itself_for_64_hosts(family, ports, oversubscription):
    asked = {
        "hosts": 64,
        "prefill": 32,
        "decode": 32,
        "switch": Switch(ports=ports),
        "oversubscription": oversubscription,
    }
    fabric = build(family, asked)
    assert len(fabric.hosts) == 64
    assert [h.index for h in fabric.hosts] == list(range(64))


def test_slow_nics_on_fast_switches_need_fewer_uplinks():
    values = {"hosts": 64, "nic_bps": 10**11, "leaves": 4}
    assert sum(inner(build("leaf_spine", values)).values()) == 16


def test_cables_have_the_length_and_rate_of_their_kind():
    fabric = build("leaf_spine", {"hosts": 4, "nic_bps": 10**11, "cable_m": 30, "host_cable_m": 2})
    kinds = {(link.rate_bps, link.length_m, link.delay_ps) for link in fabric.links}
    assert kinds == {(10**11, 2.0, 10_100), (4 * 10**11, 30.0, 151_500)}


@pytest.mark.parametrize(
    ("family", "values", "told"),
    [
        ("fat_tre", {}, r"did you mean fat_tree\? write one of single_switch, full_mesh, fat_tree"),
        ("fat_tree", {"hosts": 8, "spines": 2}, "spines: not a parameter of fat_tree; it takes"),
        ("fat_tree", {}, "neither hosts nor k is given"),
        ("fat_tree", {"k": 5}, "k 5: must be even .* write k: 6"),
        ("fat_tree", {"k": 128}, "at most the 64 ports .* write k: 64"),
        ("fat_tree", {"hosts": 17, "k": 4}, "17 hosts do not fit k 4; at most 16 do"),
        ("leaf_spine", {}, "number of hosts is missing"),
        ("leaf_spine", {"hosts": 2049}, "64 leaves of 32 hosts carry 2048"),
        ("leaf_spine", {"hosts": 8, "leaves": 9}, "write leaves: 8 or fewer"),
        ("leaf_spine", {"hosts": 8, "leaves": 1}, "at least 2 leaves"),
        ("leaf_spine", {"hosts": 0}, "hosts 0: must be at least 1 and at most 262144"),
        ("leaf_spine", {"hosts": "64"}, "hosts: '64': must be a whole number from 1"),
        ("leaf_spine", {"hosts": 8, "nic_bps": 8 * 10**11}, "faster than the switch port"),
        (
            "leaf_spine",
            {"hosts": 8, "cable_m": float("nan")},
            "cable nanm: must be at least 0m and at most 100000m",
        ),
        ("leaf_spine", {"hosts": 8, "oversubscription": -1}, "oversubscription -1"),
        (
            "leaf_spine",
            {"hosts": 8, "nic_bps": 2 * 10**14},
            "nic 200Tbps: must be at least 1bps and at most 100Tbps",
        ),
        (
            "leaf_spine",
            {"hosts": 8, "switch": Switch(ports=1)},
            "1 ports of 400Gbps, 64MiB of buffer and 600ns of latency: .* at least 2 ports",
        ),
        ("full_mesh", {}, "number of hosts is missing"),
        ("full_mesh", {"hosts": 1}, "without hosts"),
        ("full_mesh", {"hosts": 8, "leaves": 1}, "at least 2 switches"),
        ("full_mesh", {"hosts": 5000}, "at most 1056 would"),
        (
            "full_mesh",
            {"hosts": 160, "leaves": 4, "oversubscription": 1},
            "the nearest is 1.67: write oversubscription: 1.67",
        ),
        ("bipartite", {"hosts": 64}, "numbers of prefill and decode hosts are missing"),
        ("bipartite", {"hosts": 9, "prefill": 4, "decode": 4}, "write hosts: 8"),
        ("bipartite", {"prefill": 4, "decode": 8, "groups": 5}, "write groups: 4 or fewer"),
        ("bipartite", {"prefill": 8, "decode": 8, "leaves": 5, "groups": 2}, "write leaves: 6"),
        ("bipartite", {"prefill": 9, "decode": 9, "degree": 20}, "degree 20 do not fit"),
        ("full_mesh", {"hosts": 8, "prefill": 5, "decode": 4}, "write hosts: 9 or more"),
    ],
)
def test_what_cannot_be_built_is_refused_with_what_would(family, values, told):
    with pytest.raises(FabricError, match=told) as refusal:
        build(family, values)
    assert "\n" not in str(refusal.value)


def test_the_oversubscription_that_a_refusal_names_can_be_built():
    build("full_mesh", {"hosts": 160, "leaves": 4, "oversubscription": 1.67})


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_each_familys_parameters_have_a_json_schema(family):
    schema = msgspec.json.schema(family.parameters)
    properties = schema["$defs"][family.parameters.__name__]["properties"]
    assert {"hosts", "nic_bps", "switch"} <= set(properties)


def test_a_build_function_takes_its_parameters_directly():
    fabric = leaf_spine(LeafSpine(hosts=8, leaves=2, spines=2, trunk=1, nic_bps=10**11))
    assert bom(fabric).switches == {1: 2, 2: 2}
