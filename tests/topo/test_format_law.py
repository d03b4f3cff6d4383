"""Laws of every format that is read and written: what it holds comes back; the rest is told."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st

from topo.error import FabricError
from topo.fabric import Fabric, Kind, Role, Switch
from topo.family.registry import build
from topo.format.registry import FORMATS, read_fabric, write_fabric
from topo.placement import place
from topo.unit import propagation_ps

FAMILIES = ("full_mesh", "fat_tree", "leaf_spine", "bipartite")
GBPS = 10**9
WHOLE = ("json", "graphml", "containerlab", "ptm")
"""Formats that hold all of a fabric, be it in attributes or labels."""

law = settings(
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
any_name = st.text(
    st.characters(categories=["L", "M", "N", "P", "S"], include_characters=" "),
    min_size=1,
    max_size=12,
).filter(lambda name: name == name.strip())


def facts(fabric: Fabric) -> tuple[object, ...]:
    """Everything a fabric holds."""
    return fabric.family, fabric.name, fabric.nodes, fabric.links


@st.composite
def handmade(draw: st.DrawFn) -> Fabric:
    """A fabric that no family would make: any names, tiers, roles, models, parallel cables."""
    called = draw(st.lists(any_name, min_size=2, max_size=9, unique=True))
    fabric = Fabric(draw(any_name), name=draw(any_name))
    for name in called:
        if draw(st.booleans()):
            fabric.add_host(
                name,
                rack=draw(st.integers(-1, 9)),
                server=draw(st.integers(-1, 9)),
                role=draw(st.sampled_from(Role)),
            )
        else:
            model = Switch(draw(st.integers(30, 64)), draw(st.integers(1, 10**14)), 10**6, 7)
            tier = draw(st.integers(0, 5))
            fabric.add_switch(name, tier=tier, switch=model, rack=draw(st.integers(-1, 3)))
    pairs = st.tuples(*[st.integers(0, len(called) - 1)] * 2).filter(lambda p: p[0] != p[1])
    for a, b in draw(st.lists(pairs, min_size=1, max_size=20)):
        fabric.connect(
            a,
            b,
            rate_bps=draw(st.integers(1, 10**14)),
            length_m=draw(st.floats(0, 10_000)),
            delay_ps=draw(st.none() | st.integers(0, 10**12)),
        )
    return fabric


@st.composite
def of_family(draw: st.DrawFn) -> Fabric:
    """A small fabric of a family, roles placed."""
    prefill, decode = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    values = {
        "prefill": prefill,
        "decode": decode,
        "nic_bps": draw(st.sampled_from([100, 400])) * GBPS,
        "switch": Switch(draw(st.integers(6, 40))),
        "cable_m": draw(st.sampled_from([1.0, 10.0, 12.5, 33.3])),
        "oversubscription": draw(st.sampled_from([None, 2.0])),
    }
    try:
        built = build(draw(st.sampled_from(FAMILIES)), values)
    except FabricError:
        reject()
    return place(built, prefill=prefill, decode=decode, by="interleaved")


@pytest.mark.parametrize("form", WHOLE)
@law
@given(fabric=handmade() | of_family())
def test_whatever_a_fabric_holds_comes_back(form, fabric, tmp_path):
    assume(form != "ptm" or not any("\\" in n.name for n in fabric.nodes))
    assume(form != "ptm" or "\\" not in fabric.name + fabric.family)
    path = tmp_path / "any"
    notes = write_fabric(fabric, path, form, overwrite=True)
    assert facts(read_fabric(path, form)) == facts(fabric)
    if FORMATS[form].lacks == "nothing":
        assert notes == []


@law
@given(fabric=handmade() | of_family())
def test_hpcc_keeps_kinds_ends_rates_and_delays_to_the_nanosecond(fabric, tmp_path):
    path = tmp_path / "topology.txt"
    notes = write_fabric(fabric, path, overwrite=True)
    found = read_fabric(path)
    assert [node.kind for node in found.nodes] == [node.kind for node in fabric.nodes]
    rounded = [replace(k, delay_ps=(k.delay_ps + 500) // 1000 * 1000) for k in fabric.links]
    assert found.links == [replace(link, length_m=0.0) for link in rounded]
    assert any("rounded" in note for note in notes) == (rounded != fabric.links)
    assert any("Roles" in note for note in notes) == any(n.role != "none" for n in fabric.nodes)
    pairs = {frozenset((link.a, link.b)) for link in fabric.links}
    assert any("beside another" in note for note in notes) == (len(pairs) < len(fabric.links))


@law
@given(fabric=handmade() | of_family())
def test_netbox_keeps_names_roles_tiers_racks_and_rates_in_kbps(fabric, tmp_path):
    notes = write_fabric(fabric, tmp_path, "netbox", overwrite=True)
    found = read_fabric(tmp_path)
    plain = Switch()
    assert found.nodes == [
        replace(
            node,
            server=-1,
            switch=node.switch
            and Switch(
                node.switch.ports, node.switch.rate_bps, plain.buffer_bytes, plain.latency_ps
            ),
        )
        for node in fabric.nodes
    ]
    assert found.links == [
        replace(
            link,
            rate_bps=max(1000, round(link.rate_bps / 1000) * 1000),
            length_m=float(f"{link.length_m:.2f}"),
            delay_ps=propagation_ps(float(f"{link.length_m:.2f}")),
        )
        for link in fabric.links
    ]
    coarse = any(link.rate_bps % 1000 for link in fabric.links)
    assert any("rates" in note and "rounded" in note for note in notes) == coarse
    servers = any(node.server != -1 for node in fabric.hosts)
    assert any("server numbers" in note for note in notes) == servers


@law
@given(fabric=of_family())
def test_tiers_and_racks_that_a_file_lacks_are_those_of_the_family(fabric, tmp_path):
    assume(all(host.rack >= 0 for host in fabric.hosts))
    path = tmp_path / "topology.txt"
    write_fabric(fabric, path, overwrite=True)
    found = read_fabric(path)
    assert [n.tier for n in found.nodes] == [n.tier for n in fabric.nodes]
    assert [n.rack for n in found.hosts] == [n.rack for n in fabric.hosts]
    assert {n.kind for n in found.nodes} == {Kind.HOST, Kind.SWITCH}
