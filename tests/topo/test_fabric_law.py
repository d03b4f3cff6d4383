"""Laws that hold for any fabric of any family."""

from collections import Counter
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st

from topo.capacity import distance_counts, mu, oversubscription
from topo.error import FabricError
from topo.fabric import Fabric, Kind, Role, Switch
from topo.family.registry import FAMILIES, build
from topo.placement import WAYS, place
from topo.route import equal_cost

GBPS = 10**9

law = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def fabrics(draw: st.DrawFn) -> tuple[Fabric, dict[str, Any]]:
    """A fabric with roles and the values it was built from."""
    prefill, decode = draw(st.integers(1, 24)), draw(st.integers(1, 24))
    family = draw(st.sampled_from(list(FAMILIES)))
    values: dict[str, Any] = {
        "prefill": prefill,
        "decode": decode,
        "nic_bps": draw(st.sampled_from([100, 200, 400])) * GBPS,
        "switch": Switch(ports=draw(st.integers(6, 40))),
        "oversubscription": draw(st.sampled_from([None, 1, 1.5, 2, 4])),
    }
    if family == "bipartite":
        values |= {
            "groups": draw(st.sampled_from([None, 1, 2])),
            "degree": draw(st.sampled_from([None, 1, 2])),
        }
    try:
        fabric = build(family, values)
    except FabricError as refusal:
        # A family knows its ports before it cables; to run out of them then is a bug of its own.
        if "ports are in use" in str(refusal):
            raise
        reject()
    seated = all(host.server >= 0 for host in fabric.hosts)
    by = draw(st.sampled_from([way for way in WAYS if way != "rail" or seated]))
    return place(fabric, prefill=prefill, decode=decode, by=by), values


def rebuilt(fabric: Fabric, nodes: list[int], links: list[int]) -> Fabric:
    """The same cabling with nodes and links added in another order, or some links left out."""
    other = Fabric(fabric.family)
    number: dict[int, int] = {}
    for n in (fabric.nodes[i] for i in nodes):
        number[n.index] = (
            other.add_host(n.name, rack=n.rack, role=n.role)
            if n.switch is None
            else other.add_switch(n.name, tier=n.tier, switch=n.switch)
        )
    for link in (fabric.links[i] for i in links):
        other.connect(number[link.a], number[link.b], rate_bps=link.rate_bps)
    return other


@law
@given(fabrics())
def test_no_switch_has_more_cables_than_ports(made):
    fabric, values = made
    used = Counter(end for link in fabric.links for end in (link.a, link.b))
    for node in fabric.switches:
        assert node.switch is not None
        assert used[node.index] <= node.switch.ports
        assert node.tier == 0 or node.switch.ports <= values["switch"].ports


@law
@given(fabrics())
def test_hosts_have_the_cables_of_their_family_and_racks_of_a_pool_differ_by_one_host(made):
    fabric, values = made
    used = Counter(end for link in fabric.links for end in (link.a, link.b))
    hosts = values["prefill"] + values["decode"]
    assert len(fabric.hosts) == hosts
    cables = {
        Role.PREFILL: {"dual_tor": 2, "host_mesh": hosts - 1, "bipartite_direct": values["decode"]},
        Role.DECODE: {"dual_tor": 2, "host_mesh": hosts - 1, "bipartite_direct": values["prefill"]},
    }
    assert all(used[h.index] == cables[h.role].get(fabric.family, 1) for h in fabric.hosts)
    pools = [fabric.hosts]
    if fabric.family.startswith("bipartite"):
        pools = [[h for h in fabric.hosts if h.role is r] for r in (Role.PREFILL, Role.DECODE)]
    for pool in pools:
        racks = Counter(h.rack for h in pool).values()
        assert max(racks) - min(racks) <= 1


@law
@given(fabrics())
def test_the_oversubscription_asked_for_is_not_exceeded(made):
    fabric, values = made
    assert oversubscription(fabric) <= (values["oversubscription"] or 1)


@law
@given(fabrics())
def test_every_next_hop_is_one_link_closer(made):
    fabric, _ = made
    routes = equal_cost(fabric)
    peer = fabric.ports.peer
    for node in range(len(fabric.nodes)):
        for group in range(routes.groups):
            row = node * routes.groups + group
            ports = routes.ports[routes.first[row] : routes.first[row + 1]]
            assert (routes.hops[peer[ports], group] == routes.hops[node, group] - 1).all()
            assert (fabric.ports.node[ports] == node).all()
            assert all(fabric.nodes[n].kind is Kind.SWITCH for n in peer[ports].tolist())


@law
@given(fabrics())
def test_every_prefill_host_reaches_every_decode_host_of_its_island(made):
    fabric, _ = made
    routes = equal_cost(fabric)
    near, far = fabric.hosts_with(Role.PREFILL), fabric.hosts_with(Role.DECODE)
    found = routes.distances(near, far)
    graph = fabric.graph
    for i, a in enumerate(near):
        lengths = nx.single_source_shortest_path_length(graph, a)
        assert found[i].tolist() == [lengths.get(b, -1) for b in far]
    assert (found.max(axis=1) > 0).all()


@law
@given(fabrics(), st.data())
def test_the_number_of_paths_is_that_of_networkx(made, data):
    fabric, _ = made
    routes = equal_cost(fabric)
    a = data.draw(st.sampled_from(fabric.hosts_with(Role.PREFILL)))
    b = data.draw(st.sampled_from(fabric.hosts_with(Role.DECODE)))
    assume(routes.distance(a, b) > 0)
    width = {
        frozenset(pair): count
        for pair, count in Counter(
            (min(k.a, k.b), max(k.a, k.b)) for k in fabric.links
        ).items()
    }  # fmt: skip
    expected = 0
    for path in nx.all_shortest_paths(nx.Graph(fabric.graph), a, b):
        expected += int(np.prod([width[frozenset(p)] for p in pairwise(path)]))
    assert routes.count_paths(a, b) == expected


@law
@given(fabrics())
def test_mu_is_the_flow_that_networkx_finds(made):
    fabric, _ = made
    graph: nx.DiGraph[Any] = nx.DiGraph()
    for link in fabric.links:
        for a, b in ((link.a, link.b), (link.b, link.a)):
            before = graph.get_edge_data(a, b, {"capacity": 0})["capacity"]
            graph.add_edge(a, b, capacity=before + link.rate_bps)
    for host in fabric.hosts_with(Role.PREFILL):
        graph.add_edge("source", host)
    for host in fabric.hosts_with(Role.DECODE):
        graph.add_edge(host, "sink")
    assert mu(fabric) == nx.maximum_flow_value(graph, "source", "sink")


@law
@given(fabrics(), st.randoms(use_true_random=False))
def test_relabelling_keeps_mu_and_distances(made, random):
    fabric, _ = made
    nodes, links = list(range(len(fabric.nodes))), list(range(len(fabric.links)))
    random.shuffle(nodes)
    random.shuffle(links)
    other = rebuilt(fabric, nodes, links)
    assert mu(other) == mu(fabric)
    assert distance_counts(other) == distance_counts(fabric)


@law
@given(fabrics(), st.data())
def test_mu_never_grows_when_a_link_is_lost(made, data):
    fabric, _ = made
    switched = [
        link.index
        for link in fabric.links
        if fabric.nodes[link.a].kind is fabric.nodes[link.b].kind is Kind.SWITCH
    ]
    assume(switched)
    lost = data.draw(st.sampled_from(switched))
    kept = [link.index for link in fabric.links if link.index != lost]
    whole = mu(fabric)
    left = mu(rebuilt(fabric, list(range(len(fabric.nodes))), kept))
    assert whole - fabric.links[lost].rate_bps <= left <= whole
