"""How families are wired: rails, planes, ToR pairs, islands, and refusals that say what fits."""

from collections import Counter

import networkx as nx
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from topo.bom import bom
from topo.capacity import diameter, mu, oversubscription, relative_mu
from topo.deadlock import path_cycle
from topo.error import FabricError
from topo.fabric import Fabric, Kind, Role, Switch
from topo.family.registry import FAMILIES, build
from topo.placement import place, rails
from topo.route import equal_cost

GBPS = 10**9
SMALL = Switch(ports=8)


def without_nodes(fabric: Fabric, lost: set[int]) -> "nx.Graph[int]":
    graph = nx.Graph(fabric.graph)
    graph.remove_nodes_from(lost)
    return graph


def roles_by(fabric: Fabric, near: set[int]) -> Fabric:
    """Prefill on the hosts of ``near``, decode on all others."""
    return fabric.with_roles(
        {h.index: Role.PREFILL if h.index in near else Role.DECODE for h in fabric.hosts}
    )


# ---- rails --------------------------------------------------------------------------------------


def test_hosts_of_one_rail_and_unit_share_a_leaf():
    fabric = build("rail_optimised", {"hosts": 64, "rails": 4, "units": 4, "switch": SMALL})
    routes, rail = equal_cost(fabric), rails(fabric)
    for host in fabric.hosts[1:]:
        unit = host.server // 4
        near = rail[host.index] == 0 and unit == 0
        assert (routes.distance(0, host.index) == 2) == near
    assert Counter(h.server for h in fabric.hosts) == dict.fromkeys(range(16), 4)


def test_no_way_between_rails_leaves_the_server_when_its_scale_up_switch_is_gone():
    fabric = build("rail_only", {"hosts": 32, "rails": 4, "switch": SMALL})
    inside = {s.index for s in fabric.switches if s.name.startswith("scaleup")}
    pieces = list(nx.connected_components(without_nodes(fabric, inside)))
    rail = rails(fabric)
    found = [{rail[n] for n in piece if n in rail} for piece in pieces]
    assert sorted(found, key=min) == [{0}, {1}, {2}, {3}]


def test_a_flow_between_rails_changes_inside_a_server_and_shares_the_nics_cable():
    fabric = build("rail_only", {"hosts": 8, "rails": 2, "switch": SMALL})
    routes = equal_cost(fabric)
    assert routes.distance(0, 2) == 4
    assert routes.distance(0, 1) == 4
    assert routes.distance(0, 3) == 6
    for path in routes.paths(0, 3):
        names = [fabric.nodes[int(n)].name for n in fabric.ports.peer[path]]
        assert sum(name.startswith("scaleup") for name in names) == 1
    one_rail = roles_by(fabric, {h for h, rail in rails(fabric).items() if rail == 0})
    assert mu(one_rail) == 4 * 400 * GBPS


def test_changing_rail_at_the_sender_only_leaves_no_cycle_and_at_either_end_does():
    fabric = build("rail_only", {"hosts": 8, "rails": 2, "switch": SMALL})
    routes = equal_cost(fabric)
    hosts = range(8)
    paths = [p for a in hosts for b in hosts if a != b for p in routes.paths(a, b)]

    def leaves_last(path: list[int]) -> bool:
        names = [fabric.nodes[int(n)].name for n in fabric.ports.peer[path]]
        inside = [i for i, name in enumerate(names) if name.startswith("scaleup")]
        outside = [i for i, name in enumerate(names) if name.startswith("leaf")]
        return not inside or not outside or inside[0] < outside[0]

    assert path_cycle(fabric, paths) is not None
    assert path_cycle(fabric, filter(leaves_last, paths)) is None
    reached = {
        (int(fabric.ports.node[p[0]]), int(fabric.ports.peer[p[-1]]))
        for p in paths
        if leaves_last(p)
    }
    assert len(reached) == 8 * 7


def test_a_rail_only_host_has_one_port_of_the_nics_rate():
    fabric = build("rail_only", {"hosts": 16, "nic_bps": 200 * GBPS})
    ports = fabric.ports
    for host in fabric.hosts:
        own = slice(ports.first[host.index], ports.first[host.index + 1])
        assert ports.rate_bps[own].tolist() == [200 * GBPS]
    assert {k.rate_bps for k in fabric.links} == {200 * GBPS, 3_600 * GBPS}


def test_what_lies_inside_servers_is_neither_bought_nor_cabled():
    rail = bom(build("rail_only", {"hosts": 16, "switch": SMALL}))
    assert (rail.switches, rail.host_cables, rail.switch_cables) == ({1: 8}, 16, 0)


# ---- planes and ToR pairs -----------------------------------------------------------------------


def test_a_plane_lost_costs_every_host_its_share_and_no_host_its_connection():
    values = {"hosts": 24, "planes": 4, "attach": "every", "switch": Switch(ports=12)}
    fabric = place(build("multi_plane", values), prefill=12, decode=12, by="separate")
    assert mu(fabric) == 12 * 400 * GBPS
    kept = Fabric("multi_plane")
    number: dict[int, int] = {}
    for n in fabric.nodes:
        if n.name.startswith("plane0"):
            continue
        number[n.index] = (
            kept.add_host(n.name, role=n.role)
            if n.switch is None
            else kept.add_switch(n.name, tier=n.tier, switch=n.switch)
        )
    for k in fabric.links:
        if k.a in number and k.b in number:
            kept.connect(number[k.a], number[k.b], rate_bps=k.rate_bps)
    assert mu(kept) == 12 * 300 * GBPS


def test_planes_meet_only_in_the_hosts():
    fabric = build("multi_plane", {"hosts": 24, "planes": 4, "attach": "every", "switch": SMALL})
    hosts = {h.index for h in fabric.hosts}
    pieces = list(nx.connected_components(without_nodes(fabric, hosts)))
    assert len(pieces) == 4
    for piece in pieces:
        assert len({fabric.nodes[n].name[:6] for n in piece}) == 1


def test_either_switch_of_a_pair_can_go():
    fabric = build("dual_tor", {"hosts": 32, "rails": 4, "switch": Switch(ports=16)})
    hosts = [h.index for h in fabric.hosts]
    for leaf in (s.index for s in fabric.switches if s.tier == 1):
        left = without_nodes(fabric, {leaf})
        assert nx.is_connected(left)
        assert min(left.degree(h) for h in hosts) == 1
    assert {fabric.links[i].rate_bps for i in range(8)} == {200 * GBPS}


def test_the_two_planes_of_dual_tor_share_no_switch():
    fabric = build("dual_tor", {"hosts": 32, "rails": 4, "units": 2, "switch": Switch(ports=16)})
    pieces = nx.connected_components(without_nodes(fabric, {h.index for h in fabric.hosts}))
    sides = [{fabric.nodes[n].name[-1] for n in p if fabric.nodes[n].tier == 1} for p in pieces]
    assert sorted(map(sorted, sides)) == [["a"], ["b"]]


# ---- bipartite relatives ------------------------------------------------------------------------


@settings(deadline=None, max_examples=25)
@given(st.integers(3, 8), st.integers(2, 4), st.integers(0, 99))
def test_a_bipartite_expander_is_biregular_and_connected(leaves, links, seed):
    links = min(links, leaves)
    values = {"leaves": leaves, "degree": links, "trunk": 1, "seed": seed}
    fabric = build("bipartite_random", {"prefill": 2 * leaves, "decode": 2 * leaves, **values})
    graph = without_nodes(fabric, {h.index for h in fabric.hosts})
    assert {d for _, d in graph.degree} == {links}
    assert nx.is_bipartite(graph)
    assert nx.is_connected(graph)
    for a, b in graph.edges:
        assert {fabric.nodes[a].name[0], fabric.nodes[b].name[0]} == {"p", "d"}


def test_an_expander_spreads_a_few_leaves_over_more_neighbours_than_a_ring():
    def neighbours(family: str) -> int:
        values = {"leaves": 24, "degree": 3, "trunk": 1}
        fabric = build(family, {"prefill": 24, "decode": 24, **values})
        graph = without_nodes(fabric, {h.index for h in fabric.hosts})
        some = [fabric.node(f"pleaf{i}").index for i in range(6)]
        return len({n for leaf in some for n in graph[leaf]})

    assert neighbours("bipartite") == 6 + 2
    assert neighbours("bipartite_random") > 11


def test_direct_cables_carry_what_the_smaller_side_can_move():
    """Complete: min(nP cP, nD cD); a pair without a cable has no path."""
    even = build("bipartite_direct", {"prefill": 4, "decode": 4})
    assert mu(even) == 4 * 400 * GBPS
    assert equal_cost(even).distance(0, 1) == -1
    wide = build("bipartite_direct", {"prefill": 4, "decode": 8, "trunk": 2})
    assert (len(wide.links), mu(wide)) == (64, 4 * 400 * GBPS)
    ring = build("bipartite_direct", {"prefill": 8, "decode": 8, "degree": 2})
    assert Counter(e for k in ring.links for e in (k.a, k.b)) == dict.fromkeys(range(16), 2)


@pytest.mark.parametrize("family", ["bipartite", "bipartite_middle", "bipartite_direct"])
def test_the_two_sides_may_have_nics_of_their_own_rate(family):
    values = {"prefill": 8, "decode": 16, "decode_nic_bps": 200 * GBPS}
    fabric = build(family, values)
    assert mu(fabric) == 8 * 400 * GBPS == 16 * 200 * GBPS
    slow = build(family, {"prefill": 8, "decode": 8, "decode_nic_bps": 100 * GBPS})
    assert mu(slow) == 8 * 100 * GBPS
    assert relative_mu(slow) == 1


def test_middle_switches_carry_the_narrowest_stage():
    """min(nP cP, N uP c, M uD c, nD cD) with 2 leaves a side and half the uplinks."""
    values = {"prefill": 16, "decode": 16, "leaves": 2, "oversubscription": 2}
    fabric = build("bipartite_middle", values)
    assert mu(fabric) == 2 * 4 * 400 * GBPS
    assert diameter(fabric) == 4


def test_a_mesh_of_hosts_shares_the_nic_among_its_cables():
    fabric = build("host_mesh", {"hosts": 5})
    assert {k.rate_bps for k in fabric.links} == {100 * GBPS}
    assert relative_mu(roles_by(fabric, {0, 1})) == pytest.approx(3 / 4)


# ---- breakout, servers, sizes -------------------------------------------------------------------


def test_breakout_turns_few_fast_ports_into_many_slow_ones():
    fast = Switch(ports=32, rate_bps=800 * GBPS)
    fabric = build("leaf_spine", {"hosts": 2048, "switch": fast, "breakout": 2})
    plain = build("leaf_spine", {"hosts": 2048, "switch": Switch(ports=64)})
    assert bom(fabric) == bom(plain)
    assert {s.switch for s in fabric.switches} == {Switch(ports=64)}


def test_servers_are_consecutive_hosts_of_one_rack():
    fabric = build("leaf_spine", {"hosts": 20, "leaves": 2, "gpus_per_server": 4})
    assert [h.server for h in fabric.hosts] == [i // 4 for i in range(8)] + [2, 2] + [
        3 + i // 4 for i in range(8)
    ] + [5, 5]
    assert {h.server for h in build("leaf_spine", {"hosts": 20}).hosts} == {-1}


TINY = ("bipartite", "host_mesh", "single_switch")


@pytest.mark.parametrize("family", [f for f in FAMILIES if not f.startswith(TINY)])
def test_every_family_with_switches_carries_a_thousand_gpus(family):
    fabric = build(family, {"hosts": 1024})
    assert len(fabric.hosts) == 1024
    assert oversubscription(fabric) <= 1


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(list(FAMILIES)), st.integers(2, 90), st.integers(4, 48), st.data())
def test_ports_never_exceed_the_radix_and_the_fabric_is_in_one_piece(family, hosts, ports, data):
    over = data.draw(st.sampled_from([None, 1, 2, 3]))
    values = {"hosts": 2 * hosts, "prefill": hosts, "decode": hosts, "oversubscription": over}
    try:
        fabric = build(family, {**values, "switch": Switch(ports=ports)})
    except FabricError as refusal:
        # A family knows its ports before it cables; to run out of them then is a bug of its own.
        if "ports are in use" in str(refusal) or "\n" in str(refusal):
            raise
        reject()
    used = Counter(e for k in fabric.links for e in (k.a, k.b))
    for node in fabric.switches:
        assert node.switch is not None
        assert used[node.index] <= node.switch.ports
        assert node.tier == 0 or node.switch.ports <= ports
    if any(s.kind is Kind.SWITCH for s in fabric.nodes):
        assert nx.is_connected(fabric.graph)
        assert oversubscription(fabric) <= (over or 1)


@pytest.mark.parametrize(
    ("family", "values", "told"),
    [
        ("leaf_spine", {"hosts": 8, "breakout": 3}, "breakout 3: does not divide .*400 Gbps"),
        ("three_tier", {}, "number of hosts is missing"),
        ("three_tier", {"hosts": 64, "pods": 1}, "cores join at least 2 pods"),
        ("three_tier", {"hosts": 999, "switch": SMALL}, "999 hosts do not fit switches of 8 ports"),
        ("rail_optimised", {"hosts": 60}, "60 hosts are not whole servers of 8 GPUs; .* hosts: 64"),
        ("rail_only", {"hosts": 64, "rails": 4, "gpus_per_server": 8}, "write rails: 8"),
        ("rail_only", {"hosts": 16384}, "at most 8192 are built"),
        (
            "rail_only",
            {"hosts": 64, "scale_up_bps": GBPS},
            "scale_up 1Gbps: slower than the nic's 400Gbps",
        ),
        ("rail_optimised", {"hosts": 64, "units": 9}, "units 9 do not fit"),
        ("multi_plane", {"hosts": 8, "attach": "every", "nic_bps": 3}, "nic 3bps over 4 planes"),
        ("dual_tor", {"hosts": 8, "nic_bps": 1}, "nic 1bps cannot be halved"),
        ("host_mesh", {"hosts": 9, "nic_bps": 7}, "nic 7bps over 8 ports: write a faster nic"),
        ("multi_plane", {"hosts": 512, "switch": SMALL}, "do not fit two tiers of 8-port"),
        ("dual_tor", {"hosts": 9}, "not whole servers"),
        ("dual_tor", {"hosts": 8, "nic_bps": 10**12}, "nic 1 Tbps over 2 ports: faster"),
        ("dragonfly", {}, "neither hosts nor a, p and h are given"),
        ("dragonfly", {"hosts": 73, "a": 4, "p": 2, "h": 2}, "73 hosts, a 4, p 2, h 2 do not fit"),
        ("dragonfly", {"a": 4, "p": 2, "h": 2, "groups": 10}, "groups 10 do not fit"),
        (
            "dragonfly",
            {"hosts": 8, "wiring": "random"},
            "wiring: 'random' is unknown",
        ),
        ("dragonfly_plus", {"hosts": 9999, "switch": SMALL}, "do not fit switches of 8 ports"),
        ("hyperx", {"hosts": 64, "shape": ()}, "shape"),
        ("hyperx", {"hosts": 65, "shape": (4, 4), "p": 4}, "65 hosts, shape 4x4, p 4 do not fit"),
        ("hyperx", {"hosts": 2, "shape": (70,)}, "needs 1 \\+ 69 ports and has 64"),
        ("torus", {"shape": (4, 4)}, "number of hosts is missing"),
        ("torus", {"hosts": 64, "shape": (4, 4), "oversubscription": 0.5}, "exceed oversubscr"),
        ("slim_fly", {}, "neither hosts nor q"),
        ("slim_fly", {"q": 28}, "q 28: must be a prime power .* write q: 29"),
        ("slim_fly", {"q": 2}, "write q: 3"),
        ("slim_fly", {"q": 5, "hosts": 999, "p": 2}, "999 hosts, q 5, p 2 do not fit"),
        ("jellyfish", {"hosts": 8, "leaves": 4, "degree": 4}, "write degree: 3 or less"),
        ("jellyfish", {"hosts": 8, "leaves": 5, "degree": 3}, "degree: 2 or leaves: 6"),
        ("jellyfish", {"hosts": 8, "leaves": 8, "degree": 1}, "none found in one piece"),
        ("bipartite_random", {"prefill": 4, "decode": 4, "degree": 1}, "write degree: 3"),
        ("bipartite_middle", {"prefill": 4, "decode": 4, "leaves": 5}, "write leaves: 4"),
        ("bipartite", {"prefill": 4, "decode": 4, "decode_nic_bps": 10**12}, "decode_nic 1 Tbps"),
        ("bipartite_direct", {"prefill": 8, "decode": 8, "degree": 9}, "a degree from 1 to 8"),
        ("bipartite_direct", {"prefill": 99, "decode": 200}, "200 ports a NIC: must be 1 to 128"),
        ("host_mesh", {"hosts": 1}, "0 ports a NIC"),
        ("host_mesh", {"hosts": 300}, "299 ports a NIC: must be 1 to 128"),
    ],
)
def test_what_cannot_be_wired_is_refused_with_what_could(family, values, told):
    with pytest.raises(FabricError, match=told) as refusal:
        build(family, values)
    assert "\n" not in str(refusal.value)
